"""A history of the shipped vm processes: where it plays and what happens, drawn from a seed or read from a file.

A thousand of them have to be cheap, so each is short: few machines on full nodes, wishes that make neighbours move, and
as many faults. Some faults have to lie in wait for what they hit, so each history begins with the one that it is about,
by turns. Of each hundred seeds the first ones are about each fault once, and about those twice that need a move to hit,
in a town in which machines have to move: whatever has to occur, occurs there. The others play in towns of any kind.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

import msgspec

from situate.testing.histories.steps import Calm, CutWatches, KillLeader, Pass, StopLeader
from situate.testing.vm import steps
from situate.testing.vm.steps import AnyStep

_MESSAGES: Final[tuple[Any, ...]] = (
    "migration",
    "migration",
    "cancel",
    "hand-over",
    "hand-over",
    "approval",
    "approval",
    "binding",
    "any",
)
_STORMS: Final[tuple[Any, ...]] = (
    "request lost",
    "answer lost",
    "refused",
    "conflict",
    "busy",
    "invalid",
    "late events",
    "late writes",
)
_MISASK: Final[tuple[Any, ...]] = ("repeat", "reorder", "huge last permit", "zero unit", "other pod", "no JSON")
_PAUSES: Final = (2.0, 12.0, 40.0)
_SPOILT: Final[tuple[Any, ...]] = ("crash", "delete", "cordon")
_CHANGES: Final[tuple[Any, ...]] = ("immovable", "movable", "overcommit", "no overcommit")
_BEHAVIOURS: Final[tuple[Any, ...]] = ("refuse", "stall", "slow", "fail", "well", "well")

_LIE_IN_WAIT: Final[tuple[AnyStep, ...]] = (
    *(
        steps.KillLeaderAt(0.0, message, answered)
        for message in ("migration", "hand-over", "approval", "cancel", "binding")
        for answered in (False, True)
    ),
    *(steps.PauseLeaderAt(0.0, message, True, 40.0) for message in ("hand-over", "migration", "approval")),
    *(steps.Hypervise(0.0, how) for how in ("refuse", "stall", "slow", "fail")),
    *(steps.Storm(0.0, kind) for kind in _STORMS),
    steps.EvictMachine(2.0, 0),
)
"""What a history may be about from its beginning."""
_NEED_A_MOVE: Final = (steps.SpoilTarget, steps.LoseNode, steps.Recreate, steps.Intrude, steps.DropMigration)
_AMID_A_CLAIMED_MOVE: Final[tuple[AnyStep, ...]] = (
    steps.Recreate(1.0, 0, "beneficiary"),
    steps.Intrude(1.0, 0, 1),
)
_AMID_A_MOVE: Final[tuple[AnyStep, ...]] = (
    *(steps.SpoilTarget(1.0, how) for how in _SPOILT),
    *(steps.LoseNode(1.0, which, 0, 15.0) for which in ("source", "target")),
    steps.Recreate(1.0, 0, "moving"),
    *_AMID_A_CLAIMED_MOVE,
    *(steps.Relabel(1.0, 0, what) for what in _CHANGES),
    steps.DropMigration(1.0, 0, forced=True),
    *(steps.Misask(0.3, number, how) for number, how in enumerate(_MISASK)),
    steps.DropMigration(1.0, 0, forced=False),
    steps.MoveByHand(1.0, 0),
    KillLeader(0.3),
    StopLeader(0.3),
    CutWatches(0.3, compact=True),
    steps.Burst(1.0, 500),
    steps.SetClock(1.0, 3600.0),
    steps.ShrinkNode(1.0, 0, 2),
    steps.Defer(1.0, 0, admitted=False),
    steps.Defer(1.0, 0, admitted=True),
    Pass(8.0),
)
"""What it may be about once somebody moves."""
ABOUT: Final = (*_LIE_IN_WAIT, *_AMID_A_MOVE)
_TURNS: Final = (
    *ABOUT,
    *(
        each
        for each in _LIE_IN_WAIT
        if isinstance(each, steps.KillLeaderAt) and each.message in ("migration", "hand-over")
    ),
    *(each for each in _AMID_A_MOVE if isinstance(each, _NEED_A_MOVE)),
)
"""Of each block, one after the other."""
BLOCK: Final = 100
"""So many seeds show every row of the fault table."""
_MOVE_S: Final = 20.0
"""Somebody who is short for long enough has others moved in less time than this."""
_GREEDY: Final = 20
"""Units that those want for whom neighbours have to move: nearly the whole node."""


class MachinePlan(msgspec.Struct, frozen=True, rename="camel"):
    """A machine that a history begins with."""

    cpus: int
    migratable: bool
    lowers: bool
    """Its agent lowers its permit when it asks for less (D24)."""
    priority: int
    overcommit: int
    """In thousandths."""


class Settings(msgspec.Struct, frozen=True, rename="camel"):
    """Where it plays."""

    nodes: tuple[int, ...]
    """CPUs of each, with 4 GiB for each CPU."""
    machines: tuple[MachinePlan, ...]
    pods: tuple[int, ...]
    """CPUs of plain pods."""
    spare: tuple[int, ...]
    """Numbers of nodes on which a pod of an ignored namespace keeps room for what may come (C28)."""
    processes: int
    """Of ours: two, or a lone one that nobody stands in for."""
    brisk: bool
    """Whether the times after which a machine may move again, and a move ends, are short ones; else the defaults."""


class History(msgspec.Struct, frozen=True, rename="camel"):
    """A replayable run."""

    seed: int
    settings: Settings
    steps: tuple[AnyStep, ...]

    def to_json(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=1)

    @classmethod
    def from_json(cls, data: bytes) -> History:
        """Raises `msgspec.ValidationError` for anything that `to_json` did not write."""
        return msgspec.json.decode(data, type=cls)


def generate(seed: int, length: int = 8) -> History:
    """The history of a seed: what it is about, and so many steps after that."""
    rng = Random(f"vm {seed}")
    number = seed % BLOCK
    narrow = number < len(_TURNS)
    about = _TURNS[number] if narrow else rng.choice(ABOUT)
    settings = _narrow(rng) if narrow else _any(rng)
    drawn: list[AnyStep]
    if narrow:
        drawn = [steps.Wish(0.3, machine, _GREEDY, _GREEDY) for machine in range(2)]
    else:
        drawn = [steps.Wish(0.3, rng.randrange(12), cpu := rng.choice((8, 10, 12, 16)), cpu) for _ in range(4)]
    if about in _LIE_IN_WAIT:
        drawn = [about, *drawn, steps.AwaitMove(0.3, _MOVE_S), Pass(10.0 if narrow else rng.choice((4.0, 8.0)))]
    else:
        drawn = [*drawn, steps.AwaitMove(rng.choice((0.3, 1.5, 3.0)), _MOVE_S, about in _AMID_A_CLAIMED_MOVE), about]
    drawn += (_fault(rng) if rng.random() < 0.6 else _load(rng) for _ in range(length))
    return History(seed, settings, tuple(drawn))


def _narrow(rng: Random) -> Settings:
    """Two that stay where they are, and will want nearly the whole of it; five that may go, and room for those."""
    machines = [MachinePlan(1, number >= 2, rng.random() < 0.5, 0, 1000) for number in range(7)]
    return Settings((6, 6, 6), tuple(machines), (1,), (), rng.choice((1, 2, 2)), brisk=True)


def _any(rng: Random) -> Settings:
    nodes = tuple(rng.choice((4, 5, 6)) for _ in range(rng.choice((3, 3, 3, 4, 5))))
    machines = tuple(
        MachinePlan(
            rng.choice((1, 1, 2)),
            rng.random() < 0.8,
            rng.random() < 0.5,
            rng.choice((0, 0, 0, 1000)),
            rng.choice((1000, 1000, 1000, 1500)),
        )
        for _ in range(rng.randint(4, 7))
    )
    return Settings(
        nodes,
        machines,
        tuple(rng.choice((1, 1, 2)) for _ in range(rng.randint(1, 2))),
        tuple(rng.randrange(len(nodes)) for _ in range(rng.choice((0, 0, 1, 2)))),
        rng.choice((1, 2, 2)),
        rng.random() < 0.95,
    )


def _wait(rng: Random) -> float:
    return round(rng.choice((0.0, 0.3, 1.0, 2.0, 4.0)) * rng.uniform(0.5, 1.5), 3)


def _load(rng: Random) -> AnyStep:
    wait, machine, node = _wait(rng), rng.randrange(12), rng.randrange(5)
    match rng.randrange(15):
        case 0 | 1 | 2 | 3 | 4 | 14:
            cpu = rng.choice((4, 6, 8, 10, 12, 16))
            return steps.Wish(wait, machine, cpu, cpu if rng.random() < 0.7 else rng.choice((2, 4, 8, 16)))
        case 5:
            return steps.Wish(wait, machine, 2, 2)
        case 6:
            return steps.Create(wait, rng.choice((1, 2)), rng.random() < 0.75)
        case 7:
            return steps.AddPod(wait, rng.choice((1, 1, 2)))
        case 8 | 9:
            return steps.Leave(wait, rng.randrange(8))
        case 10:
            return rng.choice((steps.Drain(wait, node, on=True), steps.Drain(wait, node, on=False)))
        case 11:
            return steps.Cordon(wait, node, on=rng.random() < 0.4)
        case _:
            return Pass(round(rng.uniform(5.0, 10.0), 3))


def _fault(rng: Random) -> AnyStep:
    wait, machine, node = _wait(rng), rng.randrange(12), rng.randrange(5)
    half = rng.random() < 0.5
    match rng.randrange(39):
        case 0:
            return KillLeader(wait)
        case 1 | 2 | 3 | 4:
            return steps.KillLeaderAt(wait, rng.choice(_MESSAGES), half)
        case 5 | 6:
            return steps.PauseLeaderAt(wait, rng.choice(_MESSAGES), half, rng.choice(_PAUSES))
        case 7:
            return StopLeader(wait)
        case 8 | 9 | 10:
            return steps.Storm(wait, rng.choice(_STORMS))
        case 11 | 12:
            return Calm(wait)
        case 13 | 14:
            return CutWatches(wait, compact=half)
        case 15:
            return steps.SetClock(wait, rng.choice((-3600.0, -20.0, 0.0, 20.0, 3600.0)))
        case 16 | 17 | 18:
            return steps.Misask(wait, machine, rng.choice(_MISASK))
        case 19:
            return steps.Burst(wait, 20)
        case 38:
            return steps.EvictMachine(wait, machine)
        case 20 | 21:
            return steps.Recreate(wait, machine, rng.choice(("moving", "beneficiary", "any")))
        case 22 | 23:
            return steps.Relabel(wait, machine, rng.choice(_CHANGES))
        case 24 | 25 | 26:
            return steps.Hypervise(wait, rng.choice(_BEHAVIOURS))
        case 27 | 28:
            return steps.SpoilTarget(wait, rng.choice(_SPOILT))
        case 29:
            return steps.LoseNode(wait, rng.choice(("source", "target", "any")), node, rng.choice((1.0, 15.0)))
        case 30:
            return steps.ShrinkNode(wait, node, rng.choice((0, 0, 1, 2, 3)))
        case 31 | 32 | 36:
            return steps.Intrude(wait, node, rng.choice((1, 1, 2)))
        case 33 | 37:
            return steps.Defer(wait, rng.randrange(8), admitted=half)
        case 34:
            return steps.MoveByHand(wait, machine)
        case _:
            return steps.DropMigration(wait, machine, forced=half)
