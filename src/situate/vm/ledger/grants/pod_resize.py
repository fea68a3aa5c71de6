"""Resize requests of plain Pods: decide which are attempted, and handle the results.

An attempted request is one more request of the ledger: grants and migrations work as for VMs. A request that is not
attempted gets a condition on its Pod. It is decided again when it changes or its obstacle changes (B34 to B36).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from situate.vm.api.quantities import format_amount
from situate.vm.api.well_known import RESIZE_REFUSED, RESIZE_REQUESTED
from situate.vm.ledger.grants import wait_queue
from situate.vm.ledger.transaction import Draft
from situate.vm.model.actions import Condition, ResizePod
from situate.vm.model.events import WriteResult
from situate.vm.model.pods_and_nodes import Node, Pod, Refusal, Resize
from situate.vm.model.policy import DENIED_RETRY_S
from situate.vm.model.state import DeniedResize, PendingWrite

_NODE_REFUSALS: Final = ("LargerThanNode", "StaticManager")
RETRIED_REFUSALS: Final = ("Denied", "NotYet")
"""Refusals of the API server that are retried."""
_SERVER_REFUSALS: Final = ("Refused", *RETRIED_REFUSALS)


def decide_resize(draft: Draft, former: Pod | None, seen: Pod, pod: Pod, node: str) -> Pod:
    """Return the Pod with its resize request, or without it if the request is not attempted.

    `seen` is the Pod as the cluster shows it.
    """
    wish, write = pod.resize, draft.state.writes.get(pod.uid)
    if wish is None:
        _update_condition(draft, former, pod, None)
        if former is not None and former.resize is not None:
            draft.drop_denied(pod.uid)
            # a write in progress tests for the request: it fails, or the Pod already shows it
            draft.drop_approval(pod.uid)
            pod = replace(pod, reserved=seen.reserved.maximum(seen.used))
        return pod
    denied = draft.state.denied.get(pod.uid)
    if denied is not None and denied.text != wish.text:
        draft.drop_denied(pod.uid)
        denied = None
    refusal = wish.refusal or (denied.refusal if denied is not None else None) or _node_refusal(draft, node, wish)
    _update_condition(draft, former, pod, refusal)
    if refusal is not None:
        pod = replace(
            pod, requested=seen.reserved, factor=pod.factor - pod.factor, resize=replace(wish, refusal=refusal)
        )
        pod = _release_reservation(draft, seen, pod, write)
        return replace(pod, requested=pod.reserved)
    changed = former is not None and former.resize is not None and former.resize.text != wish.text
    under_way = write is not None and not write.landed
    base = wish.counts if write is None else write.amount
    if changed and under_way:  # a smaller earlier request in progress fails too
        base = base.maximum(wish.counts)
    target = base.minimum(wish.wanted)
    if former is not None and _exceeds_request(wish) and _was_satisfied(former, wish):
        draft.notify(pod.ref, "ResizedBack", _RESIZED_BACK, warning=True)
    begins = write is None and not wish.done and wish.wanted.fits_within(wish.counts)
    if target != base or begins or (changed and under_way):  # a write that was sent for another request fails
        draft.approve(pod.uid, target)
    return pod


_RESIZED_BACK: Final = (
    "Another client resized the Pod beyond its request, so the Pod returns to its request. "
    f"Remove the annotation {RESIZE_REQUESTED} before you resize the Pod by hand"
)


def _exceeds_request(wish: Resize) -> bool:
    return wish.counts.exceeds(wish.wanted)


def _was_satisfied(former: Pod, wish: Resize) -> bool:
    """Return whether the request is unchanged and the Pod was not beyond it before."""
    known = former.resize
    return known is not None and known.text == wish.text and not _exceeds_request(known)


def _release_reservation(draft: Draft, seen: Pod, pod: Pod, write: PendingWrite | None) -> Pod:
    """Free the reserved amount of a request that is no longer attempted, unless its write may still succeed."""
    if write is not None and not write.landed and (write.retry_at is None or not write.refused):
        return pod
    draft.drop_approval(pod.uid)
    return replace(pod, reserved=seen.reserved.maximum(seen.used))


def _node_refusal(draft: Draft, name: str, wish: Resize) -> Refusal | None:
    node = draft.state.nodes.get(name)
    if node is None:
        return None
    if node.static and wish.guaranteed:
        return Refusal("StaticManager", f"the kubelet of node {name} pins CPUs or memory for such pods (static policy)")
    sizes = zip(draft.rules.resources, wish.wanted, wish.counts, node.total, strict=True)
    larger = [(each, wanted, total) for each, wanted, counts, total in sizes if wanted > max(counts, total)]
    if not larger:
        return None
    has = " and ".join(f"{format_amount(each, total)} {each}" for each, _, total in larger)
    needs = " and ".join(f"{format_amount(each, wanted)} {each}" for each, wanted, _ in larger)
    return Refusal("LargerThanNode", f"node {name} has {has} in total, and the pod would need {needs}")


def reconsider_node(draft: Draft, node: Node) -> None:
    """Decide again on the requests that the node may prevent or allow."""
    _reconsider(
        draft, (pod for pod in node.pods.values() if _is_refused_for(pod, _NODE_REFUSALS) or _has_open_request(pod))
    )


def retry_due_requests(draft: Draft) -> None:
    """Retry the requests whose pause after a refusal has ended."""
    for uid, denied in list(draft.state.denied.items()):
        if denied.until is not None and denied.until <= draft.now:
            draft.drop_denied(uid)
            pod = draft.state.pod(uid)
            _reconsider(
                draft, (each for each in (pod,) if each is not None and _is_refused_for(each, _SERVER_REFUSALS))
            )


def _reconsider(draft: Draft, pods: Iterable[Pod]) -> None:
    for pod in list(pods):
        assert pod.resize is not None
        own = None if _is_refused_for(pod, (*_NODE_REFUSALS, *_SERVER_REFUSALS)) else pod.resize.refusal
        wish = replace(pod.resize, refusal=own)
        node = draft.state.where[pod.uid]
        asking = replace(pod, requested=wish.wanted, factor=wish.step, resize=wish)
        anew = decide_resize(draft, pod, replace(asking, reserved=wish.counts), asking, node)
        draft.reserve(anew, node)
        wait_queue.update_waiter(draft, anew)
        draft.mark_changed(node)


def _has_open_request(pod: Pod) -> bool:
    return pod.resize is not None and pod.resize.refusal is None


def _is_refused_for(pod: Pod, reasons: tuple[str, ...]) -> bool:
    return pod.resize is not None and pod.resize.refusal is not None and pod.resize.refusal.reason in reasons


def record_refusal(draft: Draft, pod: Pod, event: WriteResult) -> bool:
    """Return whether the API server refused the resize, for now or for good. Then nothing is reserved for it."""
    wish = pod.resize
    if not isinstance(event.action, ResizePod) or wish is None:
        return False
    says, of_another = event.outcome in _REFUSAL_BY_OUTCOME, event.action.request_text != wish.text
    if wish.refusal is not None and (event.outcome == "conflict" or (says and of_another)):  # it is not retried either
        draft.drop_approval(pod.uid)
        _reconsider(draft, (pod,))
        return True
    if not says or of_another:  # a refusal of an earlier request does not apply to the current one
        return False
    reason, wait = _REFUSAL_BY_OUTCOME[event.outcome]
    seconds = {"denied": DENIED_RETRY_S, "later": draft.rules.retry_s}.get(wait)
    until = None if seconds is None else draft.now + seconds
    draft.put_denied(pod.uid, DeniedResize(wish.text, Refusal(reason, event.reason), until))
    draft.drop_approval(pod.uid)
    _reconsider(draft, (pod,))
    return True


_REFUSAL_BY_OUTCOME: Final = {"refused": ("Refused", ""), "denied": ("Denied", "denied"), "later": ("NotYet", "later")}
"""By outcome: the reason of the condition, and the kind of pause before a retry. Empty: no retry."""


def _update_condition(draft: Draft, former: Pod | None, pod: Pod, refusal: Refusal | None) -> None:
    """Set or clear the condition, once for each refusal.

    A Pod that the ledger did not know before may still have a condition from an earlier term.
    """
    told = former.resize.refusal if former is not None and former.resize is not None else None
    left_over = former is None and pod.resize_refused
    if refusal == told and not left_over:
        return
    if refusal is None:
        draft.add_action(Condition(pod.ref, RESIZE_REFUSED, False, "NotRefused", ""))
        return
    draft.add_action(Condition(pod.ref, RESIZE_REFUSED, True, refusal.reason, refusal.message))
    draft.notify(pod.ref, RESIZE_REFUSED, f"{refusal.reason}: {refusal.message}", warning=True, cause=refusal.reason)
