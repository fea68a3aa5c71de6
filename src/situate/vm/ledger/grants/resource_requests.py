"""Handle a request of an agent or of a Pod's owner: requested amount, reserved amount, answer.

`situate.vm.ledger.grants.wait_queue` grants the increase, together with all other waiters of the node (D8, D13, D24).
"""

from __future__ import annotations

import math
from dataclasses import replace

from situate.vm.ledger.grants import wait_queue
from situate.vm.ledger.transaction import Draft
from situate.vm.model.events import ResourcesRequested
from situate.vm.model.pods_and_nodes import Pod
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import Permit


def record_request(draft: Draft, event: ResourcesRequested) -> None:
    """Record a request. A request that is outdated, or for a Pod that is unknown or frozen, changes nothing.

    An unused increase that has expired is lowered to the amount in use. The agent may request it again (B28, B29).
    """
    pod, permit = draft.state.pod(event.uid), draft.state.permits.get(event.uid)
    if pod is None or pod.frozen or is_overtaken(event, permit):
        return
    if permit is not None and permit.sequence is not None and event.run != permit.run:
        # it may be the last request of a replaced agent: that agent holds at least the permit of its successor
        event = replace(event, lowers_at_once=False)
    node = draft.state.where[pod.uid]
    pod = _pod_with_load(pod, event)
    kept = _amount_to_keep(pod, event, permit)
    lapsed = permit is not None and permit.expires <= draft.now and kept.exceeds(pod.used)
    changed = replace(pod, requested=event.requested, factor=event.unit)
    draft.reserve(changed, node)
    write = draft.state.writes.get(pod.uid)
    # an unwanted decrease in progress must not take effect: the answer to the agent is the reserved amount
    other = write is not None and not write.landed and write.amount != kept
    if other or kept != pod.reserved or (pod.machine is not None and not pod.approved):
        draft.approve(pod.uid, kept)
    elif (changed.requested, changed.factor) != (pod.requested, pod.factor):
        draft.expect_request(changed)
    told = kept.minimum(pod.used if lapsed else kept).minimum(event.requested)
    lowered = event.lowers_at_once and not lapsed
    raised_at = -math.inf if permit is None else permit.raised_at
    expires = draft.now + draft.rules.permits.lifetime_s
    draft.put_permit(pod.uid, Permit(told, expires, event.sequence, lowered, raised_at, event.run))
    wait_queue.update_waiter(draft, changed)
    draft.mark_changed(node)


def _pod_with_load(pod: Pod, event: ResourcesRequested) -> Pod:
    """Return the Pod with the reported load, which enters the migration cost."""
    if pod.machine is None or event.load1 is None:
        return pod
    return replace(pod, machine=replace(pod.machine, load=replace(pod.machine.load, load1=event.load1)))


def is_overtaken(event: ResourcesRequested, permit: Permit | None) -> bool:
    """Return whether the agent has sent a newer request.

    Only numbers of one run are compared: another process, or the agent on another node, may count from any number.
    """
    if permit is None or permit.sequence is None or event.sequence is None:
        return False
    return event.run == permit.run and event.sequence < permit.sequence


def release_unused(draft: Draft, pod: Pod) -> None:
    """Free the unused amount of a VM that shrank.

    The cluster may show the smaller VM only after its agent requested less. This applies only if the agent holds no
    larger permit than its last answer, so that the VM cannot use the amount again (D24).
    """
    permit = draft.state.permits.get(pod.uid)
    if permit is None or not permit.lowered or pod.machine is None or pod.frozen:
        return
    write = draft.state.writes.get(pod.uid)
    written = pod.reserved if write is None else write.amount
    kept = written.minimum(permit.amount.maximum(pod.used))
    if kept != written:
        draft.approve(pod.uid, kept)


def _amount_to_keep(pod: Pod, event: ResourcesRequested, permit: Permit | None) -> Amounts:
    """Return the amount that stays reserved.

    It is never below the amount in use, nor below the permit that the agent may hold (D8, D24, I2). An agent that
    lowers its own permit before it sends a decrease holds no more than its request. For any other agent, only a permit
    that it repeats in `last_permit` is certain.
    """
    kept = pod.reserved
    if permit is not None and event.last_permit == permit.amount:
        kept = kept.minimum(permit.amount.maximum(event.requested))
    if event.lowers_at_once:
        kept = kept.minimum(event.requested)
    return kept.maximum(pod.used)
