"""Share limited resources among objects in turn: the free capacity of executors, and drain requests.

Waiting objects get their turn in the order of `FairQueue`. An object that cannot use its turn passes it to the next
one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import inf
from typing import Final

from situate.runtime.reconcile.workqueue import WorkQueue
from situate.sharding.assignment.fair_queue import FairQueue
from situate.sharding.executor.controller.objects import Request
from situate.sharding.model.decision_inputs import Verdict
from situate.sharding.model.executors import Members
from situate.sharding.model.names import Reason
from situate.sharding.model.object_view import ObjectView
from situate.sharding.strategies import ObjectFacts
from situate.sharding.supervisor.controller.observe.object_index import ObjectIndex

LOOK_AHEAD: Final = 64
"""How many objects beyond the free capacity are offered a turn, because some objects cannot use theirs."""
_NO_CAPACITY_REASONS: Final = (Reason.NO_CAPACITY, Reason.NO_EXECUTORS, Reason.NO_HEALTHY_EXECUTORS)


class Turns:
    """The turns of one term."""

    def __init__(
        self, queue: WorkQueue[Request], listing: ObjectIndex, waiting: FairQueue, max_parallel_drains: int
    ) -> None:
        self._queue = queue
        self._index = listing
        self._waiting = waiting
        self._most = max_parallel_drains
        self._waiting_drains: dict[Request, None] = {}
        """Objects that get a drain request as soon as fewer drains are in progress."""
        self._round: Iterator[str] = iter(())
        """UIDs of the objects that are next to be offered the free capacity."""

    def record_no_action(self, request: Request, view: ObjectView, facts: ObjectFacts, verdict: Verdict | None) -> None:
        """Record that an object needs no action now because of `verdict`; others may use what it cannot take."""
        refused = verdict is not None and not verdict.assigned
        reason = None if verdict is None else verdict.reason
        if refused and reason in _NO_CAPACITY_REASONS and view.holder is None:
            self._waiting.add(facts)
            if (uid := next(self._round, None)) is not None and (other := self._index.requests.get(uid)):
                self._queue.add(other)
        else:
            self._waiting.remove(view.uid)
        if refused and reason is Reason.DRAINING and view.drain is None and view.holder:
            self._waiting_drains[request] = None
        else:
            self._waiting_drains.pop(request, None)

    def enqueue_for_capacity(self, members: Members) -> None:
        """Queue as many waiting objects, in their order, as the executors have free capacity for."""
        room = 0.0
        for executor in members.eligible.values():
            room += inf if executor.capacity is None else max(0.0, executor.capacity - executor.open)
        count = int(min(room, len(self._waiting)))
        order = islice(self._waiting.objects_in_order(), count + LOOK_AHEAD)
        self._round = iter([facts.uid for facts in order])
        for uid in islice(self._round, count):
            self._queue.add(self._index.requests[uid])

    def enqueue_waiting(self) -> None:
        """Queue all waiting objects, in their order."""
        for facts in self._waiting.objects_in_order():
            self._queue.add(self._index.requests[facts.uid])

    def may_drain(self) -> bool:
        """Return whether one more drain may be requested."""
        return len(self._index.drains) < self._most

    def enqueue_drains(self) -> None:
        """Queue as many objects for a drain request as the limit allows now."""
        left = self._most - len(self._index.drains)
        for request in [*islice(self._waiting_drains, max(0, left))]:
            del self._waiting_drains[request]
            self._queue.add(request)

    def forget(self, request: Request) -> None:
        """Forget an object that is gone."""
        self._waiting_drains.pop(request, None)
