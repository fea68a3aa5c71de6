"""Who gets an object now: the eligible executors, the strategy's choice among them, or the reasons against all.

Only healthy executors are eligible, whatever a strategy says. What is moved prefers the newest revision of the pods,
so that a rollout moves it once.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from situate.sharding.model.actions import Assign
from situate.sharding.model.decision_inputs import Situation, Verdict
from situate.sharding.model.errors import Unschedulable
from situate.sharding.model.executors import Executor, ExecutorStatus, Members
from situate.sharding.model.names import Reason
from situate.sharding.model.object_view import Holder, ObjectView, Placement


def chosen(view: ObjectView, situation: Situation, preferred: frozenset[str] = frozenset()) -> Executor | Verdict:
    """The executor for the object, one of `preferred` if any of them can take it; or why there is none."""
    found = situation.members.eligible
    if not found:
        return nobody(situation.members)
    try:
        return found[_choice(view, situation, preferred & found.keys())]
    except Unschedulable as no:
        return Verdict(False, _reason(no), str(no))
    except KeyError as no:
        message = f"the strategy chose {no}, which is no healthy executor: {_counts(situation.members)}"
        return Verdict(False, Reason.NO_HEALTHY_EXECUTORS, message)


def nobody(members: Members) -> Verdict:
    """What to say where no executor is eligible."""
    if not members.living:
        return Verdict(False, Reason.NO_EXECUTORS, "no executor has a lease that lives")
    statuses = {executor.status for executor in members.living.values()}
    full = statuses == {ExecutorStatus.FULL}
    return Verdict(False, Reason.NO_CAPACITY if full else Reason.NO_HEALTHY_EXECUTORS, _counts(members))


def newest(members: Members) -> frozenset[str]:
    """The ids of the newest revision, while there are others; else nobody."""
    if members.one_revision:
        return frozenset()
    return frozenset(each.id for each in members.living.values() if each.revision == members.newest_revision)


def assignment(executor: Executor, situation: Situation, why: str, losses: tuple[datetime, ...]) -> Assign:
    """The order that gives the object to this executor. `losses`: of its holders, as far as they still count."""
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


def _choice(view: ObjectView, situation: Situation, preferred: frozenset[str]) -> str:
    if preferred:
        try:
            return situation.choose(view, preferred)
        except Unschedulable:
            pass  # none of these can take it, perhaps another one can
    return situation.choose(view, None)


def _reason(no: Unschedulable) -> Reason:
    """A strategy's own word is no reason of this condition; its message carries it."""
    return Reason(no.reason) if no.reason in tuple(Reason) else no.default_reason


def _counts(members: Members) -> str:
    counts = Counter(executor.status for executor in members.living.values())
    listed = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
    healthy = counts[ExecutorStatus.HEALTHY]
    return f"{healthy}/{len(members.living)} executors can be given work: {listed}"
