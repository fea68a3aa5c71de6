"""RoundRobin: choose the healthy executors in turn, in the order in which they became healthy."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from situate.sharding.model.executors import ExecutorStatus
from situate.sharding.strategies.facts import ObjectFacts
from situate.sharding.strategies.open_objects import Roster
from situate.sharding.strategies.protocol import CandidateRank, TieBreak

_END = ""  # the end of the list, between its last and its first element; no executor has this name


class _Cycle:
    """A list with a pointer to its next element. The pointer stays when other elements join or leave."""

    def __init__(self) -> None:
        self._after: dict[str, str] = {_END: _END}
        self._before: dict[str, str] = {_END: _END}
        self._next = _END

    def __contains__(self, executor: str) -> bool:
        return executor in self._after

    def __len__(self) -> int:
        return len(self._after) - 1

    def join(self, executor: str) -> None:
        """Add an executor at the end of the list."""
        last = self._before[_END]
        self._link(last, executor)
        self._link(executor, _END)
        if self._next == _END:
            self._next = executor

    def leave(self, executor: str) -> None:
        """Remove an executor. If it was next, its successor is next."""
        if self._next == executor:
            self.advance()
        self._link(self._before.pop(executor), self._after.pop(executor))
        if self._next == executor:  # it was the only element
            self._next = _END

    @property
    def next(self) -> str:
        return self._next

    def advance(self) -> None:
        """Move to the next element; from the last one to the first at once, so that a newcomer waits for its turn."""
        following = self._after[self._next]
        self._next = following if following != _END else self._after[_END]

    def __iter__(self) -> Iterator[str]:
        """Yield all elements, in the order of their turns."""
        executor = self._next
        for _ in range(len(self)):
            yield executor
            executor = self._after[executor]
            if executor == _END:
                executor = self._after[_END]

    def _link(self, first: str, second: str) -> None:
        self._after[first], self._before[second] = second, first


class RoundRobin:
    """The round-robin strategy. Between changes, each window of k choices names each of the k healthy executors once.

    Choices that rules restrict are an exception. They go to the allowed executor that was chosen longest ago. They move
    the pointer only if they choose its element.
    """

    def __init__(self) -> None:
        self._roster = Roster()
        self._cycle = _Cycle()
        self._turn = 0
        self._chosen: dict[str, int] = {}  # last turn in which each executor was chosen

    def observe_executor(self, executor: str, status: ExecutorStatus | None) -> None:
        if not self._roster.observe(executor, status):
            return
        if status is ExecutorStatus.HEALTHY:
            self._cycle.join(executor)
        elif executor in self._cycle:
            self._cycle.leave(executor)
            self._chosen.pop(executor, None)

    def observe_scheduled(self, obj: ObjectFacts) -> None:
        """Do nothing: this strategy counts no objects."""

    def observe_completed(self, obj: ObjectFacts) -> None:
        """Do nothing: this strategy counts no objects."""

    def observe_deleted(self, obj: ObjectFacts) -> None:
        """Do nothing: this strategy counts no objects."""

    def choose_executor(self, obj: ObjectFacts) -> str:  # noqa: ARG002 - the protocol's
        self._roster.check_any_healthy()
        return self._take(self._cycle.next)

    def choose_among(
        self,
        obj: ObjectFacts,  # noqa: ARG002 - the protocol's
        among: Container[str],
        tie_break: TieBreak | None = None,  # noqa: ARG002 - the protocol's
    ) -> str:
        """Choose in turn among these executors. There are no ties, so `tie_break` is not called."""
        allowed = [executor for executor in self._cycle if executor in among]
        if not allowed:
            raise self._roster.refusal({})
        if len(allowed) == len(self._cycle):
            return self._take(self._cycle.next)
        return self._take(min(allowed, key=lambda executor: self._chosen.get(executor, -1)))

    def _take(self, executor: str) -> str:
        if executor == self._cycle.next:
            self._cycle.advance()
        self._chosen[executor] = self._turn
        self._turn += 1
        return executor

    def candidate_ranks(self, obj: ObjectFacts) -> Sequence[CandidateRank]:  # noqa: ARG002 - the protocol's
        turns = [CandidateRank(executor, place, f"turn {place}") for place, executor in enumerate(self._cycle, 1)]
        return turns + self._roster.unhealthy_ranks()
