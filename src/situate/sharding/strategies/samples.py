"""Metric samples of executors as arrays, and what is expected of their executors by now.

A sample is older than what has been assigned since, so each executor is thought to have that work's estimate on top.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from situate.sharding.strategies.facts import ObjectFacts

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Rows = NDArray[np.int64]

LARGEST: Final = 1e300
"""Of a value, so that sums stay finite."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What was measured of one executor."""

    values: Mapping[str, object]
    """By metric; hostile."""
    taken_at: float
    """By the clock that the strategy was given."""


def usable_values(values: Mapping[str, object], metrics: Sequence[str]) -> list[float] | None:
    """The values of these metrics, or None if one is missing, no number, negative or not finite."""
    found = []
    for metric in metrics:
        value = values.get(metric)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= LARGEST:
            return None  # NaN fails the comparison too
        found.append(float(value))
    return found


class AssignedSince:
    """What was assigned to each executor since its sample was taken, and is open still."""

    def __init__(self) -> None:
        self._objects: dict[str, dict[str, tuple[float, int]]] = {}  # by executor and UID: when, and the weight
        self._weight: dict[str, int] = {}

    def assigned(self, executor: str, obj: ObjectFacts, now: float) -> None:
        """An object that the executor did not have."""
        self._objects.setdefault(executor, {})[obj.uid] = (now, obj.weight)
        self._weight[executor] = self._weight.get(executor, 0) + obj.weight

    def left(self, executor: str, uid: str) -> None:
        """If it was assigned since."""
        _, weight = self._objects.get(executor, {}).pop(uid, (0.0, 0))
        if weight:
            self._weight[executor] -= weight

    def sampled(self, executor: str, taken_at: float) -> None:
        """What had been assigned by then is in the sample."""
        before = self._objects.get(executor)
        if before:
            after = {uid: each for uid, each in before.items() if each[0] > taken_at}
            self._objects[executor] = after
            self._weight[executor] = sum(weight for _, weight in after.values())

    def of(self, executor: str) -> int:
        return self._weight.get(executor, 0)


class Samples:
    """A row for each executor that is known; rows of the removed are used again."""

    def __init__(self, metrics: Sequence[str]) -> None:
        self.metrics = tuple(metrics)
        wide = (len(self.metrics),)
        self._empty = np.zeros(
            1,
            dtype=[
                ("values", np.float64, wide),  # 0 where there is no usable sample
                ("capacity", np.float64, wide),
                ("taken_at", np.float64),  # seconds; -inf where there is no usable sample
                ("open", np.float64),  # weight of open objects
                ("since", np.float64),  # weight of those that were assigned since the sample was taken
                ("limit", np.float64),  # the open weight that is too much
                ("chosen", np.int64),  # the turn at which it was chosen last; -1: never
                ("eligible", np.bool_),  # healthy
            ],
        )
        for field, value in (("capacity", 1.0), ("taken_at", -math.inf), ("limit", math.inf), ("chosen", -1)):
            self._empty[field] = value
        self._rows = np.repeat(self._empty, 8)
        self.names: list[str] = [""] * len(self._rows)
        """By row; empty for a row that is free."""
        self._row: dict[str, int] = {}
        self._free = list(range(len(self._rows)))

    def add(self, name: str) -> None:
        """An executor of which nothing is known yet, unless it is there."""
        if name in self._row:
            return
        if not self._free:
            self._free = list(range(len(self._rows), 2 * len(self._rows)))
            self.names.extend([""] * len(self._rows))
            self._rows = np.concatenate([self._rows, np.repeat(self._empty, len(self._rows))])
        row = self._free.pop()
        self._row[name], self.names[row] = row, name

    def remove(self, name: str) -> None:
        row = self._row.pop(name, None)
        if row is not None:
            self._rows[row], self.names[row] = self._empty[0], ""
            self._free.append(row)

    def __contains__(self, name: str) -> bool:
        return name in self._row

    def set(self, name: str, field: str, value: float | Sequence[float]) -> None:
        """One field of an executor that is there."""
        self._rows[field][self._row[name]] = value

    def row(self, name: str) -> int:
        return self._row[name]

    def rows_of(self, names: Iterable[str]) -> Rows:
        """Of those that are there."""
        return np.array([self._row[name] for name in names if name in self._row], dtype=np.int64)

    def turns(self, rows: Rows) -> Rows:
        """When each of the rows was chosen last."""
        turns: Rows = self._rows["chosen"][rows]
        return turns

    def longest_ago(self, rows: Rows) -> Rows:
        """Those of the rows that were chosen longest ago, or never."""
        turns = self.turns(rows)
        first: Rows = rows[turns == turns.min()]
        return first

    def eligible(self) -> Bools:
        """(rows): healthy, and below the limit of open work."""
        return self._rows["eligible"] & (self._rows["open"] < self._rows["limit"])

    def fresh(self, now: float, max_age_s: float) -> Bools:
        """(rows): with a usable sample."""
        return now - self._rows["taken_at"] <= max_age_s

    def estimate(self, fresh: Bools) -> Floats:
        """(metrics): what one unit of open work seems to cost; 0 where nobody has any."""
        work = self._rows["open"][fresh].sum()
        total: Floats = self._rows["values"][fresh].sum(axis=0)
        return total / work if work > 0 else np.zeros_like(total)

    def scores(self, weights: Floats, estimate: Floats, rows: Rows) -> Floats:
        """(rows): for those rows, lower is better."""
        found = self._rows[rows]
        expected = found["values"] + found["since"][:, None] * estimate
        scores: Floats = (expected / found["capacity"]) @ weights
        return scores
