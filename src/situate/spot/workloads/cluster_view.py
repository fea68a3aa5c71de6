"""What is known of the cluster, and what is remembered of each workload: the two arguments of every decision.

`Cluster` holds no more than references, so a cache may hand out its own maps; nothing here changes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from situate.spot.model.counts import Nodes
from situate.spot.model.misplaced import Workload
from situate.spot.model.pods_nodes_workloads import Owner, PodFacts
from situate.spot.workloads.on_demand_policy import Policy
from situate.spot.workloads.on_demand_target import Namespace, Rules, Target, resolved
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
        """One that is not known says nothing."""
        return self.namespaces.get(name) or Namespace(name)

    def owner_of(self, controller: str) -> Owner | None:
        """The workload at the end of the chain that begins with this controller's uid; None if there is none."""
        replica_set = self.replica_sets.get(controller)
        if replica_set is None:
            return self.owners.get(controller)
        return self.owners.get(replica_set.controller.uid) if replica_set.controller is not None else None


@dataclass(frozen=True, slots=True)
class Memory:
    """What has to be remembered of a workload; all of it may be lost without harm to the floor."""

    policy: Policy | None = None
    """The last one that could be read."""
    surge_revision: str = ""
    """The revision that is surge-as-spot (B17); empty: none is."""
    yielding: str = ""
    """Uid of the old on-demand pod that it waits for."""
    surged: str = ""
    """Uid of the new pod that was deleted for it: one pod that comes in its place may be spot."""
    surged_at: float = 0.0
    debt: int = 0
    """On-demand pods that run on spot for want of room (B18)."""
    moved: str = ""
    """Uid of the pod that we move; empty if none, or if all has been well since."""
    moved_at: float = 0.0
    raising: bool = False
    """Whether that move is to bring a pod onto demand."""
    failures: int = 0
    """Moves in a row whose replacement found no node in time."""
    stopped_until: float = 0.0
    returned_at: float | None = None
    """When a pod last went back to spot."""
    return_wait_s: float = 0.0
    """Between two returns; 0 means the configured one."""
    awaited_since: float | None = None
    """Since when a rollout or a scale-down is under way; None if none is (B12)."""
    awaited_revision: str = ""
    """The revision of the workload then."""


NO_MEMORY = Memory()


def target_of(cluster: Cluster, owner: Owner, rules: Rules, memory: Memory = NO_MEMORY) -> Target:
    """The policy and its number, without what is owed (B18)."""
    return resolved(owner, cluster.namespace(owner.namespace), rules, memory.policy)


def workload_of(cluster: Cluster, owner: Owner, rules: Rules, memory: Memory = NO_MEMORY) -> Workload:
    """The workload as it is to be now: what is owed is not asked for until there is room."""
    target = target_of(cluster, owner, rules, memory)
    return Workload(owner, max(0, target.on_demand - memory.debt), cluster.pods.get(owner.uid, ()))
