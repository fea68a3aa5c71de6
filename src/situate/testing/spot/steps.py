"""What may happen in a history of spot: each step a value that can be written to a file and read again."""

from __future__ import annotations

from typing import Literal

from situate.testing.histories.steps import (
    Calm,
    CutWatches,
    KillLeader,
    KillStandby,
    Pass,
    PauseLeader,
    ServerDown,
    Step,
    StopLeader,
)


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


class Evict(Step, frozen=True, tag=True):
    """By a descheduler, a drain, or whoever else moves pods."""

    pod: int


class Elect(Step, frozen=True, tag=True):
    """A pod becomes the leader of its workload (B45)."""

    workload: int
    """Among those that name a leader."""
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


class KillLeaderAt(Step, frozen=True, tag=True):
    """SIGKILL at the leader's next message of a kind, if there is one within half a minute: when it would leave, or
    when it was carried out. A review is answered, and the pod is not in the watch yet."""

    message: Literal["review", "eviction", "release", "delete", "mark"]
    answered: bool


class PauseLeaderAt(Step, frozen=True, tag=True):
    """SIGSTOP between an answer to a review and the watch event of its pod, or around another message."""

    message: Literal["review", "eviction", "release", "delete", "mark"]
    answered: bool
    seconds: float


class BothDown(Step, frozen=True, tag=True):
    """Nobody answers for so many seconds."""

    seconds: float


class RefuseCreations(Step, frozen=True, tag=True):
    """A validating webhook of others, as a quota would, refuses every so manyth pod; 0 ends that."""

    every: int


class Meddle(Step, frozen=True, tag=True):
    """Another mutating webhook comes after ours: it asks for more of the pod's nodes, or is slow; empty ends that."""

    how: Literal["affinity", "slow", ""]


class Rival(Step, frozen=True, tag=True):
    """A second spot system sets capacity affinities of its own on every other pod, before or after us; empty ends
    that."""

    how: Literal["on-demand", "spot", "prefers", ""]
    first: bool


class Upgrade(Step, frozen=True, tag=True):
    """One of our own pods is replaced by one of a newer revision, which asks for the Lease (P1)."""

    machine: int


class ReadOnly(Step, frozen=True, tag=True):
    """The configuration is changed while processes run: nothing is to be moved from now on, or again (B14)."""

    on: bool


class Ungate(Step, frozen=True, tag=True):
    """Pods behind our gate are let go by hand, as `situate spot ungate` does (P9)."""


class Storm(Step, frozen=True, tag=True):
    """Bad weather of one kind between spot and the API server, until the next calm."""

    kind: str


class LoseReviews(Step, frozen=True, tag=True):
    """Trouble of one kind with reviews, until the next calm."""

    kind: str


class SetClock(Step, frozen=True, tag=True):
    """The clock of one of our machines jumps by so many seconds."""

    machine: int
    seconds: float


class LoseSecret(Step, frozen=True, tag=True):
    """Somebody deletes the certificates."""


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
    | Evict
    | Elect
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
    | Rival
    | Upgrade
    | ReadOnly
    | Ungate
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
