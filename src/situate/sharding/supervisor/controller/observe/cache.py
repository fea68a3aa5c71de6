"""Hold the view of a supervisor, whether or not it leads: objects, executors, and the strategy's observations.

A standby keeps the view as current as the leader, so that a take-over starts with decisions and not with lists.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import structlog
from msgspec.structs import replace

from situate.sharding.assignment.executor_choice import newest_revision_executors
from situate.sharding.assignment.fair_queue import FairQueue
from situate.sharding.executor.controller.objects import Request
from situate.sharding.model.actions import Assign
from situate.sharding.model.executors import Members
from situate.sharding.model.field_paths import ObjectAdapter
from situate.sharding.model.object_view import ObjectView
from situate.sharding.model.supervisor_config import SupervisorConfig
from situate.sharding.partitions.ownership import OwnershipTest
from situate.sharding.strategies import Explanation, Placer, facts_of, report_member
from situate.sharding.supervisor.controller.act.metrics import Counts
from situate.sharding.supervisor.controller.observe.executor_watch import ExecutorObserver
from situate.sharding.supervisor.controller.observe.object_index import ObjectIndex
from situate.sharding.supervisor.scope import Scope

_T = TypeVar("_T")


class SupervisorCache:
    """The view of one process."""

    def __init__(
        self,
        scope: Scope,
        config: SupervisorConfig,
        adapter: ObjectAdapter,
        placer: Placer,
        listing: ObjectIndex,
        observer: ExecutorObserver,
        owned: OwnershipTest,
        now: Callable[[], float],
        counts: Counts,
    ) -> None:
        self.scope = scope
        self.config = config
        self.adapter = adapter
        self.placer = placer
        self.index = listing
        self.observer = observer
        self.ownership = owned
        """Function that returns the ownership of an object by the present partitions."""
        self.waiting = FairQueue(scope.shares)
        self.counts = counts
        self._now = now
        self._log = structlog.get_logger()

    def record_object(self, request: Request, view: ObjectView | None) -> ObjectView | None:
        """Record the present state of an object, None if it is gone; return the state before."""
        before = self.index.update(request, view, self._now())
        if before is not None and (view is None or view.uid != before.uid):
            gone = facts_of(before, self.scope.weight_of)
            self._report_safely(self.placer.observe_deleted, gone)
            self.waiting.observe_deleted(gone)
        self.report_to_strategy(request)
        return before

    def report_to_strategy(self, request: Request) -> None:
        """Report the state of an object to the strategy, unless an assignment of the object is being sent."""
        view = self.index.views.get(request)
        if view is None or self.index.is_assumed(request):
            return
        facts = facts_of(view, self.scope.weight_of)
        if view.completed:
            self._report_safely(self.placer.observe_completed, facts)
            self.waiting.observe_completed(facts)
        else:
            self._report_safely(self.placer.observe_scheduled, facts)
            self.waiting.observe_scheduled(facts)

    def dry_run(self, request: Request) -> Explanation | None:
        """Explain, per candidate, which executor the object would get now; None: this supervisor has no such object.

        Changes nothing. Raises `Unschedulable` if a user's rule fails.
        """
        view = self.index.views.get(request)
        if view is None:
            return None
        preferred = newest_revision_executors(self.observer.members()) if view.epoch else frozenset()
        return self.placer.explain(facts_of(view, self.scope.weight_of), preferred)

    def assume_assignment(self, request: Request, view: ObjectView, order: Assign) -> None:
        """Count an assignment that is being sent."""
        holder = order.placement.holder
        self.index.assume_assignment(request, holder.uid)
        facts = replace(facts_of(view, self.scope.weight_of), executor=holder.executor)
        self._report_safely(self.placer.observe_scheduled, facts)
        self.waiting.observe_scheduled(facts)

    def finish_write(self, request: Request) -> None:
        """Count only the seen state of the object: no write is in progress any more."""
        self.index.finish_write(request)
        self.report_to_strategy(request)

    def report_completed(self, view: ObjectView) -> None:
        """Report a completed object to the strategy; repeated reports are harmless."""
        self._report_safely(self.placer.observe_completed, facts_of(view, self.scope.weight_of))

    def report_members(self, before: Members, after: Members) -> None:
        """Report every changed executor to the strategy."""
        for id_, executor in after.current.items():
            if before.current.get(id_) != executor:
                self._report_safely(lambda member: report_member(self.placer, member), executor)
        for id_ in before.current:
            if id_ not in after.current:
                self._report_safely(lambda gone: self.placer.observe_executor(gone, None), id_)

    def _report_safely(self, tell: Callable[[_T], None], what: _T) -> None:
        """Report to the strategy; log any exception of a user's strategy, because the other work must continue."""
        try:
            tell(what)
        except Exception as problem:
            self._log.error("strategy failed on an observation", error=repr(problem), exc_info=problem)
