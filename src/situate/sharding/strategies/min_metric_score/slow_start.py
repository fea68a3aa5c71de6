"""Limit the share of choices that go to an executor with little work.

A new executor has the least load, and would get every object until it has caught up: all its objects start at once.
"""

from __future__ import annotations

from typing import Final

_ROUNDING: Final = 1e-6  # of turns


class SlowStart:
    """Limits of slow start: of any n successive choices, at most ⌈share · n⌉ go to one newcomer.

    Of the first n choices after the newcomer is known, at most ⌊share · n⌋ go to it. A newcomer is an executor with
    less than half the mean of the others. If capacities are declared, open work is compared per capacity.
    """

    def __init__(self, max_share: float) -> None:
        """`max_share`: the share of one newcomer. Raises `ValueError` unless 0 < max_share <= 1."""
        if not 0 < max_share <= 1:
            raise ValueError(f"slow_start_max_share is {max_share:g}, allowed: more than 0 and at most 1")
        self._period = 1 / max_share  # turns
        self._turn = 0
        self._due: dict[str, float] = {}  # next turn of each newcomer that was considered
        self._held: dict[str, tuple[int, float]] = {}  # open work and capacity of each executor that takes part
        self._open = 0
        self._capacity = 0.0

    def put(self, executor: str, open_weight: int, capacity: float) -> None:
        """Record the open work and capacity of an executor."""
        self._remove_work(executor)
        self._held[executor] = (open_weight, capacity)
        self._open += open_weight
        self._capacity += capacity
        if executor in self._due and not self.is_newcomer(executor):
            del self._due[executor]

    def drop(self, executor: str) -> None:
        """Remove an executor."""
        self._remove_work(executor)
        self._due.pop(executor, None)

    def _remove_work(self, executor: str) -> None:
        open_weight, capacity = self._held.pop(executor, (0, 0.0))
        self._open -= open_weight
        self._capacity -= capacity

    def is_newcomer(self, executor: str) -> bool:
        open_weight, capacity = self._held.get(executor, (0, 0.0))
        others = self._capacity - capacity
        return others > 0 and open_weight * others * 2 < (self._open - open_weight) * capacity

    def allows(self, executor: str) -> bool:
        """Return whether this choice may go to the executor. A newcomer on its first check begins to wait."""
        if not self.is_newcomer(executor):
            return True
        return self._turn >= self._due.setdefault(executor, self._first_turn()) - _ROUNDING

    def would_allow(self, executor: str) -> bool:
        """Return the same as `allows`, without making a newcomer wait."""
        return not self.is_newcomer(executor) or self._turn >= self._due.get(executor, self._first_turn()) - _ROUNDING

    def _first_turn(self) -> float:
        return self._turn + self._period - 1

    def record_choice(self, executor: str) -> None:
        """Record a choice."""
        due = self._due.get(executor)
        if due is not None:
            # without the second term, a newcomer that let its turn pass could catch up within one period
            self._due[executor] = max(due + self._period, self._first_turn() + 2 * _ROUNDING)
        self._turn += 1
