"""What a decision asks for. Each is safe to repeat, names the uid it was decided on, and carries a precondition.

The shell performs them in order and tells what became of each by `situate.vm.model.events.Written`.
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
    """Write the approved amount to the VirtualMachine, with tests that unit and request are unchanged (C26)."""

    machine: Ref
    pod: Ref
    amount: Amounts
    """In whole: what it holds from now on."""
    unit: Amounts
    requested: Amounts
    closed_claim: str = ""
    """Written in the same patch (B9)."""


@dataclass(frozen=True, slots=True)
class ResizePod:
    """Patch `pods/resize` of a pod: requests, and limits by the same difference (B34, B47)."""

    pod: Ref
    amount: Amounts
    """What the pod asks for then, in whole."""
    container: str = ""
    """Empty: the pod's only one that counts."""
    own: Amounts | None = None
    """What that container requests then; None: what of the amount the others leave."""
    wish: str = ""
    """The wish that it is for, as it is written; empty: nobody's."""


@dataclass(frozen=True, slots=True)
class StartMove:
    """Create the migration with its claim and its target in one call (B2)."""

    move: Move
    claim: Claim | None


@dataclass(frozen=True, slots=True)
class CancelMove:
    """Delete the migration while it is not done (B21, B22)."""

    name: str
    machine: Ref
    uid: str
    reason: str


@dataclass(frozen=True, slots=True)
class EndMove:
    """Delete the migration that is over, once its claim is closed (B2, C27)."""

    name: str
    machine: Ref
    uid: str


@dataclass(frozen=True, slots=True)
class ShrinkClaim:
    """Write what is left of a claim to its migration."""

    claim: Claim
    name: str
    machine: Ref
    uid: str


@dataclass(frozen=True, slots=True)
class Retarget:
    """Write to a migration that it leads to another node, where room is reserved for it now (B14)."""

    name: str
    machine: Ref
    uid: str
    target_node: str
    at: float
    """When that was decided, seconds of the epoch."""


@dataclass(frozen=True, slots=True)
class HandOver:
    """Note on the migration what happens when its source is gone, then delete the source (B10)."""

    name: str
    machine: Ref
    uid: str
    source: Ref
    beneficiary: Ref
    amount: Amounts


@dataclass(frozen=True, slots=True)
class Evict:
    """Ask the Eviction API (B19)."""

    pod: Ref
    reason: str
    node: str
    whom: Ref
    """Who needs its room."""


@dataclass(frozen=True, slots=True)
class NoteMoved:
    """Keep on the machine when it was moved (B25), and for how long that has paused it (B17)."""

    machine: Ref
    at: tuple[float, ...]
    downtime_s: float | None = None
    """Of the last time; None: nobody says."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Set or clear a condition of a machine's pod, such as `NeedsNode` (B50) or `PodNotResized` (B47)."""

    pod: Ref
    type: str
    holds: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Tell:
    """One structured log line and one Event on the machine or pod (B41)."""

    about: Ref
    reason: str
    """CamelCase, as Events have it."""
    message: str
    warning: bool = False
    fields: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """For the log."""


@dataclass(frozen=True, slots=True)
class Wake:
    """Pods that wait in the scheduler's queue may fit now: on this node something became free."""

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
    | Tell
    | Wake
)


class Kind(Enum):
    POD = "pod"
    MACHINE = "machine"
    MIGRATION = "migration"


def written_to(action: Action) -> tuple[Kind, str, str] | None:
    """The object that an action writes, with namespace and name: of each one write is under way at a time.

    None: it writes to none that others write.
    """
    match action:
        case Approve(pod=ref) | ResizePod(pod=ref) | Condition(pod=ref) | Evict(pod=ref):
            return Kind.POD, ref.namespace, ref.name
        case NoteMoved(machine):
            return Kind.MACHINE, machine.namespace, machine.name
        case StartMove(move):
            return Kind.MIGRATION, move.machine.namespace, move.name
        case CancelMove() | EndMove() | ShrinkClaim() | Retarget() | HandOver():
            return Kind.MIGRATION, action.machine.namespace, action.name
        case Tell() | Wake():
            return None
        case _:
            assert_never(action)


def slot_of(action: Action) -> tuple[object, ...]:
    """Of two that wait to be written to one object, and have the same one, the later says more: it alone is sent."""
    return type(action), action.type if isinstance(action, Condition) else ""
