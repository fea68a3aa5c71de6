"""Apply the observed migration objects of any backend: stages, targets and ends."""

from __future__ import annotations

from dataclasses import replace

from situate.vm.ledger.migrations import retarget
from situate.vm.ledger.migrations.completion import (
    cancel,
    close,
    end,
    fail,
    fail_claim,
    is_forgotten,
    is_over,
    remember_failure,
)
from situate.vm.ledger.migrations.hand_over import hand_over
from situate.vm.ledger.migrations.plan_execution import in_vain, spoilt
from situate.vm.ledger.observed.migration_from_event import as_seen, named
from situate.vm.ledger.transaction import SHOWN_AFTER_S, Draft
from situate.vm.model.actions import CancelMove, NoteMoved, StartMove
from situate.vm.model.events import MigrationGone, MigrationSeen, WrittenClaim
from situate.vm.model.migrations import BeneficiaryKind, Claim, ClaimState, Move, Outcome, Stage
from situate.vm.model.pods_and_nodes import Pod, Ref, Role
from situate.vm.model.state import State
from situate.vm.planning.rules.cooldown import DAY_S


def migration_seen(draft: Draft, event: MigrationSeen) -> None:
    key = f"{event.machine.namespace}/{event.name}"
    former = draft.state.moves.get(key)
    if former is not None and former.uid and event.uid != former.uid:
        _gone(draft, former)
        former = None
    if former is None and _was_over(draft.state, event):
        return
    move = as_seen(draft, former, event)
    draft.put_move(move)
    if former is None and event.target is not None and move.stage is Stage.DONE:
        move = _arrived_before(draft, move, event.target)
    if former is None and event.claim is not None and event.own:
        _adopt_claim(draft, move, event.claim)
    unexpected = former is None and event.own and draft.state.started and not draft.rules.compat
    if unexpected and move.stage is Stage.STARTING and (why_not := spoilt(draft.state, move)):
        # a given-up migration was created after all; its reserved capacity may be taken by now
        cancel(draft, move, why_not)
        return
    _entered(draft, former, move, event.downtime_s)
    draft.stir_ends(move)


def _was_over(state: State, event: MigrationSeen) -> bool:
    """Return whether the migration is foreign and was over when first seen, or seen again: it has no effect any more.

    No process deletes such objects. There may be thousands, and each start would report every one of them.
    """
    if event.own or not is_forgotten(event.name):
        return False
    gone = event.source is None or event.source.uid not in state.where
    return event.phase.failed or (event.phase.succeeded and gone)


def migration_gone(draft: Draft, event: MigrationGone) -> None:
    move = draft.state.moves.get(f"{event.machine.namespace}/{event.name}")
    if move is not None:
        _gone(draft, move)


def _gone(draft: Draft, move: Move) -> None:
    """Remove a migration whose object is gone.

    Its open claim has no backing any more, unless its source is gone (I3).
    """
    claim = draft.state.claims.get(move.claim)
    if claim is not None and claim.state is not ClaimState.FREED:
        close(draft, claim, Outcome.CANCELLED)
    draft.drop_move(move.key)
    for waiter in list(draft.state.waiters.values()):
        if draft.state.where.get(waiter.uid) == move.source_node:
            # the VM and its slot in the concurrency limits are available for plans again
            draft.put_waiter(replace(waiter, look_at=min(waiter.look_at, draft.now)))
    if move.source_node in draft.state.looks:
        draft.put_look(move.source_node, min(draft.state.looks[move.source_node], draft.now))


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
        check_adopted(draft, claim)


def check_adopted(draft: Draft, claim: Claim) -> None:
    """Compare an adopted claim with the existing Pods: whether it was used, and whether its source still exists."""
    pod = draft.state.pod(claim.beneficiary.ref.uid)
    if pod is not None and pod.machine is not None and claim.id in pod.machine.closed_claim.split(","):
        draft.drop_claim(claim.id)
    elif claim.source_uid not in draft.state.where:
        draft.put_claim(replace(claim, state=ClaimState.FREED))
        if claim.beneficiary.kind is BeneficiaryKind.TARGET:
            close(draft, claim, Outcome.GRANTED)
    elif claim.state is ClaimState.FREED:
        draft.put_claim(replace(claim, state=ClaimState.MOVING))  # the event for its source came later
    draft.stir(claim.node)


def _entered(draft: Draft, former: Move | None, move: Move, downtime_s: float | None) -> None:
    """Apply the effects of a new stage, once."""
    claim = draft.state.claims.get(move.claim)
    if claim is not None and claim.state is ClaimState.PLANNED:
        draft.put_claim(replace(claim, state=ClaimState.MOVING))
    if former is not None and former.stage is move.stage:
        return
    if move.stage is Stage.DONE:
        _note_moved(draft, move, downtime_s)
        _carry_over(draft, move)
    elif move.stage is Stage.FAILED:
        remember_failure(draft, move)
        fail_claim(draft, move)
    elif move.stage is Stage.ENDING and claim is not None:
        close(draft, claim, Outcome.CANCELLED)
    if draft.state.started:
        finish(draft, draft.state.moves[move.key])


def finish(draft: Draft, move: Move) -> None:
    """Take the remaining steps for a migration that is done or failed."""
    if not is_over(draft, move):
        hand_over(draft, move)
    elif move.asked_at is None:
        end(draft, move)


