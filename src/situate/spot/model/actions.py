"""What a decision asks for. Each is safe to repeat and carries the uid of the pod that was decided on.

The shell reads the pod anew before each, and gives up where it is another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from situate.spot.model.pods_nodes_workloads import PodKey


class Reason(StrEnum):
    """Why a pod is touched; label of metrics and Events."""

    TO_ON_DEMAND = "to-on-demand"
    """The target asks for more on demand."""
    TO_SPOT = "to-spot"
    """The target asks for fewer."""
    RETURN = "return"
    """It was meant for spot, found no room there, and now there is."""
    REPAIR = "repair"
    """It was admitted without us, and the floor needs it."""
    MAKE_ROOM = "make-room"
    """A pod that has to be on demand waits for the place of one that need not."""
    SURGE = "surge"
    """On demand is full during a rollout: the revision's surplus goes to spot."""
    DEGRADE = "degrade"
    """On demand has been full for too long."""
    EVACUATE = "evacuate"
    """Its node ends."""
    DEAD_NODE = "dead-node"
    AT_RISK = "at-risk"
    REPLACED = "replaced"
    """A released pod whose replacement serves, or whose time is over."""
    ORPHANED = "orphaned"
    """A released pod whose workload is gone."""


BY_POLICY = frozenset((Reason.TO_ON_DEMAND, Reason.TO_SPOT, Reason.RETURN, Reason.REPAIR, Reason.AT_RISK))
"""Moves that only we want: all limits hold for them."""


@dataclass(frozen=True, slots=True)
class Evict:
    """Ask the Eviction API; a refusal (429) ends the attempt."""

    pod: PodKey
    uid: str
    owner: str
    """Uid of the workload."""
    reason: Reason


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the pod with its own grace period, past any budget: only what ends anyway, or never ran."""

    pod: PodKey
    uid: str
    owner: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class Release:
    """Take the pod out of its ReplicaSet, which replaces it at once while it goes on serving (B20)."""

    pod: PodKey
    uid: str
    owner: str
    reason: Reason
    deadline: float
    patch: Mapping[str, Any]
    """A merge patch."""


@dataclass(frozen=True, slots=True)
class SetCost:
    """Write the deletion cost of a pod (P31)."""

    pod: PodKey
    uid: str
    owner: str
    cost: int

    @property
    def patch(self) -> dict[str, Any]:
        """A merge patch."""
        return {
            "metadata": {
                "uid": self.uid,
                "annotations": {"controller.kubernetes.io/pod-deletion-cost": str(self.cost)},
            }
        }


@dataclass(frozen=True, slots=True)
class ShortenTolerations:
    """Lower the seconds that a running spot pod stays on a lost node (B25); all other tolerations stay."""

    pod: PodKey
    uid: str
    owner: str
    keys: tuple[str, ...]
    seconds: int


Action: TypeAlias = Evict | Delete | Release | SetCost | ShortenTolerations
Move: TypeAlias = Evict | Delete | Release
