"""Handle an object whose holder is removed: reassign it, fail it, or unassign it until an executor joins.

`membership` and `holder_status` judge when a holder is removed. Forced moves are rate-limited, so that the loss of many
executors does not flood the API server. The limit delays a move and never drops it. The rules are "Loss" in
docs/spec/sharding.md.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from situate.sharding.assignment.executor_choice import assign_action, choose_executor, newest_revision_executors
from situate.sharding.model.actions import Complete, Revoke
from situate.sharding.model.decision_inputs import ClusterView, Decision, Memory, Ownership, Verdict
from situate.sharding.model.names import Cause, Failure, Reason
from situate.sharding.model.object_view import ObjectView
from situate.sharding.model.supervisor_config import OrphanPolicy


def lost_holder_decision(view: ObjectView, memory: Memory, situation: ClusterView) -> Decision:
    """Decide about an open object whose holder is removed."""
    limit = situation.limit
    if memory.forced_at is None:
        at, limit = limit.reserve_move(situation.now)
        memory = replace(memory, forced_at=at)
    if memory.forced_at is not None and situation.now < memory.forced_at:
        return Decision(memory, limit, wake_at=memory.forced_at, waits=True)
    config = situation.config
    if config.orphan_policy is OrphanPolicy.FAIL:
        return Decision(memory, limit, (Complete(situation.wall, Failure.EXECUTOR_LOST),))
    losses = (*recent_losses(view, situation), situation.wall)
    if len(losses) > config.max_reassigns:
        message = f"the object lost its executor {len(losses)} times within {config.reassign_window:g} s"
        verdict = Verdict(False, Reason.QUARANTINED, message)
        return Decision(memory, limit, (Complete(situation.wall, Failure.REASSIGN_LIMIT),), verdict=verdict)
    take_back = Revoke(situation.term, Cause.LOST, losses)
    if situation.ownership(view) is Ownership.FROZEN or not config.is_ready(view):
        return Decision(memory, limit, (take_back,), waits=True)
    executor = choose_executor(view, situation, newest_revision_executors(situation.members))
    if isinstance(executor, Verdict):
        return Decision(memory, limit, (take_back,), waits=True, verdict=executor)
    verdict = Verdict(True, Reason.ASSIGNED)
    return Decision(memory, limit, (assign_action(executor, situation, Cause.LOST, losses),), verdict=verdict)


def recent_losses(view: ObjectView, situation: ClusterView) -> tuple[datetime, ...]:
    """Return the losses within the window. Times ahead of our clock count: another supervisor's clock may be ahead."""
    oldest = situation.wall - timedelta(seconds=situation.config.reassign_window)
    return tuple(each for each in view.losses if each >= oldest)
