"""Inputs of the ledger: observations of the cluster, requests of agents, and results of own writes.

The controller and the scheduler plugin turn watch events, requests and answers into these values.
`situate.vm.ledger.step` handles them one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from situate.vm.model.actions import Action
from situate.vm.model.migrations import Beneficiary, CopyProgress
from situate.vm.model.pods_and_nodes import Node, Pod, Ref
from situate.vm.model.resource_amounts import Amounts


@dataclass(frozen=True, slots=True)
class NodeObserved:
    """A node that was added or changed. Amounts and Pods of the entry are ignored."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeRemoved:
    name: str


@dataclass(frozen=True, slots=True)
class PodObserved:
    """A Pod that was added or changed, is bound to a node and has not ended."""

    pod: Pod
    node: str


@dataclass(frozen=True, slots=True)
class PodRemoved:
    """A Pod that was deleted, or ended with all its containers."""

    uid: str


@dataclass(frozen=True, slots=True)
class PodReserved:
    """A Pod that a scheduling cycle placed."""

    pod: Pod
    node: str


@dataclass(frozen=True, slots=True)
class PodUnreserved:
    uid: str


@dataclass(frozen=True, slots=True)
class MigrationObserved:
    """A migration object as it is now, vm's own or foreign, of any backend."""

    machine: Ref
    name: str
    uid: str
    own: bool
    phase: MigrationPhase
    source: Ref | None
    source_node: str
    target: Ref | None
    target_node: str
    """Node of the target reservation or of the target Pod (B2)."""
    amount: Amounts | None
    """The amount as counted on the target node. None: the object does not have it (B2)."""
    plan: str = ""
    claim: WrittenClaim | None = None
    handover: WrittenHandOver | None = None
    """A hand-over that was begun. The leader continues it (B10)."""
    progress: CopyProgress | None = None
    reports_progress: bool = True
    """Whether the backend reports copying progress. If not, the backend ends a stalled migration itself."""
    deleting: bool = False
    created_at: float = 0.0
    rechosen_at: float | None = None
    """When a second target was written to the object (B14)."""
    for_node: bool = False
    """Whether it serves its source node (B1)."""
    pinned: bool = False
    """Whether the object's own field names the target node, not only its annotation."""
    downtime_s: float | None = None
    """How long the VM was paused, in seconds. None: not reported, or not yet."""


@dataclass(frozen=True, slots=True)
class MigrationPhase:
    """The phase of a migration in a common form for all backends."""

    starting: bool = False
    copying: bool = False
    succeeded: bool = False
    failed: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class WrittenClaim:
    """A claim, read from the annotation of a migration object."""

    id: str
    plan: str
    node: str
    beneficiary: Beneficiary
    source_uid: str
    amount: Amounts
    deadline: float


@dataclass(frozen=True, slots=True)
class WrittenHandOver:
    """A hand-over, read from the annotation of a migration object."""

    source: Ref
    """The source Pod, which the leader deletes."""
    beneficiary: Ref
    """The Pod that grows."""
    amount: Amounts
    """The amount, as counted on the node."""


@dataclass(frozen=True, slots=True)
class TargetRefused:
    """The refusal of a target Pod by the node of its reservation, seen in a scheduling cycle."""

    move: str
    """The key in `State.moves`."""
    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class MigrationRemoved:
    machine: Ref
    name: str


@dataclass(frozen=True, slots=True)
class ResourcesRequested:
    """A request for a size, from an agent or a Pod's annotation."""

    uid: str
    unit: Amounts
    requested: Amounts
    last_permit: Amounts | None
    lowers_at_once: bool = False
    """Whether the agent lowers its own permit when it sends a decrease (D24)."""
    sequence: int | None = None
    """Number of the request, increasing with each one. None: the agent does not number requests.

    A late request with a lower number changes nothing (F5).
    """
    run: str = ""
    """The run of the agent. Numbers of different runs are not comparable."""
    load1: float | None = None


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of an action. If the result is unknown, the reserved amount stays until the object shows it."""

    action: Action
    outcome: str
    """`ok`, `refused`, `conflict`, `denied`, `later` or `unknown`."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class InitialListCompleted:
    """The first listing is complete: the ledger has an event for each existing node and Pod."""


@dataclass(frozen=True, slots=True)
class TimerFired:
    """A time event: the ledger checks deadlines, demand, cool-downs and expiries."""


Event: TypeAlias = (
    NodeObserved
    | NodeRemoved
    | PodObserved
    | PodRemoved
    | PodReserved
    | PodUnreserved
    | MigrationObserved
    | MigrationRemoved
    | TargetRefused
    | ResourcesRequested
    | WriteResult
    | InitialListCompleted
    | TimerFired
)