def _note_moved(draft: Draft, move: Move, downtime_s: float | None) -> None:
    """Start the VM's cool-down and write it to the VM, once, also after a restart.

    The list has only migrations of the last 24 hours, so its length is bounded.
    """
    pods = [draft.state.pod(uid) for uid in (move.source.uid, move.target.uid if move.target else "")]
    known = {at for pod in pods if pod is not None and pod.machine is not None for at in pod.machine.moved_at}
    if any(at >= move.created_at for at in known):
        return
    # to the microsecond, as it is written; else it would count as another migration when it is read again
    moved = (*sorted(at for at in known if at > draft.now - DAY_S), round(draft.now, 6))
    draft.do(NoteMoved(move.machine, moved, downtime_s))
    for pod in pods:
        if pod is not None and pod.machine is not None:
            after = replace(pod, machine=replace(pod.machine, moved_at=moved))
            draft.book(after, draft.state.where[pod.uid])


def _carry_over(draft: Draft, move: Move) -> None:
    """Transfer the permit and the write in progress to the Pod in which the VM runs now.

    This happens once. A later decision for the old Pod, from an outdated view of it, does not affect the new Pod.
    """
    target = None if move.target is None else draft.state.pod(move.target.uid)
    if target is not None and target.machine is not None and target.machine.role is Role.TARGET:
        write, permit = draft.state.writes.get(move.source.uid), draft.state.permits.get(move.source.uid)
        if write is not None:
            # its result is reported for the old Pod; if it does not show here, it is written again
            retry_at = draft.now + SHOWN_AFTER_S if write.retry_at is None else write.retry_at
            draft.put_write(target.uid, replace(write, retry_at=retry_at))
        if permit is not None:
            draft.put_permit(target.uid, permit)
    draft.forget(move.source.uid)


def _arrived_before(draft: Draft, move: Move, target: Ref) -> Move:
    """Link the migration to its target Pod, so that its reservation counts once.

    The Pod was recorded in an earlier term and is no longer a target.
    """
    pod = draft.state.pod((target if target.uid else named(draft.state, target)).uid)
    if pod is None or pod.machine is None or pod.machine.ref.name != move.machine.name:
        return move
    draft.put_move(replace(move, target=pod.ref))
    follow_target(draft, pod, draft.state.where[pod.uid])
    return draft.state.moves[move.key]


def arrived(draft: Draft, target: Pod) -> None:
    """Handle a target Pod that shows, before its migration object does, that the VM runs in it."""
    move = _into(draft.state, target)
    if move is not None:
        _carry_over(draft, move)


def source_of(state: State, pod: Pod) -> Pod | None:
    """Return the source Pod of the migration into this Pod. None unless its VM is migrating into it."""
    if pod.machine is None or pod.machine.role is not Role.TARGET:
        return None
    move = _into(state, pod)
    return None if move is None or not move.alive else state.pod(move.source.uid)


def follow_target(draft: Draft, pod: Pod, node: str) -> None:
    """Replace the target reservation by the target Pod. `node` is empty if the Pod is gone."""
    move = _into(draft.state, pod)
    if move is None:
        return
    if not node:
        # a completed migration gets no other target Pod, even while its object exists
        booked = move.stage is Stage.DONE
        draft.put_move(replace(move, target=None, target_booked=booked, target_bound_at=None))
        draft.stir(move.target_node)
        return
    bound_at = None if pod.tentative else move.target_bound_at or draft.now
    after = replace(move, target=pod.ref, target_node=node, target_booked=True, target_bound_at=bound_at)
    draft.put_move(after)
    draft.stir(move.target_node)
    if node == move.source_node and after.alive:
        # capacity became free on the VM's own node: no reason to migrate, and no valid target (N9, I12)
        cancel(draft, after, f"the target Pod is on node {node}, which the VM should leave")


def _into(state: State, pod: Pod) -> Move | None:
    if pod.machine is None:
        return None
    for move in state.moves.values():
        if move.target is not None and move.target.uid == pod.uid:
            return move
    own = state.move_of(pod.machine.ref) if pod.machine.role is Role.TARGET else None
    # a migration that was never requested has no target: another client migrates the VM, and no event shows it yet
    return None if own is None or (own.asked_at is None and not own.uid) else own


def lose_node(draft: Draft, name: str) -> None:
    """Refuse or fail migrations to a node that is gone, and withdraw the claims on it."""
    for move in list(draft.state.moves.values()):
        if move.target_node != name or not move.alive or move.foreign:
            continue
        if not retarget.refuse(draft, move, f"node {name} is gone"):
            fail(draft, move, f"node {name} is gone")
    for claim in list(draft.state.claims.values()):
        if claim.node == name:
            close(draft, claim, Outcome.WITHDRAWN)


def ask_again(draft: Draft, move: Move) -> None:
    """Request the creation or the end of a migration again, after a failure or an unknown result."""
    draft.put_move(replace(move, retry_at=draft.now + SHOWN_AFTER_S))
    if move.stage is Stage.ENDING:
        draft.do(CancelMove(move.name, move.machine, move.uid, "the capacity is not needed any more"))
    elif move.alive and move.rechosen_at is not None:
        retarget.write(draft, move)
    elif move.alive and not move.uid and (why_not := in_vain(draft, move)):
        cancel(draft, move, why_not)
    elif move.alive:
        draft.do(StartMove(move, draft.state.claims.get(move.claim)))
    elif is_over(draft, move):
        end(draft, move)
    else:
        draft.put_move(replace(move, retry_at=None))
        hand_over(draft, move, at_once=True)
