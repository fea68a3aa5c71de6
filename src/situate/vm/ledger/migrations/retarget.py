"""Replace a target that is lost or refuses the target Pod.

There is one new choice before copying, and its capacity is reserved at once (B14, F6, F8). A refusal is only recorded
when it is seen. The next time event, due at once, makes the choice. By then the filters have seen the same changes as
the ledger, and no answer to an agent waits for the choice.
"""

from __future__ import annotations

from dataclasses import replace

from situate.vm.ledger.migrations.completion import fail_migration, remember_failure
from situate.vm.ledger.transaction import REPEAT_AFTER_S, Draft
from situate.vm.model.actions import Retarget
from situate.vm.model.events import TargetRefused
from situate.vm.model.migrations import Move, Stage


def record_target_refusal(draft: Draft, event: TargetRefused) -> None:
    move = draft.state.moves.get(event.move)
    if move is not None and move.target_node == event.node:
        refuse_target(draft, move, event.reason)


def refuse_target(draft: Draft, move: Move, why: str) -> bool:
    """Record a refusal and return whether the migration waits for a new target now.

    A migration whose target Pod has a node does not wait, nor does one without a target.
    """
    is_being_made = move.stage is Stage.PLANNED and move.requested_at is not None
    if not move.target_node or not (is_being_made or move.waits_for_its_target):
        return False
    if not move.refused:
        draft.put_move(replace(move, refused=why))
    return True


def review_targets(draft: Draft, node: str) -> None:
    """Refuse the node as a target if it is cordoned or not ready."""
    if not draft.state.nodes[node].schedulable:
        for move in list(draft.state.arriving_migrations(node)):
            refuse_target(draft, move, f"node {node} is cordoned or not ready")


def choose_target(draft: Draft, move: Move, why: str) -> None:
    """Choose the best other node. If there is none, or this was the second choice already, the migration fails."""
    final = move.pinned or move.choices > 1
    target = "" if final else draft.planner.another_target(draft.state, move, draft.now, draft.rules)
    if not target:
        fail_migration(draft, move, why)
        return
    remember_failure(draft, move)
    draft.mark_changed(move.target_node)
    draft.mark_changed(target)
    # to the microsecond, as it is written
    at = round(draft.now, 6)
    after = replace(move, target_node=target, choices=move.choices + 1, rechosen_at=at, refused="")
    write_target(draft, after)
    draft.notify(
        move.machine,
        "TargetRechosen",
        f"The VM migrates to node {target} instead of {move.target_node}: {why}",
        move=move.name,
        node=target,
    )


def write_target(draft: Draft, move: Move) -> None:
    """Write the new target to the migration object, the first time and on retries. A new leader reads it there."""
    assert move.rechosen_at is not None, f"{move.key} still has its first target"
    draft.put_move(replace(move, retry_at=draft.now + REPEAT_AFTER_S))
    draft.add_action(Retarget(move.name, move.machine, move.uid, move.target_node, move.rechosen_at))
