"""What rebalancing looks at and what it gives: objects on executors, and moves."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Held:
    """An open object and who has it."""

    uid: str
    executor: str
    """One that is not live makes the object an orphan, which has to move."""
    load: float = 1.0
    movable: bool = True
    """Whether it may be moved although its executor lives: see `may_move`."""


@dataclass(frozen=True, slots=True)
class Move:
    """One object from one executor to another."""

    uid: str
    origin: str
    target: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The fewest moves that reach a goal."""

    forced: tuple[Move, ...] = ()
    """Of orphans."""
    voluntary: tuple[Move, ...] = ()
    """The most useful first, so that a part of them is worth making."""
    reached: bool = True
    """Whether the goal holds after all of them."""
    why: str = ""
    """Why it does not hold; empty if it does."""

    @property
    def moves(self) -> int:
        return len(self.forced) + len(self.voluntary)


def may_move(*, migratable: bool, completed: bool, remaining_work_s: float | None, move_cost_s: float) -> bool:
    """Whether an object may be moved from an executor that lives; what nobody knows the end of is worth moving."""
    return migratable and not completed and (remaining_work_s is None or remaining_work_s >= move_cost_s)


def orphans(objects: Iterable[Held], live: Collection[str]) -> list[Held]:
    """Those whose executor is not there any more."""
    return [each for each in objects if each.executor not in live]
