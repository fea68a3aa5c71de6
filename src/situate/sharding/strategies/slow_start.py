"""How many of the next choices may go to an executor that has next to nothing yet.

Whoever joins is the least loaded, and would get everything until it has caught up: all its objects start at once.
"""

from __future__ import annotations

from typing import Final

_ROUNDING: Final = 1e-6  # of turns


class SlowStart:
    """Of any n successive choices at most ⌈share · n⌉ go to one newcomer; of the first n that know it ⌊share · n⌋.

    A newcomer is an executor with less than half the mean of the others; where capacities are declared, open work is
    compared by capacity.
    """

    def __init__(self, max_share: float) -> None:
        """Raises `ValueError` unless 0 < max_share <= 1."""
        if not 0 < max_share <= 1:
            raise ValueError(f"slow_start_max_share is {max_share:g}, allowed: more than 0 and at most 1")
        self._period = 1 / max_share  # turns
        self._turn = 0
        self._due: dict[str, float] = {}  # of each newcomer that was thought of: its next turn
        self._held: dict[str, tuple[int, float]] = {}  # of each executor that takes part: open work and capacity
        self._open = 0
        self._capacity = 0.0

    def put(self, executor: str, open_weight: int, capacity: float) -> None:
        """What it has now."""
        self._take_out(executor)
        self._held[executor] = (open_weight, capacity)
        self._open += open_weight
        self._capacity += capacity
        if executor in self._due and not self.is_newcomer(executor):
            del self._due[executor]

    def drop(self, executor: str) -> None:
        """It takes no part any more."""
        self._take_out(executor)
        self._due.pop(executor, None)

    def _take_out(self, executor: str) -> None:
        open_weight, capacity = self._held.pop(executor, (0, 0.0))
        self._open -= open_weight
        self._capacity -= capacity

    def is_newcomer(self, executor: str) -> bool:
        open_weight, capacity = self._held.get(executor, (0, 0.0))
        others = self._capacity - capacity
        return others > 0 and open_weight * others * 2 < (self._open - open_weight) * capacity

    def allows(self, executor: str) -> bool:
        """Whether this choice may go to it. A newcomer that was not thought of before begins to wait."""
        if not self.is_newcomer(executor):
            return True
        return self._turn >= self._due.setdefault(executor, self._first_turn()) - _ROUNDING

    def would_allow(self, executor: str) -> bool:
        """The same, and nobody begins to wait."""
        return not self.is_newcomer(executor) or self._turn >= self._due.get(executor, self._first_turn()) - _ROUNDING

    def _first_turn(self) -> float:
        return self._turn + self._period - 1

    def chosen(self, executor: str) -> None:
        """A choice was made."""
        due = self._due.get(executor)
        if due is not None:
            # the second term keeps a newcomer that let its turn pass from making up for it within one period
            self._due[executor] = max(due + self._period, self._first_turn() + 2 * _ROUNDING)
        self._turn += 1
