"""In which order objects that wait get room: by priority, then by turns of namespaces, then by how long they wait.

Matters only while nobody has room: then whoever asks first must not take everything. Of the namespaces that wait with
the same priority, the one goes first that has least open work for its share, and of two with as little the one that was
given something longest ago. A lower priority waits until no higher one does.
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

_EQUAL: Final[Mapping[str, float]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class _Queue:
    priority: int
    namespace: str


class Waiting:
    """Objects that are ready and have nobody. Asking for the next costs some comparisons, however many wait."""

    def __init__(self, shares: Mapping[str, float] = _EQUAL) -> None:
        """`shares`: by namespace, above 0; 1 where nothing is given. Raises `ValueError` for what is no share."""
        for namespace, share in shares.items():
            if not 0 < share < inf:
                raise ValueError(f"shares.{namespace} is {share:g}, allowed: a number above 0")
        self._shares = shares
        self._queues: dict[_Queue, dict[str, ObjectFacts]] = {}
        self._rankings: dict[int, Ranking] = {}  # by priority: the namespaces that wait
        self._queue_of: dict[str, _Queue] = {}  # by UID
        self._open = OpenObjects()  # by namespace instead of executor
        self._turn = 0
        self._given: dict[str, int] = {}  # the turn at which a namespace was given something last

    def __len__(self) -> int:
        return len(self._queue_of)

    def __contains__(self, uid: str) -> bool:
        return uid in self._queue_of

    def add(self, obj: ObjectFacts) -> None:
        """It waits from now on; one that waits already keeps its place, unless its priority has changed."""
        queue = _Queue(obj.priority, obj.namespace)
        if self._queue_of.get(obj.uid, queue) != queue:
            self.remove(obj.uid)
        self._queue_of[obj.uid] = queue
        self._queues.setdefault(queue, {})[obj.uid] = obj
        self._rank(queue)

    def remove(self, uid: str) -> None:
        """It waits no longer, if it did."""
        queue = self._queue_of.pop(uid, None)
        if queue is not None:
            del self._queues[queue][uid]
            self._rank(queue)

    def observe_scheduled(self, obj: ObjectFacts) -> None:
        """It is assigned to somebody, or to nobody any more: only `add` makes it wait."""
        if obj.executor:
            self.remove(obj.uid)
        used = ObjectFacts(obj.uid, executor=_key(obj.namespace) if obj.executor else "", weight=obj.weight)
        if self._open.scheduled(used) and obj.executor:
            self._given[obj.namespace] = self._turn
            self._turn += 1
        self._rank_namespace(obj.namespace)

    def observe_completed(self, obj: ObjectFacts) -> None:
        self.remove(obj.uid)
        self._open.completed(obj)
        self._rank_namespace(obj.namespace)

    def observe_deleted(self, obj: ObjectFacts) -> None:
        self.remove(obj.uid)
        self._open.deleted(obj)
        self._rank_namespace(obj.namespace)

    def next(self) -> ObjectFacts | None:
        """Whose turn it is; None: nobody waits. It stays in its place until it is assigned or removed."""
        if not self._rankings:
            return None
        priority = max(self._rankings)
        _, _, namespace = next(self._rankings[priority].entries())
        return next(iter(self._queues[_Queue(priority, namespace)].values()))

    def in_order(self) -> Iterator[ObjectFacts]:
        """All of them, as if each were assigned before the next one is looked for: room for several is shared as room
        for one after the other. All, for whoever is asked about first may be one that no executor suits. Nothing may be
        added or removed meanwhile.
        """
        taken: dict[str, float] = {}
        given, turn = dict(self._given), self._turn

        def entry(namespace: str) -> tuple[float, int, str]:
            used = self._open.of(_key(namespace)) + taken.get(namespace, 0)
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
        """Puts the namespace where it belongs among those that wait with this priority."""
        ranking = self._rankings.setdefault(queue.priority, Ranking())
        if self._queues.get(queue):
            used = self._open.of(_key(queue.namespace)) / self._shares.get(queue.namespace, 1.0)
            ranking.put(queue.namespace, used, self._given.get(queue.namespace, -1))
            return
        self._queues.pop(queue, None)
        ranking.drop(queue.namespace)
        if not len(ranking):
            del self._rankings[queue.priority]


def _key(namespace: str) -> str:
    """Objects that are in no namespace have one of their own here."""
    return f"namespace {namespace}"
