"""Cache of settled workloads, which need no action until an input of theirs changes.

In a large cluster nearly all workloads are settled most of the time. Inputs are compared by identity where values are
shared, as those of watches are, so a check is cheap. Where values are created each time, the cache has no effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from situate.spot.model.counts import Nodes
from situate.spot.model.misplaced_pods import Workload
from situate.spot.model.pods_nodes_workloads import NodeFacts, NodeState, Owner, PodFacts
from situate.spot.workloads.cluster_objects import WorkloadMemory
from situate.spot.workloads.on_demand_target import Namespace

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class SettledWorkload(Generic[R]):
    """Inputs with which a workload was settled, and its report."""

    owner: Owner
    pods: Sequence[PodFacts]
    namespace: Namespace
    memory: WorkloadMemory | None
    """None: there was no memory of it."""
    nodes: frozenset[str]
    """Names of the nodes of its pods."""
    report: R


@dataclass(frozen=True, slots=True)
class SettledCache(Generic[R]):
    """Settled workloads of one decision."""

    basis: Any = None
    """Inputs shared by all workloads; a different basis voids all entries."""
    nodes: Mapping[str, NodeFacts] = field(default_factory=dict)
    """Nodes at the time of the decision."""
    workloads: Mapping[str, SettledWorkload[R]] = field(default_factory=dict)
    """By uid."""

    def changed_nodes(self, nodes: Nodes) -> frozenset[str]:
        """Return the names of nodes that are new, gone or different."""
        before = self.nodes
        different = {
            name
            for name, facts in nodes.items()
            if (known := before.get(name)) is not facts and known != facts  # identity first: it is the usual case
        }
        return frozenset(different.union(before.keys() - nodes.keys()))


NOTHING_SETTLED: Final[SettledCache[Any]] = SettledCache()


def is_still_settled(
    known: SettledWorkload[R],
    owner: Owner,
    pods: Sequence[PodFacts],
    namespace: Namespace,
    memory: WorkloadMemory | None,
    changed: frozenset[str],
) -> bool:
    """Return whether all inputs of the workload are unchanged."""
    return (
        known.owner is owner
        and known.pods is pods
        and (known.namespace is namespace or known.namespace == namespace)
        and (known.memory is memory or known.memory == memory)
        and known.nodes.isdisjoint(changed)
    )


def nodes_if_timeless(workload: Workload, nodes: Nodes, memory: WorkloadMemory | None) -> frozenset[str] | None:
    """Return the nodes of its pods if time alone changes nothing about the workload; None if it may.

    Time matters for waiting pods, released pods, nodes that end or may end, rollouts and moves in progress.
    """
    owner, pods = workload.owner, workload.pods
    if not isinstance(pods, tuple) or owner.rolling:
        return None  # a list may change later
    if memory is not None and (memory.moved or memory.debt or memory.surge_revision):
        return None
    names = frozenset(pod.node for pod in pods if not pod.finished)
    if "" in names or any(pod.released or (pod.live and pod.revision != owner.revision) for pod in pods):
        return None
    known = (nodes.get(name) for name in names)
    if any(node is not None and node.state >= NodeState.AT_RISK for node in known):
        return None
    return names
