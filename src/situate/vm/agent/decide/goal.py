"""Number of compute units that a VM needs for its load (C37). All values are floats, as in upstream."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from situate.vm.agent.decide.scaling import Scaling
from situate.vm.agent.decide.working_set import expected_pages
from situate.vm.model.resource_amounts import Amounts

PAGE: Final = 8192
"""Bytes of a page of the cache."""
WITHOUT_ALL_METRICS: Final = "Making scaling decision without all required metrics available"
TOO_FEW_VALUES: Final = "not enough working set size values to make scaling determination"
_THRESHOLD_GAP: Final = 1e-6
"""Keeps two thresholds apart."""


@dataclass(frozen=True, slots=True)
class SystemMetrics:
    """System metrics of the guest. All are finite and not negative."""

    load1: float
    load5: float
    memory_used: float
    """Bytes, without the page cache."""
    memory_cached: float = 0.0
    """Bytes of the page cache."""


@dataclass(frozen=True, slots=True)
class CacheMetrics:
    """Metrics of the local file cache."""

    working_set: tuple[float, ...]
    """Pages touched within the last minute, two minutes, and so on."""


@dataclass(frozen=True, slots=True)
class Goal:
    """Goal in compute units, before rounding; None: unknown."""

    cpu: float | None = None
    memory: float | None = None
    cache: float | None = None
    has_all_metrics: bool = False
    warnings: tuple[str, ...] = ()

    @property
    def units(self) -> int:
        cpu = round_half_away(self.cpu or 0.0)  # upstream rounds the share of CPU, and rounds up the maximum
        return math.ceil(max(cpu, self.memory or 0.0, self.cache or 0.0))


def goal(scaling: Scaling, unit: Amounts, system: SystemMetrics | None, cache: CacheMetrics | None) -> Goal:
    """Return the goal for the metrics. Neither CPU nor memory of `unit` is zero."""
    warnings: list[str] = []
    has_all = system is not None and (cache is not None or not scaling.enable_lfc_metrics)
    if not has_all:
        warnings.append(WITHOUT_ALL_METRICS)
    of_cache: float | None = None
    working_set: int | None = None  # bytes
    if cache is not None:
        of_cache = 0.0
        pages = _expected_cache_pages(scaling, cache)
        if pages is None:
            warnings.append(TOO_FEW_VALUES)
        else:
            size = pages * PAGE
            working_set = math.trunc(size)
            of_cache = size / scaling.lfc_to_memory_ratio / unit.memory
    cpu = memory = None
    if system is not None:
        cpu = _cpu_goal(scaling, unit, system)
        memory = round_half_away(system.memory_used / scaling.memory_usage_fraction_target) / unit.memory
        if working_set is not None:
            needed = min(float(working_set), system.memory_cached) + system.memory_used
            memory = max(memory, needed / scaling.memory_total_fraction_target / unit.memory)
    return Goal(cpu, memory, of_cache, has_all, tuple(warnings))


def round_half_away(value: float) -> float:
    """Round to the nearest whole number, halves away from zero."""
    whole = math.floor(abs(value))
    return math.copysign(whole + (abs(value) - whole >= 0.5), value)


def _cpu_goal(scaling: Scaling, unit: Amounts, system: SystemMetrics) -> float:
    stable = scaling.cpu_stable_zone_ratio * system.load5
    mixed = stable + scaling.cpu_mixed_zone_ratio * system.load5
    weight = _blend_weight(abs(system.load1 - system.load5), stable, mixed)
    load = weight * system.load1 + (1 - weight) * system.load5
    return load / scaling.load_average_fraction_target / (unit.cpu / 1000)


def _blend_weight(difference: float, low: float, high: float) -> float:
    if difference <= low:
        return 0.0
    if difference >= high:
        return 1.0
    return (difference - low) / (high - low + _THRESHOLD_GAP)


def _expected_cache_pages(scaling: Scaling, cache: CacheMetrics) -> float | None:
    """Return the expected pages; None: the series is too short."""
    series, offset, window = cache.working_set, scaling.lfc_offset, scaling.lfc_window_size_minutes
    if len(series) < offset + window:
        return None
    return expected_pages(series, offset, window, use_largest=scaling.lfc_use_largest_window)
