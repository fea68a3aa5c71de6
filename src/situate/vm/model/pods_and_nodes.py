"""What the scheduler holds about pods and nodes: the ledger's entries, as section 2.3 of the reference counts them.

Reading them from objects is `situate.vm.api`; what may change in them is decided by `situate.vm.ledger.step`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final, TypeAlias

from situate.vm.model.resource_amounts import Amounts

NO_OVERCOMMIT: Final = 1000
"""In thousandths: 2000 counts half."""


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """An object in its namespace."""

    namespace: str
    name: str
    uid: str = ""
    """Empty where only the name is known."""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Role(Enum):
    """Of a runner pod in a live migration (C3)."""

    IDLE = "idle"
    SOURCE = "source"
    TARGET = "target"


class Phase(Enum):
    """Of a VirtualMachine (C33), as far as accounting cares."""

    OTHER = "other"
    """Not alive, or not known."""
    RUNNING = "running"
    """Running or Scaling."""
    FROZEN = "frozen"
    """PreMigrating or Migrating: amounts do not change (D13)."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a machine does, as far as anybody says: what moving it costs depends on it (B17)."""

    load1: float = 0.0
    """1-minute load average."""
    memory_used: int = 0
    """Bytes; 0 is not known, and then all that it uses counts."""
    dirty_rate: float | None = None
    """Bytes a second."""
    last_downtime_s: float | None = None
    """In its last move."""

    def beside(self, former: Load) -> Load:
        """With what was known of it before and is not said now."""
        return Load(
            self.load1 or former.load1,
            self.memory_used or former.memory_used,
            former.dirty_rate if self.dirty_rate is None else self.dirty_rate,
            former.last_downtime_s if self.last_downtime_s is None else self.last_downtime_s,
        )


NO_LOAD: Final = Load()
"""Nobody says anything."""


@dataclass(frozen=True, slots=True)
class Evacuation:
    """A machine is to leave a node because its pod was to be evicted (B48)."""

    node: str
    at: float
    """When that was asked for last, seconds of the epoch."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a pod is not resized in place (B36)."""

    reason: str
    """CamelCase, as conditions have it."""
    message: str


@dataclass(frozen=True, slots=True)
class Resize:
    """What the owner of a plain pod wishes for one of its containers (B34)."""

    container: str
    own: Amounts
    """What the container is to request; what nobody wishes otherwise stays as it is."""
    wanted: Amounts
    """What the pod counts for then, in whole."""
    counts: Amounts
    """And as it is."""
    step: Amounts
    """It is granted in whole ones; where the wish names none, it is all that is missing."""
    done: bool
    """Whether its spec says so already."""
    text: str
    """The wish as it is written: another one is decided on anew."""
    guaranteed: bool = False
    """Of the quality of service to which static managers give whole cores and banks of memory."""
    refusal: Refusal | None = None
    """Why it is not attempted; None: it is."""

    def own_of(self, amount: Amounts) -> Amounts:
        """What the container is to request where the pod gets this much in whole."""
        return self.own - (self.wanted - amount).positive()


@dataclass(frozen=True, slots=True)
class Machine:
    """What is only known of a runner pod: its VirtualMachine."""

    ref: Ref
    own: bool = True
    """Whether its schedulerName is ours."""
    autoscaled: bool = False
    role: Role = Role.IDLE
    migratable: bool = False
    """May be moved by us (C9)."""
    always_migrate: bool = False
    phase: Phase = Phase.RUNNING
    minimum: Amounts | None = None
    """Bounds for scaling (C5); None: no bounds."""
    maximum: Amounts | None = None
    limit: Amounts | None = None
    """What it asks for beyond that is of no use to it, and nobody makes room for it; None: that is not looked at."""
    load: Load = NO_LOAD
    closed_claim: str = ""
    """The claim that was used for it last (`names.CLAIM_CLOSED`)."""
    moved_at: tuple[float, ...] = ()
    """When it was moved, in seconds of the epoch, oldest first (B25)."""
    evacuation: Evacuation | None = None
    """None: nobody has tried to evict its pod."""


