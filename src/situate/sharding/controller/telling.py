"""Tells what a supervisor has done to objects, and what it cannot do: logs, counts, Events."""

from __future__ import annotations

import structlog

from situate.kube.errors import Conflict, KubeError
from situate.kube.events import NORMAL, WARNING
from situate.sharding.actions import Assign, Complete, Patching, RemoveFinalizer, RequestDrain, Revoke
from situate.sharding.assignment import ObjectView
from situate.sharding.controller.objects import Request
from situate.sharding.controller.saying import Saying
from situate.sharding.controller.supervisor_metrics import Counts
from situate.sharding.names import Cause
from situate.sharding.strategies import oddities_of


class Telling:
    """Of one term."""

    def __init__(self, saying: Saying, counts: Counts, term: int) -> None:
        self._saying = saying
        self._counts = counts
        self._log = structlog.get_logger().bind(term=term)

    def done(self, request: Request, view: ObjectView, action: Patching) -> None:
        """A write has landed. An assignment of a new object is no news: there are too many."""
        key, event = str(request), self._saying.event
        match action:
            case Assign(placement):
                self._counts.assigned += 1
                if placement.why == Cause.NEW:
                    return
                self._counts.moves[placement.why] += 1
                self._log.info("an object is moved", key=key, executor=placement.holder.executor, why=placement.why)
                said = f"assigned to {placement.holder.executor}, because of its last holder: {placement.why}"
                event(view, NORMAL, "Reassigned", said)
            case RequestDrain(request=asked):
                self._log.info("the holder of an object is asked to stop", key=key, cause=asked.cause)
            case Revoke(cause=cause):
                self._counts.revoked[cause] += 1
                self._log.info("an object is taken from its holder", key=key, cause=cause)
                event(view, WARNING, "Revoked", f"taken from its holder without its consent: {cause}")
            case Complete(reason=reason):
                self._log.info("an object is completed as failed", key=key, reason=reason)
                event(view, WARNING, reason, "completed as failed by the supervisor")
            case RemoveFinalizer():
                self._log.debug("an object is let go", key=key)

    def unreadable(self, request: Request, before: ObjectView | None, view: ObjectView | None) -> None:
        """Of an object with faults, when they are new, and of one where something counts as absent."""
        if view is None:
            return
        if view.faults and (before is None or before.faults != view.faults):
            self._log.warning("an object cannot be read, so it is left alone", key=str(request), error=view.faults[0])
            self._saying.event(view, WARNING, "Unreadable", view.faults[0])
        known = () if before is None else oddities_of(before)
        for oddity in oddities_of(view):
            if oddity not in known:
                self._log.warning("what an object says there counts as absent", key=str(request), error=oddity)
                self._saying.event(view, WARNING, "Ignored", oddity)

    def refused(self, view: ObjectView, problem: KubeError, failures: int) -> None:
        """A write that will not succeed by itself. The first `failures` may be because the object was another one."""
        if failures and not problem.retriable and not isinstance(problem, Conflict):
            self._saying.event(view, WARNING, "WriteRefused", str(problem))

    def rule_failed(self, view: ObjectView, problem: Exception) -> None:
        """A rule of the user's has raised: the object is left alone until it has not."""
        self._log.error("a rule has failed", key=f"{view.namespace}/{view.name}", error=str(problem))
        self._saying.event(view, WARNING, "RuleFailed", str(problem))
