"""Objects of the cluster and memory of each workload: the two main inputs of every decision.

`Cluster` holds references only, so a cache may share its own maps; this module never changes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from situate.spot.model.counts import Nodes
from situate.spot.model.misplaced_pods import Workload
from situate.spot.model.pods_nodes_workloads import Owner, PodFacts
from situate.spot.workloads.on_demand_policy import Policy
from situate.spot.workloads.on_demand_target import Namespace, Target, TargetRules, resolve_target
from situate.spot.workloads.owners import ReplicaSetFacts


@dataclass(frozen=True, slots=True)
class Cluster:
    """Objects as the watches show them."""

    owners: Mapping[str, Owner] = field(default_factory=dict)
    """Workloads by uid."""
    replica_sets: Mapping[str, ReplicaSetFacts] = field(default_factory=dict)
    """By uid."""
    pods: Mapping[str, Sequence[PodFacts]] = field(default_factory=dict)
    """By uid of the workload: its pods, and those that were released from it."""
    nodes: Nodes = field(default_factory=dict)
    namespaces: Mapping[str, Namespace] = field(default_factory=dict)

    def namespace(self, name: str) -> Namespace:
        """Return the namespace; an unknown one has no labels and annotations."""
        return self.namespaces.get(name) or Namespace(name)

    def owner_of(self, controller: str) -> Owner | None:
        """Return the workload at the end of the chain that begins with this controller's uid; None if there is none."""
        replica_set = self.replica_sets.get(controller)
        if replica_set is None:
            return self.owners.get(controller)
        return self.owners.get(replica_set.controller.uid) if replica_set.controller is not None else None


@dataclass(frozen=True, slots=True)
class WorkloadMemory:
    """Memory of a workload; its loss does not harm the floor."""

    policy: Policy | None = None
    """The last readable policy."""
    surge_revision: str = ""
    """The revision in the state surge-as-spot (B17); empty: none."""
    yielding: str = ""
    """Uid of the old on-demand pod that is to leave."""
    surged: str = ""
    """Uid of the new pod that was deleted for it; one replacement may be spot."""
    surged_at: float = 0.0
    debt: int = 0
    """On-demand pods that run on spot because on-demand nodes are full (B18)."""
    moved: str = ""
    """Uid of the pod being moved; empty if none, or if the move is complete."""
    moved_at: float = 0.0
    raising: bool = False
    """Whether the move is meant to add an on-demand pod."""
    failures: int = 0
    """Successive moves whose replacement found no node in time."""
    stopped_until: float = 0.0
    returned_at: float | None = None
    """Time of the last return of a pod to spot."""
    return_wait_s: float = 0.0
    """Time between two returns; 0 means the configured one."""
    awaited_since: float | None = None
    """Start of the current rollout or scale-down; None without one (B12)."""
    awaited_revision: str = ""
    """Revision of the workload at that time."""


NO_MEMORY = WorkloadMemory()


def target_of(cluster: Cluster, owner: Owner, rules: TargetRules, memory: WorkloadMemory = NO_MEMORY) -> Target:
    """Return the policy and its number, before the debt is subtracted."""
    return resolve_target(owner, cluster.namespace(owner.namespace), rules, memory.policy)


def workload_of(cluster: Cluster, owner: Owner, rules: TargetRules, memory: WorkloadMemory = NO_MEMORY) -> Workload:
    """Return the workload with its current target: the debt is subtracted until it is repaid."""
    target = target_of(cluster, owner, rules, memory)
    return Workload(owner, max(0, target.on_demand - memory.debt), cluster.pods.get(owner.uid, ()))
