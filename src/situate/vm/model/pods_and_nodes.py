"""The ledger's entries for Pods and nodes.

`situate.vm.api` reads them from objects. `situate.vm.ledger.step` decides their changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final, TypeAlias

from situate.vm.model.resource_amounts import Amounts

NO_OVERCOMMIT: Final = 1000
"""Overcommit factor in thousandths. 2000 counts half of each amount."""


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """An object in its namespace."""

    namespace: str
    name: str
    uid: str = ""
    """Empty if only the name is known."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Role(Enum):
    """The role of a runner Pod in a live migration."""

    IDLE = "idle"
    SOURCE = "source"
    TARGET = "target"


class Phase(Enum):
    """The phase of a VirtualMachine, as far as accounting needs it."""

    OTHER = "other"
    """Not alive, or unknown."""
    RUNNING = "running"
    """Running or Scaling."""
    FROZEN = "frozen"
    """PreMigrating or Migrating: amounts do not change (D13)."""


@dataclass(frozen=True, slots=True)
class Load:
    """The reported load of a VM. The migration cost depends on it."""

    load1: float = 0.0
    """1-minute load average."""
    memory_used: int = 0
    """Memory in use, in bytes. 0: unknown; then all memory of the VM counts."""
    dirty_rate: float | None = None
    """Bytes a second."""
    last_downtime_s: float | None = None
    """Downtime of its last migration, in seconds. None: unknown."""

    def with_missing_from(self, former: Load) -> Load:
        """Return the load, with values from `former` where this report has none."""
        return Load(
            self.load1 or former.load1,
            self.memory_used or former.memory_used,
            former.dirty_rate if self.dirty_rate is None else self.dirty_rate,
            former.last_downtime_s if self.last_downtime_s is None else self.last_downtime_s,
        )


NO_LOAD: Final = Load()
"""No load is reported."""


@dataclass(frozen=True, slots=True)
class Evacuation:
    """A request that a VM leaves a node, from a refused eviction of its Pod."""

    node: str
    at: float
    """When the eviction was last tried, in seconds of the epoch."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The reason why a Pod is not resized in place."""

    reason: str
    """CamelCase, as in conditions."""
    message: str


@dataclass(frozen=True, slots=True)
class Resize:
    """The requested resize of one container of a plain Pod."""

    container: str
    own: Amounts
    """The requested size of the container. Resources that the request does not name stay as they are."""
    wanted: Amounts
    """The amount of the whole Pod after the resize."""
    counts: Amounts
    """The amount of the whole Pod now."""
    step: Amounts
    """The step of a grant. If the request names none, the step is the whole missing amount."""
    done: bool
    """Whether the spec of the Pod already has this size."""
    text: str
    """The text of the request. A changed request is decided again."""
    guaranteed: bool = False
    """Whether the Pod has QoS class Guaranteed, for which static managers give whole cores or memory banks."""
    refusal: Refusal | None = None
    """The reason for not attempting the resize. None: it is attempted."""

    def container_amount(self, amount: Amounts) -> Amounts:
        """Return the size of the container for a given amount of the whole Pod."""
        return self.own - (self.wanted - amount).positive_part()


