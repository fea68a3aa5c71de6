"""Load of guests and their caches: samples with labels, turned into metrics (C36).

Names and labels are those of Prometheus text; the shell parses the text. One endpoint may have samples of many VMs.
Samples with labels `namespace` and `name` belong to that VM, other samples to the requested one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from situate.vm.agent.decide.goal import CacheMetrics, SystemMetrics
from situate.vm.api.parse_errors import ParseError, ParseFailure, Part, Place
from situate.vm.model.pods_and_nodes import Ref

UNREPORTED_MEMORY: Final = 100 * 2**20
"""Bytes of memory that a guest uses without reporting them."""
MAX_VALUE: Final = float(2**60)
"""Larger values are not valid."""
WINDOWS: Final = "lfc_approximate_working_set_size_windows"
_SYSTEM: Final = tuple(
    f"host_{each}" for each in ("load1", "load5", "memory_total_bytes", "memory_available_bytes", "memory_cached_bytes")
)
NAMES: Final = (*_SYSTEM, WINDOWS)
"""Names of all samples that are used."""
WINDOW_S: Final = 60
"""Time from one window to the next."""
MAX_WINDOWS: Final = 24 * 60


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class NoMetrics:
    """No usable metrics, with the reason."""

    why: str


def samples_of_machine(samples: Iterable[Sample], machine: Ref) -> list[Sample]:
    """Return the samples without those of other VMs."""
    wanted = {"namespace": machine.namespace, "name": machine.name}
    return [each for each in samples if all(each.labels.get(key, value) == value for key, value in wanted.items())]


def system_metrics(samples: Iterable[Sample]) -> SystemMetrics | NoMetrics:
    """Read `host_load1`, `host_load5` and `host_memory_{total,available,cached}_bytes`."""
    known = {each.name: each.value for each in samples}
    values: list[float] = []
    for name in _SYSTEM:
        if name not in known:
            return NoMetrics(f"metric {name} is missing")
        if not _is_usable(known[name]):
            return NoMetrics(f"{name} is {known[name]}, allowed: from 0 to 2^60")
        values.append(known[name])
    load1, load5, total, available, cached = values
    return SystemMetrics(load1, load5, max(0.0, total - available) + UNREPORTED_MEMORY, cached)


def cache_metrics(samples: Iterable[Sample]) -> CacheMetrics | NoMetrics:
    """Read a gauge for each of 60, 120, ... seconds, without a gap."""
    windows: dict[float, float] = {}
    for each in samples:
        if each.name == WINDOWS:
            duration = _number(each.labels.get("duration_seconds", ""))
            if duration is None:
                return NoMetrics(f"{WINDOWS} has a sample with a duration_seconds that is not a number")
            windows[duration] = each.value
    if not windows:
        return NoMetrics(f"metric {WINDOWS} is missing")
    series: list[float] = []
    for number, duration in enumerate(sorted(windows)[:MAX_WINDOWS], start=1):
        if duration != number * WINDOW_S:
            return NoMetrics(f"{WINDOWS} has duration_seconds {duration:g}, expected {number * WINDOW_S}")
        if not _is_usable(windows[duration]):
            return NoMetrics(f"{WINDOWS} of {duration:g} s is {windows[duration]}, allowed: from 0 to 2^60")
        series.append(windows[duration])
    return CacheMetrics(tuple(series))


@dataclass(frozen=True, slots=True)
class LoadMetrics:
    """Load from another source than the guest."""

    system: SystemMetrics
    cache: CacheMetrics | None = None


def parse_load(value: Any, place: Place) -> LoadMetrics | NoMetrics:
    """Parse an entry of an annotation or a file.

        {"load1":1.5,"load5":1.2,"memoryUsed":"1Gi","memoryCached":"512Mi","workingSetPages":[...]}

    If `load5` is absent it equals `load1`; the other fields are optional.
    """
    try:
        return _load_from_part(Part(place, value))
    except ParseFailure as problem:
        return NoMetrics(str(problem.error))


def parse_load_text(text: str, place: Place) -> LoadMetrics | NoMetrics:
    """Parse JSON text."""
    found = read_load(text, place)
    return NoMetrics(str(found)) if isinstance(found, ParseError) else found


def read_load(text: str, place: Place) -> LoadMetrics | ParseError:
    """Parse JSON text."""
    try:
        return _load_from_part(Part.parse_json(text, place))
    except ParseFailure as problem:
        return problem.error


def _load_from_part(part: Part) -> LoadMetrics:
    """Parse the fields of a load. Raises `ParseFailure`."""
    part.mapping()
    load1 = _finite_number(part["load1"])
    load5 = _finite_number(part["load5"]) if part["load5"].is_present else load1
    used, cached = part["memoryUsed"], part["memoryCached"]
    system = SystemMetrics(
        load1,
        load5,
        float(used.units()) if used.is_present else 0.0,
        float(cached.units()) if cached.is_present else 0.0,
    )
    pages = part["workingSetPages"]
    cache = CacheMetrics(tuple(map(_finite_number, pages.items()[:MAX_WINDOWS]))) if pages.is_present else None
    return LoadMetrics(system, cache)


def _finite_number(part: Part) -> float:
    """Return a valid number. Raises `ParseFailure`."""
    value = part.value
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_usable(value):
        raise part.failure("a number from 0 to 2^60")
    return float(value)


def _is_usable(value: float) -> bool:
    """Return whether the value is valid. Handles integers too large for a float, and NaN."""
    return 0 <= value <= MAX_VALUE


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
