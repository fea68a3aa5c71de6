"""MinScheduled: choose the executor with the least open work for its capacity."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from math import isfinite

from situate.sharding.model.executors import ExecutorStatus, LiveExecutor
from situate.sharding.strategies.facts import ObjectFacts
from situate.sharding.strategies.min_metric_score.slow_start import SlowStart
from situate.sharding.strategies.open_objects import OpenObjects, Roster
from situate.sharding.strategies.protocol import CandidateRank, TieBreak
from situate.sharding.strategies.ranking import Ranking


class MinScheduled:
    """The strategy of the least open / capacity; ties go to the least recently chosen executor, then by id.

    Capacity is ignored while no executor declares one. If some do, an executor without one counts like the largest, and
    is never full. A choice costs about log n comparisons. Each executor that rules or slow start skip costs one
    step more.
    """

    def __init__(self, slow_start_max_share: float | None = None) -> None:
        """`slow_start_max_share` None: no limit for newcomers. Raises `ValueError` for an invalid share."""
        self._roster = Roster()
        self._open = OpenObjects()
        self._declared: dict[str, float] = {}
        self._largest = 1.0  # the largest declared capacity
        self._ranking = Ranking()  # the executors that may be chosen
        self._turn = 0
        self._chosen: dict[str, int] = {}  # last turn in which each executor was chosen
        self._slow = None if slow_start_max_share is None else SlowStart(slow_start_max_share)

    def observe_executor(self, executor: str, status: ExecutorStatus | None) -> None:
        if not self._roster.observe(executor, status):
            return
        if status is None:
            self._chosen.pop(executor, None)
            self._set_capacity(executor, None)
        self._rank(executor)

    def observe_member(self, member: LiveExecutor) -> None:
        """Record an executor's capacity. A negative or invalid capacity counts as 0, and the executor as full."""
        capacity = member.capacity
        if member.id in self._roster:
            usable = capacity is None or (isfinite(capacity) and capacity >= 0)
            self._set_capacity(member.id, capacity if usable else 0.0)

    def _set_capacity(self, executor: str, capacity: float | None) -> None:
        if capacity == self._declared.get(executor):
            return
        if capacity is None:
            del self._declared[executor]
        else:
            self._declared[executor] = capacity
        largest = max(self._declared.values(), default=0.0) or 1.0
        changed = [executor] if largest == self._largest else list(self._roster)
        self._largest = largest
        for each in changed:
            self._rank(each)

    def observe_scheduled(self, obj: ObjectFacts) -> None:
        self._record_object(self._open.record_scheduled, obj)

    def observe_completed(self, obj: ObjectFacts) -> None:
        self._record_object(self._open.record_completed, obj)

    def observe_deleted(self, obj: ObjectFacts) -> None:
        self._record_object(self._open.record_deleted, obj)

    def _record_object(self, observe: Callable[[ObjectFacts], tuple[str, ...]], obj: ObjectFacts) -> None:
        for executor in observe(obj):
            self._rank(executor)

    def _rank(self, executor: str) -> None:
        """Update the place of an executor after a change."""
        weight, capacity = self._open.weight_of(executor), self._declared.get(executor, self._largest)
        if self._slow is not None:
            if self._roster.is_serving(executor):
                self._slow.put(executor, weight, capacity)
            else:
                self._slow.drop(executor)
        if self._roster.is_healthy(executor) and not self._is_full(executor):
            self._ranking.put(executor, weight / capacity, self._chosen.get(executor, -1))
        else:
            self._ranking.drop(executor)

    def _is_full(self, executor: str) -> bool:
        return executor in self._declared and self._open.weight_of(executor) >= self._declared[executor]

    def choose_executor(self, obj: ObjectFacts) -> str:
        return self._choose(obj, None, None)

    def choose_among(self, obj: ObjectFacts, among: Container[str], tie_break: TieBreak | None = None) -> str:
        return self._choose(obj, among, tie_break)

    def _choose(self, obj: ObjectFacts, among: Container[str] | None, tie_break: TieBreak | None) -> str:
        if tie_break is None:
            executor = next(self._executors_in_order(among), None)
        else:
            tied = self._tied_executors(among)
            executor = tie_break(obj, tied) if tied else None
        if executor is None:
            raise self._roster.capacity_refusal(among)
        self._chosen[executor] = self._turn
        self._turn += 1
        if self._slow is not None:
            self._slow.record_choice(executor)
        if executor in self._ranking:  # a tie-break may return any name; the caller checks it
            self._rank(executor)
        return executor

    def _executors_in_order(self, among: Container[str] | None) -> Iterator[str]:
        """Yield the executors in the order of choice. Newcomers that must wait come last, if no other one is left."""
        waiting = []
        for _, _, executor in self._ranking.entries(among):
            if self._slow is None or self._slow.allows(executor):
                yield executor
            else:
                waiting.append(executor)
        yield from waiting

    def _tied_executors(self, among: Container[str] | None) -> list[str]:
        """Return the first executor, and those with the same load."""
        tied: list[str] = []
        for executor in self._executors_in_order(among):
            if tied and self._load(executor) != self._load(tied[0]):
                break
            tied.append(executor)
        return tied

    def _load(self, executor: str) -> float:
        return self._open.weight_of(executor) / self._declared.get(executor, self._largest)

    def candidate_ranks(self, obj: ObjectFacts) -> Sequence[CandidateRank]:  # noqa: ARG002 - the protocol's
        ranked = [executor for _, _, executor in self._ranking.entries()]
        slow = self._slow
        waiting = [] if slow is None else [executor for executor in ranked if not slow.would_allow(executor)]
        held_back = set(waiting)
        order = [executor for executor in ranked if executor not in held_back] + waiting
        found = [
            CandidateRank(
                executor, place, self._load_text(executor) + ("; slow start" if executor in held_back else "")
            )
            for place, executor in enumerate(order, 1)
        ]
        full = [
            CandidateRank(executor, None, self._load_text(executor))
            for executor in sorted(self._roster)
            if self._roster.is_healthy(executor) and executor not in self._ranking
        ]
        return found + full + self._roster.unhealthy_ranks()

    def _load_text(self, executor: str) -> str:
        limit = f" of {self._declared[executor]:g}" if executor in self._declared else ""
        return f"{self._open.weight_of(executor)} open{limit}"
