"""The order in which pods are placed, where those that machines move into come first (QueueSort, N16)."""

from __future__ import annotations

from typing import Any

from situate.framework.pod.pods import PodInfo
from situate.vm.backends.systems import System


class TargetsFirst:
    """By priority; of one priority the targets of migrations; then whoever waits longest.

    A machine is frozen, and others wait for its room, until its target is placed.
    """

    name = "TargetsFirst"

    def __init__(self, system: System[Any]) -> None:
        self._system = system

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[int, bool, float]:
        return (-pod.priority, self._system.migration_of(pod.pod) is None, queued_at)
