"""The Pods that are ready to be scheduled, in the order of QueueSort.

Most Pods leave in the order of their arrival. A Pod is appended to a *lane*, a sorted list, if its key is not less than
the last key there. The few Pods that fit no lane go to a heap. The next Pod is the least among the heads. A Pod costs
one append and one step, whereas a heap alone needs a logarithmic number of comparisons.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Final

from situate.framework.queue.queued_pod import QueueState, WaitingPod

_LANES: Final = 8
"""About the number of priorities in use."""


class ActiveQueue:
    """The active Pods, ordered by `WaitingPod.key`, then by arrival."""

    def __init__(self) -> None:
        self._lanes: list[deque[tuple[Any, int, WaitingPod]]] = []
        self._heap: list[tuple[Any, int, WaitingPod]] = []
        self._arrivals = count()
        self._returns = count(1)
        """Numbers of returned Pods, which sort before all arrivals, the last one first."""
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def push(self, pod: WaitingPod) -> None:
        """Add a Pod. Its `key` must not change while it is in the queue."""
        entry = (pod.key, next(self._arrivals), pod)
        pod.place = QueueState.ACTIVE
        self._size += 1
        for lane in self._lanes:
            if not lane or lane[-1][0] <= pod.key:
                lane.append(entry)
                return
        if len(self._lanes) < _LANES:
            self._lanes.append(deque((entry,)))
        else:
            heapq.heappush(self._heap, entry)

    def pop(self) -> WaitingPod | None:
        """Remove and return the next Pod; None if there is none."""
        source = self._next_source()
        if source is None:
            return None
        self._size -= 1
        entry = source.popleft() if isinstance(source, deque) else heapq.heappop(source)
        return entry[2]

    def pop_like(
        self, first: WaitingPod, most: int, alike: Callable[[WaitingPod, WaitingPod], bool]
    ) -> list[WaitingPod]:
        """Remove and return the Pods directly after `first` while they are `alike`, at most `most`."""
        found: list[WaitingPod] = []
        while len(found) < most:
            source = self._next_source()
            if source is None or not alike(first, source[0][2]):
                break
            if not isinstance(source, deque):
                found.append(heapq.heappop(source)[2])
                continue
            bound = self._least_other_head(source)
            active = QueueState.ACTIVE
            while source and len(found) < most:
                entry = source[0]
                pod = entry[2]
                if bound is not None and entry[:2] >= bound:
                    break
                if pod.place is active:
                    if not alike(first, pod):
                        break
                    found.append(pod)
                source.popleft()
        self._size -= len(found)
        return found

    def put_first(self, pods: Sequence[WaitingPod]) -> None:
        """Put back Pods from `pop_like` that were not scheduled. They are the next ones, in this order."""
        for pod in pods:
            pod.place = QueueState.ACTIVE
        self._size += len(pods)
        if not self._lanes:
            self._lanes.append(deque())
        self._lanes[0].extendleft((pod.key, -next(self._returns), pod) for pod in reversed(pods))

    def remove(self, pod: WaitingPod) -> None:
        """Remove the Pod. Its entry is dropped when it reaches the head."""
        if pod.place is QueueState.ACTIVE:
            pod.place = QueueState.GONE
            self._size -= 1

    def _next_source(self) -> deque[tuple[Any, int, WaitingPod]] | list[tuple[Any, int, WaitingPod]] | None:
        """Return the lane or heap whose head is next."""
        best: deque[tuple[Any, int, WaitingPod]] | list[tuple[Any, int, WaitingPod]] | None = None
        for lane in self._lanes:
            while lane and lane[0][2].place is not QueueState.ACTIVE:
                lane.popleft()
            if lane and (best is None or lane[0][:2] < best[0][:2]):
                best = lane
        while self._heap and self._heap[0][2].place is not QueueState.ACTIVE:
            heapq.heappop(self._heap)
        if self._heap and (best is None or self._heap[0][:2] < best[0][:2]):
            best = self._heap
        return best

    def _least_other_head(self, lane: deque[tuple[Any, int, WaitingPod]]) -> tuple[Any, int] | None:
        """Return the least head of the other lanes and the heap."""
        heads = [other[0][:2] for other in self._lanes if other and other is not lane]
        if self._heap:
            heads.append(self._heap[0][:2])
        return min(heads, default=None)
