"""A QueueSort plugin that schedules target Pods first."""

from __future__ import annotations

from typing import Any

from situate.framework.pod.pods import PodInfo
from situate.vm.backends.systems import System


class TargetsFirst:
    """Queue order by priority, then target Pods first, then by waiting time.

    Until a target Pod is placed, its VM is frozen and other Pods wait for its capacity.
    """

    name = "TargetsFirst"

    def __init__(self, system: System[Any]) -> None:
        self._system = system

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[int, bool, float]:
        return (-pod.priority, self._system.migration_of(pod.pod) is None, queued_at)
