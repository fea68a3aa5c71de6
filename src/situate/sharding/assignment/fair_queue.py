"""Order waiting objects for free capacity: by priority, then by namespace, then by waiting time.

The order matters only while no executor has free capacity, so that the first namespace does not take all of it. Among
namespaces with the same priority, the one with the least open work per share goes first. Between equals, the one with
the oldest last assignment goes first. Objects of a lower priority wait until none of a higher priority wait.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import Final

from situate.sharding.strategies.facts import ObjectFacts
from situate.sharding.strategies.open_objects import OpenObjects
from situate.sharding.strategies.ranking import Ranking

_EQUAL_SHARES: Final[Mapping[str, float]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Queue:
    priority: int
    namespace: str


class FairQueue:
    """Objects that are ready and unassigned. `next` costs a few comparisons, independent of the number of objects."""

    def __init__(self, shares: Mapping[str, float] = _EQUAL_SHARES) -> None:
        """`shares`: by namespace, above 0; 1 if not given. Raises `ValueError` for an invalid share."""
        for namespace, share in shares.items():
            if not 0 < share < inf:
                raise ValueError(f"shares.{namespace} is {share:g}, allowed: a number above 0")
        self._shares = shares
        self._queues: dict[_Queue, dict[str, ObjectFacts]] = {}
        self._rankings: dict[int, Ranking] = {}  # by priority: the waiting namespaces
        self._queue_of: dict[str, _Queue] = {}  # by UID
        self._open = OpenObjects()  # by namespace instead of executor
        self._turn = 0
        self._last_turns: dict[str, int] = {}  # the turn of the last assignment of a namespace

    def __len__(self) -> int:
        return len(self._queue_of)

    def __contains__(self, uid: str) -> bool:
        return uid in self._queue_of

    def add(self, obj: ObjectFacts) -> None:
        """Add an object. One that waits already keeps its place unless its priority has changed."""
        queue = _Queue(obj.priority, obj.namespace)
        if self._queue_of.get(obj.uid, queue) != queue:
            self.remove(obj.uid)
        self._queue_of[obj.uid] = queue
        self._queues.setdefault(queue, {})[obj.uid] = obj
        self._rank(queue)

    def remove(self, uid: str) -> None:
        """Remove an object, if it waits."""
        queue = self._queue_of.pop(uid, None)
        if queue is not None:
            del self._queues[queue][uid]
            self._rank(queue)

    def observe_scheduled(self, obj: ObjectFacts) -> None:
        """Record that an object is assigned or unassigned. An unassigned object waits only after `add`."""
        if obj.executor:
            self.remove(obj.uid)
        used = ObjectFacts(obj.uid, executor=_key(obj.namespace) if obj.executor else "", weight=obj.weight)
        if self._open.record_scheduled(used) and obj.executor:
            self._last_turns[obj.namespace] = self._turn
            self._turn += 1
        self._rank_namespace(obj.namespace)

    def observe_completed(self, obj: ObjectFacts) -> None:
        self.remove(obj.uid)
        self._open.record_completed(obj)
        self._rank_namespace(obj.namespace)

    def observe_deleted(self, obj: ObjectFacts) -> None:
        self.remove(obj.uid)
        self._open.record_deleted(obj)
        self._rank_namespace(obj.namespace)

    def next(self) -> ObjectFacts | None:
        """Return the next object; None: no object waits. It keeps its place until it is assigned or removed."""
        if not self._rankings:
            return None
        priority = max(self._rankings)
        _, _, namespace = next(self._rankings[priority].entries())
        return next(iter(self._queues[_Queue(priority, namespace)].values()))

    def objects_in_order(self) -> Iterator[ObjectFacts]:
        """Yield all objects in order, as if each were assigned before the next one is selected.

        Capacity for several objects is therefore shared like capacity for one after the other. The iterator does not
        stop at the free capacity, because no executor may fit the first objects. The caller must not add or remove
        objects during the iteration.
        """
        taken: dict[str, float] = {}
        given, turn = dict(self._last_turns), self._turn

        def entry(namespace: str) -> tuple[float, int, str]:
            used = self._open.weight_of(_key(namespace)) + taken.get(namespace, 0)
            return used / self._shares.get(namespace, 1.0), given.get(namespace, -1), namespace

        for priority in sorted(self._rankings, reverse=True):
            turns = sorted(entry(namespace) for _, _, namespace in self._rankings[priority].entries())
            queues = {namespace: iter(self._queues[_Queue(priority, namespace)].values()) for _, _, namespace in turns}
            while turns:
                namespace = turns[0][2]
                obj = next(queues[namespace], None)
                if obj is None:
                    heapq.heappop(turns)
                    continue
                yield obj
                taken[namespace] = taken.get(namespace, 0) + obj.weight
                given[namespace] = turn
                turn += 1
                heapq.heapreplace(turns, entry(namespace))

    def _rank_namespace(self, namespace: str) -> None:
        for priority in tuple(self._rankings):
            self._rank(_Queue(priority, namespace))

    def _rank(self, queue: _Queue) -> None:
        """Update the rank of the namespace among the namespaces that wait with this priority."""
        ranking = self._rankings.setdefault(queue.priority, Ranking())
        if self._queues.get(queue):
            used = self._open.weight_of(_key(queue.namespace)) / self._shares.get(queue.namespace, 1.0)
            ranking.put(queue.namespace, used, self._last_turns.get(queue.namespace, -1))
            return
        self._queues.pop(queue, None)
        ranking.drop(queue.namespace)
        if not len(ranking):
            del self._rankings[queue.priority]


def _key(namespace: str) -> str:
    """Return the key of a namespace in the counts; cluster-scoped objects share one key."""
    return f"namespace {namespace}"
