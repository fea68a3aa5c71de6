"""The machine runs at its target: what its source leaves is promised in writing before that is deleted (B10).

Repeating it is harmless, so that whoever begins anew goes on with it; that the source is gone, and not this record, is
what grows the beneficiary (B9).
"""

from __future__ import annotations

from dataclasses import replace

from situate.vm.ledger.grants import early_pod_resize
from situate.vm.ledger.transaction import SHOWN_AFTER_S, Draft
from situate.vm.model.actions import HandOver
from situate.vm.model.migrations import Move, Stage


def hand_over(draft: Draft, move: Move, *, at_once: bool = False) -> None:
    """Of a move that is not done, that is for nobody, or whose source is gone, there is nothing to hand over.

    Unless `at_once`, a plain pod is resized first where that may be (B37).
    """
    claim, source = draft.state.claims.get(move.claim), draft.state.pod(move.source.uid)
    if move.stage is not Stage.DONE or claim is None or source is None:
        return
    if not at_once and early_pod_resize.begun(draft, move):
        return
    draft.put_move(replace(move, retry_at=draft.now + SHOWN_AFTER_S))
    draft.do(HandOver(move.name, move.machine, move.uid, source.ref, claim.beneficiary.ref, claim.amount))
