"""Results of `situate.vm.planning`: the VMs to migrate, their targets and their beneficiaries.

`plan_for_pod.plan` frees capacity for a Pod that is short, `node_relief.relief` handles a node over its watermark, and
`drain.drain` empties a node. All three are functions of the state, the time and the rules, and change nothing.

To carry out a plan, add its claims and migrations to the state. Then start the migrations that `concurrency.ready`
returns, now and whenever a migration ends. A migration waits while its target is being freed or limits are reached.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from situate.vm.model.migrations import Claim, Move
from situate.vm.model.pods_and_nodes import Ref
from situate.vm.model.resource_amounts import Amounts


class Way(Enum):
    """The ways to free capacity."""

    NEIGHBOURS = "neighbours"
    """Other VMs leave the node."""
    ITSELF = "itself"
    """The VM that is short migrates to a node with enough capacity."""
    WAITING = "waiting"
    """Migrations in progress free enough unclaimed capacity."""
    CHAIN = "chain"
    """Other VMs leave the node, after capacity is freed on the target of one of them."""
    PART = "part"
    """Other VMs leave and free at least one unit, but not the whole need."""
    EVICTION = "eviction"
    RELIEF = "relief"
    """The node is over its watermark."""
    DRAIN = "drain"
    EVACUATION = "evacuation"
    """Evictions of its Pods were refused."""
    CONSOLIDATION = "consolidation"


@dataclass(frozen=True, slots=True)
class Alternative:
    """A way that was evaluated and not taken."""

    kind: Way
    cost: float | None
    """Cost in seconds-equivalents (B17). None: this way does not help."""
    why_not: str


@dataclass(frozen=True, slots=True)
class Plan:
    """The migrations and evictions to carry out. If there are none, `reasons` says why."""

    id: str
    way: Way | None = None
    """None: no action."""
    moves: tuple[Move, ...] = ()
    """Migrations in the order of their start.

    If an open claim has this migration as its beneficiary of kind Target, the migration waits until the claim is freed.
    Then its target reservation uses the capacity, and the claim is closed.
    """
    claims: tuple[Claim, ...] = ()
    """One claim for each migration with a beneficiary, named in `Move.claim`.

    A VM that migrates to grow itself frees no capacity and has no claim: its amount is reserved on the target.
    """
    evictions: tuple[Ref, ...] = ()
    """Pods to evict (B19). There are no claims for them: claims belong to migrations."""
    cost: float = 0.0
    """Cost of all migrations, in seconds-equivalents (B17)."""
    needs_node: Amounts | None = None
    """Set if no migration helps and a new node with this much capacity below its watermark would (B50)."""
    alternatives: tuple[Alternative, ...] = ()
    reasons: tuple[str, ...] = ()
    """Sentences for users: why a node, a VM or a way was not chosen."""
    unsolved: bool = False
    """Whether a Pod stays short, or a VM stays on a node that it should leave.

    Waiting for the concurrency limits (B26) does not count.
    """

    def __bool__(self) -> bool:
        """Return whether the plan has any action."""
        return bool(self.moves or self.evictions)
