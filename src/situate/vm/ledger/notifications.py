"""Events for one decision: denied requests, started migrations, reduced claims.

Each is recorded once: anything already in the state before the step was recorded then. Ends are recorded where they
happen, in `situate.vm.ledger.migrations.completion`. Faults are recorded where they are noticed (B41).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from situate.vm.api.quantities import shown_amount
from situate.vm.ledger.transaction import Draft
from situate.vm.model.actions import ShrinkClaim, StartMove
from situate.vm.model.migrations import Claim, Move
from situate.vm.model.pods_and_nodes import Pod, Ref
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import State

_MOST_NAMED: Final = 3


def tell(before: State, draft: Draft) -> None:
    """Add the Events of this step to the draft. `before` is the state at its start."""
    for action in tuple(draft.actions):
        match action:
            case StartMove(move, claim) if not _asked_for(before, move):
                _begins(draft, move, claim)
            case ShrinkClaim(claim) if _is_smaller(before, draft.state, claim):
                _shrinks(draft, claim)
    if draft.state.waiters is not before.waiters:
        for uid in sorted(draft.state.waiters.keys() - before.waiters.keys()):
            _waits(draft, uid)
    if draft.state.nodes is not before.nodes:
        for uid in draft.state.waiters.keys() & before.waiters.keys():
            if _wants_more(before.pod(uid), draft.state.pod(uid)) or _put_off(before, draft.state, uid):
                _waits(draft, uid)


def _wants_more(before: Pod | None, now: Pod | None) -> bool:
    """Return whether the request grew in this step. The larger request is denied as well."""
    return before is not now and before is not None and now is not None and now.wish.exceeds(before.wish)


def _put_off(before: State, after: State, uid: str) -> bool:
    """Return whether the kubelet deferred the resize in this step and there seemed to be enough capacity before."""
    was, now = before.pod(uid), after.pod(uid)
    if was is None or now is None or not was.unanswered or now.unanswered:
        return False
    return now.deferred and not before.need(uid)


def _asked_for(before: State, move: Move) -> bool:
    known = before.moves.get(move.key)
    return known is not None and known.asked_at is not None


def _is_smaller(before: State, after: State, claim: Claim) -> bool:
    """Return whether the claim shrank in this step and stays open.

    Of several reductions in one step, the last one counts. A broken claim has its own Event.
    """
    known = before.claims.get(claim.id)
    return known is not None and after.claims.get(claim.id) == claim != known and not claim.broken


def _begins(draft: Draft, move: Move, claim: Claim | None) -> None:
    way = f"from node {move.source_node} to node {move.target_node}"
    whom = "" if claim is None else f" to free capacity for {claim.beneficiary.ref}"
    draft.tell(move.machine, "MoveBegins", f"The VM migrates {way}{whom}", plan=move.plan, target=move.target_node)
    if claim is not None:
        made = f"VM {move.machine} migrates {way} to free capacity for this request: {_words(draft, claim.amount)}"
        draft.tell(claim.beneficiary.ref, "RoomIsMade", made, plan=move.plan, claim=claim.id, node=claim.node)


def _shrinks(draft: Draft, claim: Claim) -> None:
    message = f"The claim on capacity of node {claim.node} shrank to {_words(draft, claim.amount)}"
    draft.tell(claim.beneficiary.ref, "ClaimShrinks", message, claim=claim.id, node=claim.node)


def _waits(draft: Draft, uid: str) -> None:
    state = draft.state
    pod, node = state.pod(uid), state.where.get(uid, "")
    if pod is None or node not in state.nodes or (pod.unanswered and not state.need(uid)):
        return
    short = _short(pod)
    if short:
        message = f"The request is short by {_words(draft, short)}: {_why(state, node, pod, short)}"
        draft.tell(pod.ref, "WaitsForRoom", message, node=node)


def _short(pod: Pod) -> Amounts:
    """Return the missing amount. The reserved amount of a deferred Pod already includes its request."""
    return (pod.reserved - pod.used if pod.deferred else pod.wish - pod.reserved).positive()


def _why(state: State, node: str, pod: Pod, short: Amounts) -> str:
    if pod.frozen:
        return "the VM is being migrated"
    if pod.deferred and not pod.unanswered:
        return f"the kubelet of node {node} defers the resize"
    entry = state.nodes[node]
    if not pod.counted(short).within((entry.total - entry.reserved).positive()):
        return f"node {node} has too little free capacity"
    return f"the free capacity of node {node} is reserved for {_named(_kept_for(state, node, pod))}"


def _named(refs: Sequence[Ref]) -> str:
    more = f" and {len(refs) - _MOST_NAMED} more" if len(refs) > _MOST_NAMED else ""
    return ", ".join(map(str, refs[:_MOST_NAMED])) + more if refs else "others"


def _kept_for(state: State, node: str, pod: Pod) -> Sequence[Ref]:
    """Return the Pods and VMs for which capacity on the node is held or reserved, except this Pod."""
    kept = [state.told_of(ref) for _, ref, _ in state.keeps(node, pod.uid)]
    coming = [move.machine for move in state.arriving(node) if not move.target_booked]
    own = state.told_of(pod.ref)
    return tuple({ref: None for ref in (*kept, *coming) if ref != own})


def _words(draft: Draft, amounts: Amounts) -> str:
    pairs = zip(draft.rules.resources, amounts, strict=True)
    return " and ".join(f"{shown_amount(name, amount)} {name}" for name, amount in pairs if amount)
