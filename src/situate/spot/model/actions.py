"""Actions that a decision orders. Each is safe to repeat and carries the uid of its pod.

Before each action the leader reads the pod again, and drops the action if the uid differs. Rules: B20, B25, P31.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from situate.spot.model.pods_nodes_workloads import PodKey


class Reason(StrEnum):
    """Reason for an action on a pod; a label value of metrics and a part of Events."""

    TO_ON_DEMAND = "to-on-demand"
    """The target requires more on-demand pods."""
    TO_SPOT = "to-spot"
    """The target requires fewer on-demand pods."""
    RETURN = "return"
    """The pod is of the spot class and overflowed; spot nodes have free capacity again."""
    REPAIR = "repair"
    """The pod was admitted without a class, and the floor needs it."""
    MAKE_ROOM = "make-room"
    """A pod that must be on demand waits for the place of a pod that need not."""
    SURGE = "surge"
    """On-demand nodes are full during a rollout: the revision's surplus goes to spot."""
    DEGRADE = "degrade"
    """On-demand nodes have been full for too long."""
    EVACUATE = "evacuate"
    """The pod's node ends."""
    DEAD_NODE = "dead-node"
    AT_RISK = "at-risk"
    REPLACED = "replaced"
    """A released pod whose replacement serves, or whose deadline has come."""
    ORPHANED = "orphaned"
    """A released pod whose workload is gone."""


POLICY_REASONS = frozenset((Reason.TO_ON_DEMAND, Reason.TO_SPOT, Reason.RETURN, Reason.REPAIR, Reason.AT_RISK))
"""Moves that only policy requires: all limits apply to them."""


@dataclass(frozen=True, slots=True)
class Evict:
    """Call the Eviction API; a refusal (429) ends the attempt."""

    pod: PodKey
    uid: str
    owner: str
    """Uid of the workload."""
    reason: Reason


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the pod with its own grace period, past any budget: only pods that end anyway or never ran."""

    pod: PodKey
    uid: str
    owner: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Release:
    """Take the pod out of its ReplicaSet.

    The ReplicaSet replaces the pod at once while the pod goes on serving (B20).
    """

    pod: PodKey
    uid: str
    owner: str
    reason: Reason
    deadline: float
    patch: Mapping[str, Any]
    """A merge patch."""


@dataclass(frozen=True, slots=True)
class SetCost:
    """Write the deletion cost of a pod."""

    pod: PodKey
    uid: str
    owner: str
    cost: int

    @property
    def patch(self) -> dict[str, Any]:
        """Return a merge patch with the cost."""
        return {
            "metadata": {
                "uid": self.uid,
                "annotations": {"controller.kubernetes.io/pod-deletion-cost": str(self.cost)},
            }
        }


@dataclass(frozen=True, slots=True)
class ShortenTolerations:
    """Lower the seconds for which a running spot pod stays on a lost node; all other tolerations stay."""

    pod: PodKey
    uid: str
    owner: str
    keys: tuple[str, ...]
    seconds: int


Action: TypeAlias = Evict | Delete | Release | SetCost | ShortenTolerations
Move: TypeAlias = Evict | Delete | Release
