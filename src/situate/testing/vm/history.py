"""A history of the shipped vm processes: settings and steps, drawn from a seed or read from a file.

A thousand histories must be cheap, so each is short: few VMs on full nodes, requests that make neighbours migrate, and
as many faults. Some faults must be set up before the event that they hit. So each history has one theme, taken in turn,
and begins with it.

Of each hundred seeds, the first ones have each theme once. Themes that need a migration come twice. These seeds use a
cluster in which VMs must migrate, so every required name occurs there. The other seeds use clusters of any kind.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

import msgspec

from situate.testing.histories.process_faults import COMMON_STORMS
from situate.testing.histories.steps import (
    Calm,
    CutWatches,
    KillLeader,
    KillLeaderAt,
    Pass,
    PauseLeaderAt,
    StopLeader,
    StoredHistory,
    Storm,
)
from situate.testing.virtual_time.network import NO_FAULTS, NetworkFaults
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
STORMS: Final = {
    **COMMON_STORMS,
    "busy": NO_FAULTS,
    "invalid": NO_FAULTS,
    "late events": NetworkFaults(event_delay_s=0.5, event_jitter_s=4.5, repeat_event=0.2),
    "late writes": NetworkFaults(late_write_s=3.0, event_delay_s=0.5),
}
"""In a storm of busy or invalid answers, the server refuses writes and the network is well."""
_REQUEST_MISTAKES: Final[tuple[Any, ...]] = (
    "repeat",
    "reorder",
    "huge last permit",
    "zero unit",
    "other pod",
    "no JSON",
)
_PAUSES: Final = (2.0, 12.0, 40.0)
_TARGET_FAULTS: Final[tuple[Any, ...]] = ("crash", "delete", "cordon")
_CHANGES: Final[tuple[Any, ...]] = ("immovable", "movable", "overcommit", "no overcommit")
_BEHAVIOURS: Final[tuple[Any, ...]] = ("refuse", "stall", "slow", "fail", "well", "well")

_LEADER_TRAPS: Final[tuple[AnyStep, ...]] = (
    *(
        KillLeaderAt(0.0, message, answered)
        for message in ("migration", "hand-over", "approval", "cancel", "binding")
        for answered in (False, True)
    ),
    *(PauseLeaderAt(0.0, message, True, 40.0) for message in ("hand-over", "migration", "approval")),
    *(steps.Hypervise(0.0, how) for how in ("refuse", "stall", "slow", "fail")),
    *(Storm(0.0, kind) for kind in STORMS),
    steps.EvictMachine(2.0, 0),
)
"""Themes that a history sets up at its beginning."""
_MIGRATION_STEPS: Final = (steps.SpoilTarget, steps.LoseNode, steps.Recreate, steps.Intrude, steps.DropMigration)
_STEPS_AMID_CLAIMED_MIGRATION: Final[tuple[AnyStep, ...]] = (
    steps.Recreate(1.0, 0, "beneficiary"),
    steps.Intrude(1.0, 0, 1),
)
_STEPS_AMID_MIGRATION: Final[tuple[AnyStep, ...]] = (
    *(steps.SpoilTarget(1.0, how) for how in _TARGET_FAULTS),
    *(steps.LoseNode(1.0, which, 0, 15.0) for which in ("source", "target")),
    steps.Recreate(1.0, 0, "moving"),
    *_STEPS_AMID_CLAIMED_MIGRATION,
    *(steps.Relabel(1.0, 0, what) for what in _CHANGES),
    steps.DropMigration(1.0, 0, forced=True),
    *(steps.Misask(0.3, number, how) for number, how in enumerate(_REQUEST_MISTAKES)),
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
"""Themes that follow the first migration."""
THEMES: Final = (*_LEADER_TRAPS, *_STEPS_AMID_MIGRATION)
_THEME_TURNS: Final = (
    *THEMES,
    *(each for each in _LEADER_TRAPS if isinstance(each, KillLeaderAt) and each.message in ("migration", "hand-over")),
    *(each for each in _STEPS_AMID_MIGRATION if isinstance(each, _MIGRATION_STEPS)),
)
"""Themes of the first seeds of each block, in order."""
BLOCK: Final = 100
"""Number of seeds after which every row of the fault table must have occurred."""
_MOVE_S: Final = 20.0
"""Seconds within which the leader has neighbours migrated for a short VM."""
_GREEDY: Final = 20
"""Units that VMs request so that neighbours must migrate: nearly the whole node."""


class MachinePlan(msgspec.Struct, frozen=True, rename="camel"):
    """A VM at the start of a history."""

    cpus: int
    migratable: bool
    lowers: bool
    """Whether its agent lowers its permit when it asks for less (D24)."""
    priority: int
    overcommit: int
    """Overcommit in thousandths."""


class VmHistorySettings(msgspec.Struct, frozen=True, rename="camel"):
    """The cluster of a history."""

    nodes: tuple[int, ...]
    """CPUs of each node, with 4 GiB for each CPU."""
    machines: tuple[MachinePlan, ...]
    pods: tuple[int, ...]
    """CPUs of plain pods."""
    spare: tuple[int, ...]
    """Numbers of nodes on which a pod of an ignored namespace holds spare capacity (C28)."""
    processes: int
    """Number of our processes: two, or one without a standby."""
    brisk: bool
    """Whether cool-downs and time limits of migrations are short. If not, they are the defaults."""


class VmHistory(StoredHistory, frozen=True):
    """A history that can be replayed."""

    settings: VmHistorySettings
    steps: tuple[AnyStep, ...]


def generate(seed: int, length: int = 8) -> VmHistory:
    """Generate the history of a seed: its theme, and `length` further steps."""
    rng = Random(f"vm {seed}")
    number = seed % BLOCK
    narrow = number < len(_THEME_TURNS)
    about = _THEME_TURNS[number] if narrow else rng.choice(THEMES)
    settings = _narrow_cluster(rng) if narrow else _random_cluster(rng)
    drawn: list[AnyStep]
    if narrow:
        drawn = [steps.Wish(0.3, machine, _GREEDY, _GREEDY) for machine in range(2)]
    else:
        drawn = [steps.Wish(0.3, rng.randrange(12), cpu := rng.choice((8, 10, 12, 16)), cpu) for _ in range(4)]
    if about in _LEADER_TRAPS:
        drawn = [about, *drawn, steps.AwaitMove(0.3, _MOVE_S), Pass(10.0 if narrow else rng.choice((4.0, 8.0)))]
    else:
        drawn = [
            *drawn,
            steps.AwaitMove(rng.choice((0.3, 1.5, 3.0)), _MOVE_S, about in _STEPS_AMID_CLAIMED_MIGRATION),
            about,
        ]
    drawn += (_draw_fault(rng) if rng.random() < 0.6 else _draw_load(rng) for _ in range(length))
    return VmHistory(seed, settings, tuple(drawn))


def _narrow_cluster(rng: Random) -> VmHistorySettings:
    """Return a cluster with two fixed VMs, five migratable VMs, and capacity for those elsewhere.

    The fixed VMs will want nearly a whole node.
    """
    machines = [MachinePlan(1, number >= 2, rng.random() < 0.5, 0, 1000) for number in range(7)]
    return VmHistorySettings((6, 6, 6), tuple(machines), (1,), (), rng.choice((1, 2, 2)), brisk=True)


def _random_cluster(rng: Random) -> VmHistorySettings:
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
    return VmHistorySettings(
        nodes,
        machines,
        tuple(rng.choice((1, 1, 2)) for _ in range(rng.randint(1, 2))),
        tuple(rng.randrange(len(nodes)) for _ in range(rng.choice((0, 0, 1, 2)))),
        rng.choice((1, 2, 2)),
        rng.random() < 0.95,
    )


def _draw_wait(rng: Random) -> float:
    return round(rng.choice((0.0, 0.3, 1.0, 2.0, 4.0)) * rng.uniform(0.5, 1.5), 3)


def _draw_load(rng: Random) -> AnyStep:
    wait, machine, node = _draw_wait(rng), rng.randrange(12), rng.randrange(5)
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


def _draw_fault(rng: Random) -> AnyStep:
    wait, machine, node = _draw_wait(rng), rng.randrange(12), rng.randrange(5)
    half = rng.random() < 0.5
    match rng.randrange(39):
        case 0:
            return KillLeader(wait)
        case 1 | 2 | 3 | 4:
            return KillLeaderAt(wait, rng.choice(_MESSAGES), half)
        case 5 | 6:
            return PauseLeaderAt(wait, rng.choice(_MESSAGES), half, rng.choice(_PAUSES))
        case 7:
            return StopLeader(wait)
        case 8 | 9 | 10:
            return Storm(wait, rng.choice([*STORMS]))
        case 11 | 12:
            return Calm(wait)
        case 13 | 14:
            return CutWatches(wait, compact=half)
        case 15:
            return steps.SetClock(wait, rng.choice((-3600.0, -20.0, 0.0, 20.0, 3600.0)))
        case 16 | 17 | 18:
            return steps.Misask(wait, machine, rng.choice(_REQUEST_MISTAKES))
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
            return steps.SpoilTarget(wait, rng.choice(_TARGET_FAULTS))
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
