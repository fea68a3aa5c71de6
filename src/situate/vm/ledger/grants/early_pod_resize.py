"""Resize a Pod before the source of a migration for it is gone, so that no other Pod takes the capacity.

Once copying is done, only the deletion of the source Pod is left. If the resize is written first, the kubelet defers it
until capacity is free, and stock schedulers count the requests of the Pod. Nothing is reserved for it here: the claim
holds the capacity until the Pod shows the new requests. Then they count like any deferred resize (B35, B37).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from situate.vm.ledger.grants.arithmetic import pod_after_joint_grants
from situate.vm.ledger.transaction import Draft
from situate.vm.model.actions import ResizePod
from situate.vm.model.migrations import ClaimState, Move, Stage
from situate.vm.model.pods_and_nodes import Pod, Resize
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState

LONGEST_S: Final = 2.0
"""How long the deletion of the source waits for an answer. After this, the Pod is resized when the source is gone."""


def early_amount(state: LedgerState, move: Move) -> Amounts | None:
    """Return the whole amount that the beneficiary may request now. None: nothing before the source is gone.

    If another claim is open on the node, the answer is None: the kubelet knows no claims and could use the capacity of
    the other claim. Pods that the kubelet may serve first were deferred before; their whole request counts as reserved
    (B35). The claim is no larger than the amount left beside them (B8).
    """
    claim = state.claims.get(move.claim)
    if move.stage is not Stage.DONE or claim is None or claim.state is ClaimState.FREED:
        return None
    pod = state.pod(claim.beneficiary.ref.uid)
    if pod is None or pod.resize is None or pod.deferred or state.where[pod.uid] != claim.node:
        return None
    alone = all(each.node != claim.node or each.id == claim.id for each in state.claims.values())
    if not alone or pod.uid in state.writes:
        return None
    wish = replace(pod, requested=pod.requested.maximum(pod.reserved))
    grown = pod_after_joint_grants(wish, state.available(claim.node, pod.uid) + claim.amount)
    return None if grown.reserved == pod.reserved else grown.reserved


def start_early_resize(draft: Draft, move: Move) -> bool:
    """Start the early resize and return whether the hand-over waits for it."""
    amount = early_amount(draft.state, move)
    if amount is None:
        return False
    pod = draft.state.pod(draft.state.claims[move.claim].beneficiary.ref.uid)
    assert pod is not None
    assert pod.resize is not None
    draft.put_move(replace(move, retry_at=draft.now + LONGEST_S))
    draft.add_action(_resize_action(pod, pod.resize, amount))
    return True


def migrations_waiting_for(state: LedgerState, resize: ResizePod) -> list[Move]:
    """Return the migrations whose hand-over continues after any answer to this resize.

    Empty if the resize is no longer requested.
    """
    pod = state.pod(resize.pod.uid)
    if pod is None or pod.resize is None or resize != _resize_action(pod, pod.resize, resize.amount):
        return []
    ids = {claim.id for claim in state.claims.values() if claim.beneficiary.ref.uid == pod.uid}
    return [each for each in state.moves.values() if each.stage is Stage.DONE and each.claim in ids and each.retry_at]


def _resize_action(pod: Pod, wish: Resize, amount: Amounts) -> ResizePod:
    return ResizePod(pod.ref, amount, wish.container, wish.container_amount(amount), wish.text)
