"""The queue of unmet requests on each node: the order of service, and capacity held after overtakings."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from situate.vm.api.well_known import NEEDS_NODE
from situate.vm.ledger.grants.arithmetic import pod_with_all
from situate.vm.ledger.migrations.completion import cancel
from situate.vm.ledger.transaction import Draft
from situate.vm.model.actions import Condition
from situate.vm.model.migrations import ClaimState, Move
from situate.vm.model.pods_and_nodes import Pod
from situate.vm.model.state import Permit, State, Waiter

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


def in_order(state: State, node: str) -> list[str]:
    """Return the UIDs of the waiters on the node, first served first."""
    entry = state.nodes[node]
    here = [(entry.pods[uid], waiter) for uid, waiter in state.waiters.items() if uid in entry.pods]
    return [pod.uid for pod, waiter in sorted(here, key=lambda each: rank(*each))]


def note(draft: Draft, pod: Pod) -> None:
    """Add or remove the Pod as a waiter: it waits exactly while its request is unmet or deferred.

    On a node that does not exist, no Pod waits (D19).
    """
    waiter = draft.state.waiters.get(pod.uid)
    if draft.state.where[pod.uid] not in draft.state.nodes:
        draft.drop_waiter(pod.uid)
    elif pod.wish.within(pod.reserved) and not pod.deferred:
        if waiter is not None:
            draft.drop_waiter(pod.uid)
            if waiter.needs_node:
                no_node_is_needed(draft, pod)
    elif waiter is None:
        draft.put_waiter(Waiter(pod.uid, draft.now, look_at=draft.now + draft.rules.demand_after_s))
    elif waiter.saving is not None:
        draft.put_waiter(replace(waiter, saving=draft.state.need(pod.uid)))


def recall(draft: Draft, pod: Pod) -> None:
    """Apply the condition `NeedsNode` of an earlier term.

    A Pod that still waits keeps the condition. Otherwise the leader clears it.
    """
    waiter = draft.state.waiters.get(pod.uid)
    if pod.needs_node and waiter is None:
        no_node_is_needed(draft, pod)
    elif pod.needs_node and waiter is not None:
        draft.put_waiter(replace(waiter, needs_node=True))


def no_node_is_needed(draft: Draft, pod: Pod) -> None:
    draft.do(Condition(pod.ref, NEEDS_NODE, False, "NotNeeded", ""))


def must_wait(draft: Draft, pod: Pod, until: float) -> None:
    """Add the Pod as a waiter that is evaluated again at this time, whatever it is short of."""
    waiter = draft.state.waiters.get(pod.uid) or Waiter(pod.uid, draft.now)
    draft.put_waiter(replace(waiter, look_at=until))


def serve(draft: Draft, node: str) -> None:
    """Grant all free capacity to the waiters, first to those with a freed claim."""
    entry = draft.state.nodes[node]
    if not (entry.total - entry.reserved).positive():
        return
    freed_for = {
        claim.beneficiary.ref.uid
        for claim in draft.state.claims.values()
        if claim.node == node and claim.state is ClaimState.FREED
    }
    queue = in_order(draft.state, node)
    for uid in sorted(queue, key=lambda each: each not in freed_for):
        pod, since = draft.state.nodes[node].pods[uid], draft.state.waiters[uid].since
        own = _for_its_own_growth(draft, pod)
        if (draft.moves(pod) and own is None) or not _grow(draft, node, pod):
            continue
        if uid not in freed_for:
            _passed_over(draft, node, pod, since)
        if own is not None and uid not in draft.state.waiters:
            cancel(draft, own, "the current node of the VM now has the capacity")


def _for_its_own_growth(draft: Draft, pod: Pod) -> Move | None:
    """Return the migration of the Pod to a node where it may grow, if it is not frozen.

    Until it is frozen, the Pod may grow here too, up to the amount reserved on the target. If it gets its whole request
    here, the migration is not needed (B19, B20, N10).
    """
    if pod.machine is None or pod.frozen:
        return None
    move = draft.state.move_of(pod.machine.ref)
    if move is None or move.foreign or move.claim:
        return None
    larger = move.amount.exceeds(pod.counted(pod.reserved))
    return move if larger and pod.counted(pod.wish).within(move.amount) else None


def _grow(draft: Draft, node: str, pod: Pod) -> bool:
    """Grant the Pod what it can use of its free capacity, and return whether it got anything.

    Resources that grow together get whole units each (B4, B30). The Pod gets all that it can use at once, so that no
    other Pod takes the rest of the capacity that was freed for it (B9).
    """
    pod_now = with_what_is_free(draft.state, node, pod)
    if pod_now is pod:
        return False
    _use_claims(draft, node, pod, pod_now)
    draft.book(pod_now, node)
    permit(draft, pod_now)
    draft.approve_more(pod, pod_now.reserved - pod.reserved)
    note(draft, pod_now)
    return True


def with_what_is_free(state: State, node: str, pod: Pod) -> Pod:
    """Return the Pod with all the capacity that is free for its request; the same object if there is none."""
    wish = replace(pod, requested=pod.wish.most(pod.reserved))
    if not any(wish.factor):
        wish = replace(wish, factor=wish.requested - wish.reserved)
    grown = pod_with_all(wish, state.avail(node, pod.uid))
    return pod if grown.reserved == pod.reserved else replace(pod, reserved=grown.reserved)


def permit(draft: Draft, pod: Pod) -> None:
    """Set the amount of the next answer to the agent, and the time to use it."""
    told, expires = pod.reserved.least(pod.requested), draft.now + draft.rules.permit_s
    former = draft.state.permits.get(pod.uid) or Permit(told, expires)
    draft.put_permit(pod.uid, replace(former, amount=told, expires=expires, raised_at=draft.now))


def _use_claims(draft: Draft, node: str, before: Pod, after: Pod) -> None:
    """Take the grant first from the freed claims of the Pod, then from free capacity."""
    got = after.counted(after.reserved) - before.counted(before.reserved)
    for claim in list(draft.state.claims.values()):
        if claim.node != node or claim.state is not ClaimState.FREED or claim.beneficiary.ref.uid != after.uid:
            continue
        used = got.least(claim.amount)
        got = got - used
        if used:
            draft.put_claim(replace(claim, amount=claim.amount - used))
            draft.used_claim(after.uid, claim.id)


def _passed_over(draft: Draft, node: str, served: Pod, since: float) -> None:
    """Count an overtaking for each earlier waiter of equal or higher priority. At the limit, hold capacity for it."""
    pods = draft.state.nodes[node].pods
    for uid, waiter in draft.state.waiters.items():
        if uid not in pods or uid == served.uid or waiter.since >= since or pods[uid].priority < served.priority:
            continue
        overtaken = waiter.overtaken + 1
        saving = draft.state.need(uid) if overtaken >= draft.rules.overtakes else waiter.saving
        draft.put_waiter(replace(waiter, overtaken=overtaken, saving=saving))
