"""Settings that turn load into a size (C37), for all VMs and, by annotation, for one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final

import msgspec

from situate.objects.settings.schema import to_plain_data
from situate.objects.settings.section import Mistake, parse_section

Fraction = Annotated[float, msgspec.Meta(gt=0, le=10)]
Ratio = Annotated[float, msgspec.Meta(ge=0, le=1000)]
Minutes = Annotated[int, msgspec.Meta(ge=1, le=60)]


class Scaling(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """Scaling settings, with the values that upstream ships."""

    load_average_fraction_target: Fraction = 0.9
    """Load average per CPU."""
    memory_usage_fraction_target: Fraction = 0.75
    """Share of memory in use, without the page cache."""
    memory_total_fraction_target: Fraction = 0.9
    """Share of memory in use, with the part of the page cache that the working set needs."""
    enable_lfc_metrics: bool = msgspec.field(default=False, name="enableLFCMetrics")
    """Whether the VM has a local file cache. Then no size is lowered without metrics of the cache."""
    lfc_use_largest_window: bool = False
    lfc_to_memory_ratio: Fraction = 0.75
    """Share of memory that the cache gets."""
    lfc_window_size_minutes: Minutes = 5
    lfc_min_wait_before_downscale_minutes: Minutes = 5
    cpu_stable_zone_ratio: Ratio = 0.0
    """Share of the 5-minute load. If the 1-minute load differs by at most this, only the 5-minute load counts."""
    cpu_mixed_zone_ratio: Ratio = 0.0
    """Share of the 5-minute load: width of the zone above the stable zone in which the two are mixed."""

    @property
    def lfc_offset(self) -> int:
        """Index of the first point that counts. Points are a minute apart, and the first one is after one minute."""
        return self.lfc_min_wait_before_downscale_minutes - 1

    def mistakes(self) -> Iterable[Mistake]:
        window = self.lfc_window_size_minutes
        if window < 2:
            yield Mistake("lfcWindowSizeMinutes", str(window), "at least 2, because a slope needs two points")
        if self.lfc_offset < window - 1:
            found = str(self.lfc_min_wait_before_downscale_minutes)
            yield Mistake("lfcMinWaitBeforeDownscaleMinutes", found, f"at least lfcWindowSizeMinutes ({window})")


DEFAULT_SCALING: Final = Scaling()


def scaling_with_overrides(defaults: Scaling, overrides: Any, path: str) -> tuple[Scaling | None, tuple[Mistake, ...]]:
    """Return the defaults with the fields of an annotation, or None and all its mistakes."""
    if not isinstance(overrides, dict):
        return parse_section(overrides, Scaling, path)
    known = {name: getattr(defaults, name) for name in Scaling.__struct_fields__}
    return parse_section({**to_plain_data(Scaling(**known)), **overrides}, Scaling, path)
