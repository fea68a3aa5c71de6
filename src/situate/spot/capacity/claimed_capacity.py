"""Room for one decision, in which a place that was found for one pod is not found for another.

Pods that wait for a node already come first: kube-scheduler will place them whatever we decide.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable
from heapq import nsmallest
from typing import Final

from situate.spot.capacity.free_capacity import Room
from situate.spot.capacity.scheduler_capacity import FilteredRoom
from situate.spot.model.counts import Nodes
from situate.spot.model.pods_nodes_workloads import Capacity, PodFacts

MOST_WAITING: Final = 200
"""Pods that are placed beforehand. Where more wait, room is a matter of luck."""


class ClaimedRoom(Room):
    """Mutable, of one decision. A place is claimed by asking for it; asking again for the same pod gives the same."""

    def __init__(
        self, room: Callable[[], FilteredRoom], nodes: Nodes, waiting: Callable[[], Iterable[PodFacts]] = tuple
    ) -> None:
        """`room` and `waiting`, pods without a node, are asked for with the first question: often there is none.

        What that question has to wait for can be had before it in steps, from `beginning`.
        """
        self._begin = room
        self._begun: FilteredRoom | None = None
        self._nodes = nodes
        self._waiting = waiting
        self._beginning = self._waiting_placed()
        self._claims: dict[str, str] = {}
        """Names of nodes, by uid of the pod."""
        self._asked = 0

    def fits(
        self,
        pod: PodFacts,
        capacity: Capacity,
        *,
        without: PodFacts | None = None,
        pools: Collection[str] | None = None,
    ) -> bool:
        """With a pod thought away nothing is claimed: that is a question about what might be."""
        room = self._room()
        if self._claimed(pod, capacity, pools):
            return True
        if without is not None:
            return room.fits(pod, capacity, without=without, pools=pools)
        return self._claim(room, pod, capacity, pools)

    def beginning(self) -> Generator[None, None, None]:
        """A pod that waits at each step. Begun anew, it goes on."""
        return self._beginning

    def unclaimed(self) -> FilteredRoom:
        """With the pods that wait in their places, for plans; to be asked for before anything is claimed."""
        return self._room()

    def _room(self) -> FilteredRoom:
        """As it is by now."""
        for _ in self._beginning:
            pass
        assert self._begun is not None
        return self._begun

    def _waiting_placed(self) -> Generator[None, None, None]:
        """The pods that have waited longest first."""
        self._begun = self._begin()
        for pod in nsmallest(MOST_WAITING, self._waiting(), key=lambda each: (each.created, each.key)):
            if pod.pod_class is Capacity.ON_DEMAND or not self._claim(self._begun, pod, Capacity.SPOT, None):
                self._claim(self._begun, pod, Capacity.ON_DEMAND, None)
            yield

    def _claimed(self, pod: PodFacts, capacity: Capacity, pools: Collection[str] | None) -> bool:
        node = self._nodes.get(self._claims.get(pod.uid, ""))
        return node is not None and node.capacity is capacity and (pools is None or node.pool in pools)

    def _claim(self, room: FilteredRoom, pod: PodFacts, capacity: Capacity, pools: Collection[str] | None) -> bool:
        self._asked += 1  # the same pod may claim a place in any pool first, and then one in a calm pool
        uid = f"{pod.uid} claim {self._asked}"
        self._begun, node = room.taken(pod, uid, capacity, pools)
        if node:
            self._claims[pod.uid] = node
        return bool(node)
