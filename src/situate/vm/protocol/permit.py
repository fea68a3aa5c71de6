"""Answers to agents: the permitted size, the reason for a smaller one, and the time to ask again (B28, D13).

`decide_permit` reads the state after the step of the request, or after any later step that changed the reserved amount.
An increase may be sent only after its write is stored (`is_settled`). Otherwise a restart would find less than the
agent uses (I2).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from situate.vm.model.events import ResourcesRequested
from situate.vm.model.pods_and_nodes import Pod
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState


class PermitReason(Enum):
    GRANTED = "granted"
    PARTIAL = "partial"
    NO_ROOM = "noRoom"
    CLAIMED_BY_OTHERS = "claimedByOthers"
    FROZEN = "frozen"
    STARTING = "starting"
    BUSY = "busy"
    """The API server did not store a needed write in time (F16)."""


@dataclass(frozen=True, slots=True)
class PermitDecision:
    permit: Amounts
    """The total, not the increase. Never above the request, unless nothing may change now (I11)."""
    reason: PermitReason
    retry_after_s: float | None = None
    """None: there is no reason to ask again."""
    plan: str = ""
    """Plan of the migrations that free capacity for the request."""
    expires: float | None = None
    """Time at which the unused part of the permit lapses; None: it does not lapse."""
    migrate: bool = False
    """The VM is being migrated."""


def decide_permit(state: LedgerState, asked: ResourcesRequested, rules: Rules) -> PermitDecision | None:
    """Return the answer for an agent's request; None if the Pod is on no known node."""
    pod = state.pod(asked.uid)
    if pod is None:
        return None
    if pod.frozen or not state.started:
        held = pod.reserved if asked.last_permit is None else asked.last_permit.minimum(pod.reserved)
        reason = PermitReason.FROZEN if pod.frozen else PermitReason.STARTING
        return PermitDecision(held, reason, rules.retry_s, migrate=pod.frozen)
    known = state.permits.get(pod.uid)
    permit = pod.reserved.minimum(asked.requested) if known is None else known.amount.minimum(asked.requested)
    if asked.requested.fits_within(permit):
        expires = known.expires if known is not None and permit.exceeds(pod.used) else None
        return PermitDecision(permit, PermitReason.GRANTED, expires=expires)
    if pod.limit_request(asked.requested).fits_within(permit):
        # the maximum of its VM: there is no reason to ask again
        return PermitDecision(permit, PermitReason.PARTIAL, expires=None if known is None else known.expires)
    plan = next((claim.plan for claim in state.claims.values() if claim.beneficiary.ref.uid == pod.uid), "")
    reason = _shortage_reason(state, pod, asked, permit)
    return PermitDecision(permit, reason, rules.retry_s, plan, None if known is None else known.expires)


def is_settled(state: LedgerState, uid: str) -> bool:
    """Return whether the last decision on the Pod is known to be written."""
    write = state.writes.get(uid)
    return write is None or write.landed


def _shortage_reason(state: LedgerState, pod: Pod, asked: ResourcesRequested, permit: Amounts) -> PermitReason:
    before = permit if asked.last_permit is None else asked.last_permit
    wish = pod.limit_request(asked.requested)
    if permit.exceeds(before) or wish.fits_within(pod.reserved):
        return PermitReason.PARTIAL
    node = state.where[pod.uid]
    kept = state.held_for_others(node, pod.uid) + state.incoming_amount(node, pod.uid)
    room = state.nodes[node].total - state.nodes[node].reserved
    missing = pod.counted_amount(wish.maximum(pod.reserved)) - pod.counted_amount(pod.reserved)
    return (
        PermitReason.CLAIMED_BY_OTHERS if kept and missing.fits_within(room.positive_part()) else PermitReason.NO_ROOM
    )
