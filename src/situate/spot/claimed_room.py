"""Room for one decision, in which a place that was found for one pod is not found for another.

Pods that wait for a node already come first: kube-scheduler will place them whatever we decide.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from situate.spot.counting import Nodes
from situate.spot.filtered_room import FilteredRoom
from situate.spot.model import Capacity, PodFacts

MOST_WAITING: Final = 200
"""Pods that are placed beforehand. Where more wait, room is a matter of luck."""


class ClaimedRoom:
    """Mutable, of one decision. A place is claimed by asking for it; asking again for the same pod gives the same."""

    def __init__(self, room: FilteredRoom, nodes: Nodes, waiting: Sequence[PodFacts] = ()) -> None:
        """`waiting`: pods without a node; those come first that have waited longest."""
        self._room = room
        self._nodes = nodes
        self._waiting = sorted(waiting, key=lambda pod: (pod.created, pod.key))[:MOST_WAITING]
        self._claims: dict[str, str] = {}
        """Names of nodes, by uid of the pod."""

    def fits(
        self,
        pod: PodFacts,
        capacity: Capacity,
        *,
        without: PodFacts | None = None,
        pools: Collection[str] | None = None,
    ) -> bool:
        """With a pod thought away nothing is claimed: that is a question about what might be."""
        self._place_those_that_wait()
        if self._claimed(pod, capacity, pools):
            return True
        if without is not None:
            return self._room.fits(pod, capacity, without=without, pools=pools)
        return self._claim(pod, capacity, pools)

    def unclaimed(self) -> FilteredRoom:
        """With the pods that wait in their places, for plans; to be asked for before anything is claimed."""
        self._place_those_that_wait()
        return self._room

    def _place_those_that_wait(self) -> None:
        waiting, self._waiting = self._waiting, []
        for pod in waiting:
            wanted = (
                (Capacity.ON_DEMAND,) if pod.pod_class is Capacity.ON_DEMAND else (Capacity.SPOT, Capacity.ON_DEMAND)
            )
            any(self._claim(pod, capacity, None) for capacity in wanted)

    def _claimed(self, pod: PodFacts, capacity: Capacity, pools: Collection[str] | None) -> bool:
        node = self._nodes.get(self._claims.get(pod.uid, ""))
        return node is not None and node.capacity is capacity and (pools is None or node.pool in pools)

    def _claim(self, pod: PodFacts, capacity: Capacity, pools: Collection[str] | None) -> bool:
        uid = f"{pod.uid} claimed {capacity}"
        self._room, node = self._room.taken(pod, uid, capacity, pools)
        if node:
            self._claims[pod.uid] = node
        return bool(node)
