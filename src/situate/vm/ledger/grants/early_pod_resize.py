"""A pod's resize is written before the source of a move for it is gone, so that nobody takes the room between (B37).

Once copying is done that source has only to be deleted. If the pod asks for the room first, the kubelet puts its resize
off until there is some, and stock schedulers count what a pod asks for. Nothing is booked for it here: the claim stands
for the room until the pod shows what it asks for, which counts then as of any resize that was put off (B35).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from situate.vm.ledger.grants.arithmetic import pod_with_all
from situate.vm.ledger.transaction import Draft
from situate.vm.model.actions import ResizePod
from situate.vm.model.migrations import ClaimState, Move, Stage
from situate.vm.model.pods_and_nodes import Pod, Resize
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import State

LONGEST_S: Final = 2.0
"""The source is deleted after so long without an answer: the pod is resized then when the source is gone."""


def size(state: State, move: Move) -> Amounts | None:
    """What the one for whom the move is made may ask for by now, in whole; None: nothing before the source is gone.

    Beside another claim it asks later: the kubelet knows of no claims, and would give it what another one made room
    for. Those whom it may serve first, having put them off before, are booked with all that they ask for (B35), and
    the claim is no larger than what is left beside them (B8).
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
    wish = replace(pod, requested=pod.requested.most(pod.reserved))
    grown = pod_with_all(wish, state.avail(claim.node, pod.uid) + claim.amount)
    return None if grown.reserved == pod.reserved else grown.reserved


def begun(draft: Draft, move: Move) -> bool:
    """Whether the hand-over waits, as the pod's resize is written first."""
    amount = size(draft.state, move)
    if amount is None:
        return False
    pod = draft.state.pod(draft.state.claims[move.claim].beneficiary.ref.uid)
    assert pod is not None
    assert pod.resize is not None
    draft.put_move(replace(move, retry_at=draft.now + LONGEST_S))
    draft.do(_write(pod, pod.resize, amount))
    return True


def waiting_for(state: State, resize: ResizePod) -> list[Move]:
    """Moves whose hand-over goes on when this is answered, whatever the answer is: none if it is wished no more."""
    pod = state.pod(resize.pod.uid)
    if pod is None or pod.resize is None or resize != _write(pod, pod.resize, resize.amount):
        return []
    ids = {claim.id for claim in state.claims.values() if claim.beneficiary.ref.uid == pod.uid}
    return [each for each in state.moves.values() if each.stage is Stage.DONE and each.claim in ids and each.retry_at]


def _write(pod: Pod, wish: Resize, amount: Amounts) -> ResizePod:
    return ResizePod(pod.ref, amount, wish.container, wish.own_of(amount), wish.text)
