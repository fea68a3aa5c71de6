"""Index the objects of one partition as last seen, with counts over them, updated at each change.

A list of the objects rebuilds the whole index. Decisions whose writes are not answered yet already count, so that later
decisions know of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import datetime

from situate.sharding.assignment.archive_steps import completion_ranks
from situate.sharding.assignment.drain import is_draining
from situate.sharding.executor.controller.objects import Request
from situate.sharding.model.object_view import ObjectView

NO_HOLDER = ""
"""The key, in place of a holder's UID, of open objects without a holder."""
_NO_GROUP: dict[Request, None] = {}


class ObjectIndex:
    """The index of objects. `update` records each change; other methods query it, or count decisions."""

    def __init__(
        self,
        weight_of: Callable[[ObjectView], int] | None,
        counted: Callable[[str, int, int], None],
        ranked: bool = True,
    ) -> None:
        """`counted` is called at a change of an executor's open weight: UID, before, after.

        `ranked`: whether ranks are needed, which is so only with `keep_last_per_owner`.
        """
        self.views: dict[Request, ObjectView] = {}
        self.open: dict[str, int] = {}
        """Weight of the open objects of each executor, by UID."""
        self.drains: set[Request] = set()
        """Open objects with a drain request, and those whose drain request is being sent."""
        self.requests: dict[str, Request] = {}
        """By UID."""
        self.since: dict[Request, float] = {}
        """When each object was first seen with its present holder and epoch, on the monotonic clock."""
        self._weight_of = weight_of
        self._report_weight = counted
        self._assumed: dict[Request, str] = {}
        self._drain_requests: set[Request] = set()
        self._held: dict[str, dict[Request, None]] = {}
        self._group: dict[Request, str] = {}
        self._counted: dict[Request, tuple[str, int]] = {}
        self._owned: dict[str, dict[Request, None]] = {}
        """Objects of each controlling owner, by its UID."""
        self._ranked = ranked
        self._ranks: dict[str, dict[str, int]] = {}
        """Cached ranks by UID of the owner; dropped when its objects change."""

    def update(self, request: Request, view: ObjectView | None, now: float) -> ObjectView | None:
        """Record the present state of an object, None if it is gone; return the state before."""
        before = self.views.get(request)
        if view is None:
            self.since.pop(request, None)
        elif before is None or (view.uid, view.holder, view.epoch) != (before.uid, before.holder, before.epoch):
            self.since[request] = now
        if before is not None and (view is None or view.uid != before.uid):
            self._assumed.pop(request, None)
            self._drain_requests.discard(request)
            self.requests.pop(before.uid, None)
        if view is None:
            self.views.pop(request, None)
        else:
            self.views[request] = view
            self.requests[view.uid] = request
        self._update_owner(request, before, view)
        if _rank_fields(before) != _rank_fields(view):
            for owner in (_rank_fields(before)[0], _rank_fields(view)[0]):
                self._ranks.pop(owner, None)
        self._update_group(request, view)
        self._update_weight(request, view)
        self._update_drain(request, view)
        return before

    def assume_assignment(self, request: Request, uid: str) -> None:
        """Count an assignment that is being sent: to the executor with this UID."""
        self._assumed[request] = uid
        self._update_weight(request, self.views.get(request))

    def count_drain_request(self, request: Request) -> None:
        """Count a drain request that is being sent."""
        self._drain_requests.add(request)
        self._update_drain(request, self.views.get(request))

    def finish_write(self, request: Request) -> None:
        """Count only the seen state of the object: no write is in progress any more."""
        self._assumed.pop(request, None)
        self._drain_requests.discard(request)
        self._update_weight(request, self.views.get(request))
        self._update_drain(request, self.views.get(request))

    def is_assumed(self, request: Request) -> bool:
        return request in self._assumed

    def objects_of_holder(self, uid: str) -> Collection[Request]:
        """Return the open objects of one executor; for `NO_HOLDER`, those without a holder."""
        return self._held.get(uid, _NO_GROUP)

    def objects_of_owner(self, uid: str) -> Collection[Request]:
        """Return the objects that this owner controls."""
        return self._owned.get(uid, _NO_GROUP)

    def owner(self, view: ObjectView) -> ObjectView | None:
        """Return the controlling owner, if it is an object of this kind and partition."""
        return self.views.get(self.requests[view.owner_uid]) if view.owner_uid in self.requests else None

    def dependents(self, view: ObjectView) -> Iterator[ObjectView]:
        """Yield the objects that this object controls, except its own owner: two objects may own each other."""
        for request in self.objects_of_owner(view.uid):
            if self.views[request].uid != view.owner_uid:
                yield self.views[request]

    def rank(self, view: ObjectView) -> int | None:
        """Return the value of `Situation.rank`."""
        owner = view.owner_uid
        if not self._ranked or not owner or not view.completed:
            return None
        if owner not in self._ranks:
            self._ranks[owner] = completion_ranks(self.views[each] for each in self.objects_of_owner(owner))
        return self._ranks[owner].get(view.uid)

    def _update_group(self, request: Request, view: ObjectView | None) -> None:
        """Group the object by its holder; completed objects belong to no group."""
        group = None if view is None or view.completed else view.executor_uid
        before = self._group.get(request)
        if group == before:
            return
        if before is not None:
            del self._held[before][request]
            if not self._held[before]:
                del self._held[before]
        if group is None:
            del self._group[request]
        else:
            self._group[request] = group
            self._held.setdefault(group, {})[request] = None

    def _update_weight(self, request: Request, view: ObjectView | None) -> None:
        after: tuple[str, int] | None = None
        if view is not None and not view.completed and (uid := self._assumed.get(request) or view.executor_uid):
            after = uid, 1 if self._weight_of is None else max(1, self._weight_of(view))
        before = self._counted.get(request)
        if before == after:
            return
        if before is not None:
            del self._counted[request]
            self._add_weight(before[0], -before[1])
        if after is not None:
            self._counted[request] = after
            self._add_weight(*after)

    def _add_weight(self, uid: str, weight: int) -> None:
        before = self.open.get(uid, 0)
        self.open[uid] = before + weight
        if not self.open[uid]:
            del self.open[uid]
        self._report_weight(uid, before, before + weight)

    def _update_drain(self, request: Request, view: ObjectView | None) -> None:
        if (view is not None and is_draining(view)) or request in self._drain_requests:
            self.drains.add(request)
        else:
            self.drains.discard(request)

    def _update_owner(self, request: Request, before: ObjectView | None, view: ObjectView | None) -> None:
        old, new = (each.owner_uid if each is not None else "" for each in (before, view))
        if old == new:
            return
        if old:
            owned = self._owned[old]
            del owned[request]
            if not owned:
                del self._owned[old]
        if new:
            self._owned.setdefault(new, {})[request] = None


def _rank_fields(view: ObjectView | None) -> tuple[str, str, datetime | None]:
    """Return the fields on which the ranks of an owner's objects depend, the owner first."""
    return ("", "", None) if view is None else (view.owner_uid, view.uid, view.completed_at)
