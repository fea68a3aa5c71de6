"""Judge whether an executor may be working on an object, from its marks, the members and our own clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from msgspec.structs import replace

from situate.sharding.model.decision_inputs import ClusterView, Memory
from situate.sharding.model.executors import ExecutorStatus, LiveExecutor, Members
from situate.sharding.model.names import Cause
from situate.sharding.model.object_view import Holder, ObjectView


@dataclass(frozen=True, slots=True)
class Free:
    """No executor holds the object or works on it."""


@dataclass(frozen=True, slots=True)
class Working:
    """The holder of the object is alive."""

    executor: LiveExecutor


@dataclass(frozen=True, slots=True)
class Lost:
    """The holder of the object is removed: released, expired or proven dead."""


@dataclass(frozen=True, slots=True)
class MaybeWorking:
    """An executor that is not seen, or from which the object was revoked, may work on it until `until`."""

    until: float | None
    """On the monotonic clock; None while executors have not been listed."""


@dataclass(frozen=True, slots=True)
class AssignmentEdited:
    """Another client changed half of the assignment: the incarnation is alive, and its id is not the assigned one."""


HolderStatus: TypeAlias = Free | Working | Lost | MaybeWorking | AssignmentEdited


def holder_status(view: ObjectView, memory: Memory, members: Members, now: float) -> HolderStatus:
    """Return whether an executor may be working on the object.

    The same id with another incarnation is another executor. A holder that was never seen counts for one lease
    duration. The duration starts when executors had been listed and this holder had been seen on the object.
    """
    holder = view.holder
    if holder is None:
        return _status_without_holder(view, memory, members, now)
    if (executor := members.living.get(holder.uid)) is not None:
        return Working(executor) if executor.id == holder.executor else AssignmentEdited()
    if holder.uid in members.removed:
        return Lost()
    until = unseen_holder_until(memory, members)
    return Lost() if until is not None and now >= until else MaybeWorking(until)


def unseen_holder_until(memory: Memory, members: Members) -> float | None:
    """Return until when an executor may work on an object whose holder was never seen, or cannot be read.

    If we cannot read the holder, the executor cannot read it either. None while executors have not been listed.
    """
    if members.synced_at is None:
        return None
    return max(members.synced_at, memory.since) + members.lease_s


def updated_memory(memory: Memory, view: ObjectView, situation: ClusterView) -> Memory:
    """Return the memory of an object, updated from this view."""
    now, holder = situation.now, view.holder
    if (holder, view.epoch) != (memory.holder, memory.epoch):
        released = holder is None and memory.holder is not None and view.epoch == memory.epoch
        memory = replace(
            memory,
            holder=holder,
            epoch=view.epoch,
            since=now,
            drain_due=None,
            revoked_at=None,
            forced_at=None,
            jitter_since=None,
            jittered_s=0.0,
            gave_up=memory.holder if released else None,
            gave_up_at=now if released else 0.0,
            gave_up_cause=_release_cause(memory) if released else "",
            gave_up_revision=_holder_revision(memory, situation.members) if released else "",
        )
    if memory.gave_up is not None and not memory.gave_up_cause and _is_leaving(memory.gave_up, situation.members):
        memory = replace(memory, gave_up_cause=Cause.DRAIN)
    if view.drain is None and memory.drain_due is not None:
        memory = replace(memory, drain_due=None)
    elif view.drain is not None and memory.drain_due is None:
        # at most `drain_timeout`, even if the clocks of two supervisors differ
        left = (view.drain.deadline - situation.wall).total_seconds()
        due = now + min(max(left, 0.0), situation.config.drain_timeout)
        memory = replace(memory, drain_due=due, drain_cause=view.drain.cause)
    if view.revoked is not None and memory.revoked_at is None:
        memory = replace(memory, revoked_at=now)
    return memory


def _status_without_holder(view: ObjectView, memory: Memory, members: Members, now: float) -> HolderStatus:
    if view.revoked is None or view.revoked.executor_uid in members.removed:
        return Free()
    if members.synced_at is None:
        return MaybeWorking(None)
    holder = members.living.get(view.revoked.executor_uid)
    since = now if memory.revoked_at is None else memory.revoked_at
    until = since + (members.lease_s if holder is None else holder.lease_s)
    return Free() if now >= until else MaybeWorking(until)


def _release_cause(memory: Memory) -> str:
    """Return the cause of the drain that led to the release; empty without a drain request."""
    return memory.drain_cause if memory.drain_due is not None else ""


def _is_leaving(holder: Holder, members: Members) -> bool:
    """Return whether the holder is draining or gone.

    An executor that ends releases its objects unasked, and the supervisor may see its Lease later than the releases.
    """
    executor = members.living.get(holder.uid)
    return executor is None or executor.status is ExecutorStatus.DRAINING


def _holder_revision(memory: Memory, members: Members) -> str:
    holder = members.living.get(memory.holder.uid) if memory.holder is not None else None
    return holder.revision if holder is not None else ""
