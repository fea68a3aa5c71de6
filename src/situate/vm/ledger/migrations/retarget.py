"""A target that is lost, or refuses: one new choice before copying, for which room is reserved at once (B14, F6, F8).

What speaks against a target is only noted when it is seen. The choice is made by the next beat, which is due at once:
whoever is asked about nodes has seen by then what the ledger has seen, and no answer to an agent waits for it.
"""

from __future__ import annotations

from dataclasses import replace

from situate.vm.ledger.migrations.completion import fail, remember_failure
from situate.vm.ledger.transaction import SHOWN_AFTER_S, Draft
from situate.vm.model.actions import Retarget
from situate.vm.model.events import TargetRefused
from situate.vm.model.migrations import Move, Stage


def target_refused(draft: Draft, event: TargetRefused) -> None:
    move = draft.state.moves.get(event.move)
    if move is not None and move.target_node == event.node:
        refuse(draft, move, event.reason)


def refuse(draft: Draft, move: Move, why: str) -> bool:
    """Whether it waits for another target now; one whose pod has its node does not, nor one without any."""
    is_being_made = move.stage is Stage.PLANNED and move.asked_at is not None
    if not move.target_node or not (is_being_made or move.waits_for_its_target):
        return False
    if not move.refused:
        draft.put_move(replace(move, refused=why))
    return True


def review(draft: Draft, node: str) -> None:
    """Of the moves that lead to the node: whether it takes anybody."""
    if not draft.state.nodes[node].schedulable:
        for move in list(draft.state.arriving(node)):
            refuse(draft, move, f"node {node} takes nobody: it is cordoned or not ready")


def choose(draft: Draft, move: Move, why: str) -> None:
    """The best other node; where there is none, or this was the second choice already, the move fails."""
    final = move.pinned or move.choices > 1
    target = "" if final else draft.planner.another_target(draft.state, move, draft.now, draft.rules)
    if not target:
        fail(draft, move, why)
        return
    remember_failure(draft, move)
    draft.stir(move.target_node)
    draft.stir(target)
    # to the microsecond, as it is written
    at = round(draft.now, 6)
    after = replace(move, target_node=target, choices=move.choices + 1, rechosen_at=at, refused="")
    write(draft, after)
    draft.tell(
        move.machine,
        "TargetRechosen",
        f"it moves to node {target} and not to {move.target_node}: {why}",
        move=move.name,
        node=target,
    )


def write(draft: Draft, move: Move) -> None:
    """The first time and again: a restart finds it on the migration."""
    assert move.rechosen_at is not None, f"{move.key} has its first target"
    draft.put_move(replace(move, retry_at=draft.now + SHOWN_AFTER_S))
    draft.do(Retarget(move.name, move.machine, move.uid, move.target_node, move.rechosen_at))
