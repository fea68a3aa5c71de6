"""Applies the actions of a decision: in order, as leader only, and never those of a decision that is out of date.

Each action must be safe to repeat, for its answer may be lost. What an action does to the API is the product's; an
action that fails does not stop the others, because the next decision starts from what is there then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar

import structlog

from situate.kube.errors import KubeError
from situate.runtime.outcomes import Retriable, Terminal

K = TypeVar("K", bound=Hashable)
A = TypeVar("A")


class Effect(Enum):
    """What became of an action; a label of the metrics."""

    DONE = "done"
    FAILED = "failed"
    """The world failed; the outcome carries the error."""
    SUPERSEDED = "superseded"
    """Not attempted, or its answer came too late: a newer decision stands."""
    NOT_LEADING = "not_leading"
    """Not attempted: somebody else may lead."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[A]):
    """What became of one action. Only `DONE` and `FAILED` may be told to the deciding state."""

    generation: int
    action: A
    effect: Effect
    value: Any = None
    """What the performer returned; None unless `DONE`."""
    error: Exception | None = None
    """None unless `FAILED`."""


class Actuator(Generic[K, A]):
    """One for each kind of decision; keys tell independent decisions apart, such as two StatefulSets."""

    def __init__(
        self,
        perform: Callable[[A], Awaitable[Any]],
        *,
        may_write: Callable[[], bool] = lambda: True,
        observe: Callable[[Outcome[A]], None] = lambda _: None,
    ) -> None:
        """`may_write` is asked right before each action: `Leadership.valid_now`. `observe` must not block."""
        self._perform = perform
        self._may_write = may_write
        self._observe = observe
        self._generations: dict[K, int] = {}
        self._log = structlog.get_logger()

    def next_generation(self, key: K) -> int:
        """Numbers a decision at the moment when it is made; every earlier one for this key is out of date from now."""
        generation = self._generations.get(key, 0) + 1
        self._generations[key] = generation
        return generation

    def is_current(self, key: K, generation: int) -> bool:
        """Whether no newer decision has been made."""
        return self._generations.get(key) == generation

    async def apply(self, key: K, generation: int, actions: Sequence[A]) -> list[Outcome[A]]:
        """One outcome for each action, in order. Raises only what is a defect: neither refusals nor lost answers."""
        outcomes: list[Outcome[A]] = []
        for action in actions:
            outcome = await self._one(key, generation, action)
            self._observe(outcome)
            outcomes.append(outcome)
        return outcomes

    async def _one(self, key: K, generation: int, action: A) -> Outcome[A]:
        if not self.is_current(key, generation):
            return Outcome(generation, action, Effect.SUPERSEDED)
        if not self._may_write():
            return Outcome(generation, action, Effect.NOT_LEADING)
        try:
            value = await self._perform(action)
        except (KubeError, Retriable, Terminal, TimeoutError) as problem:
            self._log.warning("an action failed", key=str(key), action=type(action).__name__, error=str(problem))
            effect = Effect.FAILED if self.is_current(key, generation) else Effect.SUPERSEDED
            return Outcome(generation, action, effect, error=problem if effect is Effect.FAILED else None)
        if not self.is_current(key, generation):
            return Outcome(generation, action, Effect.SUPERSEDED)
        return Outcome(generation, action, Effect.DONE, value)


def raise_first_failure(outcomes: Sequence[Outcome[Any]]) -> None:
    """For a reconciliation that wants its key back: raises the error of the first action that failed.

    Actions that were not attempted for lack of leadership make it `Retriable`; superseded ones are nobody's failure.
    """
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    if any(outcome.effect is Effect.NOT_LEADING for outcome in outcomes):
        raise Retriable("another process may lead now: nothing was written", after_s=5.0)


async def bounded(awaitable: Awaitable[Any], remaining_s: float) -> Any:
    """Waits no longer than leadership lasts: a write sent at its very end must not be waited for beyond it.

    Raises `TimeoutError`; the write may land all the same, so it must be conditional on what was read.
    """
    async with asyncio.timeout(remaining_s):
        return await awaitable
