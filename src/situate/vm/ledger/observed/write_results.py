"""Handle the results of own writes: a success counts, and a failed or unknown write is requested again."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from situate.vm.ledger.grants import early_pod_resize, pod_resize, runner_pod_resize, wait_queue
from situate.vm.ledger.migrations.completion import end_migration, fail_claim, is_over, remember_failure
from situate.vm.ledger.migrations.hand_over import hand_over
from situate.vm.ledger.transaction import REPEAT_AFTER_S, Draft, approval_action
from situate.vm.model.actions import Approve, CancelMove, EndMove, Evict, HandOver, ResizePod, Retarget, StartMove
from situate.vm.model.events import WriteResult
from situate.vm.model.migrations import Stage
from situate.vm.model.pods_and_nodes import Pod
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import PendingWrite, RunnerResize

LONGEST_PAUSE_S: Final = 60.0
"""Longest pause before a failed write is repeated. The pause is as long as the write has been failing."""


def record_result(draft: Draft, event: WriteResult) -> None:
    match event.action:
        case Approve() | ResizePod():
            _record_approval(draft, event.action, event)
        case StartMove(move=move):
            _record_start(draft, move.key, event)
        case CancelMove() | EndMove():
            _record_deletion(draft, event.action, event)
        case Evict() if event.outcome == "ok" and not event.reason:
            _record_eviction(draft, event.action)
        case HandOver(name=name, machine=machine) | Retarget(name=name, machine=machine) if event.outcome != "ok":
            _retry_later(draft, f"{machine.namespace}/{name}")


def _record_eviction(draft: Draft, action: Evict) -> None:
    """Record Events for the evicted Pod and for the Pod that needs the capacity."""
    whom = draft.state.event_subject(action.whom)
    draft.notify(
        action.pod,
        "Evicted",
        f"The Pod was evicted from node {action.node}: {whom} needs its capacity, and no migration frees enough",
        warning=True,
        node=action.node,
    )
    made = f"Pod {action.pod} was evicted from node {action.node} to free capacity for this request"
    draft.notify(action.whom, "RoomIsMade", made, node=action.node)


def _retry_later(draft: Draft, key: str) -> None:
    move = draft.state.moves.get(key)
    if move is not None and move.retry_at is not None:
        draft.put_move(replace(move, retry_at=draft.now + draft.rules.retry_s))


def _record_approval(draft: Draft, action: Approve | ResizePod, event: WriteResult) -> None:
    """Handle the result of an approval or a resize.

    A decrease counts when its write succeeded, and not before: a restart would find the larger amount (D24).
    """
    uid, outcome = action.pod.uid, event.outcome
    write, pod = draft.state.writes.get(uid), draft.known_pod(uid)
    if isinstance(action, ResizePod) and pod is not None and pod.machine is not None:
        _record_runner_resize(draft, pod, action, event)
        return
    if isinstance(action, ResizePod) and pod is not None and write is None:
        for move in early_pod_resize.migrations_waiting_for(draft.state, action):
            hand_over(draft, move, at_once=True)
            pod_resize.record_refusal(draft, pod, event)
        return
    if write is None or pod is None or not _is_current_write(action, approval_action(pod, write)):
        return
    if draft.rules.compat:
        if outcome != "ok":
            wait_queue.wait_until(draft, pod, draft.now + draft.rules.patch_retry_s)
        return
    if outcome != "ok":
        if pod_resize.record_refusal(draft, pod, event):
            return
        pause = min(max(draft.rules.patch_retry_s, draft.now - write.at), LONGEST_PAUSE_S)
        write = replace(write, retry_at=draft.now + pause, refused=outcome != "unknown")
        draft.put_write(uid, write)
        here = draft.state.pod(uid) is not None
        anew = write.refused and write.shown not in (None, (write.requested, write.unit))
        if here and anew and not pod.frozen:  # a migrating Pod does not change (I14): `repeat_write` waits
            _reconsider_request(draft, pod, write)
        return
    if write.matched:
        draft.drop_write(uid)
    else:
        draft.put_write(uid, replace(write, landed=True, retry_at=draft.now + REPEAT_AFTER_S))
    _end_moves(draft, write.closed_claim)
    booked = write.amount.maximum(pod.used)
    if booked != pod.reserved and not pod.frozen:
        _lower(draft, pod, booked)


def _end_moves(draft: Draft, closed_claims: str) -> None:
    """End the migrations that waited only for the record that their claims were used."""
    closed = [claim for claim in closed_claims.split(",") if claim]
    for move in [each for each in draft.state.moves.values() if each.claim in closed]:
        if move.requested_at is None and is_over(draft, move):
            end_migration(draft, move)


def _is_current_write(action: Approve | ResizePod, decided: Approve | ResizePod) -> bool:
    """Return whether the result belongs to the current write.

    For resizes, only the amount counts: the request that names the container may have changed.
    """
    if isinstance(action, ResizePod) and isinstance(decided, ResizePod):
        return action.amount == decided.amount
    return action == decided


def _lower(draft: Draft, pod: Pod, booked: Amounts) -> None:
    """Lower the reserved amount. If the Pod requests more, its resize comes first."""
    resize = runner_pod_resize.resize_after_shrink(pod, booked)
    if resize is not None:
        known = draft.state.accounts.get(pod.uid)
        told = known is not None and known.condition_set
        draft.put_account(pod.uid, RunnerResize(resize.amount, lowers_to=booked, condition_set=told))
        draft.add_action(resize)
        return
    _reserve(draft, pod, booked)


def _reserve(draft: Draft, pod: Pod, booked: Amounts) -> None:
    """Set the reserved amount. A Pod that requests more becomes a waiter."""
    node, after = draft.state.where[pod.uid], replace(pod, reserved=booked)
    draft.reserve(after, node)
    wait_queue.update_waiter(draft, after)
    draft.mark_changed(node)


def _record_runner_resize(draft: Draft, pod: Pod, action: ResizePod, event: WriteResult) -> None:
    """Handle the answer to a resize of a runner Pod.

    The grant stays in any case, and a returned amount becomes free (B47).
    """
    known = draft.state.accounts.get(pod.uid)
    said = runner_pod_resize.condition_after_answer(pod, known, event.outcome, event.reason)
    if said is not None:
        draft.add_action(said)
    left = runner_pod_resize.runner_resize_after_answer(known, action, event.outcome, draft.now, draft.rules)
    if left is None:
        draft.drop_account(pod.uid)
    else:
        draft.put_account(pod.uid, left)
    if known is not None and known.lowers_to is not None and known.target == action.amount and not pod.frozen:
        _reserve(draft, pod, known.lowers_to.maximum(pod.used))


def repeat_runner_resize(draft: Draft, uid: str, account: RunnerResize) -> None:
    """Repeat a refused or unanswered resize of a runner Pod, with the current amount."""
    pod = draft.state.pod(uid)
    if pod is None or pod.account is None or pod.account == account.target:
        draft.drop_account(uid)
        return
    write = draft.state.writes.get(uid)
    amount = pod.reserved if write is None else pod.reserved.maximum(write.amount)
    resize = runner_pod_resize.resize_before_growth(pod, amount) or runner_pod_resize.resize_after_shrink(pod, amount)
    if resize is None:
        draft.drop_account(uid)
        return
    draft.put_account(uid, replace(account, target=resize.amount, retry_at=None))
    draft.add_action(resize)


def resize_outdated_runner(draft: Draft, pod: Pod) -> None:
    """Resize a runner Pod that does not request its approved amount yet.

    The approval is from an earlier term, or its write had no answer then.
    """
    state = draft.state
    if not pod.approved or pod.frozen or pod.uid in state.writes or pod.uid in state.accounts:
        return
    resize = runner_pod_resize.resize_to_amount(pod, pod.reserved)
    if resize is not None:
        draft.put_account(pod.uid, RunnerResize(resize.amount, condition_set=pod.not_resized))
        draft.add_action(resize)


def update_kubelet_condition(draft: Draft, former: Pod | None, pod: Pod) -> None:
    """Set or clear the condition after the kubelet's report.

    The kubelet may refuse a resize that the server accepted (B47).
    """
    said = runner_pod_resize.condition_after_allocation(former, pod)
    if said is not None:
        draft.add_action(said)


def _reconsider_request(draft: Draft, pod: Pod, write: PendingWrite) -> None:
    """Decide on the request that the Pod shows, after another client wrote a different one."""
    assert write.shown is not None
    requested, unit = write.shown
    changed = replace(pod, requested=requested, factor=unit)
    node = draft.state.where[pod.uid]
    draft.reserve(changed, node)
    draft.approve(pod.uid, write.amount)
    wait_queue.update_waiter(draft, changed)
    draft.mark_changed(node)


def repeat_write(draft: Draft, uid: str) -> None:
    write, pod = draft.state.writes[uid], draft.known_pod(uid)
    if pod is None:
        draft.drop_write(uid)
        return
    if pod.frozen:
        draft.put_write(uid, replace(write, retry_at=draft.now + REPEAT_AFTER_S))
        return
    draft.put_write(uid, replace(write, retry_at=None))
    draft.add_action(approval_action(pod, write))


def _record_start(draft: Draft, key: str, event: WriteResult) -> None:
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


def _record_deletion(draft: Draft, action: CancelMove | EndMove, event: WriteResult) -> None:
    """Handle the result of a deletion of a migration object.

    The watch reports a deleted object. An object that was never created is not reported, so it is dropped here.
    """
    move = draft.state.moves.get(f"{action.machine.namespace}/{action.name}")
    if move is None or move.uid != action.uid or move.requested_at is None or move.alive:
        return
    if event.outcome != "ok":
        draft.put_move(replace(move, retry_at=draft.now + draft.rules.retry_s))
    elif not move.uid:
        draft.drop_move(move.key)
