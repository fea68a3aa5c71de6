"""What happens in a history of spot: steps as values, drawn from a seed, written to and read from a file."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Final, Literal

import msgspec

ON_DEMAND_NODES: Final = 4
SPOT_NODES: Final = 6


@dataclass(frozen=True, slots=True)
class WorkloadPlan:
    """A workload that every history begins with."""

    name: str
    kind: Literal["Deployment", "StatefulSet"]
    replicas: int
    policy: str = ""
    """Empty: the default of its kind."""
    surge: bool = True
    """Rollouts bring the new pod first; else they take the old one first. Of Deployments."""
    parallel: bool = False
    """Of StatefulSets."""
    zone: str = ""
    """The user's own required affinity, in two terms, one of which no node meets."""
    min_ready_s: int = 0


WORKLOADS: Final = (
    WorkloadPlan("web", "Deployment", 6, "2"),
    WorkloadPlan("api", "Deployment", 5, surge=False),
    WorkloadPlan("half", "Deployment", 4, "50%", min_ready_s=2),
    WorkloadPlan("db", "StatefulSet", 3),
    WorkloadPlan("queue", "StatefulSet", 4, "base=1,weight=1:2", parallel=True),
    WorkloadPlan("solo", "Deployment", 1, "1"),
    WorkloadPlan("zonal", "Deployment", 3, "1", zone="zone-0"),
)
POLICIES: Final = ("", "0", "1", "2", "3", "30%", "50%", "base=1,weight=1:3", "majority", "all-on-demand", "all-spot")
NONSENSE: Final = ("-4", "130%", "many", "1.5", "")


class Step(msgspec.Struct, frozen=True, tag_field="step", rename="camel"):
    """Something that is done, after which `wait` virtual seconds pass."""

    wait: float


class Scale(Step, frozen=True, tag=True):
    """By a user, or an autoscaler."""

    workload: int
    replicas: int


class SetPolicy(Step, frozen=True, tag=True):
    workload: int
    policy: str


class SpoilPolicy(Step, frozen=True, tag=True):
    """One that cannot be read: the last one holds."""

    workload: int
    policy: str


class RollOut(Step, frozen=True, tag=True):
    """`version`: an earlier one is a rollback."""

    workload: int
    version: int


class Pause(Step, frozen=True, tag=True):
    """Rollouts of a Deployment wait."""

    workload: int
    on: bool


class OptOut(Step, frozen=True, tag=True):
    workload: int
    on: bool


class Recreate(Step, frozen=True, tag=True):
    """Deleted with its pods, and there again under the same name at once."""

    workload: int


class DeletePod(Step, frozen=True, tag=True):
    pod: int


class UnreadyPod(Step, frozen=True, tag=True):
    """It runs and serves no more; or it serves again."""

    pod: int
    on: bool


class StickPod(Step, frozen=True, tag=True):
    """It does not end when it is deleted, which it is now."""

    pod: int


class Guard(Step, frozen=True, tag=True):
    """A disruption budget that allows nothing, or its end."""

    workload: int
    on: bool


class Notice(Step, frozen=True, tag=True):
    """A spot node is said to end, by the taint of one cloud or the condition of another.

    The machine ends after `ends` seconds: None is never, and it may be sooner or later than what is said.
    """

    node: int
    by: Literal["taint", "short taint", "condition", "past condition"]
    ends: float | None
    silent: bool


class EndNode(Step, frozen=True, tag=True):
    """Without notice: the Node is deleted, or falls silent."""

    node: int
    silent: bool


class Wave(Step, frozen=True, tag=True):
    """All of spot ends, `notice` seconds after it is said; 0 without a word."""

    notice: float
    silent: bool


class AtRisk(Step, frozen=True, tag=True):
    node: int


class AddSpot(Step, frozen=True, tag=True):
    count: int


class Cordon(Step, frozen=True, tag=True):
    """Spot nodes first, then those on demand."""

    node: int


