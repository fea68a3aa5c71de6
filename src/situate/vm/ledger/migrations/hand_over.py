"""Write the hand-over record before the source Pod of a completed migration is deleted.

A repetition is harmless, so a new leader can continue. The beneficiary grows when the source is gone, not when the
record is written (B10, B9).
"""

from __future__ import annotations

from dataclasses import replace

from situate.vm.ledger.grants import early_pod_resize
from situate.vm.ledger.transaction import REPEAT_AFTER_S, Draft
from situate.vm.model.actions import HandOver
from situate.vm.model.migrations import Move, Stage


def hand_over(draft: Draft, move: Move, *, at_once: bool = False) -> None:
    """Write the record and delete the source Pod of a completed migration with a claim.

    Otherwise nothing happens. Unless `at_once`, a plain Pod is resized first if possible (B37).
    """
    claim, source = draft.state.claims.get(move.claim), draft.state.pod(move.source.uid)
    if move.stage is not Stage.DONE or claim is None or source is None:
        return
    if not at_once and early_pod_resize.start_early_resize(draft, move):
        return
    draft.put_move(replace(move, retry_at=draft.now + REPEAT_AFTER_S))
    draft.add_action(HandOver(move.name, move.machine, move.uid, source.ref, claim.beneficiary.ref, claim.amount))
