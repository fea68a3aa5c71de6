"""Events for one decision: denied requests, started migrations, reduced claims.

Each is recorded once: anything already in the state before the step was recorded then. Ends are recorded where they
happen, in `situate.vm.ledger.migrations.completion`. Faults are recorded where they are noticed (B41).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from situate.vm.api.quantities import format_amount
from situate.vm.ledger.transaction import Draft
from situate.vm.model.actions import ShrinkClaim, StartMove
from situate.vm.model.migrations import Claim, Move
from situate.vm.model.pods_and_nodes import Pod, Ref
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState

_MAX_NAMES: Final = 3


def add_notifications(before: LedgerState, draft: Draft) -> None:
    """Add the Events of this step to the draft. `before` is the state at its start."""
    for action in tuple(draft.actions):
        match action:
            case StartMove(move, claim) if not _was_requested(before, move):
                _notify_start(draft, move, claim)
            case ShrinkClaim(claim) if _is_smaller(before, draft.state, claim):
                _notify_shrink(draft, claim)
    if draft.state.waiters is not before.waiters:
        for uid in sorted(draft.state.waiters.keys() - before.waiters.keys()):
            _notify_wait(draft, uid)
    if draft.state.nodes is not before.nodes:
        for uid in draft.state.waiters.keys() & before.waiters.keys():
            if _wants_more(before.pod(uid), draft.state.pod(uid)) or _was_deferred(before, draft.state, uid):
                _notify_wait(draft, uid)


def _wants_more(before: Pod | None, now: Pod | None) -> bool:
    """Return whether the request grew in this step. The larger request is denied as well."""
    return (
        before is not now
        and before is not None
        and now is not None
        and now.limited_request.exceeds(before.limited_request)
    )


def _was_deferred(before: LedgerState, after: LedgerState, uid: str) -> bool:
    """Return whether the kubelet deferred the resize in this step and there seemed to be enough capacity before."""
    was, now = before.pod(uid), after.pod(uid)
    if was is None or now is None or not was.unanswered or now.unanswered:
        return False
    return now.deferred and not before.need(uid)


def _was_requested(before: LedgerState, move: Move) -> bool:
    known = before.moves.get(move.key)
    return known is not None and known.requested_at is not None


def _is_smaller(before: LedgerState, after: LedgerState, claim: Claim) -> bool:
    """Return whether the claim shrank in this step and stays open.

    Of several reductions in one step, the last one counts. A broken claim has its own Event.
    """
    known = before.claims.get(claim.id)
    return known is not None and after.claims.get(claim.id) == claim != known and not claim.broken


def _notify_start(draft: Draft, move: Move, claim: Claim | None) -> None:
    way = f"from node {move.source_node} to node {move.target_node}"
    whom = "" if claim is None else f" to free capacity for {claim.beneficiary.ref}"
    draft.notify(move.machine, "MoveBegins", f"The VM migrates {way}{whom}", plan=move.plan, target=move.target_node)
    if claim is not None:
        made = (
            f"VM {move.machine} migrates {way} to free capacity for this request: {_amounts_text(draft, claim.amount)}"
        )
        draft.notify(claim.beneficiary.ref, "RoomIsMade", made, plan=move.plan, claim=claim.id, node=claim.node)


def _notify_shrink(draft: Draft, claim: Claim) -> None:
    message = f"The claim on capacity of node {claim.node} shrank to {_amounts_text(draft, claim.amount)}"
    draft.notify(claim.beneficiary.ref, "ClaimShrinks", message, claim=claim.id, node=claim.node)


def _notify_wait(draft: Draft, uid: str) -> None:
    state = draft.state
    pod, node = state.pod(uid), state.where.get(uid, "")
    if pod is None or node not in state.nodes or (pod.unanswered and not state.need(uid)):
        return
    short = _missing_amount(pod)
    if short:
        message = f"The request is short by {_amounts_text(draft, short)}: {_wait_reason(state, node, pod, short)}"
        draft.notify(pod.ref, "WaitsForRoom", message, node=node)


def _missing_amount(pod: Pod) -> Amounts:
    """Return the missing amount. The reserved amount of a deferred Pod already includes its request."""
    return (pod.reserved - pod.used if pod.deferred else pod.limited_request - pod.reserved).positive_part()


def _wait_reason(state: LedgerState, node: str, pod: Pod, short: Amounts) -> str:
    if pod.frozen:
        return "the VM is being migrated"
    if pod.deferred and not pod.unanswered:
        return f"the kubelet of node {node} defers the resize"
    entry = state.nodes[node]
    if not pod.counted_amount(short).fits_within((entry.total - entry.reserved).positive_part()):
        return f"node {node} has too little free capacity"
    return f"the free capacity of node {node} is reserved for {_names_text(_capacity_holders(state, node, pod))}"


def _names_text(refs: Sequence[Ref]) -> str:
    more = f" and {len(refs) - _MAX_NAMES} more" if len(refs) > _MAX_NAMES else ""
    return ", ".join(map(str, refs[:_MAX_NAMES])) + more if refs else "others"


def _capacity_holders(state: LedgerState, node: str, pod: Pod) -> Sequence[Ref]:
    """Return the Pods and VMs for which capacity on the node is held or reserved, except this Pod."""
    kept = [state.event_subject(ref) for _, ref, _ in state.holds_for_others(node, pod.uid)]
    coming = [move.machine for move in state.arriving_migrations(node) if not move.target_counted]
    own = state.event_subject(pod.ref)
    return tuple({ref: None for ref in (*kept, *coming) if ref != own})


def _amounts_text(draft: Draft, amounts: Amounts) -> str:
    pairs = zip(draft.rules.resources, amounts, strict=True)
    return " and ".join(f"{format_amount(name, amount)} {name}" for name, amount in pairs if amount)