class LoseLabel(Step, frozen=True, tag=True):
    """The capacity label of a node vanishes, or changes to the other kind."""

    node: int
    swapped: bool


class Fill(Step, frozen=True, tag=True):
    """No pod finds room on nodes of a kind any more."""

    capacity: Literal["on-demand", "spot", "both"]


class RestoreNodes(Step, frozen=True, tag=True):
    """What was said of nodes is taken back, labels and room are there again."""


class KillLeader(Step, frozen=True, tag=True):
    """SIGKILL; a new process takes its place after a while."""


class KillLeaderAt(Step, frozen=True, tag=True):
    """SIGKILL at the leader's next message of a kind, if there is one within half a minute: when it would leave, or
    when it was carried out. A review is answered, and the pod is not in the watch yet."""

    message: Literal["review", "eviction", "release", "delete", "mark"]
    answered: bool


class KillStandby(Step, frozen=True, tag=True):
    pass


class PauseLeader(Step, frozen=True, tag=True):
    """SIGSTOP for so many seconds: it wakes up as a stale leader if that is longer than its Lease."""

    seconds: float


class PauseLeaderAt(Step, frozen=True, tag=True):
    """SIGSTOP between an answer to a review and the watch event of its pod, or around another message."""

    message: Literal["review", "eviction", "release", "delete", "mark"]
    answered: bool
    seconds: float


class StopLeader(Step, frozen=True, tag=True):
    """SIGTERM: an orderly end, which hands the Lease over."""


class BothDown(Step, frozen=True, tag=True):
    """Nobody answers for so many seconds."""

    seconds: float


class RefuseCreations(Step, frozen=True, tag=True):
    """A validating webhook of others, as a quota would, refuses every so manyth pod; 0 ends that."""

    every: int


class Meddle(Step, frozen=True, tag=True):
    """Another mutating webhook comes after ours: it asks for more of the pod's nodes, or is slow; empty ends that."""

    how: Literal["affinity", "slow", ""]


class Storm(Step, frozen=True, tag=True):
    """Bad weather of one kind between spot and the API server, until the next calm."""

    kind: str


class LoseReviews(Step, frozen=True, tag=True):
    """Trouble of one kind with reviews, until the next calm."""

    kind: str


class Calm(Step, frozen=True, tag=True):
    pass


class CutWatches(Step, frozen=True, tag=True):
    """Every watch ends; with `compact`, going on from where it was is refused with 410."""

    compact: bool


class ServerDown(Step, frozen=True, tag=True):
    """The API server answers spot nothing for so many seconds."""

    seconds: float


class SetClock(Step, frozen=True, tag=True):
    """The clock of one of our machines jumps by so many seconds."""

    machine: int
    seconds: float


class LoseSecret(Step, frozen=True, tag=True):
    """Somebody deletes the certificates."""


class Pass(Step, frozen=True, tag=True):
    """Time passes."""


WorldStep = (
    Scale
    | SetPolicy
    | SpoilPolicy
    | RollOut
    | Pause
    | OptOut
    | Recreate
    | DeletePod
    | UnreadyPod
    | StickPod
    | Guard
    | Notice
    | EndNode
    | Wave
    | AtRisk
    | AddSpot
    | Cordon
    | LoseLabel
    | Fill
    | RestoreNodes
)
"""What users and clouds do."""
ProcessStep = (
    KillLeader
    | KillLeaderAt
    | KillStandby
    | PauseLeader
    | PauseLeaderAt
    | StopLeader
    | BothDown
    | RefuseCreations
    | Meddle
    | Storm
    | LoseReviews
    | Calm
    | CutWatches
    | ServerDown
    | SetClock
    | LoseSecret
    | Pass
)
"""What happens to processes of ours and to messages."""
AnyStep = WorldStep | ProcessStep

