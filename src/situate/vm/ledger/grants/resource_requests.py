"""A request of an agent, or of a pod's owner: what it wants, what it still holds, what it is told (D8, D13, D24).

What it may grow to is decided with all others who wait on its node, in `situate.vm.ledger.grants.wait_queue`.
"""

from __future__ import annotations

import math
from dataclasses import replace

from situate.vm.ledger.grants import wait_queue
from situate.vm.ledger.transaction import Draft
from situate.vm.model.events import Asked
from situate.vm.model.pods_and_nodes import Pod
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import Permit


def asked(draft: Draft, event: Asked) -> None:
    """One that a newer one overtook, or that asks for a pod that is unknown or being moved, changes nothing.

    An increase that was not used in time is lowered to what is used; who wants it still, asks again (B28, B29).
    """
    pod, permit = draft.state.pod(event.uid), draft.state.permits.get(event.uid)
    if pod is None or pod.frozen or overtaken(event, permit):
        return
    if permit is not None and permit.sequence is not None and event.run != permit.run:
        # it may be the last one of an agent that has been replaced: that holds no less than its successor was told
        event = replace(event, lowers_at_once=False)
    node = draft.state.where[pod.uid]
    pod = _at_work(pod, event)
    kept = _kept(pod, event, permit)
    lapsed = permit is not None and permit.expires <= draft.now and kept.exceeds(pod.used)
    changed = replace(pod, requested=event.requested, factor=event.unit)
    draft.book(changed, node)
    write = draft.state.writes.get(pod.uid)
    # a decrease that is being written and is wanted no more must not come true: the agent is told what is booked
    other = write is not None and not write.landed and write.amount != kept
    if other or kept != pod.reserved or (pod.machine is not None and not pod.approved):
        draft.approve(pod.uid, kept)
    elif (changed.requested, changed.factor) != (pod.requested, pod.factor):
        draft.expect(changed)
    told = kept.least(pod.used if lapsed else kept).least(event.requested)
    lowered = event.lowers_at_once and not lapsed
    raised_at = -math.inf if permit is None else permit.raised_at
    expires = draft.now + draft.rules.permit_s
    draft.put_permit(pod.uid, Permit(told, expires, event.sequence, lowered, raised_at, event.run))
    wait_queue.note(draft, changed)
    draft.stir(node)


def _at_work(pod: Pod, event: Asked) -> Pod:
    """With how busy it is: who is moved to make room goes by that (B17)."""
    if pod.machine is None or event.load1 is None:
        return pod
    return replace(pod, machine=replace(pod.machine, load=replace(pod.machine.load, load1=event.load1)))


def overtaken(event: Asked, permit: Permit | None) -> bool:
    """Whether its agent has asked for something else since (F5).

    Only numbers of one run are compared: another process, or the one on another node, may count from anywhere.
    """
    if permit is None or permit.sequence is None or event.sequence is None:
        return False
    return event.run == permit.run and event.sequence < permit.sequence


def give_back(draft: Draft, pod: Pod) -> None:
    """A machine may be seen to have shrunk only after its agent has asked for less: what it used is written off then.

    Only of an agent that holds no more than it was told, so that nothing can be used of it again (D24).
    """
    permit = draft.state.permits.get(pod.uid)
    if permit is None or not permit.lowered or pod.machine is None or pod.frozen:
        return
    write = draft.state.writes.get(pod.uid)
    written = pod.reserved if write is None else write.amount
    kept = written.least(permit.amount.most(pod.used))
    if kept != written:
        draft.approve(pod.uid, kept)


def _kept(pod: Pod, event: Asked, permit: Permit | None) -> Amounts:
    """What stays booked: never less than it uses, nor than what its agent may still believe to hold (D8, D24, I2).

    An agent that lowers its own permit before it sends a decrease holds no more than it asks for. Of any other, only
    what it was told and now tells back is sure.
    """
    kept = pod.reserved
    if permit is not None and event.last_permit == permit.amount:
        kept = kept.least(permit.amount.most(event.requested))
    if event.lowers_at_once:
        kept = kept.least(event.requested)
    return kept.most(pod.used)
