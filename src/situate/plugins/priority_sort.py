"""PrioritySort: the highest priority first, then whoever waits longest (upstream plugins/queuesort)."""

from __future__ import annotations

from situate.framework.pod.pods import PodInfo


class PrioritySort:
    """The order of the active queue."""

    name = "PrioritySort"

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[int, float]:
        return (-pod.priority, queued_at)
