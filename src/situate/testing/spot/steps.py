"""Steps of a history of spot: each is a value that is written to a file and read from it."""

from __future__ import annotations

from typing import Literal, TypeAlias

from situate.testing.histories.steps import (
    Calm,
    CutWatches,
    KillLeader,
    KillLeaderAt,
    KillStandby,
    Pass,
    PauseLeader,
    PauseLeaderAt,
    RestoreNodes,
    ServerDown,
    Step,
    StopLeader,
    Storm,
)

Message: TypeAlias = Literal["review", "eviction", "release", "delete", "mark"]
"""Kinds of messages at which the leader dies or pauses. A review is answered, and no watch shows its pod yet."""


class Scale(Step, frozen=True, tag=True):
    """Let a user or an autoscaler change the replicas."""

    workload: int
    replicas: int


class SetPolicy(Step, frozen=True, tag=True):
    workload: int
    policy: str


class SpoilPolicy(Step, frozen=True, tag=True):
    """Set an unreadable policy. The last readable one holds."""

    workload: int
    policy: str


class RollOut(Step, frozen=True, tag=True):
    """Roll a version out. An earlier version is a rollback."""

    workload: int
    version: int


class Pause(Step, frozen=True, tag=True):
    """Pause or resume the rollouts of a Deployment."""

    workload: int
    on: bool


class OptOut(Step, frozen=True, tag=True):
    workload: int
    on: bool


class Recreate(Step, frozen=True, tag=True):
    """Delete a workload with its pods, and recreate it at once under the same name."""

    workload: int


class DeletePod(Step, frozen=True, tag=True):
    pod: int


class UnreadyPod(Step, frozen=True, tag=True):
    """Make a running pod unready, or ready again."""

    pod: int
    on: bool


class StickPod(Step, frozen=True, tag=True):
    """Delete a pod that then does not end."""

    pod: int


class Evict(Step, frozen=True, tag=True):
    """Evict a pod, as a descheduler, a drain or another tool does."""

    pod: int


class Elect(Step, frozen=True, tag=True):
    """Make a pod the leader of its workload (B45)."""

    workload: int
    """Number among the workloads that name a leader."""
    pod: int


class Guard(Step, frozen=True, tag=True):
    """Create a PodDisruptionBudget that allows no disruption, or delete it."""

    workload: int
    on: bool


class Notice(Step, frozen=True, tag=True):
    """Announce the end of a spot node, by the taint of one cloud or the condition of another.

    The machine ends after `ends` seconds, which may be before or after the announced time. None: it never ends.
    """

    node: int
    by: Literal["taint", "short taint", "condition", "past condition"]
    ends: float | None
    silent: bool


class EndNode(Step, frozen=True, tag=True):
    """End a spot node without notice: its Node is deleted, or becomes silent."""

    node: int
    silent: bool


class Wave(Step, frozen=True, tag=True):
    """End all spot nodes `notice` seconds after the notice. With 0 there is no notice."""

    notice: float
    silent: bool


class AtRisk(Step, frozen=True, tag=True):
    node: int


class AddSpot(Step, frozen=True, tag=True):
    count: int


class Cordon(Step, frozen=True, tag=True):
    """Cordon a node. The numbers of spot nodes come before those of on-demand nodes."""

    node: int


class LoseLabel(Step, frozen=True, tag=True):
    """Remove the capacity label of a node, or swap it to the other kind."""

    node: int
    swapped: bool


class Fill(Step, frozen=True, tag=True):
    """Fill the nodes of a kind for new pods."""

    capacity: Literal["on-demand", "spot", "both"]


class BothDown(Step, frozen=True, tag=True):
    """Let no process of ours answer for `seconds`."""

    seconds: float


class RefuseCreations(Step, frozen=True, tag=True):
    """Let a validating webhook refuse one of every `every` pods, as a quota does. 0 ends it."""

    every: int


class Meddle(Step, frozen=True, tag=True):
    """Add a mutating webhook after ours that narrows the pod's nodes or is slow. Empty ends it."""

    how: Literal["affinity", "slow", ""]


class Rival(Step, frozen=True, tag=True):
    """Let a second spot system set its own capacity affinity on every other pod, before or after our webhook.

    An empty `how` ends it.
    """

    how: Literal["on-demand", "spot", "prefers", ""]
    first: bool


class Upgrade(Step, frozen=True, tag=True):
    """Replace one of our own pods by one of a newer revision, which requests the Lease (P1)."""

    machine: int


class ReadOnly(Step, frozen=True, tag=True):
    """Change the configuration of running processes: switch the read-only mode on or off (B14)."""

    on: bool


class Ungate(Step, frozen=True, tag=True):
    """Release all pods from our gate by hand, as `situate spot ungate` does (P9)."""


class LoseReviews(Step, frozen=True, tag=True):
    """Start one kind of fault of reviews, until the next calm."""

    kind: str


class SetClock(Step, frozen=True, tag=True):
    """Set the clock of one of our machines off by `seconds`."""

    machine: int
    seconds: float


class LoseSecret(Step, frozen=True, tag=True):
    """Delete the Secret with the certificates."""


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
"""Steps of users and clouds."""
ProcessStep = (
    KillLeader
    | KillLeaderAt[Message]
    | KillStandby
    | PauseLeader
    | PauseLeaderAt[Message]
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
"""Steps that affect our processes and messages."""
AnyStep = WorldStep | ProcessStep
