"""Free capacity during one decision, in which each place is claimed by one pod only.

Pods that already wait for a node get places first, because kube-scheduler places them whatever the decision is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable
from heapq import nsmallest
from typing import Final

from situate.spot.capacity.free_capacity import FreeCapacity
from situate.spot.capacity.scheduler_capacity import SchedulerCapacity
from situate.spot.model.counts import Nodes
from situate.spot.model.pods_nodes_workloads import Capacity, PodFacts

MOST_WAITING: Final = 200
"""Waiting pods that get places first. If more wait, the answers are approximate."""


class ClaimedCapacity(FreeCapacity):
    """Mutable claims of one decision. `fits` claims a place; the same pod gets the same place again."""

    def __init__(
        self, room: Callable[[], SchedulerCapacity], nodes: Nodes, waiting: Callable[[], Iterable[PodFacts]] = tuple
    ) -> None:
        """`room` and `waiting` (pods without a node) are called at the first question; often there is none.

        The caller can do the work of the first question earlier and in steps, with `prepare_in_steps`.
        """
        self._create_capacity = room
        self._current: SchedulerCapacity | None = None
        self._nodes = nodes
        self._waiting = waiting
        self._preparation = self._place_waiting_pods()
        self._claims: dict[str, str] = {}
        """Names of nodes, by uid of the pod."""
        self._claim_count = 0

    def fits(
        self,
        pod: PodFacts,
        capacity: Capacity,
        *,
        without: PodFacts | None = None,
        pools: Collection[str] | None = None,
    ) -> bool:
        """Claim a place and return whether there is one. With `without` nothing is claimed: the question is
        hypothetical."""
        room = self._prepared_capacity()
        if self._has_claim(pod, capacity, pools):
            return True
        if without is not None:
            return room.fits(pod, capacity, without=without, pools=pools)
        return self._claim(room, pod, capacity, pools)

    def prepare_in_steps(self) -> Generator[None, None, None]:
        """Place the waiting pods, one at each step. A second call continues the same steps."""
        return self._preparation

    def unclaimed_capacity(self) -> SchedulerCapacity:
        """Return the state with the waiting pods placed, for plans; call it before any claim."""
        return self._prepared_capacity()

    def _prepared_capacity(self) -> SchedulerCapacity:
        """Return the current state."""
        for _ in self._preparation:
            pass
        assert self._current is not None
        return self._current

    def _place_waiting_pods(self) -> Generator[None, None, None]:
        """Place the waiting pods, those that have waited longest first."""
        self._current = self._create_capacity()
        for pod in nsmallest(MOST_WAITING, self._waiting(), key=lambda each: (each.created, each.key)):
            if pod.pod_class is Capacity.ON_DEMAND or not self._claim(self._current, pod, Capacity.SPOT, None):
                self._claim(self._current, pod, Capacity.ON_DEMAND, None)
            yield

    def _has_claim(self, pod: PodFacts, capacity: Capacity, pools: Collection[str] | None) -> bool:
        node = self._nodes.get(self._claims.get(pod.uid, ""))
        return node is not None and node.capacity is capacity and (pools is None or node.pool in pools)

    def _claim(self, room: SchedulerCapacity, pod: PodFacts, capacity: Capacity, pools: Collection[str] | None) -> bool:
        self._claim_count += 1  # the same pod may claim a place in any pool first, and then one in a calm pool
        uid = f"{pod.uid} claim {self._claim_count}"
        self._current, node = room.after_addition(pod, uid, capacity, pools)
        if node:
            self._claims[pod.uid] = node
        return bool(node)
