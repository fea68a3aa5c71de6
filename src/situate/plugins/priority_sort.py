"""PrioritySort: highest priority first, then the longest wait (upstream plugins/queuesort)."""

from __future__ import annotations

from situate.framework.pod.pods import PodInfo


class PrioritySort:
    """A QueueSort plugin: the order of the active queue."""

    name = "PrioritySort"

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[int, float]:
        return (-pod.priority, queued_at)
