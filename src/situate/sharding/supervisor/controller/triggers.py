"""Select the objects to re-evaluate after a change, and the priority of each."""

from __future__ import annotations

from typing import Final

from situate.runtime.reconcile.workqueue import WorkQueue
from situate.sharding.executor.controller.objects import Request
from situate.sharding.model.executors import Members
from situate.sharding.model.object_view import ObjectView
from situate.sharding.supervisor.controller.observe.cache import SupervisorCache
from situate.sharding.supervisor.controller.observe.executor_watch import MembersChange
from situate.sharding.supervisor.controller.observe.object_index import NO_HOLDER
from situate.sharding.supervisor.controller.turns import Turns

LOW_PRIORITY: Final = -1
"""Priority of objects that are re-evaluated without a change of their own."""


class Triggers:
    """The triggers of one term, which fill its queue."""

    def __init__(self, queue: WorkQueue[Request], standby: SupervisorCache, turns: Turns) -> None:
        self._queue = queue
        self._cache = standby
        self._index = standby.index
        self._turns = turns

    def enqueue_all(self) -> None:
        """Queue all objects.

        Completed objects and objects with a living holder get a lower priority, because most of them need no action.
        Ten thousand of them take more than a second.
        """
        living = self._cache.observer.members().living
        for request, view in self._index.views.items():
            calm = view.completed or view.executor_uid in living
            self._queue.add(request, priority=LOW_PRIORITY if calm else 0)

    def enqueue_affected(self, request: Request, before: ObjectView | None, view: ObjectView | None) -> None:
        """Queue the objects affected by a change of one object; `view` None: it is gone."""
        self._queue.add(request)
        for each in (before, view):
            if each is not None and each.completed:
                self._enqueue_family(each)
        self._turns.enqueue_drains()

    def enqueue_for_members(self, before: Members, after: Members, change: MembersChange) -> None:
        """Queue the objects affected by a change of the executors."""
        if before.synced_at != after.synced_at:
            self.enqueue_all()
            return
        for uid in change.uids:
            for request in self._index.objects_of_holder(uid):
                self._queue.add(request)
        if change.capacity_only:
            self._turns.enqueue_for_capacity(after)
            return
        self._turns.enqueue_waiting()
        for request in self._index.objects_of_holder(NO_HOLDER):
            self._queue.add(request)

    def _enqueue_family(self, view: ObjectView) -> None:
        """Queue the objects whose archive time may depend on the completion or deletion of this object."""
        listing = self._index
        for other in listing.objects_of_owner(view.uid):
            self._queue.add(other)
        if view.owner_uid in listing.requests:
            self._queue.add(listing.requests[view.owner_uid])
        if self._cache.config.keep_last_per_owner is not None:
            for other in listing.objects_of_owner(view.owner_uid):
                self._queue.add(other)
