"""Workloads about which nothing is to be done until something of theirs changes: they are looked at once.

In a large cluster nearly all are like that nearly always. What a workload was settled on is compared by identity where
values are shared, as those of watches are, so that a look costs next to nothing; where they are made anew each time,
nothing is saved and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from situate.spot.model.counts import Nodes
from situate.spot.model.misplaced import Workload
from situate.spot.model.pods_nodes_workloads import NodeFacts, NodeState, Owner, PodFacts
from situate.spot.workloads.cluster_view import Memory
from situate.spot.workloads.on_demand_target import Namespace

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Settled(Generic[R]):
    """What one workload was settled on, and what was told of it."""

    owner: Owner
    pods: Sequence[PodFacts]
    namespace: Namespace
    memory: Memory | None
    """None: nothing was remembered of it."""
    nodes: frozenset[str]
    """Names of those that its pods are on."""
    report: R


@dataclass(frozen=True, slots=True)
class AllSettled(Generic[R]):
    """Of one decision."""

    basis: Any = None
    """What all of it rests on; with another one nothing holds."""
    nodes: Mapping[str, NodeFacts] = field(default_factory=dict)
    """As they were."""
    workloads: Mapping[str, Settled[R]] = field(default_factory=dict)
    """By uid."""

    def changed(self, nodes: Nodes) -> frozenset[str]:
        """Names of nodes that are new, gone or different."""
        before = self.nodes
        different = {
            name
            for name, facts in nodes.items()
            if (known := before.get(name)) is not facts and known != facts  # identity first: it is nearly always so
        }
        return frozenset(different.union(before.keys() - nodes.keys()))


NOTHING_SETTLED: Final[AllSettled[Any]] = AllSettled()


def holds(
    known: Settled[R],
    owner: Owner,
    pods: Sequence[PodFacts],
    namespace: Namespace,
    memory: Memory | None,
    changed: frozenset[str],
) -> bool:
    """Whether nothing of the workload is different."""
    return (
        known.owner is owner
        and known.pods is pods
        and (known.namespace is namespace or known.namespace == namespace)
        and (known.memory is memory or known.memory == memory)
        and known.nodes.isdisjoint(changed)
    )


def nodes_if_timeless(workload: Workload, nodes: Nodes, memory: Memory | None) -> frozenset[str] | None:
    """The nodes of its pods if time alone changes nothing about the workload; None if it may.

    Pods that wait for a node, released ones, nodes that end or may end, rollouts and whatever we have under way have
    their times.
    """
    owner, pods = workload.owner, workload.pods
    if not isinstance(pods, tuple) or owner.rolling:
        return None  # a list may change under our eyes
    if memory is not None and (memory.moved or memory.debt or memory.surge_revision):
        return None
    names = frozenset(pod.node for pod in pods if not pod.finished)
    if "" in names or any(pod.released or (pod.live and pod.revision != owner.revision) for pod in pods):
        return None
    known = (nodes.get(name) for name in names)
    if any(node is not None and node.state >= NodeState.AT_RISK for node in known):
        return None
    return names
