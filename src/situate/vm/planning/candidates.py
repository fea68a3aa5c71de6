"""Candidates for a migration, or the reason that a VM stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from situate.vm.model.pods_and_nodes import Machine, Phase, Pod, Role
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState
from situate.vm.planning.rules.concurrency import is_ongoing
from situate.vm.planning.rules.cooldown import ANY_TARGET, avoidance_end, cooldown_end, is_cooling_down
from situate.vm.planning.rules.migration_cost import converges

GRANT_USE_S: Final = 10.0
"""How long a VM is not migrated after a grant that it does not use yet.

By then, its agent uses the grant or has given it up (C39).
"""
MAX_COST_S: Final = 1e9
"""Greatest cost that is compared. Higher costs count as equal."""


def price(cost: float) -> int:
    """Return the cost in whole millionths of a second, for comparisons."""
    return round(min(cost, MAX_COST_S) * 1e6)


@dataclass(frozen=True, slots=True)
class Requester:
    """The Pod that other VMs migrate for. None in its place: no such Pod."""

    uid: str
    priority: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """A VM that may leave its node."""

    pod: Pod
    machine: Machine
    node: str
    amount: Amounts
    """The amount to reserve on the target, after overcommit. Usually equal to the amount that the VM leaves."""
    cost: float
    """Cost in seconds-equivalents."""
    targets: tuple[int, ...] = ()
    """Indices into `Targets` of the nodes that accept the VM and have capacity for it alone, by name.

    Empty: not determined.
    """

    @property
    def price(self) -> int:
        """The cost as a whole number."""
        return price(self.cost)

    @property
    def order(self) -> tuple[float, str]:
        """The sort key for ties: creation time, then UID."""
        return (self.pod.created_at, self.pod.uid)


def stay_reason(state: LedgerState, pod: Pod, now: float, rules: Rules, asker: Requester | None) -> str:
    """Return why the VM stays, whatever capacity other nodes have. Empty: it may migrate.

    During its cool-down, a migrated VM may only migrate again for a Pod of higher priority (B25). So it does not
    migrate for a node over its watermark or a draining node.
    """
    machine = pod.machine
    if machine is None:
        return "is not a VM"
    if not machine.own:
        return "belongs to another scheduler"
    if not machine.migratable:
        return "has no label that allows live migration"
    if pod.tentative:
        return "is not bound yet"
    if pod.ignored:
        return "is in an ignored namespace"
    if machine.role is not Role.IDLE or any(
        move.source.uid == pod.uid for move in state.moves.values() if is_ongoing(move)
    ):
        return "is already being migrated"
    if machine.phase is not Phase.RUNNING:
        return "is not running, or is frozen"
    if any(claim.beneficiary.ref.uid == pod.uid for claim in state.claims.values()):
        return "is the beneficiary of a claim on this node"
    if _has_unused_grant(state, pod, now):
        return "has a new grant and is about to use it"
    if asker is not None and pod.priority > asker.priority:
        return f"has priority {pod.priority}, above the priority {asker.priority} of the requester"
    higher = asker is not None and asker.priority > pod.priority
    if is_cooling_down(machine, now, rules.calm) and not higher:
        return f"was migrated, and its cool-down lasts another {cooldown_end(machine, rules.calm) - now:.0f} s"
    if now < (until := avoidance_end(state, machine, ANY_TARGET)):
        return f"could not be copied, and is not migrated for another {until - now:.0f} s"
    if not converges(machine, rules) and not rules.costs.post_copy:
        return "writes memory about as fast as it can be copied"
    return ""


def _has_unused_grant(state: LedgerState, pod: Pod, now: float) -> bool:
    """Return whether the VM has an unused grant. A migration now would freeze the VM before it uses the grant."""
    permit = state.permits.get(pod.uid)
    return permit is not None and now < permit.raised_at + GRANT_USE_S and permit.amount.exceeds(pod.used)
