"""The queue of unmet requests on each node: the order of service, and capacity held after overtakings."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from situate.vm.api.well_known import NEEDS_NODE
from situate.vm.ledger.grants.arithmetic import pod_after_joint_grants
from situate.vm.ledger.migrations.completion import cancel_migration
from situate.vm.ledger.transaction import Draft
from situate.vm.model.actions import Condition
from situate.vm.model.migrations import ClaimState, Move
from situate.vm.model.pods_and_nodes import Pod
from situate.vm.model.state import LedgerState, Permit, Waiter

Rank: TypeAlias = tuple[int, float, float, str]


def rank(pod: Pod, waiter: Waiter) -> Rank:
    """Return the sort key of a waiter, first served first: priority, granted share, waiting since, UID."""
    return (-pod.priority, share(pod), waiter.since, pod.uid)


def share(pod: Pod) -> float:
    """Return the granted share of the way from minimum to maximum, for the resource where it is largest.

    Without bounds, the way goes from zero to the request.
    """
    machine = pod.machine
    least = None if machine is None else machine.minimum
    most = None if machine is None else machine.maximum
    ways = [
        (reserved - low) / (high - low)
        for reserved, low, high in zip(
            pod.reserved, least or [0] * len(pod.reserved), most or pod.requested, strict=True
        )
        if high > low
    ]
    return max(ways, default=0.0)


def waiters_in_order(state: LedgerState, node: str) -> list[str]:
    """Return the UIDs of the waiters on the node, first served first."""
    entry = state.nodes[node]
    here = [(entry.pods[uid], waiter) for uid, waiter in state.waiters.items() if uid in entry.pods]
    return [pod.uid for pod, waiter in sorted(here, key=lambda each: rank(*each))]


def update_waiter(draft: Draft, pod: Pod) -> None:
    """Add or remove the Pod as a waiter: it waits exactly while its request is unmet or deferred.

    On a node that does not exist, no Pod waits (D19).
    """
    waiter = draft.state.waiters.get(pod.uid)
    if draft.state.where[pod.uid] not in draft.state.nodes:
        draft.drop_waiter(pod.uid)
    elif pod.limited_request.fits_within(pod.reserved) and not pod.deferred:
        if waiter is not None:
            draft.drop_waiter(pod.uid)
            if waiter.needs_node:
                clear_needs_node(draft, pod)
    elif waiter is None:
        draft.put_waiter(Waiter(pod.uid, draft.now, next_attempt_at=draft.now + draft.rules.demand_after_s))
    elif waiter.held_capacity is not None:
        draft.put_waiter(replace(waiter, held_capacity=draft.state.need(pod.uid)))


def restore_needs_node(draft: Draft, pod: Pod) -> None:
    """Apply the condition `NeedsNode` of an earlier term.

    A Pod that still waits keeps the condition. Otherwise the leader clears it.
    """
    waiter = draft.state.waiters.get(pod.uid)
    if pod.needs_node and waiter is None:
        clear_needs_node(draft, pod)
    elif pod.needs_node and waiter is not None:
        draft.put_waiter(replace(waiter, needs_node=True))


def clear_needs_node(draft: Draft, pod: Pod) -> None:
    draft.add_action(Condition(pod.ref, NEEDS_NODE, False, "NotNeeded", ""))


def wait_until(draft: Draft, pod: Pod, until: float) -> None:
    """Add the Pod as a waiter that is evaluated again at this time, whatever it is short of."""
    waiter = draft.state.waiters.get(pod.uid) or Waiter(pod.uid, draft.now)
    draft.put_waiter(replace(waiter, next_attempt_at=until))


def serve_waiters(draft: Draft, node: str) -> None:
    """Grant all free capacity to the waiters, first to those with a freed claim."""
    entry = draft.state.nodes[node]
    if not (entry.total - entry.reserved).positive_part():
        return
    freed_for = {
        claim.beneficiary.ref.uid
        for claim in draft.state.claims.values()
        if claim.node == node and claim.state is ClaimState.FREED
    }
    queue = waiters_in_order(draft.state, node)
    for uid in sorted(queue, key=lambda each: each not in freed_for):
        pod, since = draft.state.nodes[node].pods[uid], draft.state.waiters[uid].since
        own = _growth_migration(draft, pod)
        if (draft.is_migrating(pod) and own is None) or not _grow(draft, node, pod):
            continue
        if uid not in freed_for:
            _count_overtakings(draft, node, pod, since)
        if own is not None and uid not in draft.state.waiters:
            cancel_migration(draft, own, "the current node of the VM now has the capacity")


def _growth_migration(draft: Draft, pod: Pod) -> Move | None:
    """Return the migration of the Pod to a node where it may grow, if it is not frozen.

    Until it is frozen, the Pod may grow here too, up to the amount reserved on the target. If it gets its whole request
    here, the migration is not needed (B19, B20, N10).
    """
    if pod.machine is None or pod.frozen:
        return None
    move = draft.state.move_of(pod.machine.ref)
    if move is None or move.foreign or move.claim:
        return None
    larger = move.amount.exceeds(pod.counted_amount(pod.reserved))
    return move if larger and pod.counted_amount(pod.limited_request).fits_within(move.amount) else None


def _grow(draft: Draft, node: str, pod: Pod) -> bool:
    """Grant the Pod what it can use of its free capacity, and return whether it got anything.

    Resources that grow together get whole units each (B4, B30). The Pod gets all that it can use at once, so that no
    other Pod takes the rest of the capacity that was freed for it (B9).
    """
    pod_now = pod_with_free_capacity(draft.state, node, pod)
    if pod_now is pod:
        return False
    _use_claims(draft, node, pod, pod_now)
    draft.reserve(pod_now, node)
    update_permit(draft, pod_now)
    draft.approve_more(pod, pod_now.reserved - pod.reserved)
    update_waiter(draft, pod_now)
    return True


def pod_with_free_capacity(state: LedgerState, node: str, pod: Pod) -> Pod:
    """Return the Pod with all the capacity that is free for its request; the same object if there is none."""
    wish = replace(pod, requested=pod.limited_request.maximum(pod.reserved))
    if not any(wish.factor):
        wish = replace(wish, factor=wish.requested - wish.reserved)
    grown = pod_after_joint_grants(wish, state.available(node, pod.uid))
    return pod if grown.reserved == pod.reserved else replace(pod, reserved=grown.reserved)


def update_permit(draft: Draft, pod: Pod) -> None:
    """Set the amount of the next answer to the agent, and the time to use it."""
    told, expires = pod.reserved.minimum(pod.requested), draft.now + draft.rules.permits.lifetime_s
    former = draft.state.permits.get(pod.uid) or Permit(told, expires)
    draft.put_permit(pod.uid, replace(former, amount=told, expires=expires, raised_at=draft.now))


def _use_claims(draft: Draft, node: str, before: Pod, after: Pod) -> None:
    """Take the grant first from the freed claims of the Pod, then from free capacity."""
    got = after.counted_amount(after.reserved) - before.counted_amount(before.reserved)
    for claim in list(draft.state.claims.values()):
        if claim.node != node or claim.state is not ClaimState.FREED or claim.beneficiary.ref.uid != after.uid:
            continue
        used = got.minimum(claim.amount)
        got = got - used
        if used:
            draft.put_claim(replace(claim, amount=claim.amount - used))
            draft.record_used_claim(after.uid, claim.id)


def _count_overtakings(draft: Draft, node: str, served: Pod, since: float) -> None:
    """Count an overtaking for each earlier waiter of equal or higher priority. At the limit, hold capacity for it."""
    pods = draft.state.nodes[node].pods
    for uid, waiter in draft.state.waiters.items():
        if uid not in pods or uid == served.uid or waiter.since >= since or pods[uid].priority < served.priority:
            continue
        overtaken = waiter.overtaken_count + 1
        saving = draft.state.need(uid) if overtaken >= draft.rules.overtakes else waiter.held_capacity
        draft.put_waiter(replace(waiter, overtaken_count=overtaken, held_capacity=saving))
