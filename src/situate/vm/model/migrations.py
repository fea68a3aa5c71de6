"""Moves, and the claims on the room that they make (B1 to B8): what the ledger holds beside bookings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from situate.vm.model.pods_and_nodes import Ref
from situate.vm.model.resource_amounts import Amounts


class BeneficiaryKind(Enum):
    VM = "VM"
    POD = "Pod"
    TARGET = "Target"
    """The reservation of another move that waits for this room: a link of a chain."""


@dataclass(frozen=True, slots=True)
class Beneficiary:
    """For whom room is made. Of a VM or a Pod, `ref` is its pod; of a Target, the migration that needs the room."""

    kind: BeneficiaryKind
    ref: Ref


class ClaimState(Enum):
    PLANNED = "planned"
    MOVING = "moving"
    FREED = "freed"
    """The source is gone, or has ended with all its containers: only now the amount is held (B3)."""


class Outcome(Enum):
    """How a claim ended (B3)."""

    GRANTED = "granted"
    PARTIAL = "partial"
    WITHDRAWN = "withdrawn"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Claim:
    """Room on a node that is promised to one beneficiary; as long as it is here it is open."""

    id: str
    plan: str
    node: str
    beneficiary: Beneficiary
    source_uid: str
    amount: Amounts
    """What is still open of it, as it counts on the node."""
    deadline: float
    """Seconds of the epoch (B7)."""
    state: ClaimState = ClaimState.PLANNED
    broken: bool = False
    """Somebody took of the room whom we could not refuse (B8)."""
    surplus: Amounts | None = None
    """Once it is freed: what its move left beyond it, nobody else's either while the claim is open (B6)."""

    @property
    def holds(self) -> Amounts:
        """What a freed claim keeps from everybody but its beneficiary."""
        return self.amount if self.surplus is None else self.amount + self.surplus


class Stage(Enum):
    """How far a move is, whatever system carries it out."""

    PLANNED = "planned"
    """Its object is being created, or waits for a free place among those at work (B26)."""
    STARTING = "starting"
    """The object is there; its target is not at work yet. Nothing is lost by cancelling."""
    COPYING = "copying"
    DONE = "done"
    """The machine runs at the target; the source may still be there."""
    FAILED = "failed"
    ENDING = "ending"
    """Its cancellation has been asked for."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Of copying memory."""

    remaining: int
    """Bytes."""
    total: int
    changed_at: float
    """When `remaining` was last seen to shrink, seconds of the epoch."""


@dataclass(frozen=True, slots=True)
class Move:
    """One machine on its way to another node."""

    name: str
    """Of its object, in the machine's namespace: `schedplugin-<pod>` (C6)."""
    plan: str
    machine: Ref
    source: Ref
    """The pod that leaves."""
    source_node: str
    target_node: str
    """Where `amount` is reserved for it; empty where nobody chose one, as for moves made by hand."""
    amount: Amounts
    """As it will count on the target."""
    created_at: float
    uid: str = ""
    """Of its object; empty before it was seen."""
    stage: Stage = Stage.PLANNED
    claim: str = ""
    """Id; empty for a move that is for nobody."""
    target: Ref | None = None
    """The pod it moves into, once that is known."""
    target_bound_at: float | None = None
    target_booked: bool = False
    """Whether that pod is booked on the target node, so that the reservation counts no more."""
    progress: Progress | None = None
    tells_progress: bool = True
    """False: its system does not say how copying comes on, and gives up by itself one that does not."""
    choices: int = 1
    """So many targets were chosen for it (B14)."""
    rechosen_at: float | None = None
    """When the second one was; None: there was no need."""
    refused: str = ""
    """Why its target node takes nobody, while it waits for another one; empty: nothing is known against it."""
    pinned: bool = False
    """Its object itself names its node, so that no other one can be chosen."""
    for_node: bool = False
    """Made for the node that it leaves, and claimed by one who waits there: it goes on for the node's sake alone."""
    foreign: bool = False
    """Made by hand: no claim, but limits hold (B15)."""
    bandwidth: int = 0
    """Bytes a second that it may use."""
    asked_at: float | None = None
    """When its creation, or then its end, was asked for first; None: it was not, or the object shows that it exists."""
    retry_at: float | None = None
    """When that is asked for once more; None: there is no need."""
    copying_at: float | None = None
    """When copying was first seen."""

    @property
    def key(self) -> str:
        """As `State.moves` has it."""
        return f"{self.machine.namespace}/{self.name}"

    @property
    def waits_for_its_target(self) -> bool:
        """Whether its object is there, and the pod that it moves into has no node yet: that may still be another."""
        begun = self.stage is Stage.STARTING and bool(self.uid) and self.copying_at is None
        return begun and not self.foreign and not self.target_booked and self.target_bound_at is None

    @property
    def alive(self) -> bool:
        """Whether it may still come to something."""
        return self.stage in (Stage.PLANNED, Stage.STARTING, Stage.COPYING)

    def is_of(self, machine: Ref) -> bool:
        """By its name: the object may know no more."""
        return (self.machine.namespace, self.machine.name) == (machine.namespace, machine.name)
