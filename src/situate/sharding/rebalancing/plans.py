"""Input and output of rebalancing: objects on executors, and moves."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlacedObject:
    """An open object and its executor."""

    uid: str
    executor: str
    """An object whose executor is not live is an orphan, which must move."""
    load: float = 1.0
    movable: bool = True
    """Whether the object may leave a live executor: see `may_move`."""


@dataclass(frozen=True, slots=True)
class Move:
    """A move of one object from one executor to another."""

    uid: str
    origin: str
    target: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The fewest moves that reach a goal."""

    forced: tuple[Move, ...] = ()
    """Moves of orphans."""
    voluntary: tuple[Move, ...] = ()
    """The most useful moves come first, so that it is worth making only some of them."""
    reached: bool = True
    """Whether the goal holds after all moves."""
    why: str = ""
    """Why the goal does not hold; empty if it does."""

    @property
    def moves(self) -> int:
        return len(self.forced) + len(self.voluntary)


def may_move(*, migratable: bool, completed: bool, remaining_work_s: float | None, move_cost_s: float) -> bool:
    """Return whether an object may leave a live executor. An unknown remaining work counts as long."""
    return migratable and not completed and (remaining_work_s is None or remaining_work_s >= move_cost_s)


def orphans(objects: Iterable[PlacedObject], live: Collection[str]) -> list[PlacedObject]:
    """Return the objects whose executor is not live."""
    return [each for each in objects if each.executor not in live]
