"""Metric samples of executors as arrays, and the load that is expected now.

A sample does not contain the work that was assigned after it. Therefore the estimated cost of that work is added.
"""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from situate.sharding.strategies.facts import ObjectFacts

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Rows = NDArray[np.int64]

LARGEST: Final = 1e300
"""Maximum of a value, so that sums stay finite."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The measured metrics of one executor."""

    values: Mapping[str, object]
    """Values by metric, not validated."""
    taken_at: float
    """Time by the clock of the strategy."""


def usable_values(values: Mapping[str, object], metrics: Sequence[str]) -> list[float] | None:
    """Return the values of these metrics, or None if one is missing, not a number, negative or not finite."""
    found = []
    for metric in metrics:
        value = values.get(metric)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST:
            return None  # also for NaN
        found.append(float(value))
    return found


class WorkSinceSample:
    """The open work that was assigned to each executor since its sample was taken."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, tuple[float, int]]] = {}  # time and weight, by executor and UID
        self._weight: dict[str, int] = {}

    def record_assigned(self, executor: str, obj: ObjectFacts, now: float) -> None:
        """Record an object that is new for the executor."""
        self._objects.setdefault(executor, {})[obj.uid] = (now, obj.weight)
        self._weight[executor] = self._weight.get(executor, 0) + obj.weight

    def record_removed(self, executor: str, uid: str) -> None:
        """Record that the executor no longer has the object."""
        _, weight = self._objects.get(executor, {}).pop(uid, (0.0, 0))
        if weight:
            self._weight[executor] -= weight

    def record_sample(self, executor: str, taken_at: float) -> None:
        """Record a sample: work that was assigned before it no longer counts."""
        before = self._objects.get(executor)
        if before:
            after = {uid: each for uid, each in before.items() if each[0] > taken_at}
            self._objects[executor] = after
            self._weight[executor] = sum(weight for _, weight in after.values())

    def weight_of(self, executor: str) -> int:
        return self._weight.get(executor, 0)


class Samples:
    """A row for each known executor; rows of removed executors are used again.

    Columns are arrays over all rows, including free rows: a free row is not eligible.
    """

    def __init__(self, metrics: Sequence[str]) -> None:
        self.metrics = tuple(metrics)
        self.names: list[str] = []
        """Names by row; empty for a free row."""
        self._row: dict[str, int] = {}
        self._free: list[int] = []
        wide = (0, len(self.metrics))
        self.values: Floats = np.empty(wide)
        """(rows, metrics); 0 without a usable sample."""
        self.capacity: Floats = np.empty(wide)
        """(rows, metrics)."""
        self.taken_at: Floats = np.empty(0)
        """(rows), seconds; -inf without a usable sample."""
        self.open: Floats = np.empty(0)
        """(rows), weight of the open objects."""
        self.since: Floats = np.empty(0)
        """(rows), weight of the open objects that were assigned after the sample."""
        self.limit: Floats = np.empty(0)
        """(rows), the open weight from which the executor is full."""
        self.chosen: Rows = np.empty(0, dtype=np.int64)
        """(rows), the last turn in which the executor was chosen; -1: never."""
        self.healthy: Bools = np.empty(0, dtype=bool)
        """(rows)."""

    def add(self, name: str) -> int:
        """Return the row of an executor; a new row has no facts yet."""
        if name in self._row:
            return self._row[name]
        if not self._free:
            self._grow(max(8, len(self.names)))
        row = self._free.pop()
        self._row[name], self.names[row] = row, name
        self._clear(slice(row, row + 1))
        return row

    def _grow(self, more: int) -> None:
        size = len(self.names)
        self.names.extend([""] * more)
        self._free = list(range(size, size + more))
        for column in ("values", "capacity", "taken_at", "open", "since", "limit", "chosen", "healthy"):
            before = getattr(self, column)
            setattr(self, column, np.concatenate([before, np.zeros((more, *before.shape[1:]), dtype=before.dtype)]))
        self._clear(slice(size, size + more))

    def _clear(self, rows: slice) -> None:
        self.values[rows], self.open[rows], self.since[rows] = 0.0, 0.0, 0.0
        self.capacity[rows], self.taken_at[rows], self.limit[rows] = 1.0, -math.inf, math.inf
        self.chosen[rows], self.healthy[rows] = -1, False

    def remove(self, name: str) -> None:
        """Free the row of an executor, if it is known."""
        row = self._row.pop(name, None)
        if row is not None:
            self.names[row] = ""
            self._clear(slice(row, row + 1))
            self._free.append(row)

    def row(self, name: str) -> int | None:
        """Return the row of an executor; None if it is not known."""
        return self._row.get(name)

    def rows_among(self, among: Container[str]) -> Bools:
        """Return (rows) which executors are among these."""
        found = np.zeros(len(self.names), dtype=bool)
        if isinstance(among, AbstractSet) and len(among) < len(self._row):
            found[[self._row[name] for name in among if name in self._row]] = True
        else:
            found[[row for name, row in self._row.items() if name in among]] = True
        return found

    def rows_with_sample(self, now: float, max_age_s: float) -> Bools:
        """Return (rows) which executors have a usable sample."""
        return now - self.taken_at <= max_age_s

    def estimate(self, fresh: Bools) -> Floats:
        """Return (metrics) the mean cost of one unit of open work; 0 if there is none."""
        counted = fresh.astype(np.float64)
        work = counted @ self.open
        total: Floats = counted @ self.values
        return total / work if work > 0 else np.zeros_like(total)

    def scores(self, weights: Floats, estimate: Floats) -> Floats:
        """Return (rows) the scores; lower is better. Scores of rows without a sample have no meaning."""
        # weight * (value + since * estimate) / capacity; the factors per metric are multiplied in one step
        priced = weights / self.capacity
        scores: Floats = (priced * self.values).sum(axis=1) + self.since * (priced @ estimate)
        return scores
