"""What a supervisor knows whether or not it leads: objects, executors, and what its strategy was told of both.

A standby keeps it as warm as the leader, so that a take-over begins with decisions and not with listings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import structlog
from msgspec.structs import replace

from situate.sharding.assignment.fair_queue import Waiting
from situate.sharding.assignment.place import newest
from situate.sharding.executor.controller.objects import Request
from situate.sharding.model.actions import Assign
from situate.sharding.model.executors import Members
from situate.sharding.model.field_paths import ObjectAdapter
from situate.sharding.model.object_view import ObjectView
from situate.sharding.model.supervisor_config import SupervisorConfig
from situate.sharding.partitions.ownership import Owned
from situate.sharding.strategies import Explanation, Placer, facts_of, tell_member
from situate.sharding.supervisor.controller.act.metrics import Counts
from situate.sharding.supervisor.controller.observe.executor_watch import Observer
from situate.sharding.supervisor.controller.observe.object_index import Listing
from situate.sharding.supervisor.scope import Scope

_T = TypeVar("_T")


class Standby:
    """Of one process."""

    def __init__(
        self,
        scope: Scope,
        config: SupervisorConfig,
        adapter: ObjectAdapter,
        placer: Placer,
        listing: Listing,
        observer: Observer,
        owned: Owned,
        now: Callable[[], float],
        counts: Counts,
    ) -> None:
        self.scope = scope
        self.config = config
        self.adapter = adapter
        self.placer = placer
        self.listing = listing
        self.observer = observer
        self.owned = owned
        """What the partitions say, now."""
        self.waiting = Waiting(scope.shares)
        self.counts = counts
        self._now = now
        self._log = structlog.get_logger()

    def saw(self, request: Request, view: ObjectView | None) -> ObjectView | None:
        """An object is so now, or gone; gives what was known before."""
        before = self.listing.saw(request, view, self._now())
        if before is not None and (view is None or view.uid != before.uid):
            gone = facts_of(before, self.scope.weight_of)
            self._strategy_is_told(self.placer.observe_deleted, gone)
            self.waiting.observe_deleted(gone)
        self.tell(request)
        return before

    def tell(self, request: Request) -> None:
        """Tells the strategy what an object says of itself; not while it is about to be assigned."""
        view = self.listing.views.get(request)
        if view is None or self.listing.is_promised(request):
            return
        facts = facts_of(view, self.scope.weight_of)
        if view.completed:
            self._strategy_is_told(self.placer.observe_completed, facts)
            self.waiting.observe_completed(facts)
        else:
            self._strategy_is_told(self.placer.observe_scheduled, facts)
            self.waiting.observe_scheduled(facts)

    def dry_run(self, request: Request) -> Explanation | None:
        """Where the object would go now, and why, candidate by candidate; None: no such object is supervised here.

        Changes nothing. Raises `Unschedulable` where a rule of the user's fails.
        """
        view = self.listing.views.get(request)
        if view is None:
            return None
        preferred = newest(self.observer.members()) if view.epoch else frozenset()
        return self.placer.explain(facts_of(view, self.scope.weight_of), preferred)

    def promise(self, request: Request, view: ObjectView, order: Assign) -> None:
        """An assignment is on its way, and counts."""
        holder = order.placement.holder
        self.listing.promise(request, holder.uid)
        facts = replace(facts_of(view, self.scope.weight_of), executor=holder.executor)
        self._strategy_is_told(self.placer.observe_scheduled, facts)
        self.waiting.observe_scheduled(facts)

    def settle(self, request: Request) -> None:
        """Nothing is on its way any more: what was seen counts."""
        self.listing.settle(request)
        self.tell(request)

    def complete(self, view: ObjectView) -> None:
        """The strategy is to know that the object is completed; it may know already."""
        self._strategy_is_told(self.placer.observe_completed, facts_of(view, self.scope.weight_of))

    def members_changed(self, before: Members, after: Members) -> None:
        """Tells the strategy of everybody who is not as before."""
        for id_, executor in after.current.items():
            if before.current.get(id_) != executor:
                self._strategy_is_told(lambda member: tell_member(self.placer, member), executor)
        for id_ in before.current:
            if id_ not in after.current:
                self._strategy_is_told(lambda gone: self.placer.observe_executor(gone, None), id_)

    def _strategy_is_told(self, tell: Callable[[_T], None], what: _T) -> None:
        """A strategy of the user's may raise anything; it must not stop what does not depend on it."""
        try:
            tell(what)
        except Exception as problem:
            self._log.error("the strategy has failed at what it was told", error=repr(problem), exc_info=problem)
