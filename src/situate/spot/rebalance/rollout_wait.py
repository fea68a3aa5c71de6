"""How long a rollout or a scale-down is awaited before pods are moved all the same (B12).

Surplus pods that leave by themselves spare restarts, so both are awaited; but a rollout that a quota holds up, or one
between whose steps hours pass, is no reason to leave the floor short. What I4 forbids stays forbidden: nothing is moved
beside a pod that is not ready, has no node or is on its way out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from situate.spot.model.misplaced import Workload
from situate.spot.model.pods_nodes_workloads import Owner
from situate.spot.workloads.cluster_view import Memory

AWAITED_S: Final = 600.0


def awaiting(workload: Workload, memory: Memory, now: float) -> Memory:
    """With since when pods are expected to leave by themselves; a rollout to another revision begins anew."""
    owner = workload.owner
    if not ((owner.rolling and not owner.paused) or len(workload.live) > owner.replicas):
        return memory if memory.awaited_since is None else replace(memory, awaited_since=None, awaited_revision="")
    if memory.awaited_since is not None and memory.awaited_revision == owner.revision:
        return memory
    return replace(memory, awaited_since=now, awaited_revision=owner.revision)


def overdue(owner: Owner, memory: Memory, now: float) -> bool:
    """Whether what is going on with the workload has been awaited for long enough."""
    since = memory.awaited_since
    return since is not None and memory.awaited_revision == owner.revision and now - since >= AWAITED_S
