"""How claims and moves end, often each because of the other (B2, B7, B15, B20 to B22)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from situate.vm.api.well_known import MIGRATION_PREFIX
from situate.vm.ledger.transaction import SHOWN_AFTER_S, Draft
from situate.vm.model.actions import CancelMove, EndMove
from situate.vm.model.migrations import Claim, Move, Outcome, Stage
from situate.vm.model.state import State
from situate.vm.planning.node_relief import leaving
from situate.vm.planning.rules.cooldown import ANYWHERE, after_failure

_IN_VAIN: Final = (Outcome.FAILED, Outcome.CANCELLED, Outcome.PARTIAL)
"""Its beneficiary has waited long enough: another plan is made for it at once."""


def move_for(state: State, claim: str) -> Move | None:
    """The one move that backs a claim (I3)."""
    return next((move for move in state.moves.values() if move.claim == claim), None)


def close(draft: Draft, claim: Claim, outcome: Outcome) -> None:
    """Every claim ends here (B7). A move that it leaves without a purpose is found when its node is run (`review`)."""
    draft.drop_claim(claim.id)
    draft.stir(claim.node)
    move = move_for(draft.state, claim.id)
    by = "" if move is None else f" by {move.machine}"
    draft.tell(
        claim.beneficiary.ref,
        "ClaimClosed",
        f"room on node {claim.node} that was made for it{by}: {outcome.value}",
        claim=claim.id,
        node=claim.node,
        outcome=outcome.value,
    )
    waiter = draft.state.waiters.get(claim.beneficiary.ref.uid)
    if waiter is not None and outcome in _IN_VAIN:
        draft.put_waiter(replace(waiter, look_at=min(waiter.look_at, draft.now)))


def is_orphan(state: State, move: Move) -> bool:
    """Whether it was for somebody, and is for nobody any more."""
    return bool(move.claim) and move.claim not in state.claims and not move.foreign


def orphaned(draft: Draft, move: Move) -> None:
    """Before copying it ends at once (B21); later only while most is yet to be copied and its node can bear it."""
    if move.stage is Stage.COPYING and not _worth_cancelling(draft, move):
        return
    if move.alive and not (move.for_node and relieves(draft.state, move)):
        cancel(draft, move, "nobody needs the room any more")


def relieves(state: State, move: Move) -> bool:
    """Whether its node would be over its watermark if the machine stayed, with all others gone that leave."""
    node, pod = state.nodes.get(move.source_node), state.pod(move.source.uid)
    if node is None or pod is None:
        return False
    staying = node.reserved - leaving(state, node.name) + pod.counted(pod.reserved)
    return staying.exceeds(node.watermark)


def _worth_cancelling(draft: Draft, move: Move) -> bool:
    node, progress = draft.state.nodes.get(move.source_node), move.progress
    if not draft.rules.cancel_copying or node is None:
        return False
    remains = progress is None or progress.remaining >= draft.rules.cancel_remaining * progress.total
    return remains and node.reserved.within(node.watermark)


def cancel(draft: Draft, move: Move, reason: str) -> None:
    """Its target is released at once, and its claim ends; one whose object was never asked for is simply forgotten."""
    claim = draft.state.claims.get(move.claim)
    whom = "" if claim is None else f", which was to make room for {claim.beneficiary.ref},"
    if claim is not None:
        close(draft, claim, Outcome.CANCELLED)
    draft.stir(move.target_node)
    if move.asked_at is None and not move.uid:
        draft.drop_move(move.key)
        return
    draft.put_move(replace(move, stage=Stage.ENDING, asked_at=draft.now, retry_at=draft.now + SHOWN_AFTER_S))
    draft.do(CancelMove(move.name, move.machine, move.uid, reason))
    draft.tell(move.machine, "MoveCancelled", f"its move to node {move.target_node or '(any)'}{whom} ends: {reason}")


def fail(draft: Draft, move: Move, reason: str) -> None:
    """As `cancel`; whoever waits for its room is told, and the machine stays away from there for a while (B15, B25)."""
    remember_failure(draft, move)
    fail_claim(draft, move)
    cancel(draft, move, reason)


def remember_failure(draft: Draft, move: Move) -> None:
    """Not there again for a while (B25); and, if it was the copying that failed, not anywhere.

    A target that does not take a machine says nothing of the machine.
    """
    pod = draft.state.pod(move.source.uid)
    machine = move.machine if pod is None or pod.machine is None else pod.machine.ref
    copied = move.copying_at is not None or move.stage is Stage.FAILED
    failures = {key: kept for key, kept in draft.state.failures.items() if _still_counts(draft, kept.until)}
    for target in {move.target_node, ANYWHERE} if copied else {move.target_node}:
        failures[machine.uid, target] = after_failure(failures.get((machine.uid, target)), draft.now, draft.rules.calm)
    draft.state = replace(draft.state, failures=failures)


def _still_counts(draft: Draft, until: float) -> bool:
    return draft.now < until + draft.rules.calm.most_after_failure_s


def fail_claim(draft: Draft, move: Move) -> None:
    claim = draft.state.claims.get(move.claim)
    if claim is not None:
        close(draft, claim, Outcome.FAILED)


def end(draft: Draft, move: Move) -> None:
    """Once it is over and its claim is closed its object goes (B2); foreign ones are not ours to delete (C27).

    Not before it is written that the claim was used: whoever begins anew finds the one or the other (B9, B43), and what
    the beneficiary waits for is not sent behind it.
    """
    if move.foreign:
        if is_forgotten(move.name):
            draft.drop_move(move.key)
        return
    if move.claim in draft.state.claims or draft.being_closed(move.claim):
        return
    draft.put_move(replace(move, asked_at=draft.now, retry_at=draft.now + SHOWN_AFTER_S))
    draft.do(EndMove(move.name, move.machine, move.uid))


def is_forgotten(name: str) -> bool:
    """Whether a migration that others made is nothing to us once it is over: no move of ours can need its name."""
    return not name.startswith(MIGRATION_PREFIX)


def review(draft: Draft, node: str) -> None:
    """Of the moves that leave the node: whether somebody still needs them, and whether they are over (D6, B22)."""
    for move in [each for each in draft.state.moves.values() if each.source_node == node]:
        if move.alive and is_orphan(draft.state, move):
            orphaned(draft, move)
        elif move.asked_at is None and is_over(draft, move):
            end(draft, move)


def left(draft: Draft, uid: str) -> None:
    """A source is gone: nothing else says that its move is over where its node went before it (B2, C27)."""
    for move in [each for each in draft.state.moves.values() if each.source.uid == uid]:
        if move.asked_at is None and is_over(draft, move):
            end(draft, move)


def is_over(draft: Draft, move: Move) -> bool:
    """Whether nothing is left of it but its object; the reference does not wait for the source to be gone (C27)."""
    if move.stage is Stage.DONE:
        return draft.rules.compat or move.source.uid not in draft.state.where
    return move.stage is Stage.FAILED
