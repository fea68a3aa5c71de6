"""Apply the observed migration objects of any backend: stages, targets and ends."""

from __future__ import annotations

from dataclasses import replace

from situate.vm.ledger.migrations import retarget
from situate.vm.ledger.migrations.completion import (
    can_be_dropped,
    cancel_migration,
    close_claim,
    end_migration,
    fail_claim,
    fail_migration,
    is_over,
    remember_failure,
)
from situate.vm.ledger.migrations.hand_over import hand_over
from situate.vm.ledger.migrations.plan_execution import impossible_reason, obsolete_reason
from situate.vm.ledger.observed.migration_from_event import migration_after_event, ref_with_uid
from situate.vm.ledger.transaction import REPEAT_AFTER_S, Draft
from situate.vm.model.actions import CancelMove, NoteMoved, StartMove
from situate.vm.model.events import MigrationObserved, MigrationRemoved, WrittenClaim
from situate.vm.model.migrations import BeneficiaryKind, Claim, ClaimOutcome, ClaimState, Move, Stage
from situate.vm.model.pods_and_nodes import Pod, Ref, Role
from situate.vm.model.state import LedgerState
from situate.vm.planning.rules.cooldown import DAY_S


def record_migration(draft: Draft, event: MigrationObserved) -> None:
    key = f"{event.machine.namespace}/{event.name}"
    former = draft.state.moves.get(key)
    if former is not None and former.uid and event.uid != former.uid:
        _drop_migration(draft, former)
        former = None
    if former is None and _is_ended_foreign(draft.state, event):
        return
    move = migration_after_event(draft, former, event)
    draft.put_move(move)
    if former is None and event.target is not None and move.stage is Stage.DONE:
        move = _link_known_target(draft, move, event.target)
    if former is None and event.claim is not None and event.own:
        _adopt_claim(draft, move, event.claim)
    unexpected = former is None and event.own and draft.state.started and not draft.rules.compat
    if unexpected and move.stage is Stage.STARTING and (why_not := impossible_reason(draft.state, move)):
        # a given-up migration was created after all; its reserved capacity may be taken by now
        cancel_migration(draft, move, why_not)
        return
    _apply_stage(draft, former, move, event.downtime_s)
    draft.mark_ends_changed(move)


def _is_ended_foreign(state: LedgerState, event: MigrationObserved) -> bool:
    """Return whether the migration is foreign and was over when first seen, or seen again: it has no effect any more.

    No process deletes such objects. There may be thousands, and each start would report every one of them.
    """
    if event.own or not can_be_dropped(event.name):
        return False
    gone = event.source is None or event.source.uid not in state.where
    return event.phase.failed or (event.phase.succeeded and gone)


def remove_migration(draft: Draft, event: MigrationRemoved) -> None:
    move = draft.state.moves.get(f"{event.machine.namespace}/{event.name}")
    if move is not None:
        _drop_migration(draft, move)


def _drop_migration(draft: Draft, move: Move) -> None:
    """Remove a migration whose object is gone.

    Its open claim has no backing any more, unless its source is gone (I3).
    """
    claim = draft.state.claims.get(move.claim)
    if claim is not None and claim.state is not ClaimState.FREED:
        close_claim(draft, claim, ClaimOutcome.CANCELLED)
    draft.drop_move(move.key)
    for waiter in list(draft.state.waiters.values()):
        if draft.state.where.get(waiter.uid) == move.source_node:
            # the VM and its slot in the concurrency limits are available for plans again
            draft.put_waiter(replace(waiter, next_attempt_at=min(waiter.next_attempt_at, draft.now)))
    if move.source_node in draft.state.looks:
        draft.put_planning_time(move.source_node, min(draft.state.looks[move.source_node], draft.now))


