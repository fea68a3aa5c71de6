"""Record the supervisor's writes and failures in logs, counts and Events."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from situate.kube.errors import Conflict, KubeError
from situate.kube.events import NORMAL, WARNING
from situate.sharding.executor.controller.objects import Request
from situate.sharding.fencing.refusals import fence_refusal
from situate.sharding.model.actions import Assign, Complete, PatchAction, RemoveFinalizer, RequestDrain, Revoke
from situate.sharding.model.decision_inputs import Verdict
from situate.sharding.model.names import Cause, Reason
from situate.sharding.model.object_view import ObjectView
from situate.sharding.strategies import oddities_of
from situate.sharding.supervisor.controller.act.conditions import ConditionWriter
from situate.sharding.supervisor.controller.act.metrics import Counts


class Notifier:
    """The recording of one term."""

    def __init__(self, saying: ConditionWriter, counts: Counts, term: int) -> None:
        self._condition_writer = saying
        self._counts = counts
        self._log = structlog.get_logger().bind(term=term)

    def record_write(self, request: Request, view: ObjectView, action: PatchAction) -> None:
        """Record a successful write. First assignments of objects are only counted: there are too many."""
        key, event = str(request), self._condition_writer.record_event
        self._counts.refusal = ""
        match action:
            case Assign(placement):
                self._counts.assigned += 1
                if placement.why == Cause.NEW:
                    return
                self._counts.moves[placement.why] += 1
                self._log.info("object moved", key=key, executor=placement.holder.executor, why=placement.why)
                said = (
                    f"the supervisor moved the object to executor {placement.holder.executor}; cause: {placement.why}"
                )
                event(view, NORMAL, "Reassigned", said)
            case RequestDrain(request=asked):
                self._log.info("drain requested", key=key, cause=asked.cause)
            case Revoke(cause=cause):
                self._counts.revoked[cause] += 1
                self._log.info("object revoked", key=key, cause=cause)
                event(
                    view,
                    WARNING,
                    "Revoked",
                    f"the supervisor revoked the object without the consent of its holder; cause: {cause}",
                )
            case Complete(reason=reason):
                self._log.info("object completed as failed", key=key, reason=reason)
                event(view, WARNING, reason, "the supervisor completed the object as failed")
            case RemoveFinalizer():
                self._log.debug("finalizer removed", key=key)

    def record_unreadable(self, request: Request, before: ObjectView | None, view: ObjectView | None) -> None:
        """Record new faults and new oddities of an object."""
        if view is None:
            return
        if view.faults and (before is None or before.faults != view.faults):
            self._log.warning("unreadable object left alone", key=str(request), error=view.faults[0])
            self._condition_writer.record_event(view, WARNING, "Unreadable", view.faults[0])
        known = () if before is None else oddities_of(before)
        for oddity in oddities_of(view):
            if oddity not in known:
                self._log.warning("unreadable value ignored", key=str(request), error=oddity)
                self._condition_writer.record_event(view, WARNING, "Ignored", oddity)

    def record_refusal(
        self, request: Request, view: ObjectView, orders: Sequence[object], problem: KubeError, failures: int
    ) -> None:
        """Record a write that will not succeed by itself. The first of `failures` may come from an outdated object."""
        refusal = fence_refusal(str(problem))
        if refusal is not None:
            self._counts.fence_refusals += 1
        if not failures or problem.retriable or isinstance(problem, Conflict):
            return
        said = str(problem) if refusal is None else f"{refusal}; {refusal.next_step}"
        self._condition_writer.record_event(view, WARNING, "WriteRefused", said)
        if refusal is None:
            return
        if said != self._counts.refusal:
            self._log.error("write refused by the fencing policy", key=str(request), error=said)
        self._counts.refusal = said
        if any(isinstance(each, Assign) for each in orders):
            self._condition_writer.set_verdict(request, view, Verdict(False, Reason.WRITE_REFUSED, said))

    def record_rule_failure(self, view: ObjectView, problem: Exception) -> None:
        """Record that a user's rule raised: the object is left alone until the rule succeeds."""
        self._log.error("rule failed", key=f"{view.namespace}/{view.name}", error=str(problem))
        self._condition_writer.record_event(view, WARNING, "RuleFailed", str(problem))
