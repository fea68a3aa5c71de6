"""Actions that a decision requests.

Each action is safe to repeat, names the UID it was decided for, and carries a precondition. The controller carries them
out in order and reports each result as a `situate.vm.model.events.Written`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeAlias, assert_never

from situate.vm.model.migrations import Claim, Move
from situate.vm.model.pods_and_nodes import Ref
from situate.vm.model.resource_amounts import Amounts


@dataclass(frozen=True, slots=True)
class Approve:
    """A write of the approved amount to the VirtualMachine.

    JSON-patch tests check that unit and request are unchanged (C26).
    """

    machine: Ref
    pod: Ref
    amount: Amounts
    """The whole amount that the VM may use from now on."""
    unit: Amounts
    requested: Amounts
    closed_claim: str = ""
    """Ids of used claims, comma-separated. The same patch writes them (B9)."""


@dataclass(frozen=True, slots=True)
class ResizePod:
    """A patch of a Pod's `pods/resize`: requests, and limits by the same difference."""

    pod: Ref
    amount: Amounts
    """The requests of the whole Pod after the resize."""
    container: str = ""
    """Name of the container. Empty: the only container of the Pod that counts."""
    own: Amounts | None = None
    """The requests of that container after the resize. None: `amount` minus the requests of the other containers."""
    request_text: str = ""
    """The text of the resize request that this write serves. Empty: none."""


@dataclass(frozen=True, slots=True)
class StartMove:
    """Creation of the migration object with its claim and its target, in one call."""

    move: Move
    claim: Claim | None


@dataclass(frozen=True, slots=True)
class CancelMove:
    """Deletion of the migration object before the migration is complete."""

    name: str
    machine: Ref
    uid: str
    reason: str


@dataclass(frozen=True, slots=True)
class EndMove:
    """Deletion of the object of a finished migration, after its claim is closed."""

    name: str
    machine: Ref
    uid: str


@dataclass(frozen=True, slots=True)
class ShrinkClaim:
    """A write of the open amount of a claim to its migration object."""

    claim: Claim
    name: str
    machine: Ref
    uid: str


@dataclass(frozen=True, slots=True)
class Retarget:
    """A write of a new target node to the migration object. Capacity is reserved there now."""

    name: str
    machine: Ref
    uid: str
    target_node: str
    at: float
    """When the new target was chosen, in seconds of the epoch."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """A write of the hand-over record to the migration object, then the deletion of the source Pod."""

    name: str
    machine: Ref
    uid: str
    source: Ref
    beneficiary: Ref
    amount: Amounts


@dataclass(frozen=True, slots=True)
class Evict:
    """Eviction of a Pod through the Eviction API."""

    pod: Ref
    reason: str
    node: str
    whom: Ref
    """The Pod that needs the capacity."""


@dataclass(frozen=True, slots=True)
class NoteMoved:
    """A write of the times of past migrations and the last downtime to the VM.

    The times start the cool-down (B25). The downtime enters the migration cost (B17).
    """

    machine: Ref
    at: tuple[float, ...]
    downtime_s: float | None = None
    """Of the last migration, in seconds. None: not reported."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A change of a condition of a VM's Pod, such as `NeedsNode` or `PodNotResized`."""

    pod: Ref
    type: str
    holds: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Notify:
    """One structured log line and one Event on the VM or Pod."""

    about: Ref
    reason: str
    """The reason of the Event, in CamelCase."""
    message: str
    warning: bool = False
    fields: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Keys and values of the log line."""


@dataclass(frozen=True, slots=True)
class Wake:
    """Activation of Pods in the scheduler's queue: capacity became free on this node."""

    node: str


Action: TypeAlias = (
    Approve
    | ResizePod
    | StartMove
    | CancelMove
    | EndMove
    | ShrinkClaim
    | Retarget
    | HandOver
    | Evict
    | NoteMoved
    | Condition
    | Notify
    | Wake
)


class ObjectKind(Enum):
    POD = "pod"
    MACHINE = "machine"
    MIGRATION = "migration"


def written_object(action: Action) -> tuple[ObjectKind, str, str] | None:
    """Return kind, namespace and name of the object that an action writes.

    One write at a time is in progress for each object. None: the action writes no shared object.
    """
    match action:
        case Approve(pod=ref) | ResizePod(pod=ref) | Condition(pod=ref) | Evict(pod=ref):
            return ObjectKind.POD, ref.namespace, ref.name
        case NoteMoved(machine):
            return ObjectKind.MACHINE, machine.namespace, machine.name
        case StartMove(move):
            return ObjectKind.MIGRATION, move.machine.namespace, move.name
        case CancelMove() | EndMove() | ShrinkClaim() | Retarget() | HandOver():
            return ObjectKind.MIGRATION, action.machine.namespace, action.name
        case Notify() | Wake():
            return None
        case _:
            assert_never(action)


def slot_of(action: Action) -> tuple[object, ...]:
    """Return the slot of an action: of two queued writes to one object in the same slot, only the later one is sent."""
    return type(action), action.type if isinstance(action, Condition) else ""
