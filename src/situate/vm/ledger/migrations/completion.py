"""End claims and migrations, often one because of the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from situate.vm.api.well_known import MIGRATION_PREFIX
from situate.vm.ledger.transaction import REPEAT_AFTER_S, Draft
from situate.vm.model.actions import CancelMove, EndMove
from situate.vm.model.migrations import Claim, ClaimOutcome, Move, Stage
from situate.vm.model.state import LedgerState
from situate.vm.planning.node_relief import leaving_amount
from situate.vm.planning.rules.cooldown import ANY_TARGET, failures_after_another

_REPLANNED_OUTCOMES: Final = (ClaimOutcome.FAILED, ClaimOutcome.CANCELLED, ClaimOutcome.PARTIAL)
"""Outcomes after which the beneficiary is planned for again at once: it has waited long enough."""


def migration_of_claim(state: LedgerState, claim: str) -> Move | None:
    """Return the one migration that backs a claim."""
    return next((move for move in state.moves.values() if move.claim == claim), None)


def close_claim(draft: Draft, claim: Claim, outcome: ClaimOutcome) -> None:
    """Close a claim. All claims end here.

    If its migration has no purpose any more, the run of its node finds that (`review_migrations`).
    """
    draft.drop_claim(claim.id)
    draft.mark_changed(claim.node)
    move = migration_of_claim(draft.state, claim.id)
    by = "" if move is None else f" from the migration of {move.machine}"
    draft.notify(
        claim.beneficiary.ref,
        "ClaimClosed",
        f"The claim on capacity of node {claim.node}{by} is closed: {outcome.value}",
        claim=claim.id,
        node=claim.node,
        outcome=outcome.value,
    )
    waiter = draft.state.waiters.get(claim.beneficiary.ref.uid)
    if waiter is not None and outcome in _REPLANNED_OUTCOMES:
        draft.put_waiter(replace(waiter, next_attempt_at=min(waiter.next_attempt_at, draft.now)))


def is_orphan(state: LedgerState, move: Move) -> bool:
    """Return whether the migration had a beneficiary and has none now."""
    return bool(move.claim) and move.claim not in state.claims and not move.foreign


def handle_orphan(draft: Draft, move: Move) -> None:
    """Handle a migration without a beneficiary. Before copying, it is cancelled at once.

    While copying, it is cancelled only if most is still to copy and the node is within its watermark (B22).
    """
    if move.stage is Stage.COPYING and not _is_worth_cancelling(draft, move):
        return
    if move.alive and not (move.for_node and relieves(draft.state, move)):
        cancel_migration(draft, move, "the capacity is not needed any more")


def relieves(state: LedgerState, move: Move) -> bool:
    """Return whether the node would be over its watermark if the VM stayed and all other leaving VMs were gone."""
    node, pod = state.nodes.get(move.source_node), state.pod(move.source.uid)
    if node is None or pod is None:
        return False
    staying = node.reserved - leaving_amount(state, node.name) + pod.counted_amount(pod.reserved)
    return staying.exceeds(node.watermark)


def _is_worth_cancelling(draft: Draft, move: Move) -> bool:
    node, progress = draft.state.nodes.get(move.source_node), move.progress
    if not draft.rules.cancel_copying or node is None:
        return False
    remains = progress is None or progress.remaining >= draft.rules.cancel_remaining * progress.total
    return remains and node.reserved.fits_within(node.watermark)


def cancel_migration(draft: Draft, move: Move, reason: str) -> None:
    """Cancel a migration: release its target at once and close its claim.

    A migration whose object was never requested is only dropped.
    """
    claim = draft.state.claims.get(move.claim)
    whom = "" if claim is None else f" for {claim.beneficiary.ref}"
    if claim is not None:
        close_claim(draft, claim, ClaimOutcome.CANCELLED)
    draft.mark_changed(move.target_node)
    if move.requested_at is None and not move.uid:
        draft.drop_move(move.key)
        return
    draft.put_move(replace(move, stage=Stage.ENDING, requested_at=draft.now, retry_at=draft.now + REPEAT_AFTER_S))
    draft.add_action(CancelMove(move.name, move.machine, move.uid, reason))
    draft.notify(
        move.machine,
        "MoveCancelled",
        f"The migration to node {move.target_node or '(any)'}{whom} is cancelled: {reason}",
    )


def fail_migration(draft: Draft, move: Move, reason: str) -> None:
    """Cancel a migration after a failure.

    Its claim fails with an Event, and the VM is not migrated to that target for a while (B15, B25).
    """
    remember_failure(draft, move)
    fail_claim(draft, move)
    cancel_migration(draft, move, reason)


def remember_failure(draft: Draft, move: Move) -> None:
    """Record a failed migration: a pause for this target, and for all targets if the copying failed.

    If a target refuses a VM, that is no reason against other targets.
    """
    pod = draft.state.pod(move.source.uid)
    machine = move.machine if pod is None or pod.machine is None else pod.machine.ref
    copied = move.copying_at is not None or move.stage is Stage.FAILED
    failures = {key: kept for key, kept in draft.state.failures.items() if _still_counts(draft, kept.until)}
    for target in {move.target_node, ANY_TARGET} if copied else {move.target_node}:
        failures[machine.uid, target] = failures_after_another(
            failures.get((machine.uid, target)), draft.now, draft.rules.calm
        )
    draft.state = replace(draft.state, failures=failures)


def _still_counts(draft: Draft, until: float) -> bool:
    return draft.now < until + draft.rules.calm.longest_after_failure_s


def fail_claim(draft: Draft, move: Move) -> None:
    claim = draft.state.claims.get(move.claim)
    if claim is not None:
        close_claim(draft, claim, ClaimOutcome.FAILED)


def end_migration(draft: Draft, move: Move) -> None:
    """Delete the object of a finished migration after its claim is closed. Foreign objects stay.

    The deletion waits until the record of the used claim is written. So a new leader finds the claim or the record (B9,
    B43), and the grant to the beneficiary is not queued behind the deletion.
    """
    if move.foreign:
        if can_be_dropped(move.name):
            draft.drop_move(move.key)
        return
    if move.claim in draft.state.claims or draft.is_claim_closing(move.claim):
        return
    draft.put_move(replace(move, requested_at=draft.now, retry_at=draft.now + REPEAT_AFTER_S))
    draft.add_action(EndMove(move.name, move.machine, move.uid))


def can_be_dropped(name: str) -> bool:
    """Return whether a finished foreign migration can be dropped: no migration of vm can need its name."""
    return not name.startswith(MIGRATION_PREFIX)


def review_migrations(draft: Draft, node: str) -> None:
    """Cancel or end the migrations away from the node that have no beneficiary or are over."""
    for move in [each for each in draft.state.moves.values() if each.source_node == node]:
        if move.alive and is_orphan(draft.state, move):
            handle_orphan(draft, move)
        elif move.requested_at is None and is_over(draft, move):
            end_migration(draft, move)


def end_migrations_of(draft: Draft, uid: str) -> None:
    """End finished migrations of a source that is gone.

    If its node went first, no other event shows that they are over (B2, C27).
    """
    for move in [each for each in draft.state.moves.values() if each.source.uid == uid]:
        if move.requested_at is None and is_over(draft, move):
            end_migration(draft, move)


def is_over(draft: Draft, move: Move) -> bool:
    """Return whether only the migration object is left.

    With `compat`, a source that still exists does not matter (C27).
    """
    if move.stage is Stage.DONE:
        return draft.rules.compat or move.source.uid not in draft.state.where
    return move.stage is Stage.FAILED
