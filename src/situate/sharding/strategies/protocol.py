"""The protocol of a strategy: it observes executors and objects, and chooses an executor (KSched's Scheduler).

A strategy holds only its observations, so that `rebuild` can restore it from a listing. Only `Strategy` is required.
The other protocols are optional features, which the built-in strategies have.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from situate.sharding.model.errors import Unschedulable
from situate.sharding.model.executors import ExecutorStatus, LiveExecutor
from situate.sharding.strategies.facts import ObjectFacts

TieBreak = Callable[[ObjectFacts, Sequence[str]], str]
"""Chooses one of several equally good executors, at least one. They come in the order of the strategy."""


class Strategy(Protocol):
    """Chooses executors for objects. Repeating an observation changes nothing."""

    def observe_executor(self, executor: str, status: ExecutorStatus | None) -> None:
        """Record the status of an executor; None: the executor is removed."""

    def observe_scheduled(self, obj: ObjectFacts) -> None:
        """Record that an open object is assigned to `obj.executor`; empty: it is unassigned."""

    def observe_completed(self, obj: ObjectFacts) -> None:
        """Record that an object is completed. It no longer counts for any executor."""

    def observe_deleted(self, obj: ObjectFacts) -> None:
        """Record that an object is gone. It no longer counts for any executor."""

    def choose_executor(self, obj: ObjectFacts) -> str:
        """Return the healthy executor that should get the object. Raises `Unschedulable` if there is none.

        A call may decide the next tie. It does not change the load of any executor.
        """


@runtime_checkable
class MemberObserver(Protocol):
    """A strategy that needs capacity, labels and metrics of executors."""

    def observe_member(self, member: LiveExecutor) -> None:
        """Record all known facts of an executor except its status."""


@runtime_checkable
class SelectiveStrategy(Protocol):
    """A strategy that can choose among some of the executors."""

    def choose_among(self, obj: ObjectFacts, among: Container[str], tie_break: TieBreak | None = None) -> str:
        """Choose as `choose_executor`, but only among these executors."""


@dataclass(frozen=True, slots=True)
class CandidateRank:
    """The rank of an executor for an object."""

    executor: str
    place: int | None
    """1 for the executor that would be chosen, equal for equals; None: it may not be chosen."""
    why: str


@runtime_checkable
class ExplainableStrategy(Protocol):
    """A strategy that can explain its choice."""

    def candidate_ranks(self, obj: ObjectFacts) -> Sequence[CandidateRank]:
        """Return every known executor: first the eligible ones by place, then the others by id. Changes nothing."""


class Ineligible(Exception):
    """Why no executor may take an object, with counts; the cause of an `Unschedulable`."""


class StrategyFailed(Unschedulable):
    """A user's strategy raised an error, or chose an ineligible executor; `cause` says which."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__("StrategyFailed", cause)


def report_member(strategy: Strategy, member: LiveExecutor) -> None:
    """Pass the status and, if the strategy observes members, the other facts of an executor."""
    strategy.observe_executor(member.id, member.status)
    if isinstance(strategy, MemberObserver):
        strategy.observe_member(member)


def report_object(strategy: Strategy, obj: ObjectFacts) -> None:
    """Pass the state of an existing object to a strategy."""
    if obj.completed:
        strategy.observe_completed(obj)
    else:
        strategy.observe_scheduled(obj)


def rebuild(strategy: Strategy, objects: Iterable[ObjectFacts], members: Iterable[LiveExecutor]) -> None:
    """Restore a new strategy from a listing.

    Objects come first: a sample that is observed after them counts as including their work.
    """
    for obj in objects:
        report_object(strategy, obj)
    for member in members:
        report_member(strategy, member)
