"""Kinds of steps of an interleaving of the ledger's events, and their weights. `interleaving` performs them."""

from __future__ import annotations

from enum import Enum
from random import Random
from typing import Final

import msgspec


class StepKind(Enum):
    TOLD = "told"
    WRITE = "write"
    HEAR = "hear"
    ASK = "ask"
    ANSWER = "answer"
    USE = "use"
    TIME = "time"
    MIGRATE = "migrate"
    BIND_TARGET = "bind target"
    PLACE = "place"
    RESTART = "restart"
    ASK_AGAIN = "ask again"
    BOUND_BY_OTHERS = "bound by others"
    DELETE_A_POD = "delete a pod"
    DELETE_A_MIGRATION = "delete a migration"
    MIGRATE_BY_HAND = "migrate by hand"
    FAIL_A_MIGRATION = "fail a migration"
    RESIZE_A_NODE = "resize a node"
    LOSE_A_NODE = "lose a node"
    CORDON_A_NODE = "cordon a node"
    REFUSE_A_TARGET = "refuse a target"
    BIND_A_TARGET_AT_HOME = "bind a target at home"
    EVICT_A_MACHINE = "evict a machine"
    WRITE_LATE = "write late"


class InterleavingStep(msgspec.Struct, frozen=True):
    """A step of an interleaving. A step that is impossible now does nothing."""

    what: StepKind
    luck: int
    """Seed of the step's choices: the objects and the outcome."""


_OFTEN: Final[dict[StepKind, int]] = {
    StepKind.TOLD: 3,
    StepKind.WRITE: 2,
    StepKind.HEAR: 2,
    StepKind.ASK: 2,
    StepKind.ANSWER: 2,
    StepKind.USE: 1,
    StepKind.TIME: 2,
    StepKind.MIGRATE: 3,
    StepKind.BIND_TARGET: 2,
    StepKind.PLACE: 1,
}
_USUAL: Final = tuple(what for what, weight in _OFTEN.items() for _ in range(weight))
_SELDOM: Final = tuple(what for what in StepKind if what not in _OFTEN)
"""Rare steps. All of them together are as frequent as one of weight 1."""


def draw_step(rng: Random) -> InterleavingStep:
    number = rng.randrange(len(_USUAL) + 1)
    what = _USUAL[number] if number < len(_USUAL) else rng.choice(_SELDOM)
    return InterleavingStep(what, rng.getrandbits(32))
