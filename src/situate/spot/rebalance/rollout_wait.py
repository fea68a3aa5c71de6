"""Limit on waiting for a rollout or a scale-down before pods are moved anyway.

Surplus pods that leave by themselves avoid restarts, so the controller waits for both. But a rollout that a quota
blocks, or whose steps are hours apart, must not leave the floor unmet. I4 still applies: no pod moves while another one
of the workload is not ready, has no node or is leaving. Rule: B12.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from situate.spot.model.misplaced_pods import Workload
from situate.spot.model.pods_nodes_workloads import Owner
from situate.spot.workloads.cluster_objects import WorkloadMemory

LONGEST_WAIT_S: Final = 600.0


def record_wait_start(workload: Workload, memory: WorkloadMemory, now: float) -> WorkloadMemory:
    """Record since when pods are expected to leave by themselves; a rollout to another revision restarts the time."""
    owner = workload.owner
    if not ((owner.rolling and not owner.paused) or len(workload.live_pods) > owner.replicas):
        return memory if memory.awaited_since is None else replace(memory, awaited_since=None, awaited_revision="")
    if memory.awaited_since is not None and memory.awaited_revision == owner.revision:
        return memory
    return replace(memory, awaited_since=now, awaited_revision=owner.revision)


def is_wait_overdue(owner: Owner, memory: WorkloadMemory, now: float) -> bool:
    """Return whether the wait for the workload's rollout or scale-down has lasted too long."""
    since = memory.awaited_since
    return since is not None and memory.awaited_revision == owner.revision and now - since >= LONGEST_WAIT_S
