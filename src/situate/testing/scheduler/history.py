"""Steps of a history of the scheduler, as values drawn from a seed."""

from __future__ import annotations

from random import Random
from typing import Literal, TypeAlias

from situate.testing.histories.process_faults import COMMON_STORMS
from situate.testing.histories.steps import (
    Calm,
    CordonNode,
    CutWatches,
    KillLeader,
    KillLeaderAt,
    PauseLeaderAt,
    RestoreNodes,
    ServerDown,
    Step,
    StopLeader,
    StoredHistory,
    Storm,
)
from situate.testing.virtual_time.network import NetworkFaults

NODES = 10
NODE_CPU_MILLI = 4000
NODE_PODS = 8
PODS = 60
PRIORITIES = (0, 10, 20)
PROCESSES = 2

Message: TypeAlias = Literal["binding", "status", "delete"]


class CreatePods(Step, frozen=True, tag=True):
    """Create `count` equal Pods."""

    count: int
    cpu_milli: int
    priority: int


class DeletePod(Step, frozen=True, tag=True):
    """Delete the Pod with this number, counted from the oldest."""

    number: int


class LabelPods(Step, frozen=True, tag=True):
    """Let a user write to every Pending Pod, which changes its resourceVersion."""


class BindElsewhere(Step, frozen=True, tag=True):
    """Let another scheduler bind one of our Pods to a node that we do not use."""

    number: int


class RemoveNode(Step, frozen=True, tag=True):
    """Delete the node, even if a binding to it is about to be written."""

    node: int


AnyStep: TypeAlias = (
    CreatePods
    | DeletePod
    | LabelPods
    | BindElsewhere
    | KillLeader
    | KillLeaderAt[Message]
    | PauseLeaderAt[Message]
    | StopLeader
    | RemoveNode
    | RestoreNodes
    | CordonNode
    | Storm
    | Calm
    | CutWatches
    | ServerDown
)


class SchedulerHistory(StoredHistory, frozen=True):
    """A history that can be replayed."""

    steps: tuple[AnyStep, ...]


_MESSAGES: tuple[Message, ...] = ("binding", "binding", "status", "delete")
STORMS = {
    **COMMON_STORMS,
    "late events": NetworkFaults(event_delay_s=20.0),
    "blind": NetworkFaults(lose_answer=0.3, event_delay_s=20.0),
}


def generate(seed: int, steps: int = 60) -> SchedulerHistory:
    """Generate the history of a seed, with at least 20 Pods. About half of the further steps are faults."""
    rng = Random(f"scheduler {seed}")
    load = [CreatePods(rng.uniform(0, 2), 12, 2000, 0), CreatePods(rng.uniform(0, 2), 12, 1000, 0)]
    drawn = (_draw_fault(rng) if rng.random() < 0.5 else _draw_load(rng) for _ in range(steps))
    return SchedulerHistory(seed, (*load, *drawn))


def _draw_wait(rng: Random) -> float:
    return rng.choice((0.0, 0.001, 0.005, 0.05, 1.0, rng.uniform(0, 5), rng.uniform(0, 20)))


def _draw_load(rng: Random) -> AnyStep:
    wait = _draw_wait(rng)
    match rng.randrange(6):
        case 0 | 1 | 2:
            return CreatePods(wait, rng.randint(1, 8), rng.choice((0, 500, 1500, 3000)), rng.choice((0, 0, 10, 20)))
        case 3:
            return LabelPods(wait)
        case _:
            return DeletePod(wait, rng.randrange(PODS))


def _draw_fault(rng: Random) -> AnyStep:
    wait = _draw_wait(rng)
    message = rng.choice(_MESSAGES)
    answered = rng.random() < 0.5
    node = rng.randrange(NODES)
    match rng.randrange(13):
        case 0:
            return KillLeader(wait)
        case 1 | 2:
            return KillLeaderAt(wait, message, answered)
        case 3 | 4:
            return PauseLeaderAt(wait, message, answered, rng.choice((2.0, 12.0, 40.0)))
        case 5:
            return StopLeader(wait)
        case 6:
            return RemoveNode(wait, node)
        case 7:
            return RestoreNodes(wait)
        case 8:
            return CordonNode(wait, node)
        case 9 | 10:
            return Storm(max(wait, 1.0), rng.choice([*STORMS]))
        case 11:
            return rng.choice((CutWatches(wait, answered), BindElsewhere(wait, rng.randrange(PODS))))
        case _:
            return rng.choice((Calm(wait), ServerDown(wait, rng.uniform(0.5, 45.0))))
