"""Select the objects to re-evaluate after a change, and the priority of each."""

from __future__ import annotations

from typing import Final

from situate.runtime.reconcile.workqueue import WorkQueue
from situate.sharding.executor.controller.objects import Request
from situate.sharding.model.executors import Members
from situate.sharding.model.object_view import ObjectView
from situate.sharding.supervisor.controller.observe.cache import Standby
from situate.sharding.supervisor.controller.observe.executor_watch import MembersChanged
from situate.sharding.supervisor.controller.observe.object_index import NOBODYS
from situate.sharding.supervisor.controller.turns import Turns

BEHIND: Final = -1
"""Priority of objects that are re-evaluated without a change of their own."""


class Looking:
    """The triggers of one term, which fill its queue."""

    def __init__(self, queue: WorkQueue[Request], standby: Standby, turns: Turns) -> None:
        self._queue = queue
        self._standby = standby
        self._listing = standby.listing
        self._turns = turns

    def at_all(self) -> None:
        """Queue all objects.

        Completed objects and objects with a living holder get a lower priority, because most of them need no action.
        Ten thousand of them take more than a second.
        """
        living = self._standby.observer.members().living
        for request, view in self._listing.views.items():
            calm = view.completed or view.executor_uid in living
            self._queue.add(request, priority=BEHIND if calm else 0)

    def changed(self, request: Request, before: ObjectView | None, view: ObjectView | None) -> None:
        """Queue the objects affected by a change of one object; `view` None: it is gone."""
        self._queue.add(request)
        for each in (before, view):
            if each is not None and each.completed:
                self._at_family(each)
        self._turns.next_drains()

    def members_changed(self, before: Members, after: Members, change: MembersChanged) -> None:
        """Queue the objects affected by a change of the executors."""
        if before.synced_at != after.synced_at:
            self.at_all()
            return
        for uid in change.uids:
            for request in self._listing.held_by(uid):
                self._queue.add(request)
        if change.room_only:
            self._turns.offer(after)
            return
        self._turns.all_may_look()
        for request in self._listing.held_by(NOBODYS):
            self._queue.add(request)

    def _at_family(self, view: ObjectView) -> None:
        """Queue the objects whose archive time may depend on the completion or deletion of this object."""
        listing = self._listing
        for other in listing.of_owner(view.uid):
            self._queue.add(other)
        if view.owner_uid in listing.requests:
            self._queue.add(listing.requests[view.owner_uid])
        if self._standby.config.keep_last_per_owner is not None:
            for other in listing.of_owner(view.owner_uid):
                self._queue.add(other)
