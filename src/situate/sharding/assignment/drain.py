"""Drain an object from its holder: request the drain, wait for the ack, revoke after the timeout.

The ack is a release: the holder removes itself from the object. Without an ack the object is revoked under the next
epoch, so that the holder's writes fail at once. It is not assigned before the holder's Lease would have expired. The
rules are "Loss" and "Drain and rollout" in docs/spec/sharding.md.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final, assert_never

from situate.sharding.assignment.holder_status import AssignmentEdited, Free, HolderStatus, Lost, MaybeWorking, Working
from situate.sharding.assignment.lost_holders import recent_losses
from situate.sharding.model.actions import RequestDrain, Revoke
from situate.sharding.model.decision_inputs import ClusterView, Decision, Memory, Ownership, Verdict
from situate.sharding.model.executors import ExecutorStatus, LiveExecutor
from situate.sharding.model.names import Cause, Reason
from situate.sharding.model.object_view import DrainRequest, ObjectView

UNEXPLAINED_S: Final = 0.5
"""How much later than a release its cause may be seen: the watches of objects and of executors may differ."""


def stop_decision(
    view: ObjectView,
    memory: Memory,
    situation: ClusterView,
    standing: HolderStatus,
    cause: Cause,
    limit: int | None = None,
) -> Decision | None:
    """Return the next step until no executor works on the object; None: no executor does.

    `limit`: how many objects may have a drain request at a time; None: no limit for this object.
    """
    match standing:
        case Free() | Lost():
            return None
        case MaybeWorking(until):
            return _wait_decision(
                memory, situation, until, "the last holder may continue to work until its Lease expires"
            )
        case AssignmentEdited():
            return _revoke_decision(view, memory, situation, Cause.EDITED)
        case Working(executor):
            if memory.drain_due is not None and situation.now >= memory.drain_due:
                return _revoke_decision(view, memory, situation, cause)
            if memory.drain_due is not None:
                return _wait_decision(
                    memory, situation, memory.drain_due, f"executor {executor.id} was asked to release the object"
                )
            if limit is not None and situation.drains >= limit:
                later = situation.now + situation.config.requeue_delay
                return _wait_decision(
                    memory, situation, later, f"executor {executor.id} will be asked to release the object"
                )
            deadline = situation.wall + timedelta(seconds=situation.config.drain_timeout)
            request = RequestDrain(DrainRequest(view.epoch, deadline, cause))
            decision = _wait_decision(
                memory, situation, None, f"executor {executor.id} was asked to release the object"
            )
            return replace(decision, actions=(request,))
        case _ as never:
            assert_never(never)


def drain_cause(view: ObjectView, executor: LiveExecutor, situation: ClusterView) -> Cause | None:
    """Return the cause for draining the object from its living holder; None: the holder keeps it."""
    if executor.status is ExecutorStatus.DRAINING:
        return Cause.DRAIN
    if situation.ownership(view) is Ownership.FROZEN:
        return Cause.REBALANCE
    if view.drain is not None:
        # requested before; to withdraw a request, a client removes it from the object
        return next((cause for cause in Cause if cause == view.drain.cause), Cause.DRAIN)
    unwell_until = unhealthy_drain_at(executor, situation)
    if unwell_until is not None and situation.now >= unwell_until and view.migratable:
        return Cause.DRAIN
    return None


def unhealthy_drain_at(executor: LiveExecutor, situation: ClusterView) -> float | None:
    """Return when the drain of an unhealthy executor starts, on the monotonic clock; None: it is not drained."""
    config = situation.config
    if not config.drain_unhealthy or executor.status is not ExecutorStatus.UNHEALTHY:
        return None
    return None if executor.unhealthy_since is None else executor.unhealthy_since + config.grace_unhealthy


def successors(memory: Memory, situation: ClusterView) -> frozenset[str]:
    """Return the ids of the eligible successors of the executor that released the object.

    A successor is a new incarnation of its id, or, during a rollout, an executor of the newest revision.
    """
    if memory.gave_up is None:
        return frozenset()
    members = situation.members
    return frozenset(
        each.id
        for each in members.eligible.values()
        if (each.id == memory.gave_up.executor and each.uid != memory.gave_up.uid)
        or (each.revision == members.newest_revision and each.revision != memory.gave_up_revision)
    )


def successor_wait_until(memory: Memory, situation: ClusterView) -> float | None:
    """Return until when a drained object waits for a successor of its holder; None: it does not wait.

    An object that was released without a drain request waits at most `UNEXPLAINED_S`. In that time the supervisor may
    see that the holder is leaving.
    """
    wait = situation.config.wait_for_successor
    if not wait or memory.gave_up is None or successors(memory, situation):
        return None
    if memory.gave_up_cause not in ("", Cause.DRAIN):
        return None
    until = memory.gave_up_at + (wait if memory.gave_up_cause else min(wait, UNEXPLAINED_S))
    return until if situation.now < until else None


def is_draining(view: ObjectView) -> bool:
    """Return whether the object counts for `ClusterView.drains`."""
    return view.drain is not None and view.holder is not None and not view.completed


def _revoke_decision(view: ObjectView, memory: Memory, situation: ClusterView, cause: Cause) -> Decision:
    decision = _wait_decision(
        memory, situation, None, "the object was revoked; its last holder may continue to work for a short time"
    )
    return replace(decision, actions=(Revoke(situation.term, cause, recent_losses(view, situation)),))


def _wait_decision(memory: Memory, situation: ClusterView, until: float | None, message: str) -> Decision:
    # an object that still has its holder is assigned, and only for a short time
    verdict = Verdict(False, Reason.DRAINING, message, brief=memory.holder is not None)
    return Decision(memory, situation.limit, wake_at=until, waits=True, verdict=verdict)
