"""Beginnings of histories of sharding: a fault, and a step that makes the fault matter, without other faults.

Random steps seldom meet in time: a process is to die at a call that it never makes. Each seed takes the next scene, so
a hundred seeds contain each scene two or three times. The settings differ each time, because the number of scenes is
prime.
"""

from __future__ import annotations

from random import Random
from typing import Final

from situate.testing.sharding import steps
from situate.testing.sharding.steps import AnyStep

EXECUTOR_CALLS: Final[tuple[steps.ExecutorCall, ...]] = ("renewal", "status", "release", "read object")
SUPERVISOR_CALLS: Final[tuple[steps.SupervisorCall, ...]] = (
    *("assign", "requestdrain", "revoke", "archive", "read archive", "finalizer", "delete", "claim", "read object"),
)
TROUBLES: Final[tuple[steps.Trouble, ...]] = (
    *("error", "stored but timed out", "read missing", "read corrupt", "read back another digest"),
)
_OTHERS: Final = 8
"""Number of scenes without a killed process and without a fault of the archive."""
SCENES: Final = 2 * len(SUPERVISOR_CALLS) + 2 * len(EXECUTOR_CALLS) + len(TROUBLES) + 2 + _OTHERS
CROWD_EVERY: Final = 100
"""One in this many seeds begins with a hundred extra executors, which costs as much as ten others."""
_CROWD: Final = 50


def scene(seed: int, rng: Random) -> tuple[AnyStep, ...]:
    """Return the first steps of the history of a seed."""
    if seed % CROWD_EVERY == _CROWD:
        return (steps.JoinMany(2.0, 100),)
    number, place = rng.randrange(100), seed % SCENES
    if place < 2 * len(SUPERVISOR_CALLS):
        call = SUPERVISOR_CALLS[place // 2]
        return _leader_death_steps(steps.KillSupervisorAt(0.0, call, before=place % 2 == 0), number)
    place -= 2 * len(SUPERVISOR_CALLS)
    if place < 2 * len(EXECUTOR_CALLS):
        death = steps.KillExecutorAt(0.0, number, EXECUTOR_CALLS[place // 2], before=place % 2 == 0)
        return (death, _step_before_death(death, number))
    place -= 2 * len(EXECUTOR_CALLS)
    deleted = (steps.DeleteObject(0.0, number), steps.DeleteObject(2.0, number + 7))
    if place < len(TROUBLES):
        return (steps.ArchiveTrouble(0.0, TROUBLES[place]), *deleted)
    match place - len(TROUBLES):
        case 0:
            return (steps.ArchiveDown(0.0, 30.0), *deleted)
        case 1:
            return (steps.ArchiveRefuses(0.0), *deleted)
        case 2 | 3 as to:
            return (steps.EditAssignment(1.0, number, -1), steps.EditAssignment(3.0, number + 3, to))
        case 4:
            return (steps.RemoveFinalizer(0.5, number), steps.Recreate(3.0, number + 3))
        case 5:
            return (steps.Storm(0.0, "conflict"), steps.Create(3.0, 5), steps.Calm(0.0))
        case 6:
            return (steps.RollingRestart(12.0),)
        case 7:
            silent = steps.KillExecutor(20.0, number + 3, terminated=False)
            return (steps.StubbornExecutor(0.0, number), steps.Cordon(5.0, number, on=True), silent)
        case 8:
            return (steps.Cordon(0.0, number, on=True), steps.Flap(2.5, number + 1, 10.0), steps.Create(3.0, 12))
        case _:
            return (steps.EndExecutor(1.0, number), steps.KillExecutor(2.0, number + 3, terminated=True))


def _leader_death_steps(death: steps.KillSupervisorAt, number: int) -> tuple[AnyStep, ...]:
    """Return steps that give the leader work of the kind at which it dies."""
    match death.call:
        case "assign":
            return (death, steps.Create(3.0, 3))
        case "requestdrain":
            return (death, steps.Cordon(1.0, number, on=True))
        case "revoke":
            return (steps.StubbornExecutor(0.0, number), death, steps.Cordon(9.5, number, on=True))
        case "delete":
            done = tuple(steps.Complete(0.0, number + other) for other in range(5))
            return (*done, death, steps.Pass(10.0))
        case "claim":
            return (death, steps.Pass(3.0))
        case "archive" | "read archive" | "finalizer" | "read object":
            return (death, steps.DeleteObject(0.0, number), steps.DeleteObject(2.0, number + 7))


def _step_before_death(death: steps.KillExecutorAt, number: int) -> AnyStep:
    """Return a step that gives the executor work of the kind at which it dies."""
    match death.call:
        case "renewal":
            return steps.Pass(5.0)
        case "status":
            return steps.Pass(6.0)
        case "release":
            return steps.EndExecutor(1.0, number)
        case "read object":
            return steps.Create(2.0, 12)
