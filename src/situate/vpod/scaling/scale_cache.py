"""The entries of a cache of StatefulSets' scales, and how long they are valid.

`controller.scale_cache` puts the cache in front of a client. The clock is injected and monotonic. Source:
pkg/scheduler/scheduler.go of knative/eventing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from situate.vpod.model.vpod import Scale

DEFAULT_REFRESH_PERIOD = 300.0
_NANOSECONDS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class ScaleCacheConfig:
    """`refresh_period` is in seconds; 0 means 300. A negative value is left as it is, and then no entry is valid."""

    refresh_period: float = DEFAULT_REFRESH_PERIOD

    def __post_init__(self) -> None:
        if self.refresh_period == 0:
            object.__setattr__(self, "refresh_period", DEFAULT_REFRESH_PERIOD)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ScaleCacheConfig:
        """Read Go's form `{"refreshPeriod": nanoseconds}`. Raises ValueError if the value is no integer."""
        nanoseconds = document.get("refreshPeriod", 0)
        if isinstance(nanoseconds, bool) or not isinstance(nanoseconds, int):
            raise ValueError(f"refreshPeriod is {nanoseconds!r}, allowed: an integer of nanoseconds")
        return cls(nanoseconds / _NANOSECONDS)


@dataclass(frozen=True, slots=True)
class _CachedScale:
    scale: Scale
    expires: float


class ScaleEntries:
    """Scales by name; each is valid for the refresh period after it was stored."""

    def __init__(self, config: ScaleCacheConfig, clock: Callable[[], float]) -> None:
        self._period = config.refresh_period
        self._clock = clock
        self._scales: dict[str, _CachedScale] = {}

    def get(self, name: str) -> Scale | None:
        """Return namespace, name and both numbers of replicas without resourceVersion; None without a valid entry."""
        kept = self._scales.get(name)
        return kept.scale if kept is not None and self._clock() < kept.expires else None

    def put(self, scale: Scale) -> None:
        known = Scale(scale.namespace, scale.name, scale.spec_replicas, scale.status_replicas)
        self._scales[scale.name] = _CachedScale(known, self._clock() + self._period)

    def reset(self) -> None:
        self._scales.clear()
