"""Decide about one object: apply the supervisor's rules in order; the first rule that matches decides.

The rules are in docs/spec/sharding.md, "The supervisor, one object at a time". Each phase is a function of its own that
may be called alone. It returns a decision, or None to pass on to the next phase. The order is KSched's: existence
(rule 1), finalizer (rule 2), completion (rule 3), holder (rules 4 and 5), assignment of an unassigned object (rule 6).
"""

from __future__ import annotations

import math
from typing import assert_never

from msgspec.structs import replace

from situate.sharding.assignment.archive_steps import archive_due_s, due_before_owners_s
from situate.sharding.assignment.drain import (
    drain_cause,
    stop_decision,
    successor_wait_until,
    successors,
    unhealthy_drain_at,
)
from situate.sharding.assignment.executor_choice import (
    assign_action,
    choose_executor,
    newest_revision_executors,
    no_executor_verdict,
)
from situate.sharding.assignment.holder_status import (
    AssignmentEdited,
    Free,
    HolderStatus,
    Lost,
    MaybeWorking,
    Working,
    holder_status,
    unseen_holder_until,
    updated_memory,
)
from situate.sharding.assignment.lost_holders import lost_holder_decision, recent_losses
from situate.sharding.model.actions import Action, Archive, Delete, RemoveFinalizer, ReportCompleted
from situate.sharding.model.decision_inputs import ClusterView, Decision, Memory, Ownership, Verdict
from situate.sharding.model.names import Cause, Reason
from situate.sharding.model.object_view import ObjectView


def decide(view: ObjectView | None, memory: Memory, situation: ClusterView) -> Decision:
    """Decide about an object now; `view` None: it is gone. The returned memory may differ even without actions."""
    if view is not None:
        memory = updated_memory(memory, view, situation)
    decision = ignore_foreign_object(view, memory, situation)
    if decision is None and view is not None:
        decision = (
            handle_finalizer(view, memory, situation)
            or check_for_completion(view, memory, situation)
            or check_holder(view, memory, situation)
            or schedule_if_ready(view, memory, situation)
        )
    assert decision is not None, "the last phase always decides"
    return decision


def ignore_foreign_object(view: ObjectView | None, memory: Memory, situation: ClusterView) -> Decision | None:
    """Ignore an object that is gone, or that belongs to another partition."""
    if view is None or situation.ownership(view) is Ownership.FOREIGN:
        return Decision(memory, situation.limit)
    return None


def handle_finalizer(view: ObjectView, memory: Memory, situation: ClusterView) -> Decision | None:
    """Archive an object that is being deleted once no executor can write it any longer."""
    if not view.deleting:
        return None
    config = situation.config
    if not view.has_finalizer(config.finalizer):
        return Decision(memory, situation.limit)
    if not situation.has_archiver:
        return Decision(memory, situation.limit, (RemoveFinalizer(config.finalizer, situation.term),))
    stop = None if view.completed else _stop_deleted_object(view, memory, situation)
    return stop or Decision(memory, situation.limit, (Archive(delete=False),))


def check_for_completion(view: ObjectView, memory: Memory, situation: ClusterView) -> Decision | None:
    """Archive and delete a completed object when it is due; never assign it again."""
    if not view.completed:
        return None
    told: tuple[Action, ...] = ()
    if not memory.told:
        told, memory = (ReportCompleted(),), replace(memory, told=True)
    config = situation.config
    due_s = archive_due_s(view, config, situation.wall, situation.rank(view))
    left_s = due_before_owners_s(view, config, due_s, situation.owners_due_s(view)) if situation.has_archiver else due_s
    if left_s == math.inf or not (situation.has_archiver or config.delete_without_archive):
        return Decision(memory, situation.limit, told, waits=True)
    if left_s > 0:
        return Decision(memory, situation.limit, told, wake_at=situation.now + left_s, waits=True)
    if situation.has_archiver:
        if any(each.has_finalizer(config.finalizer) for each in situation.dependents(view)):
            # the deletion of the owner deletes its dependents, so they must be in the archive first
            later = situation.now + config.requeue_delay
            return Decision(memory, situation.limit, told, wake_at=later, waits=True)
        return Decision(memory, situation.limit, (*told, Archive(delete=True)))
    remove = (RemoveFinalizer(config.finalizer, situation.term),) if view.has_finalizer(config.finalizer) else ()
    return Decision(memory, situation.limit, (*told, *remove, Delete(view.uid)))


