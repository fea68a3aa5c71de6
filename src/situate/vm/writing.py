"""What became of our own writes: what landed counts, and what failed or is unknown is asked for again (B9, I2, F1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from situate.vm import waiting
from situate.vm.actions import Approve, CancelMove, EndMove, HandOver, ResizePod, StartMove
from situate.vm.claims import Stage
from situate.vm.drafting import SHOWN_AFTER_S, Draft, approval, frozen
from situate.vm.ending import fail_claim, remember_failure
from situate.vm.events import Written
from situate.vm.model import Pod
from situate.vm.state import Unseen

LONGEST_PAUSE_S: Final = 60.0
"""Before a write that failed is repeated: as long as it has been failing, up to this."""


def written(draft: Draft, event: Written) -> None:
    match event.action:
        case Approve() | ResizePod():
            _approved(draft, event.action, event.outcome)
        case StartMove(move=move):
            _started(draft, move.key, event)
        case CancelMove() | EndMove():
            _ended(draft, event.action, event)
        case HandOver(name=name, machine=machine) if event.outcome != "ok":
            _not_handed_over(draft, f"{machine.namespace}/{name}")


def _not_handed_over(draft: Draft, key: str) -> None:
    move = draft.state.moves.get(key)
    if move is not None and move.retry_at is not None:
        draft.put_move(replace(move, retry_at=draft.now + draft.rules.retry_s))


def _approved(draft: Draft, action: Approve | ResizePod, outcome: str) -> None:
    """A decrease is booked as soon as it has landed, and not before: a restart would find the larger amount (D24)."""
    uid = action.pod.uid
    write, pod = draft.state.writes.get(uid), draft.known(uid)
    if write is None or pod is None or approval(pod, write) != action:
        return
    if draft.rules.compat:
        if outcome != "ok":
            waiting.must_wait(draft, pod, draft.now + draft.rules.patch_retry_s)
        return
    if outcome != "ok":
        pause = min(max(draft.rules.patch_retry_s, draft.now - write.at), LONGEST_PAUSE_S)
        write = replace(write, retry_at=draft.now + pause, refused=outcome != "unknown")
        draft.put_write(uid, write)
        if (
            draft.state.pod(uid) is not None
            and write.refused
            and write.shown not in (None, (write.requested, write.unit))
        ):
            _decide_anew(draft, pod, write)
        return
    draft.put_write(uid, replace(write, landed=True, retry_at=draft.now + SHOWN_AFTER_S))
    booked = write.amount.most(pod.used)
    if booked != pod.reserved and not frozen(pod):
        draft.book(replace(pod, reserved=booked), draft.state.where[uid])
        draft.stir(draft.state.where[uid])


def _decide_anew(draft: Draft, pod: Pod, write: Unseen) -> None:
    """On the request that the pod shows: somebody wrote another one than we knew."""
    assert write.shown is not None
    requested, unit = write.shown
    changed = replace(pod, requested=requested, factor=unit)
    node = draft.state.where[pod.uid]
    draft.book(changed, node)
    draft.approve(pod.uid, write.amount)
    waiting.note(draft, changed)
    draft.stir(node)


def write_again(draft: Draft, uid: str) -> None:
    write, pod = draft.state.writes[uid], draft.known(uid)
    if pod is None:
        draft.drop_write(uid)
        return
    if frozen(pod):
        draft.put_write(uid, replace(write, retry_at=draft.now + SHOWN_AFTER_S))
        return
    draft.put_write(uid, replace(write, retry_at=None))
    draft.do(approval(pod, write))


def _started(draft: Draft, key: str, event: Written) -> None:
    move = draft.state.moves.get(key)
    if move is None or move.uid or move.stage is not Stage.PLANNED:
        return
    if event.outcome == "ok":
        draft.put_move(replace(move, stage=Stage.STARTING))
    elif event.outcome == "unknown":
        draft.put_move(replace(move, retry_at=draft.now + draft.rules.retry_s))
    else:
        remember_failure(draft, move)
        draft.drop_move(key)
        fail_claim(draft, move)


def _ended(draft: Draft, action: CancelMove | EndMove, event: Written) -> None:
    """That it is gone tells itself; of one that never came to be nobody does."""
    move = draft.state.moves.get(f"{action.machine.namespace}/{action.name}")
    if move is None or move.uid != action.uid or move.asked_at is None or move.alive:
        return
    if event.outcome != "ok":
        draft.put_move(replace(move, retry_at=draft.now + draft.rules.retry_s))
    elif not move.uid:
        draft.drop_move(move.key)
