"""How load becomes a size: the settings of C37, for all machines and, by annotation, for one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final

import msgspec

from situate.objects.settings.schema import plain
from situate.objects.settings.section import Mistake, parse_section

Fraction = Annotated[float, msgspec.Meta(gt=0, le=10)]
Ratio = Annotated[float, msgspec.Meta(ge=0, le=1000)]
Minutes = Annotated[int, msgspec.Meta(ge=1, le=60)]


class Scaling(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """With the values that the reference ships."""

    load_average_fraction_target: Fraction = 0.9
    """Load average for each CPU."""
    memory_usage_fraction_target: Fraction = 0.75
    """Of memory, without the page cache."""
    memory_total_fraction_target: Fraction = 0.9
    """Of memory, with what of the page cache the working set needs."""
    enable_lfc_metrics: bool = msgspec.field(default=False, name="enableLFCMetrics")
    """The machine has a local file cache, and no size is lowered without knowing what it needs."""
    lfc_use_largest_window: bool = False
    lfc_to_memory_ratio: Fraction = 0.75
    """The share of memory that the cache gets."""
    lfc_window_size_minutes: Minutes = 5
    lfc_min_wait_before_downscale_minutes: Minutes = 5
    cpu_stable_zone_ratio: Ratio = 0.0
    """Of the 5-minute load: as long as the 1-minute load is no farther from it, it alone counts."""
    cpu_mixed_zone_ratio: Ratio = 0.0
    """Of the 5-minute load: beyond the stable zone, how far the two are mixed."""

    @property
    def lfc_offset(self) -> int:
        """Index of the first point that counts: points are a minute apart, the first after one minute."""
        return self.lfc_min_wait_before_downscale_minutes - 1

    def mistakes(self) -> Iterable[Mistake]:
        window = self.lfc_window_size_minutes
        if window < 2:
            yield Mistake("lfcWindowSizeMinutes", str(window), "at least 2: a slope needs two points")
        if self.lfc_offset < window - 1:
            found = str(self.lfc_min_wait_before_downscale_minutes)
            yield Mistake("lfcMinWaitBeforeDownscaleMinutes", found, f"at least lfcWindowSizeMinutes ({window})")


SHIPPED: Final = Scaling()


def overridden(defaults: Scaling, overrides: Any, path: str) -> tuple[Scaling | None, tuple[Mistake, ...]]:
    """The defaults with what an annotation says of some fields, or None and every mistake in it."""
    if not isinstance(overrides, dict):
        return parse_section(overrides, Scaling, path)
    known = {name: getattr(defaults, name) for name in Scaling.__struct_fields__}
    return parse_section({**plain(Scaling(**known)), **overrides}, Scaling, path)
