"""Live migrations, and the claims on the capacity that they free."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from situate.vm.model.pods_and_nodes import Ref
from situate.vm.model.resource_amounts import Amounts


class BeneficiaryKind(Enum):
    VM = "VM"
    POD = "Pod"
    TARGET = "Target"
    """The target reservation of another migration, which waits for this capacity: a link of a chain."""


@dataclass(frozen=True, slots=True)
class Beneficiary:
    """The beneficiary of a claim.

    For kinds VM and Pod, `ref` is the Pod. For kind Target, `ref` is the migration that needs the capacity.
    """

    kind: BeneficiaryKind
    ref: Ref


class ClaimState(Enum):
    PLANNED = "planned"
    MOVING = "moving"
    FREED = "freed"
    """The source is gone, or ended with all its containers. Only now the amount is held (B3)."""


class ClaimOutcome(Enum):
    """The outcome of a closed claim."""

    GRANTED = "granted"
    PARTIAL = "partial"
    WITHDRAWN = "withdrawn"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Claim:
    """An open claim: capacity on a node that is reserved for one beneficiary."""

    id: str
    plan: str
    node: str
    beneficiary: Beneficiary
    source_uid: str
    amount: Amounts
    """The open amount, as counted on the node."""
    deadline: float
    """When the claim expires, in seconds of the epoch (B7)."""
    state: ClaimState = ClaimState.PLANNED
    broken: bool = False
    """Whether a fact that the scheduler cannot refuse took a part of the capacity (B8)."""
    surplus: Amounts | None = None
    """The amount that the migration freed beyond the claim. Set once the claim is freed.

    While the claim is open, no other VM or Pod gets it (B6).
    """

    @property
    def held_amount(self) -> Amounts:
        """The amount that a freed claim holds against all but its beneficiary."""
        return self.amount if self.surplus is None else self.amount + self.surplus


class Stage(Enum):
    """The stage of a migration, the same for every backend."""

    PLANNED = "planned"
    """The migration object is being created, or waits for the limits on concurrent migrations (B26)."""
    STARTING = "starting"
    """The migration object exists and its target does not run yet. Cancelling loses no work."""
    COPYING = "copying"
    DONE = "done"
    """The VM runs in the target Pod. The source Pod may still exist."""
    FAILED = "failed"
    ENDING = "ending"
    """Its cancellation was requested."""


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """Progress of copying memory."""

    remaining: int
    """Bytes."""
    total: int
    changed_at: float
    """When `remaining` last shrank, in seconds of the epoch."""


@dataclass(frozen=True, slots=True)
class Move:
    """The live migration of one VM."""

    name: str
    """Name of the migration object, in the VM's namespace: `schedplugin-<pod>` (C6)."""
    plan: str
    machine: Ref
    source: Ref
    """The source Pod."""
    source_node: str
    target_node: str
    """Node on which `amount` is reserved. Empty if no target was chosen, as for migrations made by hand."""
    amount: Amounts
    """The amount that the VM needs, as counted on the target node."""
    created_at: float
    uid: str = ""
    """UID of the migration object. Empty before the object was seen."""
    stage: Stage = Stage.PLANNED
    claim: str = ""
    """Id of its claim. Empty for a migration without a beneficiary."""
    target: Ref | None = None
    """The target Pod. None: not known yet."""
    target_bound_at: float | None = None
    target_counted: bool = False
    """Whether the target Pod is in the ledger on the target node. Then the reservation no longer counts."""
    progress: CopyProgress | None = None
    reports_progress: bool = True
    """False: the backend does not report copying progress, and ends a stalled migration itself."""
    choices: int = 1
    """Number of targets chosen so far (B14)."""
    rechosen_at: float | None = None
    """When the second target was chosen, in seconds of the epoch. None: there is no second target."""
    refused: str = ""
    """Why the target node refuses the target Pod, while a new choice is due. Empty: no refusal is known."""
    pinned: bool = False
    """Whether the migration object itself names the target node, so that vm cannot choose another."""
    for_node: bool = False
    """Whether the migration serves its source node and a waiter there claims the freed capacity.

    Without a beneficiary, it goes on for the node alone.
    """
    foreign: bool = False
    """Whether it was made by hand: it has no claim, but the time limits apply (B15)."""
    bandwidth: int = 0
    """Bandwidth limit in bytes a second."""
    requested_at: float | None = None
    """When its creation or its end was first requested. None: not requested, or the object shows that it exists."""
    retry_at: float | None = None
    """When that request is repeated. None: no repetition is needed."""
    copying_at: float | None = None
    """When copying was first seen, in seconds of the epoch."""

    @property
    def key(self) -> str:
        """The key in `State.moves`."""
        return f"{self.machine.namespace}/{self.name}"

    @property
    def waits_for_its_target(self) -> bool:
        """Whether the object exists and the target Pod has no node yet, so that the target may still change."""
        begun = self.stage is Stage.STARTING and bool(self.uid) and self.copying_at is None
        return begun and not self.foreign and not self.target_counted and self.target_bound_at is None

    @property
    def alive(self) -> bool:
        """Whether the migration may still complete."""
        return self.stage in (Stage.PLANNED, Stage.STARTING, Stage.COPYING)

    def is_of(self, machine: Ref) -> bool:
        """Return whether it migrates this VM, compared by name: the object may have no more."""
        return (self.machine.namespace, self.machine.name) == (machine.namespace, machine.name)