STORMS: Final = ("request lost", "answer lost", "refused", "conflict", "late events", "blind")
TROUBLES: Final = ("lost", "answer lost", "repeated", "reordered", "all")
_MESSAGES: Final[tuple[Any, ...]] = ("review", "review", "eviction", "release", "delete", "mark")
_BY: Final[tuple[Any, ...]] = ("taint", "taint", "short taint", "condition", "past condition")

FAULTS: Final[dict[str, tuple[str, ...]]] = {
    "F1 watch delay, gap, 410": ("event delayed", "watch cut", "CutWatches", "compacted"),
    "F2 response lost, review repeated, reordered": (
        "review lost",
        "review's answer lost",
        "review repeated",
        "review timed out",
        "reviews reordered",
    ),
    "F3 kill, pause and resume the leader anywhere": (
        "KillLeader",
        "KillStandby",
        "StopLeader",
        "PauseLeader",
        "stale leader woke up",
        "leader killed before its review left",
        "leader killed before the answer to its review",
        "leader paused before the answer to its review",
        "leader killed before its eviction left",
        "leader killed before the answer to its eviction",
        "leader killed before its mark left",
    ),
    "F4 both replicas down": ("BothDown", "review refused"),
    "F5 quota, refusing, slow and meddling webhooks": (
        "creation refused",
        "Meddle affinity",
        "Meddle slow",
        "affinity meddled with",
    ),
    "F6 API 409, 429, 500, timeouts applied and not": (
        "request lost",
        "answer lost",
        "request refused",
        "write in conflict",
        "ServerDown",
    ),
    "F7 eviction refused by a budget": ("Guard", "eviction answered 429"),
    "F8 all spot gone, deleted and silent": ("Wave deleted", "Wave silent", "Wave with notice"),
    "F9 second wave during recovery": ("Wave", "second wave"),
    "F10 notice without end, end without notice, wrong deadline": (
        "Notice taint",
        "Notice short taint",
        "Notice condition",
        "Notice past condition",
        "notice without end",
        "end before the deadline",
        "EndNode",
    ),
    "F11 on demand full, spot full, both": ("Fill on-demand", "Fill spot", "Fill both"),
    "F12 labels of nodes change or vanish": ("LoseLabel", "LoseLabel swapped"),
    "F13 an autoscaler moves R": ("Scale",),
    "F14 user deletes, pauses, recreates, opts out": (
        "DeletePod",
        "Pause",
        "Recreate",
        "OptOut",
        "RollOut",
        "rollback",
    ),
    "F15 certificate expires, clock jumps": ("SetClock", "LoseSecret", "short certificates"),
    "F16 pod stuck terminating": ("StickPod",),
    "actions": (
        "classed on-demand",
        "classed spot",
        "evicted by policy",
        "evacuated",
        "released",
        "released pod ended",
        "cost set",
    ),
    "settings": ("degrade", "no make-before-break", "short certificates", "events"),
}
"""Each row of the reference's list of faults, and what has to occur for it in a block of seeds; beside them each kind
of action, and each setting that changes what may be decided."""


class Settings(msgspec.Struct, frozen=True, rename="camel"):
    """What the processes are configured with, as far as histories vary it."""

    degrade: bool = False
    """On-demand pods without room run on spot after a while (B18)."""
    make_before_break: bool = True
    short_certificates: bool = False
    """They are renewed every forty seconds."""
    events: bool = False
    """Kubernetes' controllers tell of refused creations; half of the time they are simply not heard."""

    def names(self) -> list[str]:
        """What is not as usual, for counting."""
        found = {
            "degrade": self.degrade,
            "no make-before-break": not self.make_before_break,
            "short certificates": self.short_certificates,
            "events": self.events,
        }
        return [name for name, is_so in found.items() if is_so]


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


def generate(seed: int, steps: int = 40) -> History:
    """The history of a seed: half of its steps are faults."""
    rng = Random(f"spot {seed}")
    settings = Settings(
        degrade=seed % 5 == 4,
        make_before_break=seed % 7 != 6,
        short_certificates=seed % 4 == 3,
        events=seed % 2 == 1,
    )
    return History(seed, settings, tuple(_fault(rng) if rng.random() < 0.5 else _load(rng) for _ in range(steps)))


