"""What a strategy is: an observer of executors and objects that names an executor when asked (KSched's Scheduler).

A strategy holds no more than what it has been told, so a listing rebuilds it: `rebuild`. Only `Strategy` must be
implemented; the other protocols are what the built-in strategies offer besides, and users' own may.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from situate.sharding.model.errors import Unschedulable
from situate.sharding.model.executors import Executor, ExecutorStatus
from situate.sharding.strategies.facts import ObjectFacts

TieBreak = Callable[[ObjectFacts, Sequence[str]], str]
"""Names one of the executors, at least one, that are equally good; they come in the strategy's own order."""


class Strategy(Protocol):
    """Chooses executors for objects. Every observation may be repeated; repeating one changes nothing."""

    def observe_executor(self, executor: str, status: ExecutorStatus | None) -> None:
        """An executor has this status; None: it is removed."""

    def observe_scheduled(self, obj: ObjectFacts) -> None:
        """An open object is assigned to `obj.executor`, or to nobody any more if that is empty."""

    def observe_completed(self, obj: ObjectFacts) -> None:
        """An object has been completed, and counts for nobody."""

    def observe_deleted(self, obj: ObjectFacts) -> None:
        """An object is gone, and counts for nobody."""

    def choose_executor(self, obj: ObjectFacts) -> str:
        """The executor that should get the object, a healthy one. Raises `Unschedulable` if there is none.

        That somebody was asked for may decide the next tie; how much each executor has does not change.
        """


@runtime_checkable
class ObservesMembers(Protocol):
    """Wants to know capacity, labels and metrics of executors."""

    def observe_member(self, member: Executor) -> None:
        """What is known of an executor, its status apart."""


@runtime_checkable
class Selective(Protocol):
    """Can choose among some of the executors."""

    def choose_among(self, obj: ObjectFacts, among: Container[str], tie_break: TieBreak | None = None) -> str:
        """As `choose_executor`, of these executors only."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How an executor stands towards an object."""

    executor: str
    place: int | None
    """1 for who would be chosen, the same for equals; None: it may not be chosen."""
    why: str


@runtime_checkable
class ExplainsItself(Protocol):
    """Can say how it would choose."""

    def standings(self, obj: ObjectFacts) -> Sequence[Standing]:
        """Every known executor: those that may be chosen by their places, then the others by id. Changes nothing."""


class Ineligible(Exception):
    """Why none of the executors may take an object, with counts; the cause of an `Unschedulable`."""


class StrategyFailed(Unschedulable):
    """A strategy of the user's raised, or named somebody who may not be chosen; `cause` says which."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__("StrategyFailed", cause)


def tell_member(strategy: Strategy, member: Executor) -> None:
    """Tells a strategy everything about an executor that it wants to know."""
    strategy.observe_executor(member.id, member.status)
    if isinstance(strategy, ObservesMembers):
        strategy.observe_member(member)


def tell_object(strategy: Strategy, obj: ObjectFacts) -> None:
    """Tells a strategy what an object that exists says of itself."""
    if obj.completed:
        strategy.observe_completed(obj)
    else:
        strategy.observe_scheduled(obj)


def rebuild(strategy: Strategy, objects: Iterable[ObjectFacts], members: Iterable[Executor]) -> None:
    """Tells a new strategy what a listing shows.

    Objects first: a sample that is told after them is taken to include their work.
    """
    for obj in objects:
        tell_object(strategy, obj)
    for member in members:
        tell_member(strategy, member)
