"""Handle the passing of time: slow migrations, expired claims, and writes to repeat.

`wake_at` returns the next due time, also of unmet requests and of nodes to plan for (B7, B15, B16, B24).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from situate.vm.ledger.grants import pod_resize
from situate.vm.ledger.migrations import retarget
from situate.vm.ledger.migrations.completion import close_claim, fail_migration, migration_of_claim
from situate.vm.ledger.observed.migrations import repeat_request
from situate.vm.ledger.observed.write_results import repeat_runner_resize, repeat_write
from situate.vm.ledger.transaction import Draft
from situate.vm.model.migrations import Claim, ClaimOutcome, ClaimState, Move, Stage
from situate.vm.model.policy import GIB, Rules
from situate.vm.model.state import LedgerState


class TimeLimit(msgspec.Struct, frozen=True):
    """A time limit of a migration, in seconds of the epoch, and the reason for its end.

    A struct, because many are created on every time event.
    """

    at: float
    why: str
    by_node: bool = False
    """Whether only the target node is the reason, so that another target may help."""


def handle_due_times(draft: Draft) -> None:
    """Handle all that is due, but choose at most one new target, so that a decision stays short.

    Another `TimerFired` is then due at once.
    """
    chosen = False
    for move in list(draft.state.moves.values()):
        late = [each for each in time_limits(draft.state, move, draft.rules) if each.at <= draft.now]
        if late and not all(each.by_node for each in late):
            fail_migration(draft, move, next(each for each in late if not each.by_node).why)
        elif late:
            if not chosen:
                retarget.choose_target(draft, move, late[0].why)
            chosen = True
        elif move.refused and move.stage is not Stage.PLANNED:
            draft.put_move(replace(move, refused=""))
        elif move.retry_at is not None and move.retry_at <= draft.now:
            if move.refused:
                fail_migration(draft, move, move.refused)
            else:
                repeat_request(draft, move)
    for claim in list(draft.state.claims.values()):
        if claim.deadline <= draft.now:
            _expire(draft, claim)
    for uid, write in list(draft.state.writes.items()):
        if write.retry_at is not None and write.retry_at <= draft.now:
            repeat_write(draft, uid)
    for uid, account in list(draft.state.accounts.items()):
        if account.retry_at is not None and account.retry_at <= draft.now:
            repeat_runner_resize(draft, uid, account)
    pod_resize.retry_due_requests(draft)


def _expire(draft: Draft, claim: Claim) -> None:
    move = migration_of_claim(draft.state, claim.id)
    if claim.state is not ClaimState.FREED and move is not None and move.alive:
        fail_migration(draft, move, "the claim has expired")
    else:
        close_claim(draft, claim, ClaimOutcome.FAILED)


def time_limits(state: LedgerState, move: Move, rules: Rules) -> Iterator[TimeLimit]:
    """Yield the time limits of a migration, each with the reason for its end.

    They also apply to foreign migrations (B15).
    """
    if rules.compat or not move.alive or (move.stage is Stage.PLANNED and move.requested_at is None):
        return
    deadlines, begun = rules.deadlines, move.created_at if move.uid or move.requested_at is None else move.requested_at
    yield TimeLimit(begun + deadlines.completion_s, f"the migration has not ended after {deadlines.completion_s:g} s")
    if move.stage is not Stage.COPYING:
        if move.waits_for_its_target and move.refused:
            yield TimeLimit(begun, move.refused, by_node=True)
        if move.target_bound_at is None:
            why, since = f"the target Pod has no node after {deadlines.unbound_s:g} s", move.rechosen_at or begun
            yield TimeLimit(since + deadlines.unbound_s, why, by_node=move.waits_for_its_target)
        yield TimeLimit(
            begun + deadlines.not_running_s, f"the target Pod is not running after {deadlines.not_running_s:g} s"
        )
        return
    copying_at = move.copying_at or begun
    if move.reports_progress:
        changed_at = copying_at if move.progress is None else move.progress.changed_at
        why = f"the copying made no progress for {deadlines.no_progress_s:g} s"
        yield TimeLimit(changed_at + deadlines.no_progress_s, why)
    allowed = max(deadlines.least_total_s, deadlines.total_s_per_gib * _memory_in_use(state, move) / GIB)
    yield TimeLimit(copying_at + allowed, f"the copying takes longer than {allowed:g} s")


def _memory_in_use(state: LedgerState, move: Move) -> int:
    """Return the memory in use by the VM, in bytes.

    If unknown, return all memory to copy, which may be all memory of the VM.
    """
    pod = state.pod(move.source.uid)
    if pod is not None and pod.machine is not None and pod.machine.load.memory_used:
        return pod.machine.load.memory_used
    if move.progress is not None:
        return move.progress.total
    return 0 if pod is None else pod.used.memory


def wake_at(state: LedgerState, rules: Rules) -> float | None:
    """Return when the next `TimerFired` is due. A past time is due at once. None: nothing waits for time."""
    return min(_due_times(state, rules), default=None)


def _due_times(state: LedgerState, rules: Rules) -> Iterator[float]:
    if not state.started:
        return
    for waiter in state.waiters.values():
        yield waiter.next_attempt_at
    yield from state.looks.values()
    for claim in state.claims.values():
        yield claim.deadline
    for write in state.writes.values():
        if write.retry_at is not None:
            yield write.retry_at
    for account in state.accounts.values():
        if account.retry_at is not None:
            yield account.retry_at
    for denied in state.denied.values():
        if denied.until is not None:
            yield denied.until
    for move in state.moves.values():
        if move.retry_at is not None:
            yield move.retry_at
        yield from (each.at for each in time_limits(state, move, rules))
