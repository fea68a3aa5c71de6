"""Breadth-first search through all possible states, each state once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)
Moves = Callable[[S], Iterable[tuple[str, S]]]


class SafetyGuard(Enum):
    """A guard to leave out of a world. The search must then find a breach."""

    EPOCH = "the epoch test"
    READ_BACK = "the read-back"
    UID = "the UID precondition"
    ACK = "the wait for the ack"
    INCARNATION = "the incarnation test"
    MONOTONIC = "the monotonic judging"
    FINALIZER = "the precondition of the finalizer"


class InvariantBroken(Exception):
    """An invariant does not hold after a move. The text begins with its name."""


@dataclass(frozen=True, slots=True)
class SearchResult(Generic[S]):
    """The result of a search."""

    reached: Collection[S]
    """All visited states."""
    moves: int
    ends: tuple[S, ...]
    """States after which nothing can happen, and states for which `is_end` is true."""
    breach: str = ""
    """The first breach by the number of moves. Empty: none."""
    path: tuple[str, ...] = ()
    """The moves that lead to the breach."""

    @property
    def states(self) -> int:
        return len(self.reached)


def explore(
    first: S, moves: Moves[S], *, is_end: Callable[[S], bool] = lambda _: False, most: int | None = None
) -> SearchResult[S]:
    """Visit all reachable states. Stop at the first breach. Raises `MemoryError` beyond `most` states, if given."""
    parents: dict[S, tuple[S, str] | None] = {first: None}
    todo, ends, moved = deque([first]), list[S](), 0
    while todo:
        state = todo.popleft()
        if is_end(state):
            ends.append(state)
            continue
        at = moved
        try:
            for name, after in moves(state):
                moved += 1
                if after not in parents:
                    parents[after] = (state, name)
                    todo.append(after)
        except InvariantBroken as breach:
            return SearchResult(parents.keys(), moved, tuple(ends), str(breach), _path(parents, state))
        if moved == at:
            ends.append(state)
        if most is not None and len(parents) > most:
            raise MemoryError(f"more than {most} states: the world has grown")
    return SearchResult(parents.keys(), moved, tuple(ends))


def _path(parents: dict[S, tuple[S, str] | None], state: S) -> tuple[str, ...]:
    names: list[str] = []
    came = parents[state]
    while came is not None:
        state, name = came
        names.append(name)
        came = parents[state]
    return tuple(reversed(names))