@dataclass(frozen=True, slots=True)
class Machine:
    """The part of a runner Pod's entry that describes its VirtualMachine."""

    ref: Ref
    own: bool = True
    """Whether its `schedulerName` is ours."""
    autoscaled: bool = False
    role: Role = Role.IDLE
    migratable: bool = False
    """Whether vm may migrate it (C9)."""
    always_migrate: bool = False
    phase: Phase = Phase.RUNNING
    minimum: Amounts | None = None
    """Bounds for scaling (C5). None: no bounds."""
    maximum: Amounts | None = None
    limit: Amounts | None = None
    """The most that the VM can use. Requests above it are not granted, and no capacity is freed for them.

    None: no such limit.
    """
    load: Load = NO_LOAD
    closed_claim: str = ""
    """Ids of its last used claims, comma-separated, from the annotation `well_known.CLAIM_CLOSED`."""
    moved_at: tuple[float, ...] = ()
    """Times of its past migrations, in seconds of the epoch, oldest first (B25)."""
    evacuation: Evacuation | None = None
    """None: no eviction of its Pod was tried."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A Pod that is on a node or assigned to one."""

    ref: Ref
    reserved: Amounts
    """The reserved amount before overcommit. Never less than `used` (I2)."""
    requested: Amounts
    """The requested amount. Equal to `reserved` if the Pod requests no change."""
    used: Amounts
    """The amount in use: the larger of spec and status (D23)."""
    factor: Amounts
    """The compute unit, the smallest step. Zero if the Pod does not scale."""
    overcommit: Amounts
    """Overcommit in thousandths, for each resource."""
    created_at: float = 0.0
    """Seconds of the epoch."""
    priority: int = 0
    machine: Machine | None = None
    """None: a plain Pod."""
    approved: bool = False
    """Whether it has the annotation of approved resources."""
    ignored: bool = False
    """Whether its namespace is ignored (C28)."""
    tentative: bool = False
    """Whether a scheduling cycle placed it and the cluster does not show the binding yet."""
    deferred: bool = False
    """Whether its kubelet deferred its resize or has not evaluated it yet.

    Then the requested amount beyond `used` is demand (B35).
    """
    unanswered: bool = False
    """Whether it counts as deferred only because its kubelet has not evaluated the resize yet."""
    resize: Resize | None = None
    """The requested resize of a plain Pod. None: no resize is requested."""
    account: Amounts | None = None
    """The requests of a runner Pod that vm may change in place (B47). None: vm does not change them."""
    infeasible: Refusal | None = None
    """Why its kubelet will never allocate the requests in `account`. None: the kubelet does, or will."""

    needs_node: bool = False
    """Whether it has the condition that only a bigger node helps (B50)."""
    resize_refused: bool = False
    """Whether it has the condition that its resize request is not attempted (B36)."""
    not_resized: bool = False
    """Whether it has the condition that its requests are not those of its VM (B47)."""

    @property
    def uid(self) -> str:
        return self.ref.uid

    @property
    def limited_request(self) -> Amounts:
        """The requested amount, with increases limited by the VM's `limit`."""
        return self.limit_request(self.requested)

    def limit_request(self, requested: Amounts) -> Amounts:
        """Return the part of a request that could ever be granted. It is never below the reserved amount."""
        if self.machine is None or self.machine.limit is None:
            return requested
        return requested.minimum(self.machine.limit.maximum(self.reserved))

    @property
    def migrating(self) -> bool:
        """Whether the Pod is the source of a migration."""
        return self.machine is not None and self.machine.role is Role.SOURCE

    @property
    def migratable(self) -> bool:
        return self.machine is not None and self.machine.migratable

    @property
    def frozen(self) -> bool:
        """Whether the VM of the Pod is in a live migration, so that its amounts do not change.

        A target Pod does not grow either, even if the VM is seen to run. After a cancelled migration, the VM may run in
        its source Pod, and the VM would use a grant there.
        """
        return self.machine is not None and (self.machine.role is not Role.IDLE or self.machine.phase is Phase.FROZEN)

    def counted_amount(self, amount: Amounts) -> Amounts:
        """Return an amount of this Pod as counted on its node, after overcommit.

        The division is done for each Pod and resource (C7).
        """
        if self.overcommit.values.count(NO_OVERCOMMIT) == len(amount):
            return amount
        pairs = zip(amount.values, self.overcommit.values, strict=True)
        return Amounts(tuple([value * NO_OVERCOMMIT // overcommit for value, overcommit in pairs]))


Pods: TypeAlias = Mapping[str, Pod]
"""By UID."""
NO_PODS: Final[Pods] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Node:
    """A node and its reserved amounts. A copy with one more Pod copies the table of Pods."""

    name: str
    total: Amounts
    """`status.allocatable`."""
    watermark: Amounts
    """trunc(total x fraction), with a float product (C7)."""
    reserved: Amounts
    """Sum over the Pods, after overcommit. May exceed `total`."""
    committed: Amounts
    """The same before overcommit."""
    migrating: Amounts
    """The part of `reserved` that migration sources hold."""
    pods: Pods = field(default_factory=lambda: NO_PODS)
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    draining: bool = False
    """Whether VMs should leave the node (B46)."""
    schedulable: bool = True
    """Whether the node is ready and not cordoned."""
    static: bool = False
    """Whether its kubelet gives whole cores or memory banks to Guaranteed Pods and resizes none of them (B36)."""

    @property
    def over_budget(self) -> bool:
        return self.reserved.exceeds(self.total)
