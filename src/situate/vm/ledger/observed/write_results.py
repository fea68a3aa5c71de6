"""Handle the results of own writes: a success counts, and a failed or unknown write is requested again."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from situate.vm.ledger.grants import early_pod_resize, pod_resize, runner_pod_resize, wait_queue
from situate.vm.ledger.migrations.completion import end, fail_claim, is_over, remember_failure
from situate.vm.ledger.migrations.hand_over import hand_over
from situate.vm.ledger.transaction import SHOWN_AFTER_S, Draft, approval
from situate.vm.model.actions import Approve, CancelMove, EndMove, Evict, HandOver, ResizePod, Retarget, StartMove
from situate.vm.model.events import Written
from situate.vm.model.migrations import Stage
from situate.vm.model.pods_and_nodes import Pod
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import Account, Unseen

LONGEST_PAUSE_S: Final = 60.0
"""Longest pause before a failed write is repeated. The pause is as long as the write has been failing."""


def written(draft: Draft, event: Written) -> None:
    match event.action:
        case Approve() | ResizePod():
            _approved(draft, event.action, event)
        case StartMove(move=move):
            _started(draft, move.key, event)
        case CancelMove() | EndMove():
            _ended(draft, event.action, event)
        case Evict() if event.outcome == "ok" and not event.reason:
            _evicted(draft, event.action)
        case HandOver(name=name, machine=machine) | Retarget(name=name, machine=machine) if event.outcome != "ok":
            _not_noted(draft, f"{machine.namespace}/{name}")


def _evicted(draft: Draft, action: Evict) -> None:
    """Record Events for the evicted Pod and for the Pod that needs the capacity."""
    whom = draft.state.told_of(action.whom)
    draft.tell(
        action.pod,
        "Evicted",
        f"The Pod was evicted from node {action.node}: {whom} needs its capacity, and no migration frees enough",
        warning=True,
        node=action.node,
    )
    made = f"Pod {action.pod} was evicted from node {action.node} to free capacity for this request"
    draft.tell(action.whom, "RoomIsMade", made, node=action.node)


def _not_noted(draft: Draft, key: str) -> None:
    move = draft.state.moves.get(key)
    if move is not None and move.retry_at is not None:
        draft.put_move(replace(move, retry_at=draft.now + draft.rules.retry_s))


def _approved(draft: Draft, action: Approve | ResizePod, event: Written) -> None:
    """Handle the result of an approval or a resize.

    A decrease counts when its write succeeded, and not before: a restart would find the larger amount (D24).
    """
    uid, outcome = action.pod.uid, event.outcome
    write, pod = draft.state.writes.get(uid), draft.known(uid)
    if isinstance(action, ResizePod) and pod is not None and pod.machine is not None:
        _accounted(draft, pod, action, event)
        return
    if isinstance(action, ResizePod) and pod is not None and write is None:
        for move in early_pod_resize.waiting_for(draft.state, action):
            hand_over(draft, move, at_once=True)
            pod_resize.answered(draft, pod, event)
        return
    if write is None or pod is None or not _is_that(action, approval(pod, write)):
        return
    if draft.rules.compat:
        if outcome != "ok":
            wait_queue.must_wait(draft, pod, draft.now + draft.rules.patch_retry_s)
        return
    if outcome != "ok":
        if pod_resize.answered(draft, pod, event):
            return
        pause = min(max(draft.rules.patch_retry_s, draft.now - write.at), LONGEST_PAUSE_S)
        write = replace(write, retry_at=draft.now + pause, refused=outcome != "unknown")
        draft.put_write(uid, write)
        here = draft.state.pod(uid) is not None
        anew = write.refused and write.shown not in (None, (write.requested, write.unit))
        if here and anew and not pod.frozen:  # a migrating Pod does not change (I14): `write_again` waits
            _decide_anew(draft, pod, write)
        return
    if write.matched:
        draft.drop_write(uid)
    else:
        draft.put_write(uid, replace(write, landed=True, retry_at=draft.now + SHOWN_AFTER_S))
    _end_moves(draft, write.closed_claim)
    booked = write.amount.most(pod.used)
    if booked != pod.reserved and not pod.frozen:
        _lower(draft, pod, booked)


def _end_moves(draft: Draft, closed_claims: str) -> None:
    """End the migrations that waited only for the record that their claims were used."""
    closed = [claim for claim in closed_claims.split(",") if claim]
    for move in [each for each in draft.state.moves.values() if each.claim in closed]:
        if move.asked_at is None and is_over(draft, move):
            end(draft, move)


def _is_that(action: Approve | ResizePod, decided: Approve | ResizePod) -> bool:
    """Return whether the result belongs to the current write.

    For resizes, only the amount counts: the request that names the container may have changed.
    """
    if isinstance(action, ResizePod) and isinstance(decided, ResizePod):
        return action.amount == decided.amount
    return action == decided


def _lower(draft: Draft, pod: Pod, booked: Amounts) -> None:
    """Lower the reserved amount. If the Pod requests more, its resize comes first."""
    resize = runner_pod_resize.shrunk(pod, booked)
    if resize is not None:
        known = draft.state.accounts.get(pod.uid)
        told = known is not None and known.told
        draft.put_account(pod.uid, Account(resize.amount, lowers_to=booked, told=told))
        draft.do(resize)
        return
    _book(draft, pod, booked)


def _book(draft: Draft, pod: Pod, booked: Amounts) -> None:
    """Set the reserved amount. A Pod that requests more becomes a waiter."""
    node, after = draft.state.where[pod.uid], replace(pod, reserved=booked)
    draft.book(after, node)
    wait_queue.note(draft, after)
    draft.stir(node)


def _accounted(draft: Draft, pod: Pod, action: ResizePod, event: Written) -> None:
    """Handle the answer to a resize of a runner Pod.

    The grant stays in any case, and a returned amount becomes free (B47).
    """
    known = draft.state.accounts.get(pod.uid)
    said = runner_pod_resize.condition(pod, known, event.outcome, event.reason)
    if said is not None:
        draft.do(said)
    left = runner_pod_resize.after(known, action, event.outcome, draft.now, draft.rules)
    if left is None:
        draft.drop_account(pod.uid)
    else:
        draft.put_account(pod.uid, left)
    if known is not None and known.lowers_to is not None and known.target == action.amount and not pod.frozen:
        _book(draft, pod, known.lowers_to.most(pod.used))


def account_again(draft: Draft, uid: str, account: Account) -> None:
    """Repeat a refused or unanswered resize of a runner Pod, with the current amount."""
    pod = draft.state.pod(uid)
    if pod is None or pod.account is None or pod.account == account.target:
        draft.drop_account(uid)
        return
    write = draft.state.writes.get(uid)
    amount = pod.reserved if write is None else pod.reserved.most(write.amount)
    resize = runner_pod_resize.grown(pod, amount) or runner_pod_resize.shrunk(pod, amount)
    if resize is None:
        draft.drop_account(uid)
        return
    draft.put_account(uid, replace(account, target=resize.amount, retry_at=None))
    draft.do(resize)


def catch_up(draft: Draft, pod: Pod) -> None:
    """Resize a runner Pod that does not request its approved amount yet.

    The approval is from an earlier term, or its write had no answer then.
    """
    state = draft.state
    if not pod.approved or pod.frozen or pod.uid in state.writes or pod.uid in state.accounts:
        return
    resize = runner_pod_resize.exact(pod, pod.reserved)
    if resize is not None:
        draft.put_account(pod.uid, Account(resize.amount, told=pod.not_resized))
        draft.do(resize)


def judged_by_kubelet(draft: Draft, former: Pod | None, pod: Pod) -> None:
    """Set or clear the condition after the kubelet's report.

    The kubelet may refuse a resize that the server accepted (B47).
    """
    said = runner_pod_resize.allocated(former, pod)
    if said is not None:
        draft.do(said)


def _decide_anew(draft: Draft, pod: Pod, write: Unseen) -> None:
    """Decide on the request that the Pod shows, after another client wrote a different one."""
    assert write.shown is not None
    requested, unit = write.shown
    changed = replace(pod, requested=requested, factor=unit)
    node = draft.state.where[pod.uid]
    draft.book(changed, node)
    draft.approve(pod.uid, write.amount)
    wait_queue.note(draft, changed)
    draft.stir(node)


def write_again(draft: Draft, uid: str) -> None:
    write, pod = draft.state.writes[uid], draft.known(uid)
    if pod is None:
        draft.drop_write(uid)
        return
    if pod.frozen:
        draft.put_write(uid, replace(write, retry_at=draft.now + SHOWN_AFTER_S))
        return
    draft.put_write(uid, replace(write, retry_at=None))
    draft.do(approval(pod, write))


def _started(draft: Draft, key: str, event: Written) -> None:
    move = draft.state.moves.get(key)
    if move is None or move.uid or move.stage is not Stage.PLANNED:
        return
    if event.outcome == "ok":
        draft.put_move(replace(move, stage=Stage.STARTING))
    elif event.outcome == "unknown":
        draft.put_move(replace(move, retry_at=draft.now + draft.rules.retry_s))
    else:
        remember_failure(draft, move)
        draft.drop_move(key)
        fail_claim(draft, move)


def _ended(draft: Draft, action: CancelMove | EndMove, event: Written) -> None:
    """Handle the result of a deletion of a migration object.

    The watch reports a deleted object. An object that was never created is not reported, so it is dropped here.
    """
    move = draft.state.moves.get(f"{action.machine.namespace}/{action.name}")
    if move is None or move.uid != action.uid or move.asked_at is None or move.alive:
        return
    if event.outcome != "ok":
        draft.put_move(replace(move, retry_at=draft.now + draft.rules.retry_s))
    elif not move.uid:
        draft.drop_move(move.key)
