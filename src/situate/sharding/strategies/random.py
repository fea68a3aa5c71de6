"""Random: choose each healthy executor with the same probability."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Protocol

from situate.sharding.model.executors import ExecutorStatus
from situate.sharding.strategies.facts import ObjectFacts
from situate.sharding.strategies.open_objects import Roster
from situate.sharding.strategies.protocol import CandidateRank, TieBreak


class RandomSource(Protocol):
    """The only source of randomness, seeded by the caller (such as `random.Random`)."""

    def randrange(self, stop: int, /) -> int:
        """Return a number from 0 to stop - 1, all with the same probability."""


class Random:
    """A uniform choice over the healthy executors, in constant time."""

    def __init__(self, source: RandomSource) -> None:
        self._source = source
        self._roster = Roster()
        self._healthy: list[str] = []
        self._place: dict[str, int] = {}

    def observe_executor(self, executor: str, status: ExecutorStatus | None) -> None:
        if not self._roster.observe(executor, status):
            return
        if status is ExecutorStatus.HEALTHY:
            self._place[executor] = len(self._healthy)
            self._healthy.append(executor)
        elif executor in self._place:
            place, last = self._place.pop(executor), self._healthy.pop()
            if last != executor:
                self._healthy[place] = last
                self._place[last] = place

    def observe_scheduled(self, obj: ObjectFacts) -> None:
        """Do nothing: this strategy counts no objects."""

    def observe_completed(self, obj: ObjectFacts) -> None:
        """Do nothing: this strategy counts no objects."""

    def observe_deleted(self, obj: ObjectFacts) -> None:
        """Do nothing: this strategy counts no objects."""

    def choose_executor(self, obj: ObjectFacts) -> str:  # noqa: ARG002 - the protocol's
        self._roster.check_any_healthy()
        return self._healthy[self._source.randrange(len(self._healthy))]

    def choose_among(self, obj: ObjectFacts, among: Container[str], tie_break: TieBreak | None = None) -> str:
        allowed = [executor for executor in self._healthy if executor in among]
        if not allowed:
            raise self._roster.refusal({})
        return tie_break(obj, allowed) if tie_break else allowed[self._source.randrange(len(allowed))]

    def candidate_ranks(self, obj: ObjectFacts) -> Sequence[CandidateRank]:  # noqa: ARG002 - the protocol's
        why = f"one of {len(self._healthy)}, at random"
        return [CandidateRank(executor, 1, why) for executor in sorted(self._healthy)] + self._roster.unhealthy_ranks()
