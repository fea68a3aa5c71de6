"""Steps of a history of vpod: values drawn from a seed, written to a file and read from it."""

from __future__ import annotations

from random import Random
from typing import Any, Literal, TypeAlias

import msgspec

from situate.testing.histories.process_faults import COMMON_STORMS
from situate.testing.histories.steps import (
    Calm,
    CordonNode,
    CutWatches,
    KillLeader,
    KillLeaderAt,
    KillStandby,
    Pass,
    PauseLeader,
    RestoreNodes,
    ServerDown,
    Step,
    StopLeader,
    StoredHistory,
    Storm,
)
from situate.testing.virtual_time.network import NetworkFaults

SOURCES = 20
NODES = 10
PROCESSES = 2
CAPACITY = 6
HOUR_EVERY = 20
"""One seed in this many fills the cluster for an hour. An idle hour costs as much as all other steps of a history."""
REST_STEPS = 23
"""Number of steps of the rest in the middle of a history."""


Message: TypeAlias = Literal["status", "scale"]
"""Kinds of writes at which the leader dies."""


class SetSource(Step, frozen=True, tag=True):
    """Set the wanted vreplicas of a source. Create the source if it does not exist."""

    source: int
    wanted: int


class DeleteSource(Step, frozen=True, tag=True):
    source: int


class LoseScaleAnswer(Step, frozen=True, tag=True):
    """Lose the answer to the leader's next write of the scale, if it sends one within half a minute."""


class DeletePod(Step, frozen=True, tag=True):
    ordinal: int


class HoldPods(Step, frozen=True, tag=True):
    """Keep new pods Pending until released: the cluster is full."""

    held: bool


class LoseNode(Step, frozen=True, tag=True):
    """Silence the kubelet of a node."""

    node: int


class LoseZone(Step, frozen=True, tag=True):
    """Silence every kubelet of a zone."""

    zone: int


class AnnotatePod(Step, frozen=True, tag=True):
    """Set the annotation that makes a pod unschedulable, or remove it from the pod that has it."""

    ordinal: int
    on: bool


class ResetReplicas(Step, frozen=True, tag=True):
    """Let another writer change spec.replicas."""

    replicas: int


class SpoilStatus(Step, frozen=True, tag=True):
    """Let another writer put an invalid value into a status."""

    source: int
    kind: str


class ChangeCapacity(Step, frozen=True, tag=True):
    capacity: int


class FailWrites(Step, frozen=True, tag=True):
    """Let the server refuse every write of one source's status until the next calm."""

    source: int


class MeetDrain(Step, frozen=True, tag=True):
    """Remove half of the demand, and disturb the drain that follows, if one starts within a minute.

    Without drains, disturb the scale-down: no status can be written until it is over.
    """

    by: Literal["demand", "crash", "stuck"]
    """New demand, the death of the leader, or a pod that never empties because its vpod's status cannot be written."""


class Rest(Step, frozen=True, tag=True):
    """End every fault. Once the consequences are over, time the promises until the next fault."""


AnyStep = (
    SetSource
    | DeleteSource
    | KillLeader
    | KillLeaderAt[Message]
    | LoseScaleAnswer
    | KillStandby
    | PauseLeader
    | StopLeader
    | DeletePod
    | HoldPods
    | LoseNode
    | LoseZone
    | RestoreNodes
    | CordonNode
    | AnnotatePod
    | ResetReplicas
    | SpoilStatus
    | ChangeCapacity
    | FailWrites
    | MeetDrain
    | Storm
    | Calm
    | CutWatches
    | ServerDown
    | Pass
    | Rest
)

STORMS = {
    **COMMON_STORMS,
    "late events": NetworkFaults(event_delay_s=30.0),
    "lost events": NetworkFaults(lose_event=0.3),
    "repeated": NetworkFaults(repeat_event=0.5),
    "swapped": NetworkFaults(swap_events=0.5),
    "blind": NetworkFaults(lose_answer=0.3, event_delay_s=30.0),
}
INVALID_STATUSES = ("no ordinal", "huge ordinal", "foreign pod", "negative", "duplicates", "not a list", "moved")


