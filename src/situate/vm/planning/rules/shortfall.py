"""Compute the capacity that a Pod is short of, in whole units and as counted on its node."""

from __future__ import annotations

from situate.vm.model.migrations import ClaimState
from situate.vm.model.pods_and_nodes import NO_OVERCOMMIT, Pod
from situate.vm.model.resource_amounts import Amounts, total
from situate.vm.model.state import LedgerState


def whole_units(pod: Pod) -> int:
    """Return the number of missing units of the resource that lacks most. 0: nothing is missing.

    A Pod with a deferred resize gets all of it or nothing, so it counts as one unit (B35).
    """
    if pod.deferred:
        return int(pod.reserved.exceeds(pod.used))
    rows = zip(pod.limited_request, pod.reserved, pod.factor, strict=True)
    return max(-(-max(0, requested - reserved) // (factor or 1)) for requested, reserved, factor in rows)


def shortage(pod: Pod, units: int) -> Amounts:
    """Return the amount for a growth by this many units: whole units of each resource, and none beyond the request."""
    if pod.deferred:
        return (pod.reserved - pod.used).positive_part() if units else Amounts.zero(len(pod.used))
    rows = zip(pod.limited_request, pod.reserved, pod.factor, strict=True)
    return Amounts(
        tuple(
            min(units, -(-max(0, requested - reserved) // (factor or 1))) * (factor or 1)
            for requested, reserved, factor in rows
        )
    )


def capacity_for(pod: Pod, amount: Amounts) -> Amounts:
    """Return the least capacity for a grant of this amount: after overcommit, rounded up."""
    rows = zip(amount, pod.overcommit, strict=True)
    return Amounts(tuple(-(-value * NO_OVERCOMMIT // overcommit) for value, overcommit in rows))


def promised_capacity(state: LedgerState, uid: str) -> Amounts:
    """Return the amount that migrations in progress will free for the Pod.

    Capacity that they have freed already is in `State.avail`.
    """
    amounts = (
        claim.amount
        for claim in state.claims.values()
        if claim.beneficiary.ref.uid == uid and claim.state is not ClaimState.FREED
    )
    return total(amounts, state.resources)


def missing_capacity(state: LedgerState, node: str, pod: Pod, units: int) -> Amounts:
    """Return the missing capacity on the node for this many units of the Pod, as counted there."""
    if not pod.deferred:
        return (capacity_for(pod, shortage(pod, units)) - state.available(node, pod.uid)).positive_part()
    entry = state.nodes[node]  # its request is in the reserved amount already, so it counts for all but itself (B35)
    booked = entry.reserved + state.held_for_others(node, pod.uid) + state.incoming_amount(node, pod.uid)
    return (booked - entry.total).positive_part() if units else Amounts.zero(state.resources)


def capacity_to_free(state: LedgerState, node: str, pod: Pod, units: int) -> Amounts:
    """Return the capacity to free for this many units of the Pod: the missing amount that no migration will free."""
    return (missing_capacity(state, node, pod, units) - promised_capacity(state, pod.uid)).positive_part()