def check_holder(view: ObjectView, memory: Memory, situation: ClusterView) -> Decision | None:
    """Leave an object with its holder while the holder lives and is not drained."""
    if view.faults:
        verdict = Verdict(False, Reason.QUARANTINED, view.faults[0])
        return Decision(memory, situation.limit, waits=True, verdict=verdict)
    now = holder_status(view, memory, situation.members, situation.now)
    match now:
        case Free():
            return None
        case Lost():
            return lost_holder_decision(view, memory, situation)
        case Working(executor):
            cause = drain_cause(view, executor, situation)
            if cause is None:
                verdict = Verdict(True, Reason.ASSIGNED)
                wake_at = unhealthy_drain_at(executor, situation) if view.migratable else None
                return Decision(memory, situation.limit, wake_at=wake_at, waits=True, verdict=verdict)
            return stop_decision(view, memory, situation, now, cause, situation.config.max_parallel_drains)
        case MaybeWorking() | AssignmentEdited():
            return stop_decision(view, memory, situation, now, Cause.DRAIN)
        case _ as never:
            assert_never(never)


def schedule_if_ready(view: ObjectView, memory: Memory, situation: ClusterView) -> Decision:
    """Assign an unassigned object that is ready to the executor that the strategy chooses."""
    config, members, now = situation.config, situation.members, situation.now
    later = now + config.requeue_delay
    if situation.ownership(view) is Ownership.FROZEN or not config.is_ready(view):
        return Decision(_end_jitter_wait(memory, now), situation.limit, waits=True)
    if members.synced_at is None or not members.eligible:
        return Decision(
            _end_jitter_wait(memory, now),
            situation.limit,
            wake_at=later,
            waits=True,
            verdict=no_executor_verdict(members),
        )
    if (until := successor_wait_until(memory, situation)) is not None:
        verdict = Verdict(False, Reason.DRAINING, "the object waits for the Pod that replaces its holder", brief=True)
        return Decision(_end_jitter_wait(memory, now), situation.limit, wake_at=until, waits=True, verdict=verdict)
    if (until := _jitter_wait_until(view, memory, situation)) is not None:
        since = now if memory.jitter_since is None else memory.jitter_since
        verdict = Verdict(False, Reason.JITTER, "the set of executors has just changed", brief=True)
        memory = replace(memory, jitter_since=since)
        return Decision(memory, situation.limit, wake_at=until, waits=True, verdict=verdict)
    memory = _end_jitter_wait(memory, now)
    moved = view.epoch > 0
    executor = choose_executor(
        view, situation, successors(memory, situation) or newest_revision_executors(members) if moved else frozenset()
    )
    if isinstance(executor, Verdict):
        return Decision(memory, situation.limit, wake_at=later, waits=True, verdict=executor)
    order = assign_action(executor, situation, _assignment_cause(view, memory), recent_losses(view, situation))
    return Decision(memory, situation.limit, (order,), verdict=Verdict(True, Reason.ASSIGNED))


def _stop_deleted_object(view: ObjectView, memory: Memory, situation: ClusterView) -> Decision | None:
    """Return the next step until no executor can write an object that is being deleted; None: no executor can."""
    if view.faults:
        # no new epoch may be given out here; a holder reads the same faults and stops
        until = unseen_holder_until(memory, situation.members)
        if until is not None and situation.now >= until:
            return None
        return Decision(memory, situation.limit, wake_at=until, waits=True)
    now: HolderStatus = holder_status(view, memory, situation.members, situation.now)
    return stop_decision(view, memory, situation, now, Cause.DELETE)


def _jitter_wait_until(view: ObjectView, memory: Memory, situation: ClusterView) -> float | None:
    """Return until when the object waits for the set of executors to settle; None: it does not wait.

    An object that was assigned before waits for one change only, because it must be assigned within 1 s. In a rollout
    each holder changes the set twice: when it drains and when it ends.
    """
    changed_at, now, config = situation.members.changed_at, situation.now, situation.config
    if changed_at is None:
        return None
    settled_at = changed_at + config.scheduler_jitter
    since = now if memory.jitter_since is None else memory.jitter_since
    most = min(config.scheduler_jitter, config.max_jitter_wait) if view.epoch else config.max_jitter_wait
    until = min(settled_at, since + most - memory.jittered_s)
    return until if now < until else None


def _end_jitter_wait(memory: Memory, now: float) -> Memory:
    """Return the memory of an object that does not, or no longer, wait for the set of executors to settle."""
    if memory.jitter_since is None:
        return memory
    return replace(memory, jitter_since=None, jittered_s=memory.jittered_s + now - memory.jitter_since)


def _assignment_cause(view: ObjectView, memory: Memory) -> str:
    if view.revoked is not None:
        return view.revoked.cause
    if view.epoch == 0:
        return Cause.NEW
    return memory.gave_up_cause or Cause.DRAIN