def _adopt_claim(draft: Draft, move: Move, written: WrittenClaim) -> None:
    """Adopt a claim that only its migration object has, as after a restart. A used claim is not used again.

    If its source is gone, the capacity is held at once: Pods may be placed before the first listing is complete.
    """
    if (not move.alive and move.stage is not Stage.DONE) or not written.amount:
        return
    claim = Claim(
        written.id,
        written.plan,
        written.node,
        written.beneficiary,
        written.source_uid,
        written.amount,
        written.deadline,
        ClaimState.MOVING if written.source_uid in draft.state.where else ClaimState.FREED,
    )
    draft.put_claim(claim)
    if draft.state.started:
        check_adopted_claim(draft, claim)


def check_adopted_claim(draft: Draft, claim: Claim) -> None:
    """Compare an adopted claim with the existing Pods: whether it was used, and whether its source still exists."""
    pod = draft.state.pod(claim.beneficiary.ref.uid)
    if pod is not None and pod.machine is not None and claim.id in pod.machine.closed_claim.split(","):
        draft.drop_claim(claim.id)
    elif claim.source_uid not in draft.state.where:
        draft.put_claim(replace(claim, state=ClaimState.FREED))
        if claim.beneficiary.kind is BeneficiaryKind.TARGET:
            close_claim(draft, claim, ClaimOutcome.GRANTED)
    elif claim.state is ClaimState.FREED:
        draft.put_claim(replace(claim, state=ClaimState.MOVING))  # the event for its source came later
    draft.mark_changed(claim.node)


def _apply_stage(draft: Draft, former: Move | None, move: Move, downtime_s: float | None) -> None:
    """Apply the effects of a new stage, once."""
    claim = draft.state.claims.get(move.claim)
    if claim is not None and claim.state is ClaimState.PLANNED:
        draft.put_claim(replace(claim, state=ClaimState.MOVING))
    if former is not None and former.stage is move.stage:
        return
    if move.stage is Stage.DONE:
        _record_migration_time(draft, move, downtime_s)
        _transfer_to_target(draft, move)
    elif move.stage is Stage.FAILED:
        remember_failure(draft, move)
        fail_claim(draft, move)
    elif move.stage is Stage.ENDING and claim is not None:
        close_claim(draft, claim, ClaimOutcome.CANCELLED)
    if draft.state.started:
        finish_migration(draft, draft.state.moves[move.key])


def finish_migration(draft: Draft, move: Move) -> None:
    """Take the remaining steps for a migration that is done or failed."""
    if not is_over(draft, move):
        hand_over(draft, move)
    elif move.requested_at is None:
        end_migration(draft, move)


def _record_migration_time(draft: Draft, move: Move, downtime_s: float | None) -> None:
    """Start the VM's cool-down and write it to the VM, once, also after a restart.

    The list has only migrations of the last 24 hours, so its length is bounded.
    """
    pods = [draft.state.pod(uid) for uid in (move.source.uid, move.target.uid if move.target else "")]
    known = {at for pod in pods if pod is not None and pod.machine is not None for at in pod.machine.moved_at}
    if any(at >= move.created_at for at in known):
        return
    # to the microsecond, as it is written; else it would count as another migration when it is read again
    moved = (*sorted(at for at in known if at > draft.now - DAY_S), round(draft.now, 6))
    draft.add_action(NoteMoved(move.machine, moved, downtime_s))
    for pod in pods:
        if pod is not None and pod.machine is not None:
            after = replace(pod, machine=replace(pod.machine, moved_at=moved))
            draft.reserve(after, draft.state.where[pod.uid])


def _transfer_to_target(draft: Draft, move: Move) -> None:
    """Transfer the permit and the write in progress to the Pod in which the VM runs now.

    This happens once. A later decision for the old Pod, from an outdated view of it, does not affect the new Pod.
    """
    target = None if move.target is None else draft.state.pod(move.target.uid)
    if target is not None and target.machine is not None and target.machine.role is Role.TARGET:
        write, permit = draft.state.writes.get(move.source.uid), draft.state.permits.get(move.source.uid)
        if write is not None:
            # its result is reported for the old Pod; if it does not show here, it is written again
            retry_at = draft.now + REPEAT_AFTER_S if write.retry_at is None else write.retry_at
            draft.put_write(target.uid, replace(write, retry_at=retry_at))
        if permit is not None:
            draft.put_permit(target.uid, permit)
    draft.forget(move.source.uid)