@dataclass(frozen=True, slots=True)
class Pod:
    """One pod on a node, or on its way to one."""

    ref: Ref
    reserved: Amounts
    """Booked: never less than `used` (I2), before overcommit."""
    requested: Amounts
    """What it wants; equal to `reserved` when it wants nothing."""
    used: Amounts
    """What it uses: the larger of spec and status (D23)."""
    factor: Amounts
    """Smallest step, the compute unit; zero where it does not scale."""
    overcommit: Amounts
    """In thousandths, a resource each."""
    created_at: float = 0.0
    """Seconds of the epoch."""
    priority: int = 0
    machine: Machine | None = None
    """None: a plain pod."""
    approved: bool = False
    """Whether its annotation of approved resources is there."""
    ignored: bool = False
    """Of an ignored namespace (C28)."""
    tentative: bool = False
    """Placed by a cycle whose binding the cluster does not show yet."""
    deferred: bool = False
    """The kubelet has put a resize of it off, or not looked at it yet: what it wants beyond `used` is demand (B35)."""
    unanswered: bool = False
    """It is deferred for no more than that: its kubelet has yet to look at it."""
    resize: Resize | None = None
    """Of a plain pod; None: nobody wishes another size for it."""
    account: Amounts | None = None
    """Of a runner pod, what it requests and may request more of in place (B47); None: that is not ours to change."""
    infeasible: Refusal | None = None
    """Why its kubelet will never allocate what `account` says; None: it does, or will."""

    needs_node: bool = False
    """Whether it says that only a bigger node helps it (B50)."""
    resize_refused: bool = False
    """Whether it says that its wish is not attempted (B36)."""
    not_resized: bool = False
    """Whether it says that it does not request what its machine may use (B47)."""

    @property
    def uid(self) -> str:
        return self.ref.uid

    @property
    def wish(self) -> Amounts:
        """What it may come to: what it requests, an increase up to its machine's limit."""
        return self.limited(self.requested)

    def limited(self, requested: Amounts) -> Amounts:
        """So much of a request as it may be granted in the best case; what is booked already is not in question."""
        if self.machine is None or self.machine.limit is None:
            return requested
        return requested.least(self.machine.limit.most(self.reserved))

    @property
    def migrating(self) -> bool:
        """Whether it is the source of a migration (C9)."""
        return self.machine is not None and self.machine.role is Role.SOURCE

    @property
    def migratable(self) -> bool:
        return self.machine is not None and self.machine.migratable

    @property
    def frozen(self) -> bool:
        """Whether its machine is in the midst of a live migration, so that its amounts do not change (D13).

        A target grows as little as a source, also when the machine is seen to run: it may run where it was, the move
        having been cancelled, and what were granted here would be used there.
        """
        return self.machine is not None and (self.machine.role is not Role.IDLE or self.machine.phase is Phase.FROZEN)

    def counted(self, amount: Amounts) -> Amounts:
        """An amount of this pod as it counts on its node: after overcommit, divided by pod and resource (C7)."""
        if self.overcommit.values.count(NO_OVERCOMMIT) == len(amount):
            return amount
        pairs = zip(amount.values, self.overcommit.values, strict=True)
        return Amounts(tuple([value * NO_OVERCOMMIT // overcommit for value, overcommit in pairs]))


Pods: TypeAlias = Mapping[str, Pod]
"""By uid."""
NO_PODS: Final[Pods] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Node:
    """One node and what is booked on it. Another one with a pod more costs a copy of the entries' table."""

    name: str
    total: Amounts
    """Its allocatable."""
    watermark: Amounts
    """trunc(total x fraction), a float product (C7)."""
    reserved: Amounts
    """Sum over pods, after overcommit; may exceed `total`."""
    committed: Amounts
    """The same before overcommit."""
    migrating: Amounts
    """The part of `reserved` that sources of migrations hold."""
    pods: Pods = field(default_factory=lambda: NO_PODS)
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    draining: bool = False
    """Asked to be emptied (B46)."""
    schedulable: bool = True
    """Not cordoned, and ready."""
    static: bool = False
    """Its kubelet gives whole cores or banks of memory to guaranteed pods, and resizes none of them (B36)."""

    @property
    def over_budget(self) -> bool:
        return self.reserved.exceeds(self.total)
