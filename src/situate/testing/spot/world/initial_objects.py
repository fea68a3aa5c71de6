"""The start of every history of spot: nodes of both kinds, and workloads of all shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

ON_DEMAND_NODES: Final = 4
SPOT_NODES: Final = 6


@dataclass(frozen=True, slots=True)
class WorkloadPlan:
    """A workload at the start of every history."""

    name: str
    kind: Literal["Deployment", "StatefulSet", "Rollout", "CloneSet"]
    replicas: int
    policy: str = ""
    """The on-demand policy. Empty: the default of the workload's kind."""
    surge: bool = True
    """Whether a Deployment's rollout creates the new pod first. If not, it removes the old one first."""
    parallel: bool = False
    """Whether a StatefulSet starts its pods in parallel."""
    zone: str = ""
    """Zone of the user's own required affinity, which has two terms. No node meets the second."""
    min_ready_s: int = 0
    leader: str = ""
    """How the workload's leader is found, as in its annotation (B45). Empty: it has no leader."""


WORKLOADS: Final = (
    WorkloadPlan("web", "Deployment", 6, "2"),
    WorkloadPlan("api", "Deployment", 5, surge=False),
    WorkloadPlan("half", "Deployment", 4, "50%", min_ready_s=2, leader="role=primary"),
    WorkloadPlan("db", "StatefulSet", 3),
    WorkloadPlan("queue", "StatefulSet", 4, "base=1,weight=1:2", parallel=True, leader="lease/queue"),
    WorkloadPlan("solo", "Deployment", 1, "1"),
    WorkloadPlan("zonal", "Deployment", 3, "1", zone="zone-0"),
)
FURTHER_WORKLOADS: Final = (
    *(plan for plan in WORKLOADS if plan.name not in ("api", "zonal")),
    WorkloadPlan("canary", "Rollout", 3, "1"),
    WorkloadPlan("clones", "CloneSet", 4, "50%"),
)
"""The same number of workloads. Two have kinds that not every cluster serves."""
POLICIES: Final = ("", "0", "1", "2", "3", "30%", "50%", "base=1,weight=1:3", "majority", "all-on-demand", "all-spot")
UNREADABLE_POLICIES: Final = ("-4", "130%", "many", "1.5", "")