def _wait(rng: Random) -> float:
    return round(rng.choice((0.0, 0.1, 0.5, 2.0, 8.0, 25.0)) * rng.uniform(0.5, 1.5), 3)


def _load(rng: Random) -> AnyStep:
    wait, workload = _wait(rng), rng.randrange(len(WORKLOADS))
    match rng.randrange(14):
        case 0 | 1 | 2 | 3 | 4:
            return Scale(wait, workload, rng.choice((0, 1, 2, 3, 4, 5, 6, 8, 10)))
        case 5 | 6:
            return SetPolicy(wait, workload, rng.choice(POLICIES))
        case 7:
            return RollOut(wait, workload, rng.randrange(3))
        case 8:
            return DeletePod(wait, rng.randrange(40))
        case 9:
            return rng.choice(
                (
                    Recreate(wait, workload),
                    OptOut(wait, workload, on=True),
                    OptOut(wait, workload, on=False),
                    SpoilPolicy(wait, workload, rng.choice(NONSENSE)),
                )
            )
        case 10:
            return Pause(wait, workload, on=rng.random() < 0.5)
        case _:
            return Pass(rng.uniform(5.0, 60.0))


def _fault(rng: Random) -> AnyStep:
    wait, node = _wait(rng), rng.randrange(SPOT_NODES + ON_DEMAND_NODES)
    workload, pod = rng.randrange(len(WORKLOADS)), rng.randrange(40)
    half = rng.random() < 0.5
    match rng.randrange(30):
        case 0:
            return KillLeader(wait)
        case 1 | 2 | 3:
            return KillLeaderAt(wait, rng.choice(_MESSAGES), answered=half)
        case 4:
            return PauseLeaderAt(wait, rng.choice(_MESSAGES), half, rng.choice((2.0, 12.0, 40.0)))
        case 5:
            return PauseLeader(wait, rng.choice((2.0, 12.0, 40.0)))
        case 6:
            return rng.choice((StopLeader(wait), KillStandby(wait)))
        case 7:
            return BothDown(wait, rng.choice((3.0, 20.0)))
        case 8 | 9:
            return Notice(wait, node, rng.choice(_BY), rng.choice((None, 10.0, 40.0, 120.0)), silent=half)
        case 10:
            return EndNode(wait, node, silent=half)
        case 11:
            return Wave(wait, rng.choice((0.0, 0.0, 30.0, 120.0)), silent=half)
        case 12 | 13:
            return AddSpot(wait, rng.choice((1, 2, SPOT_NODES)))
        case 14:
            return rng.choice((AtRisk(wait, node), Cordon(wait, node)))
        case 15:
            return LoseLabel(wait, node, swapped=half)
        case 16:
            return Fill(wait, rng.choice(("on-demand", "on-demand", "spot", "both")))
        case 17 | 18 | 19:
            return RestoreNodes(wait)
        case 20:
            return rng.choice((UnreadyPod(wait, pod, on=True), UnreadyPod(wait, pod, on=False), StickPod(wait, pod)))
        case 21:
            return Guard(wait, workload, on=rng.random() < 0.7)
        case 22:
            return RefuseCreations(wait, rng.choice((0, 2, 3, 5)))
        case 23:
            return Meddle(wait, rng.choice(("affinity", "slow", "")))
        case 24:
            return Storm(wait, rng.choice(STORMS))
        case 25:
            return LoseReviews(wait, rng.choice(TROUBLES))
        case 26:
            return Calm(wait)
        case 27:
            return CutWatches(wait, compact=half)
        case 28:
            return ServerDown(wait, rng.choice((1.0, 8.0, 20.0)))
        case _:
            return rng.choice(
                (SetClock(wait, rng.randrange(2), rng.choice((-60.0, 60.0, 100_000.0))), LoseSecret(wait))
            )
