"""What happens to the ledger: observations of the cluster, requests of agents, and what became of our own writes.

The shell turns watch events, requests and answers into these; `situate.vm.ledger.step` decides on one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from situate.vm.model.actions import Action
from situate.vm.model.migrations import Beneficiary, Progress
from situate.vm.model.pods_and_nodes import Node, Pod, Ref
from situate.vm.model.resource_amounts import Amounts


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """Added or changed; sums and pods of the entry are ignored."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeGone:
    name: str


@dataclass(frozen=True, slots=True)
class PodSeen:
    """Added or changed, bound to a node, and not ended."""

    pod: Pod
    node: str


@dataclass(frozen=True, slots=True)
class PodGone:
    """Deleted, or ended with all its containers (B3, D14)."""

    uid: str


@dataclass(frozen=True, slots=True)
class PodReserved:
    """A cycle of the scheduler placed it (N23)."""

    pod: Pod
    node: str


@dataclass(frozen=True, slots=True)
class PodUnreserved:
    uid: str


@dataclass(frozen=True, slots=True)
class MigrationSeen:
    """A migration as it is now: ours or a foreign one, of any backend."""

    machine: Ref
    name: str
    uid: str
    own: bool
    phase: MigrationPhase
    source: Ref | None
    source_node: str
    target: Ref | None
    target_node: str
    """Where its target is reserved, or is (B2)."""
    amount: Amounts | None
    """As it will count on the target, where the object says so (B2)."""
    plan: str = ""
    claim: WrittenClaim | None = None
    handover: WrittenHandOver | None = None
    """Begun, and to be gone on with (B10)."""
    progress: Progress | None = None
    tells_progress: bool = True
    """Whether its system says how copying comes on; one that does not looks after that itself."""
    deleting: bool = False
    created_at: float = 0.0
    rechosen_at: float | None = None
    """When another target than the first was written to it (B14)."""
    for_node: bool = False
    """Made for the node that it leaves (B1)."""
    pinned: bool = False
    """Whether the object itself, and not only its annotation, says where it leads."""
    downtime_s: float | None = None
    """For how long it has paused its machine; None: it does not say, or not yet."""


@dataclass(frozen=True, slots=True)
class MigrationPhase:
    """What the four verbs of N13 observe, alike for every backend."""

    starting: bool = False
    copying: bool = False
    succeeded: bool = False
    failed: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class WrittenClaim:
    """A claim as a migration's annotation has it (B1, B2)."""

    id: str
    plan: str
    node: str
    beneficiary: Beneficiary
    source_uid: str
    amount: Amounts
    deadline: float


@dataclass(frozen=True, slots=True)
class WrittenHandOver:
    """A hand-over as a migration's annotation has it (B10)."""

    source: Ref
    """The pod that is deleted."""
    beneficiary: Ref
    """The pod that grows."""
    amount: Amounts
    """As counted on the node."""


@dataclass(frozen=True, slots=True)
class TargetRefused:
    """A cycle of the scheduler found that the pod of a move may not go where room is reserved for it (B14, F6)."""

    move: str
    """As `State.moves` has it."""
    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class MigrationGone:
    machine: Ref
    name: str


@dataclass(frozen=True, slots=True)
class Asked:
    """An agent, or a pod's annotation, wants this much (2.5, B34)."""

    uid: str
    unit: Amounts
    requested: Amounts
    last_permit: Amounts | None
    lowers_at_once: bool = False
    """D24."""
    sequence: int | None = None
    """Rises with each request of an agent that numbers them: one that comes late changes nothing (F5)."""
    run: str = ""
    """Of the agent: numbers of another run say nothing about this one's."""
    load1: float | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """What became of an action; what was booked for one of which nobody knows stays until it is seen."""

    action: Action
    outcome: str
    """`ok`, `refused`, `conflict` or `unknown`."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Listed:
    """All nodes and pods that exist have been told (C30)."""


@dataclass(frozen=True, slots=True)
class Beat:
    """Time has passed: deadlines, demand, cool-downs and expiries are looked at."""


Event: TypeAlias = (
    NodeSeen
    | NodeGone
    | PodSeen
    | PodGone
    | PodReserved
    | PodUnreserved
    | MigrationSeen
    | MigrationGone
    | TargetRefused
    | Asked
    | Written
    | Listed
    | Beat
)
