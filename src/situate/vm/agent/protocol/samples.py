"""What guests and their caches say of themselves, as samples with labels, turned into metrics (C36).

Names and labels are those of Prometheus text; reading that text is the shell's. One endpoint may speak of many
machines: samples with labels `namespace` and `name` are of that one, samples without them of whichever was asked for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from situate.vm.agent.decide.goal import CacheMetrics, SystemMetrics
from situate.vm.api.parse_errors import Misread, Part, Place, Unreadable
from situate.vm.model.pods_and_nodes import Ref

UNSEEN: Final = 100 * 2**20
"""Bytes of memory that a guest uses and does not tell of."""
MOST: Final = float(2**60)
"""A value above is no measurement."""
WINDOWS: Final = "lfc_approximate_working_set_size_windows"
_SYSTEM: Final = tuple(
    f"host_{each}" for each in ("load1", "load5", "memory_total_bytes", "memory_available_bytes", "memory_cached_bytes")
)
NAMES: Final = (*_SYSTEM, WINDOWS)
"""Of all samples that anything is made of."""
WINDOW_S: Final = 60
"""From one window to the next."""
MOST_WINDOWS: Final = 24 * 60


@dataclass(frozen=True, slots=True)
class Sample:
    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class NoMetrics:
    """Nothing that can be used; the sentence says why."""

    why: str


def of_machine(samples: Iterable[Sample], machine: Ref) -> list[Sample]:
    """Without those of others."""
    wanted = {"namespace": machine.namespace, "name": machine.name}
    return [each for each in samples if all(each.labels.get(key, value) == value for key, value in wanted.items())]


def system_metrics(samples: Iterable[Sample]) -> SystemMetrics | NoMetrics:
    """`host_load1`, `host_load5` and `host_memory_{total,available,cached}_bytes`."""
    known = {each.name: each.value for each in samples}
    values: list[float] = []
    for name in _SYSTEM:
        if name not in known:
            return NoMetrics(f"there is no {name}")
        if not _usable(known[name]):
            return NoMetrics(f"{name} is {known[name]}, allowed: from 0 to 2^60")
        values.append(known[name])
    load1, load5, total, available, cached = values
    return SystemMetrics(load1, load5, max(0.0, total - available) + UNSEEN, cached)


def cache_metrics(samples: Iterable[Sample]) -> CacheMetrics | NoMetrics:
    """A gauge for each of 60, 120, ... seconds without a gap."""
    windows: dict[float, float] = {}
    for each in samples:
        if each.name == WINDOWS:
            duration = _number(each.labels.get("duration_seconds", ""))
            if duration is None:
                return NoMetrics(f"{WINDOWS} has a sample whose duration_seconds is no number")
            windows[duration] = each.value
    if not windows:
        return NoMetrics(f"there is no {WINDOWS}")
    series: list[float] = []
    for number, duration in enumerate(sorted(windows)[:MOST_WINDOWS], start=1):
        if duration != number * WINDOW_S:
            return NoMetrics(f"{WINDOWS} has duration_seconds {duration:g} where {number * WINDOW_S} is due")
        if not _usable(windows[duration]):
            return NoMetrics(f"{WINDOWS} of {duration:g} s is {windows[duration]}, allowed: from 0 to 2^60")
        series.append(windows[duration])
    return CacheMetrics(tuple(series))


@dataclass(frozen=True, slots=True)
class Load:
    """What somebody says in place of a guest."""

    system: SystemMetrics
    cache: CacheMetrics | None = None


def load(value: Any, place: Place) -> Load | NoMetrics:
    """Of an annotation or a file: `{"load1":1.5,"load5":1.2,"memoryUsed":"1Gi","memoryCached":"512Mi",
    "workingSetPages":[...]}`; `load5` is `load1` where it is missing, the others nothing.
    """
    try:
        return _load(Part(place, value))
    except Misread as problem:
        return NoMetrics(str(problem.unreadable))


def load_of_text(text: str, place: Place) -> Load | NoMetrics:
    """Of JSON."""
    found = read_load(text, place)
    return NoMetrics(str(found)) if isinstance(found, Unreadable) else found


def read_load(text: str, place: Place) -> Load | Unreadable:
    """Of JSON."""
    try:
        return _load(Part.of_text(text, place))
    except Misread as problem:
        return problem.unreadable


def _load(part: Part) -> Load:
    """Raises `Misread`."""
    part.mapping()
    load1 = _finite(part["load1"])
    load5 = _finite(part["load5"]) if part["load5"].there else load1
    used, cached = part["memoryUsed"], part["memoryCached"]
    system = SystemMetrics(
        load1, load5, float(used.units()) if used.there else 0.0, float(cached.units()) if cached.there else 0.0
    )
    pages = part["workingSetPages"]
    cache = CacheMetrics(tuple(map(_finite, pages.items()[:MOST_WINDOWS]))) if pages.there else None
    return Load(system, cache)


def _finite(part: Part) -> float:
    """Raises `Misread`."""
    value = part.value
    if isinstance(value, bool) or not isinstance(value, int | float) or not _usable(value):
        raise part.misread("a number from 0 to 2^60")
    return float(value)


def _usable(value: float) -> bool:
    """Also of whole numbers that are too large for a float, and of what is no number at all."""
    return 0 <= value <= MOST


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
