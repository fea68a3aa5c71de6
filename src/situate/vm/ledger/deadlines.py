"""Handle the passing of time: slow migrations, expired claims, and writes to repeat.

`wake_at` returns the next due time, also of unmet requests and of nodes to plan for (B7, B15, B16, B24).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec

from situate.vm.ledger.grants import pod_resize
from situate.vm.ledger.migrations import retarget
from situate.vm.ledger.migrations.completion import close, fail, move_for
from situate.vm.ledger.observed.migrations import ask_again
from situate.vm.ledger.observed.write_results import account_again, write_again
from situate.vm.ledger.transaction import Draft
from situate.vm.model.migrations import Claim, ClaimState, Move, Outcome, Stage
from situate.vm.model.policy import GIB, Rules
from situate.vm.model.state import State


class Limit(msgspec.Struct, frozen=True):
    """A time limit of a migration, in seconds of the epoch, and the reason for its end.

    A struct, because many are created on every time event.
    """

    at: float
    why: str
    by_node: bool = False
    """Whether only the target node is the reason, so that another target may help."""


def look(draft: Draft) -> None:
    """Handle all that is due, but choose at most one new target, so that a decision stays short.

    Another `Beat` is then due at once.
    """
    chosen = False
    for move in list(draft.state.moves.values()):
        late = [each for each in limits(draft.state, move, draft.rules) if each.at <= draft.now]
        if late and not all(each.by_node for each in late):
            fail(draft, move, next(each for each in late if not each.by_node).why)
        elif late:
            if not chosen:
                retarget.choose(draft, move, late[0].why)
            chosen = True
        elif move.refused and move.stage is not Stage.PLANNED:
            draft.put_move(replace(move, refused=""))
        elif move.retry_at is not None and move.retry_at <= draft.now:
            if move.refused:
                fail(draft, move, move.refused)
            else:
                ask_again(draft, move)
    for claim in list(draft.state.claims.values()):
        if claim.deadline <= draft.now:
            _expire(draft, claim)
    for uid, write in list(draft.state.writes.items()):
        if write.retry_at is not None and write.retry_at <= draft.now:
            write_again(draft, uid)
    for uid, account in list(draft.state.accounts.items()):
        if account.retry_at is not None and account.retry_at <= draft.now:
            account_again(draft, uid, account)
    pod_resize.due(draft)


def _expire(draft: Draft, claim: Claim) -> None:
    move = move_for(draft.state, claim.id)
    if claim.state is not ClaimState.FREED and move is not None and move.alive:
        fail(draft, move, "the claim has expired")
    else:
        close(draft, claim, Outcome.FAILED)


def limits(state: State, move: Move, rules: Rules) -> Iterator[Limit]:
    """Yield the time limits of a migration, each with the reason for its end.

    They also apply to foreign migrations (B15).
    """
    if rules.compat or not move.alive or (move.stage is Stage.PLANNED and move.asked_at is None):
        return
    deadlines, begun = rules.deadlines, move.created_at if move.uid or move.asked_at is None else move.asked_at
    yield Limit(begun + deadlines.completion_s, f"the migration has not ended after {deadlines.completion_s:g} s")
    if move.stage is not Stage.COPYING:
        if move.waits_for_its_target and move.refused:
            yield Limit(begun, move.refused, by_node=True)
        if move.target_bound_at is None:
            why, since = f"the target Pod has no node after {deadlines.unbound_s:g} s", move.rechosen_at or begun
            yield Limit(since + deadlines.unbound_s, why, by_node=move.waits_for_its_target)
        yield Limit(
            begun + deadlines.not_running_s, f"the target Pod is not running after {deadlines.not_running_s:g} s"
        )
        return
    copying_at = move.copying_at or begun
    if move.tells_progress:
        changed_at = copying_at if move.progress is None else move.progress.changed_at
        why = f"the copying made no progress for {deadlines.no_progress_s:g} s"
        yield Limit(changed_at + deadlines.no_progress_s, why)
    allowed = max(deadlines.total_least_s, deadlines.total_s_per_gib * _memory(state, move) / GIB)
    yield Limit(copying_at + allowed, f"the copying takes longer than {allowed:g} s")


def _memory(state: State, move: Move) -> int:
    """Return the memory in use by the VM, in bytes.

    If unknown, return all memory to copy, which may be all memory of the VM.
    """
    pod = state.pod(move.source.uid)
    if pod is not None and pod.machine is not None and pod.machine.load.memory_used:
        return pod.machine.load.memory_used
    if move.progress is not None:
        return move.progress.total
    return 0 if pod is None else pod.used.memory


def wake_at(state: State, rules: Rules) -> float | None:
    """Return when the next `Beat` is due. A past time is due at once. None: nothing waits for time."""
    return min(_times(state, rules), default=None)


def _times(state: State, rules: Rules) -> Iterator[float]:
    if not state.started:
        return
    for waiter in state.waiters.values():
        yield waiter.look_at
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
        yield from (each.at for each in limits(state, move, rules))
