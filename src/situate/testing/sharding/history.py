"""A history of sharding: the kind of fencing, and the steps, drawn from a seed or read from a file."""

from __future__ import annotations

from random import Random
from typing import Final, Literal

import msgspec

from situate.testing.sharding import steps
from situate.testing.sharding.scenes import EXECUTOR_CALLS, SUPERVISOR_CALLS, TROUBLES, scene
from situate.testing.sharding.steps import AnyStep

EXECUTORS: Final = 10
OBJECTS: Final = 20
LEAST_FAULTS: Final = 3
LENGTH: Final = 10
"""Steps of a history."""
LEASE_S: Final = 15.0
FASTEST: Final = 1.05
"""Largest ratio between the speeds of two clocks of a history."""
LEAST_LEASE_S: Final = LEASE_S / FASTEST
"""True seconds without a renewal after which a process may take a Lease for expired."""
_SMALL: Final = 3
"""Objects per executor. With a third of the executors gone, there is no spare capacity."""
Fencing = Literal["clients", "policy", "both", "none"]
FENCINGS: Final[tuple[Fencing, ...]] = ("clients", "policy", "both")
_STORMS: Final[tuple[steps.Network, ...]] = (
    *("request lost", "answer lost", "refused", "conflict"),
    *("late writes", "late writes", "late events", "event lost", "events swapped"),
)
_LIKELY: Final[tuple[steps.SupervisorCall, ...]] = (*SUPERVISOR_CALLS, "assign", "revoke", "revoke")


class ShardingHistorySettings(msgspec.Struct, frozen=True, rename="camel"):
    """Settings of the processes and their environment that histories vary."""

    fencing: Fencing = "both"
    """Which side rejects stale writes.

    `clients`: the server has no policy. `policy`: the server has one, and clients neither check nor send preconditions.
    `none`: neither side rejects them, which tests whether a check detects it.
    """
    drifting: bool = False
    """Whether the speeds of monotonic clocks differ by up to 5 %."""
    drain_unhealthy: bool = False
    fail_orphans: bool = False
    capacity: int | None = None
    """Maximum number of objects per executor. None: any number."""


class ShardingHistory(msgspec.Struct, frozen=True, rename="camel"):
    """A history that can be replayed."""

    seed: int
    settings: ShardingHistorySettings
    steps: tuple[AnyStep, ...]

    def to_json(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=1)

    @classmethod
    def from_json(cls, data: bytes) -> ShardingHistory:
        """Read a history. Raises `msgspec.ValidationError` for input that `to_json` did not write."""
        return msgspec.json.decode(data, type=cls)


def generate(seed: int, length: int = LENGTH) -> ShardingHistory:
    """Generate the history of a seed, with `length` steps.

    It begins with the seed's scene. Two thirds of the further steps are faults.
    """
    rng = Random(f"sharding {seed}")
    settings = ShardingHistorySettings(
        fencing=FENCINGS[seed % 3],
        drifting=seed % 2 == 1,
        drain_unhealthy=seed % 5 == 4,
        fail_orphans=seed % 7 == 6,
        capacity=_SMALL if seed % 4 == 3 else None,
    )
    begin = scene(seed, rng)
    drawn = tuple(
        _draw_fault(rng) if number < LEAST_FAULTS or rng.random() < 2 / 3 else _draw_load(rng)
        for number in range(max(LEAST_FAULTS, length - len(begin)))
    )
    return ShardingHistory(seed, settings, (*begin, *drawn))


def _draw_wait(rng: Random) -> float:
    return round(rng.choice((0.0, 0.1, 0.5, 2.0, 5.0)) * rng.uniform(0.5, 1.5), 3)


def _draw_load(rng: Random) -> AnyStep:
    wait, obj = _draw_wait(rng), rng.randrange(100)
    match rng.randrange(10):
        case 0 | 1:
            return steps.Create(wait, rng.choice((1, 1, 3)))
        case 2 | 3:
            return steps.Complete(wait, obj)
        case 4:
            return steps.DeleteObject(wait, obj)
        case 5:
            return steps.EditObject(wait, obj)
        case 6:
            return rng.choice((steps.Cordon(wait, obj, on=True), steps.Cordon(wait, obj, on=False)))
        case 7:
            return steps.EndExecutor(wait, obj)
        case _:
            return steps.Pass(round(rng.uniform(2.0, 10.0), 3))


def _draw_fault(rng: Random) -> AnyStep:
    wait, number, half = _draw_wait(rng), rng.randrange(100), rng.random() < 0.5
    long_s = round(rng.choice((2.0, 8.0, 20.0, 40.0)) * rng.uniform(0.8, 1.2), 3)
    match rng.randrange(30):
        case 0 | 1:
            return steps.PauseExecutor(wait, number, long_s)
        case 2:
            return steps.BlockExecutor(wait, number, rng.choice((3.0, 20.0)))
        case 3:
            return steps.StubbornExecutor(wait, number)
        case 4:
            return steps.KillExecutor(wait, number, terminated=half)
        case 5 | 6:
            return steps.KillExecutorAt(wait, number, rng.choice(EXECUTOR_CALLS), before=half)
        case 7:
            return steps.PauseSupervisor(wait, long_s)
        case 8:
            return steps.KillSupervisor(wait)
        case 9 | 10 | 11:
            return steps.KillSupervisorAt(wait, rng.choice(_LIKELY), before=half)
        case 12 | 13 | 14:
            return steps.Storm(wait, rng.choice(_STORMS))
        case 15:
            return steps.Calm(wait)
        case 16:
            return steps.CutWatches(wait)
        case 17 | 18:
            who: Literal["executor", "leader"] = "executor" if rng.random() < 0.7 else "leader"
            direction: Literal["to", "from", "both"] = rng.choice(("to", "from", "both"))
            return steps.Partition(wait, who, number, direction, long_s)
        case 19:
            return steps.SetClock(wait, number, rng.choice((-300.0, 300.0, -5.0)))
        case 20:
            return steps.LoseNode(wait, number, declared=half)
        case 21:
            return steps.ForceDelete(wait, number, again=half)
        case 22:
            return steps.LoseLabel(wait, number)
        case 23:
            return steps.Flap(wait, number, rng.choice((0.5, 10.0)))
        case 24:
            return steps.ArchiveTrouble(wait, rng.choice(TROUBLES))
        case 25:
            return rng.choice((steps.ArchiveDown(wait, 30.0), steps.ArchiveRefuses(wait)))
        case 26:
            return steps.Recreate(wait, number)
        case 27:
            return steps.ForeignFinalizer(wait, number, on=half)
        case 28:
            return rng.choice((steps.EditAssignment(wait, number, -1), steps.EditAssignment(wait, number, number)))
        case _:
            rare = rng.random()
            if rare < 0.06:
                return steps.JoinMany(wait, 100)
            return steps.RollingRestart(wait) if rare < 0.4 else steps.RemoveFinalizer(wait, number)
