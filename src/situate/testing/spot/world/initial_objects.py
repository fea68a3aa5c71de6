"""What every history of spot begins with: so many nodes of either kind, and workloads of all shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

ON_DEMAND_NODES: Final = 4
SPOT_NODES: Final = 6


@dataclass(frozen=True, slots=True)
class WorkloadPlan:
    """A workload that every history begins with."""

    name: str
    kind: Literal["Deployment", "StatefulSet", "Rollout", "CloneSet"]
    replicas: int
    policy: str = ""
    """Empty: the default of its kind."""
    surge: bool = True
    """Rollouts bring the new pod first; else they take the old one first. Of Deployments."""
    parallel: bool = False
    """Of StatefulSets."""
    zone: str = ""
    """The user's own required affinity, in two terms, one of which no node meets."""
    min_ready_s: int = 0
    leader: str = ""
    """Who leads it, as its annotation says (B45); empty: nobody."""


WORKLOADS: Final = (
    WorkloadPlan("web", "Deployment", 6, "2"),
    WorkloadPlan("api", "Deployment", 5, surge=False),
    WorkloadPlan("half", "Deployment", 4, "50%", min_ready_s=2, leader="role=primary"),
    WorkloadPlan("db", "StatefulSet", 3),
    WorkloadPlan("queue", "StatefulSet", 4, "base=1,weight=1:2", parallel=True, leader="lease/queue"),
    WorkloadPlan("solo", "Deployment", 1, "1"),
    WorkloadPlan("zonal", "Deployment", 3, "1", zone="zone-0"),
)
FURTHER: Final = (
    *(plan for plan in WORKLOADS if plan.name not in ("api", "zonal")),
    WorkloadPlan("canary", "Rollout", 3, "1"),
    WorkloadPlan("clones", "CloneSet", 4, "50%"),
)
"""As many, two of them of kinds that not every cluster serves."""
POLICIES: Final = ("", "0", "1", "2", "3", "30%", "50%", "base=1,weight=1:3", "majority", "all-on-demand", "all-spot")
NONSENSE: Final = ("-4", "130%", "many", "1.5", "")
