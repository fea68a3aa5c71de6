"""Moves as their objects show them, of any backend: stages, targets, and what ends with them (B2, B15, F9, F12)."""

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
        # one that we gave up came to be after all: what was reserved for it may be somebody else's by now
        cancel(draft, move, why_not)
        return
    _entered(draft, former, move, event.downtime_s)
    draft.stir_ends(move)


def _was_over(state: State, event: MigrationSeen) -> bool:
    """Made by others, and over when we first hear of it, or hear of it again: nothing follows from that any more.

    Nobody deletes such objects: there may be thousands of them, and each would be told of at every start.
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
    """A claim that its object leaves open has nothing to back it any more, unless the source is gone already (I3)."""
    claim = draft.state.claims.get(move.claim)
    if claim is not None and claim.state is not ClaimState.FREED:
        close(draft, claim, Outcome.CANCELLED)
    draft.drop_move(move.key)
    for waiter in list(draft.state.waiters.values()):
        if draft.state.where.get(waiter.uid) == move.source_node:
            # its machine and its place among those at work may be planned with again
            draft.put_waiter(replace(waiter, look_at=min(waiter.look_at, draft.now)))
    if move.source_node in draft.state.looks:
        draft.put_look(move.source_node, min(draft.state.looks[move.source_node], draft.now))


def _adopt_claim(draft: Draft, move: Move, written: WrittenClaim) -> None:
    """A claim that only its migration knows of, as after a restart (B43). One that was used is not used again (B9).

    If its source is gone, the room is held at once: pods may be placed before everything has been told.
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
    """Against the pods that exist: whether it was used already, and whether its source is there still."""
    pod = draft.state.pod(claim.beneficiary.ref.uid)
    if pod is not None and pod.machine is not None and claim.id in pod.machine.closed_claim.split(","):
        draft.drop_claim(claim.id)
    elif claim.source_uid not in draft.state.where:
        draft.put_claim(replace(claim, state=ClaimState.FREED))
        if claim.beneficiary.kind is BeneficiaryKind.TARGET:
            close(draft, claim, Outcome.GRANTED)
    elif claim.state is ClaimState.FREED:
        draft.put_claim(replace(claim, state=ClaimState.MOVING))  # its source was told of later than its migration
    draft.stir(claim.node)


def _entered(draft: Draft, former: Move | None, move: Move, downtime_s: float | None) -> None:
    """What follows from a stage, once."""
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
    """What is to be done about one that is done or has failed, and has not been done yet."""
    if not is_over(draft, move):
        hand_over(draft, move)
    elif move.asked_at is None:
        end(draft, move)


def _note_moved(draft: Draft, move: Move, downtime_s: float | None) -> None:
    """Its cool-down begins, and is kept on the machine (B25); once, also if we are told of it again after a restart.

    Of earlier ones as long as they count: a machine that is moved for years has no longer a list than one of today.
    """
    pods = [draft.state.pod(uid) for uid in (move.source.uid, move.target.uid if move.target else "")]
    known = {at for pod in pods if pod is not None and pod.machine is not None for at in pod.machine.moved_at}
    if any(at >= move.created_at for at in known):
        return
    # to the microsecond, as it is written: or it would be another move when it is read again
    moved = (*sorted(at for at in known if at > draft.now - DAY_S), round(draft.now, 6))
    draft.do(NoteMoved(move.machine, moved, downtime_s))
    for pod in pods:
        if pod is not None and pod.machine is not None:
            after = replace(pod, machine=replace(pod.machine, moved_at=moved))
            draft.book(after, draft.state.where[pod.uid])


def _carry_over(draft: Draft, move: Move) -> None:
    """What its agent was told and what is being written counts for the pod that the machine runs in now.

    Once: what is decided for the pod that it has left, on an old sight of that, is no matter of the one it is in.
    """
    target = None if move.target is None else draft.state.pod(move.target.uid)
    if target is not None and target.machine is not None and target.machine.role is Role.TARGET:
        write, permit = draft.state.writes.get(move.source.uid), draft.state.permits.get(move.source.uid)
        if write is not None:
            # what becomes of it is told of the pod that it was written for: if it does not show, it is written again
            retry_at = draft.now + SHOWN_AFTER_S if write.retry_at is None else write.retry_at
            draft.put_write(target.uid, replace(write, retry_at=retry_at))
        if permit is not None:
            draft.put_permit(target.uid, permit)
    draft.forget(move.source.uid)


def _arrived_before(draft: Draft, move: Move, target: Ref) -> Move:
    """Its target was booked in an earlier term, and has been no target since: what is reserved for it counts once."""
    pod = draft.state.pod((target if target.uid else named(draft.state, target)).uid)
    if pod is None or pod.machine is None or pod.machine.ref.name != move.machine.name:
        return move
    draft.put_move(replace(move, target=pod.ref))
    follow_target(draft, pod, draft.state.where[pod.uid])
    return draft.state.moves[move.key]


def arrived(draft: Draft, target: Pod) -> None:
    """Its pod shows before its migration does that a machine runs in it now."""
    move = _into(draft.state, target)
    if move is not None:
        _carry_over(draft, move)


def source_of(state: State, pod: Pod) -> Pod | None:
    """The one that a machine leaves for this pod; None unless it is on its way into it."""
    if pod.machine is None or pod.machine.role is not Role.TARGET:
        return None
    move = _into(state, pod)
    return None if move is None or not move.alive else state.pod(move.source.uid)


def follow_target(draft: Draft, pod: Pod, node: str) -> None:
    """The pod that a machine moves into takes its reservation's place; `node` is empty when it is gone (N23, B14)."""
    move = _into(draft.state, pod)
    if move is None:
        return
    if not node:
        # into one that was arrived in nobody comes again, however long its object stays
        booked = move.stage is Stage.DONE
        draft.put_move(replace(move, target=None, target_booked=booked, target_bound_at=None))
        draft.stir(move.target_node)
        return
    bound_at = None if pod.tentative else move.target_bound_at or draft.now
    after = replace(move, target=pod.ref, target_node=node, target_booked=True, target_bound_at=bound_at)
    draft.put_move(after)
    draft.stir(move.target_node)
    if node == move.source_node and after.alive:
        # room has come up where it is: no reason to move, and no place to move to (N9, I12)
        cancel(draft, after, f"its target came to be on node {node}, which it is to leave")


def _into(state: State, pod: Pod) -> Move | None:
    if pod.machine is None:
        return None
    for move in state.moves.values():
        if move.target is not None and move.target.uid == pod.uid:
            return move
    own = state.move_of(pod.machine.ref) if pod.machine.role is Role.TARGET else None
    # one that was never asked for has no target: another hand moves the machine, and we have yet to hear of that
    return None if own is None or (own.asked_at is None and not own.uid) else own


def lose_node(draft: Draft, name: str) -> None:
    """Nobody arrives on a node that is gone, and nobody is granted anything there (F8)."""
    for move in list(draft.state.moves.values()):
        if move.target_node != name or not move.alive or move.foreign:
            continue
        if not retarget.refuse(draft, move, f"node {name} is gone"):
            fail(draft, move, f"node {name} is gone")
    for claim in list(draft.state.claims.values()):
        if claim.node == name:
            close(draft, claim, Outcome.WITHDRAWN)


def ask_again(draft: Draft, move: Move) -> None:
    """What became of its creation or its end is not known, or it failed."""
    draft.put_move(replace(move, retry_at=draft.now + SHOWN_AFTER_S))
    if move.stage is Stage.ENDING:
        draft.do(CancelMove(move.name, move.machine, move.uid, "nobody needs the room any more"))
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