class VpodHistorySettings(msgspec.Struct, frozen=True, rename="camel"):
    """Configuration of the controllers: the deciding options that histories vary."""

    policy: str = "spread"
    profile: str = "safe"
    min_replicas: int = 0
    topology: str = "none"
    surge: int = 0
    shrink: str = "auto"
    workers: bool = False
    rebalance: bool = False
    drain: bool = True
    quota: float | None = None
    fairness: str = "none"
    weights: bool = False
    """Whether every third source has weight 2."""
    priorities: bool = False
    """Whether every fourth source has a higher priority under shortage."""
    topology_required: bool = False
    require_ready: bool = False
    max_replicas: int | None = None
    max_scale_up_step: int | None = None
    rescale: str = "keep"
    pack_order: str = "own"
    predicates: bool = False
    """Whether a ConfigMap gives the predicates and priorities. If not, Knative's defaults apply."""

    def changed_names(self) -> list[str]:
        """Return the names of the settings that differ from the defaults, for counting."""
        found = {
            "quota": self.quota is not None,
            "fairness": self.fairness != "none",
            "weights": self.weights,
            "priorities": self.priorities,
            "surge": self.surge > 0,
            "rebalance": self.rebalance,
            "no drain": not self.drain,
            "topologyRequired": self.topology_required,
            "requireReady": self.require_ready,
            "maxReplicas": self.max_replicas is not None,
            "maxScaleUpStep": self.max_scale_up_step is not None,
            "rescale": self.rescale != "keep",
            "pack.order": self.pack_order != "own",
            "predicates": self.predicates,
        }
        return [name for name, is_so in found.items() if is_so]


class VpodHistory(StoredHistory, frozen=True):
    """A history that can be replayed."""

    settings: VpodHistorySettings
    steps: tuple[AnyStep, ...]


def generate(seed: int, steps: int = 200) -> VpodHistory:
    """Generate the history of a seed. A third of its steps are faults, and there are at least three.

    All but the shortest histories have a rest in the middle, with load but no faults.
    """
    rng = Random(seed)
    settings = _draw_settings(seed, rng)
    drawn: list[Any] = [SetSource(0.1, source, rng.randint(1, 8)) for source in range(SOURCES)]
    while len(drawn) < steps:
        drawn.append(_draw_load(rng) if rng.random() < 0.65 else _draw_fault(rng))
    if steps >= 2 * SOURCES + REST_STEPS:
        rest = Random(f"rest {seed}")
        start = rest.randrange(2 * SOURCES, steps - REST_STEPS + 1)
        drawn[start : start + REST_STEPS] = rest_steps(rest)
    if seed % HOUR_EVERY == HOUR_EVERY - 1:
        start = rng.randrange(SOURCES, steps - 2)
        drawn[start : start + 3] = RestoreNodes(2.0), HoldPods(0.5, held=True), DeletePod(3600.0, 0)
    return VpodHistory(seed, settings, tuple(drawn))


def _draw_settings(seed: int, rng: Random) -> VpodHistorySettings:
    policy = rng.choice(("spread", "spread", "pack", "policy"))
    min_replicas = rng.choice((0, 0, 2, 4))
    topology = rng.choice(("none", "none", "zone", "node"))
    surge = rng.choice((0, 0, 0, 2))
    shrink = rng.choice(("auto", "ordinal", "spread"))
    workers = rng.random() < 0.1
    rebalance = rng.random() < 0.3
    apart = Random(f"settings {seed}")
    return VpodHistorySettings(
        policy=policy,
        min_replicas=min_replicas,
        topology=topology,
        surge=surge,
        shrink=shrink,
        workers=workers,
        rebalance=rebalance and policy != "pack",  # packed vpods are not rebalanced
        drain=seed % 4 != 3,
        quota=0.4 if seed % 7 == 6 else None,
        fairness="maxmin" if seed % 6 == 5 else "none",
        weights=seed % 5 == 4,
        priorities=seed % 5 == 3,
        topology_required=topology != "none" and apart.random() < 0.3,
        require_ready=apart.random() < 0.2,
        max_replicas=apart.choice((None, None, None, 12)),
        max_scale_up_step=apart.choice((None, None, 1, 4)),
        rescale=apart.choice(("keep", "replace")) if policy == "policy" else "keep",
        pack_order=apart.choice(("own", "lowest")) if policy == "pack" else "own",
        predicates=policy == "policy" and apart.random() < 0.5,
    )


