"""What happens in a history of the scheduler: steps as values, drawn from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal, TypeAlias

NODES = 10
NODE_CPU_MILLI = 4000
NODE_PODS = 8
PODS = 60
PRIORITIES = (0, 10, 20)
PROCESSES = 2

Message: TypeAlias = Literal["binding", "status", "delete"]


@dataclass(frozen=True, slots=True)
class Step:
    """Something that is done, after which `wait` virtual seconds pass."""

    wait: float


@dataclass(frozen=True, slots=True)
class CreatePods(Step):
    """So many pods, each of which asks for so much."""

    count: int
    cpu_milli: int
    priority: int


@dataclass(frozen=True, slots=True)
class DeletePod(Step):
    """Of those that exist, the one of this number from the front."""

    number: int


@dataclass(frozen=True, slots=True)
class LabelPods(Step):
    """Somebody writes to every pod that waits, so that its resourceVersion moves on."""


@dataclass(frozen=True, slots=True)
class BindElsewhere(Step):
    """Somebody else binds a pod of ours, to a node that we leave alone."""

    number: int


@dataclass(frozen=True, slots=True)
class KillLeader(Step):
    """SIGKILL; a new process takes its place after a while."""


@dataclass(frozen=True, slots=True)
class KillLeaderAt(Step):
    """SIGKILL at the leader's next write of a kind: when it would leave, or when its answer is on its way."""

    message: Message
    answered: bool


@dataclass(frozen=True, slots=True)
class PauseLeaderAt(Step):
    """SIGSTOP at the leader's next write of a kind, for so many seconds."""

    message: Message
    answered: bool
    seconds: float


@dataclass(frozen=True, slots=True)
class StopLeader(Step):
    """SIGTERM: an orderly end, which hands the Lease over."""


@dataclass(frozen=True, slots=True)
class RemoveNode(Step):
    """It vanishes, whatever is about to be bound to it."""

    node: int


@dataclass(frozen=True, slots=True)
class RestoreNodes(Step):
    """All nodes are there, and may be used."""


@dataclass(frozen=True, slots=True)
class CordonNode(Step):
    node: int


@dataclass(frozen=True, slots=True)
class Storm(Step):
    kind: str


@dataclass(frozen=True, slots=True)
class Calm(Step):
    pass


@dataclass(frozen=True, slots=True)
class CutWatches(Step):
    """With `compact`, what was there is answered 410."""

    compact: bool


@dataclass(frozen=True, slots=True)
class ServerDown(Step):
    seconds: float


AnyStep: TypeAlias = (
    CreatePods
    | DeletePod
    | LabelPods
    | BindElsewhere
    | KillLeader
    | KillLeaderAt
    | PauseLeaderAt
    | StopLeader
    | RemoveNode
    | RestoreNodes
    | CordonNode
    | Storm
    | Calm
    | CutWatches
    | ServerDown
)

_MESSAGES: tuple[Message, ...] = ("binding", "binding", "status", "delete")
STORMS = ("request lost", "answer lost", "refused", "conflict", "late events", "blind")


def generate(seed: int, steps: int = 60) -> tuple[AnyStep, ...]:
    """At least 20 pods in all, and a fault in every third step."""
    rng = Random(f"scheduler {seed}")
    load = [CreatePods(rng.uniform(0, 2), 12, 2000, 0), CreatePods(rng.uniform(0, 2), 12, 1000, 0)]
    return (*load, *(_fault(rng) if rng.random() < 0.5 else _load(rng) for _ in range(steps)))


def _wait(rng: Random) -> float:
    return rng.choice((0.0, 0.001, 0.005, 0.05, 1.0, rng.uniform(0, 5), rng.uniform(0, 20)))


def _load(rng: Random) -> AnyStep:
    wait = _wait(rng)
    match rng.randrange(6):
        case 0 | 1 | 2:
            return CreatePods(wait, rng.randint(1, 8), rng.choice((0, 500, 1500, 3000)), rng.choice((0, 0, 10, 20)))
        case 3:
            return LabelPods(wait)
        case _:
            return DeletePod(wait, rng.randrange(PODS))


def _fault(rng: Random) -> AnyStep:
    wait = _wait(rng)
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
            return Storm(max(wait, 1.0), rng.choice(STORMS))
        case 11:
            return rng.choice((CutWatches(wait, answered), BindElsewhere(wait, rng.randrange(PODS))))
        case _:
            return rng.choice((Calm(wait), ServerDown(wait, rng.uniform(0.5, 45.0))))
