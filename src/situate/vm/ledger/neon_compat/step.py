"""Decide as neondatabase/autoscaling does, in `compat` mode.

Each VM is evaluated alone, when its Pod changes or after a pause. There is no queue and there are no claims. A
migrating VM goes to any node that the scheduler chooses.
"""

from __future__ import annotations

from dataclasses import replace

from situate.vm.api.well_known import MIGRATION_PREFIX
from situate.vm.ledger.grants import wait_queue
from situate.vm.ledger.grants.arithmetic import booking
from situate.vm.ledger.neon_compat.relief import relief
from situate.vm.ledger.transaction import Draft
from situate.vm.model.actions import StartMove
from situate.vm.model.events import Asked
from situate.vm.model.migrations import Move, Stage
from situate.vm.model.pods_and_nodes import Pod


def asked(draft: Draft, event: Asked) -> None:
    """Record a request as if the Pod already showed it. The agent's `last_permit` is trusted."""
    pod = draft.state.pod(event.uid)
    if pod is None:
        return
    held = pod.reserved if event.last_permit is None else event.last_permit
    draft.book(replace(pod, reserved=held, requested=event.requested, factor=event.unit), draft.state.where[pod.uid])
    look_at_pod(draft, pod.uid)
    draft.stir(draft.state.where[pod.uid])


def look_at_pod(draft: Draft, uid: str) -> None:
    """Run the resource step: a grant counts at once, a decrease only when the Pod shows it."""
    pod = draft.state.pod(uid)
    if not draft.state.started or pod is None or pod.machine is None or not pod.machine.autoscaled or pod.frozen:
        return
    node = draft.state.nodes[draft.state.where[uid]]
    after = booking(pod, (node.total - node.reserved).positive())
    wait_queue.note(draft, pod)
    if after == pod.reserved and pod.approved:
        _look_again(draft, pod, draft.now + draft.rules.retry_s)
        return
    former = draft.state.writes.get(uid)
    if former is not None and draft.now < former.at + draft.rules.patch_retry_s:
        wait_queue.must_wait(draft, pod, former.at + draft.rules.patch_retry_s)
        return
    booked = replace(pod, reserved=pod.reserved.most(after))
    draft.book(booked, node.name)
    wait_queue.note(draft, booked)
    _look_again(draft, booked, draft.now + draft.rules.retry_s)
    draft.approve(uid, after)


def _look_again(draft: Draft, pod: Pod, at: float) -> None:
    """Set the time of the next evaluation, if the request is still unmet."""
    waiter = draft.state.waiters.get(pod.uid)
    if waiter is not None:
        draft.put_waiter(replace(waiter, look_at=at))


def due(draft: Draft) -> None:
    """Evaluate all waiters whose time has come."""
    for waiter in list(draft.state.waiters.values()):
        if waiter.look_at <= draft.now:
            draft.drop_waiter(waiter.uid)
            look_at_pod(draft, waiter.uid)


def run(draft: Draft, name: str) -> None:
    """Request migrations of the oldest VMs of a node over its watermark, and drop those that are no longer possible."""
    node = draft.state.nodes[name]
    wished = {move.source.uid: move for move in draft.state.moves.values() if move.source_node == name and move.alive}
    for uid, move in wished.items():
        pod = node.pods.get(uid)
        if move.stage is Stage.PLANNED and not move.uid and (pod is None or pod.migrating or not pod.migratable):
            draft.drop_move(move.key)
    for uid in relief(node, wished).wishes:
        pod = node.pods[uid]
        assert pod.machine is not None, "only VMs are migrated"
        move = Move(
            name=f"{MIGRATION_PREFIX}{pod.ref.name}",
            plan=name,
            machine=pod.machine.ref,
            source=pod.ref,
            source_node=name,
            target_node="",
            amount=pod.counted(pod.reserved),
            created_at=draft.now,
            asked_at=draft.now,
        )
        if move.key not in draft.state.moves:
            draft.put_move(move)
            draft.do(StartMove(move, None))
