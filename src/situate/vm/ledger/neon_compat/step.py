"""Decide as neondatabase/autoscaling does, in `compat` mode.

Each VM is evaluated alone, when its Pod changes or after a pause. There is no queue and there are no claims. A
migrating VM goes to any node that the scheduler chooses.
"""

from __future__ import annotations

from dataclasses import replace

from situate.vm.api.well_known import MIGRATION_PREFIX
from situate.vm.ledger.grants import wait_queue
from situate.vm.ledger.grants.arithmetic import separate_reservation
from situate.vm.ledger.neon_compat.relief import select_relief
from situate.vm.ledger.transaction import Draft
from situate.vm.model.actions import StartMove
from situate.vm.model.events import ResourcesRequested
from situate.vm.model.migrations import Move, Stage
from situate.vm.model.pods_and_nodes import Pod


def record_request(draft: Draft, event: ResourcesRequested) -> None:
    """Record a request as if the Pod already showed it. The agent's `last_permit` is trusted."""
    pod = draft.state.pod(event.uid)
    if pod is None:
        return
    held = pod.reserved if event.last_permit is None else event.last_permit
    draft.reserve(replace(pod, reserved=held, requested=event.requested, factor=event.unit), draft.state.where[pod.uid])
    evaluate_pod(draft, pod.uid)
    draft.mark_changed(draft.state.where[pod.uid])


def evaluate_pod(draft: Draft, uid: str) -> None:
    """Run the resource step: a grant counts at once, a decrease only when the Pod shows it."""
    pod = draft.state.pod(uid)
    if not draft.state.started or pod is None or pod.machine is None or not pod.machine.autoscaled or pod.frozen:
        return
    node = draft.state.nodes[draft.state.where[uid]]
    after = separate_reservation(pod, (node.total - node.reserved).positive_part())
    wait_queue.update_waiter(draft, pod)
    if after == pod.reserved and pod.approved:
        _set_next_evaluation(draft, pod, draft.now + draft.rules.retry_s)
        return
    former = draft.state.writes.get(uid)
    if former is not None and draft.now < former.at + draft.rules.patch_retry_s:
        wait_queue.wait_until(draft, pod, former.at + draft.rules.patch_retry_s)
        return
    booked = replace(pod, reserved=pod.reserved.maximum(after))
    draft.reserve(booked, node.name)
    wait_queue.update_waiter(draft, booked)
    _set_next_evaluation(draft, booked, draft.now + draft.rules.retry_s)
    draft.approve(uid, after)


def _set_next_evaluation(draft: Draft, pod: Pod, at: float) -> None:
    """Set the time of the next evaluation, if the request is still unmet."""
    waiter = draft.state.waiters.get(pod.uid)
    if waiter is not None:
        draft.put_waiter(replace(waiter, next_attempt_at=at))


def evaluate_due_waiters(draft: Draft) -> None:
    """Evaluate all waiters whose time has come."""
    for waiter in list(draft.state.waiters.values()):
        if waiter.next_attempt_at <= draft.now:
            draft.drop_waiter(waiter.uid)
            evaluate_pod(draft, waiter.uid)


def run_node(draft: Draft, name: str) -> None:
    """Request migrations of the oldest VMs of a node over its watermark, and drop those that are no longer possible."""
    node = draft.state.nodes[name]
    wished = {move.source.uid: move for move in draft.state.moves.values() if move.source_node == name and move.alive}
    for uid, move in wished.items():
        pod = node.pods.get(uid)
        if move.stage is Stage.PLANNED and not move.uid and (pod is None or pod.migrating or not pod.migratable):
            draft.drop_move(move.key)
    for uid in select_relief(node, wished).selected_pods:
        pod = node.pods[uid]
        assert pod.machine is not None, "only VMs are migrated"
        move = Move(
            name=f"{MIGRATION_PREFIX}{pod.ref.name}",
            plan=name,
            machine=pod.machine.ref,
            source=pod.ref,
            source_node=name,
            target_node="",
            amount=pod.counted_amount(pod.reserved),
            created_at=draft.now,
            requested_at=draft.now,
        )
        if move.key not in draft.state.moves:
            draft.put_move(move)
            draft.add_action(StartMove(move, None))