def rest_steps(rng: Random) -> list[AnyStep]:
    """Return load for the rest: demand above capacity, then long low demand, then demand again."""
    many = rng.sample(range(SOURCES), 8)
    steps: list[AnyStep] = [Rest(1.0)]
    steps += [SetSource(rng.choice((0.01, 0.3, 2.0)), source, rng.choice((3, 5, 8, 13))) for source in many]
    steps.append(Pass(8.0))
    steps += [SetSource(rng.choice((0.01, 0.3)), source, rng.choice((0, 0, 0, 1))) for source in many]
    steps.append(Pass(30.0))
    steps.append(Pass(20.0))
    steps += [SetSource(0.01, source, rng.choice((1, 5))) for source in many[:2]]
    steps.append(Pass(3.0))
    assert len(steps) == REST_STEPS
    return steps


def _draw_wait(rng: Random) -> float:
    return round(rng.choice((0.01, 0.2, 1.0, 3.0, 8.0)) * rng.uniform(0.5, 1.5), 3)


def _draw_load(rng: Random) -> AnyStep:
    draw = rng.random()
    if draw < 0.6:
        return SetSource(_draw_wait(rng), rng.randrange(SOURCES), rng.choice((0, 1, 2, 3, 5, 8, 13)))
    if draw < 0.7:
        return DeleteSource(_draw_wait(rng), rng.randrange(SOURCES))
    return Pass(rng.uniform(1, 8))


def _draw_fault(rng: Random) -> AnyStep:
    wait = _draw_wait(rng)
    draw = rng.randrange(25)
    match draw:
        case 0:
            return KillLeader(wait)
        case 1:
            return KillStandby(wait)
        case 2:
            return PauseLeader(wait, rng.choice((2.0, 12.0, 40.0)))
        case 3:
            return StopLeader(wait)
        case 4 | 5:
            return DeletePod(wait, rng.randrange(12))
        case 6:
            return HoldPods(wait, held=rng.random() < 0.5)
        case 7:
            return LoseNode(wait, rng.randrange(NODES))
        case 8:
            return CordonNode(wait, rng.randrange(NODES))
        case 9 | 10:
            return RestoreNodes(wait)
        case 11:
            return AnnotatePod(wait, rng.randrange(12), on=rng.random() < 0.5)
        case 12:
            return ResetReplicas(wait, rng.randrange(12))
        case 13:
            return SpoilStatus(wait, rng.randrange(SOURCES), rng.choice(INVALID_STATUSES))
        case 14:
            return ChangeCapacity(wait, rng.choice((3, CAPACITY, CAPACITY, 9)))
        case 15 | 16:
            return Storm(wait, rng.choice([*STORMS]))
        case 17 | 18:
            return Calm(wait)
        case 19:
            return CutWatches(wait, compact=rng.random() < 0.5)
        case 20:
            return ServerDown(wait, rng.choice((1.0, 8.0)))
        case 21:
            return KillLeaderAt(wait, rng.choice(("status", "status", "scale")), answered=rng.random() < 0.5)
        case 22 if rng.random() < 0.5:
            return MeetDrain(wait, rng.choice(("demand", "crash", "stuck")))
        case 22:
            return RestoreNodes(wait)
        case 23:
            return LoseScaleAnswer(wait)
        case _:
            return FailWrites(wait, rng.randrange(SOURCES)) if rng.random() < 0.7 else LoseZone(wait, rng.randrange(3))
