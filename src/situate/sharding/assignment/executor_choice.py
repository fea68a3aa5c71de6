"""Choose the executor for an object: the strategy's choice among the eligible executors, or the reason against all.

Only healthy executors are eligible, even if the strategy chooses another one. A moved object prefers executors of the
newest revision of the pods, so that a rollout moves it only once.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from situate.sharding.model.actions import Assign
from situate.sharding.model.decision_inputs import ClusterView, Verdict
from situate.sharding.model.errors import Unschedulable
from situate.sharding.model.executors import ExecutorStatus, LiveExecutor, Members
from situate.sharding.model.names import Reason
from situate.sharding.model.object_view import Holder, ObjectView, Placement


def choose_executor(
    view: ObjectView, situation: ClusterView, preferred: frozenset[str] = frozenset()
) -> LiveExecutor | Verdict:
    """Return the executor for the object, one of `preferred` if any of them can take it; else the reason."""
    found = situation.members.eligible
    if not found:
        return no_executor_verdict(situation.members)
    try:
        return found[_choose_id(view, situation, preferred & found.keys())]
    except Unschedulable as no:
        return Verdict(False, _verdict_reason(no), str(no))
    except KeyError as no:
        message = f"the strategy chose {no}, which is not a healthy executor: {_status_counts(situation.members)}"
        return Verdict(False, Reason.NO_HEALTHY_EXECUTORS, message)


def no_executor_verdict(members: Members) -> Verdict:
    """Return the verdict for an object while no executor is eligible."""
    if not members.living:
        return Verdict(False, Reason.NO_EXECUTORS, "no executor has a valid Lease")
    statuses = {executor.status for executor in members.living.values()}
    full = statuses == {ExecutorStatus.FULL}
    return Verdict(False, Reason.NO_CAPACITY if full else Reason.NO_HEALTHY_EXECUTORS, _status_counts(members))


def newest_revision_executors(members: Members) -> frozenset[str]:
    """Return the ids of the executors of the newest revision during a rollout; else an empty set."""
    if members.one_revision:
        return frozenset()
    return frozenset(each.id for each in members.living.values() if each.revision == members.newest_revision)


def assign_action(executor: LiveExecutor, situation: ClusterView, why: str, losses: tuple[datetime, ...]) -> Assign:
    """Return the action that assigns an object to this executor. `losses`: the object's losses that still count."""
    return Assign(
        Placement(
            holder=Holder(executor.id, executor.uid),
            term=situation.term,
            assigned_at=situation.wall,
            why=why,
            finalizer=situation.config.finalizer if situation.has_archiver else None,
            losses=losses,
        )
    )


def _choose_id(view: ObjectView, situation: ClusterView, preferred: frozenset[str]) -> str:
    if preferred:
        try:
            return situation.choose(view, preferred)
        except Unschedulable:
            pass  # no preferred executor can take the object; another one may
    return situation.choose(view, None)


def _verdict_reason(no: Unschedulable) -> Reason:
    """Return the reason for the condition. A strategy's own reason is not valid there; the message contains it."""
    return Reason(no.reason) if no.reason in tuple(Reason) else no.default_reason


def _status_counts(members: Members) -> str:
    counts = Counter(executor.status for executor in members.living.values())
    listed = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    healthy = counts[ExecutorStatus.HEALTHY]
    return f"{healthy}/{len(members.living)} executors can be given work: {listed}"