def _link_known_target(draft: Draft, move: Move, target: Ref) -> Move:
    """Link the migration to its target Pod, so that its reservation counts once.

    The Pod was recorded in an earlier term and is no longer a target.
    """
    pod = draft.state.pod((target if target.uid else ref_with_uid(draft.state, target)).uid)
    if pod is None or pod.machine is None or pod.machine.ref.name != move.machine.name:
        return move
    draft.put_move(replace(move, target=pod.ref))
    update_target_reservation(draft, pod, draft.state.where[pod.uid])
    return draft.state.moves[move.key]


def handle_arrival(draft: Draft, target: Pod) -> None:
    """Handle a target Pod that shows, before its migration object does, that the VM runs in it."""
    move = _migration_into(draft.state, target)
    if move is not None:
        _transfer_to_target(draft, move)


def source_of(state: LedgerState, pod: Pod) -> Pod | None:
    """Return the source Pod of the migration into this Pod. None unless its VM is migrating into it."""
    if pod.machine is None or pod.machine.role is not Role.TARGET:
        return None
    move = _migration_into(state, pod)
    return None if move is None or not move.alive else state.pod(move.source.uid)


def update_target_reservation(draft: Draft, pod: Pod, node: str) -> None:
    """Replace the target reservation by the target Pod. `node` is empty if the Pod is gone."""
    move = _migration_into(draft.state, pod)
    if move is None:
        return
    if not node:
        # a completed migration gets no other target Pod, even while its object exists
        booked = move.stage is Stage.DONE
        draft.put_move(replace(move, target=None, target_counted=booked, target_bound_at=None))
        draft.mark_changed(move.target_node)
        return
    bound_at = None if pod.tentative else move.target_bound_at or draft.now
    after = replace(move, target=pod.ref, target_node=node, target_counted=True, target_bound_at=bound_at)
    draft.put_move(after)
    draft.mark_changed(move.target_node)
    if node == move.source_node and after.alive:
        # capacity became free on the VM's own node: no reason to migrate, and no valid target (N9, I12)
        cancel_migration(draft, after, f"the target Pod is on node {node}, which the VM should leave")


def _migration_into(state: LedgerState, pod: Pod) -> Move | None:
    if pod.machine is None:
        return None
    for move in state.moves.values():
        if move.target is not None and move.target.uid == pod.uid:
            return move
    own = state.move_of(pod.machine.ref) if pod.machine.role is Role.TARGET else None
    # a migration that was never requested has no target: another client migrates the VM, and no event shows it yet
    return None if own is None or (own.requested_at is None and not own.uid) else own


def handle_node_removal(draft: Draft, name: str) -> None:
    """Refuse or fail migrations to a node that is gone, and withdraw the claims on it."""
    for move in list(draft.state.moves.values()):
        if move.target_node != name or not move.alive or move.foreign:
            continue
        if not retarget.refuse_target(draft, move, f"node {name} is gone"):
            fail_migration(draft, move, f"node {name} is gone")
    for claim in list(draft.state.claims.values()):
        if claim.node == name:
            close_claim(draft, claim, ClaimOutcome.WITHDRAWN)


def repeat_request(draft: Draft, move: Move) -> None:
    """Request the creation or the end of a migration again, after a failure or an unknown result."""
    draft.put_move(replace(move, retry_at=draft.now + REPEAT_AFTER_S))
    if move.stage is Stage.ENDING:
        draft.add_action(CancelMove(move.name, move.machine, move.uid, "the capacity is not needed any more"))
    elif move.alive and move.rechosen_at is not None:
        retarget.write_target(draft, move)
    elif move.alive and not move.uid and (why_not := obsolete_reason(draft, move)):
        cancel_migration(draft, move, why_not)
    elif move.alive:
        draft.add_action(StartMove(move, draft.state.claims.get(move.claim)))
    elif is_over(draft, move):
        end_migration(draft, move)
    else:
        draft.put_move(replace(move, retry_at=None))
        hand_over(draft, move, at_once=True)
