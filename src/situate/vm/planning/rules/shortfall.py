"""How much room a pod is short of (B16), in whole units and as it counts on its node."""

from __future__ import annotations

from situate.vm.model.migrations import ClaimState
from situate.vm.model.pods_and_nodes import NO_OVERCOMMIT, Pod
from situate.vm.model.resource_amounts import Amounts, total
from situate.vm.model.state import State


def whole_units(pod: Pod) -> int:
    """So many units of the resource of which it lacks most; 0: it is short of nothing.

    A pod whose resize the kubelet has put off gets all of it or nothing: that is one (B35).
    """
    if pod.deferred:
        return int(pod.reserved.exceeds(pod.used))
    rows = zip(pod.wish, pod.reserved, pod.factor, strict=True)
    return max(-(-max(0, requested - reserved) // (factor or 1)) for requested, reserved, factor in rows)


def shortage(pod: Pod, units: int) -> Amounts:
    """What it takes to grow by so many units: of each resource whole ones, and none beyond what is asked for."""
    if pod.deferred:
        return (pod.reserved - pod.used).positive() if units else Amounts.zero(len(pod.used))
    rows = zip(pod.wish, pod.reserved, pod.factor, strict=True)
    return Amounts(
        tuple(
            min(units, -(-max(0, requested - reserved) // (factor or 1))) * (factor or 1)
            for requested, reserved, factor in rows
        )
    )


def room_for(pod: Pod, amount: Amounts) -> Amounts:
    """The least room in which this much of the pod is granted: as it counts after overcommit, rounded up."""
    rows = zip(amount, pod.overcommit, strict=True)
    return Amounts(tuple(-(-value * NO_OVERCOMMIT // overcommit) for value, overcommit in rows))


def promised(state: State, uid: str) -> Amounts:
    """What moves under way will leave it; what they have left already is room that it has (`State.avail`)."""
    amounts = (
        claim.amount
        for claim in state.claims.values()
        if claim.beneficiary.ref.uid == uid and claim.state is not ClaimState.FREED
    )
    return total(amounts, state.resources)


def missing(state: State, node: str, pod: Pod, units: int) -> Amounts:
    """Room that is not free on the node for so many units of the pod, as it counts there."""
    if not pod.deferred:
        return (room_for(pod, shortage(pod, units)) - state.avail(node, pod.uid)).positive()
    entry = state.nodes[node]  # what it asks for is booked already: it counts for everybody but itself (B35)
    booked = entry.reserved + state.held(node, pod.uid) + state.incoming(node, pod.uid)
    return (booked - entry.total).positive() if units else Amounts.zero(state.resources)


def need(state: State, node: str, pod: Pod, units: int) -> Amounts:
    """Room that has to be made on the node for so many units of the pod: what is missing and is not on its way."""
    return (missing(state, node, pod, units) - promised(state, pod.uid)).positive()
