"""Live read of a workload, its namespace, its pods and their nodes, right before a pod is moved.

The result uses the watches only for the owners of ReplicaSets and the capacity of named nodes. A pod of a ReplicaSet
that the watch does not show yet does not count. Then pods are missing, and the move is not allowed. A workload that
cannot be read is not moved.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from situate.kube.client import Client
from situate.kube.errors import NotFound
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.kinds.selectors import LabelSelector
from situate.objects.resources import NAMESPACES, NODES, PODS
from situate.spot.controller.observe.trimmed_objects import WORKLOADS, to_plain_json
from situate.spot.model.misplaced_pods import Workload
from situate.spot.model.pods_nodes_workloads import NodeFacts, Owner, PodFacts
from situate.spot.nodes.node_signals import Signal
from situate.spot.workloads.cluster_objects import Cluster, WorkloadMemory, workload_of
from situate.spot.workloads.on_demand_target import Namespace, TargetRules, participation
from situate.spot.workloads.owners import KINDS, owner_facts, pod_facts

_AT_ONCE: Final = 8
"""Nodes read in parallel."""


@dataclass(frozen=True, slots=True)
class RecheckedWorkload:
    """A workload as read from the API server."""

    workload: Workload
    nodes: dict[str, NodeFacts]
    """The nodes of its pods."""
    participates: bool


class LiveRecheck:
    """Live reads from the API server."""

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        table: Callable[[], Sequence[Signal]],
        node_facts: Callable[[Node], NodeFacts],
    ) -> None:
        """`cluster`: as the watches show it; `node_facts`: reads the current facts of a node."""
        self._client = client
        self._cluster = cluster
        self._table = table
        self._node_facts = node_facts

    async def read_pod(self, namespace: str, name: str) -> Pod | None:
        """Read the pod; None if no pod has the name."""
        try:
            return await self._client.get(PODS, name, namespace)
        except NotFound:
            return None

    async def read_workload(self, owner: Owner, rules: TargetRules, memory: WorkloadMemory) -> RecheckedWorkload | None:
        """Read the workload and compute its target; None if it is gone. Raises the client's errors.

        The workload is read again after its pods. If it changed meanwhile, its controller has not observed the change
        yet, or pods are missing: both forbid a move.
        """
        resource = WORKLOADS[owner.kind]
        try:
            before = await self._client.get(resource, owner.name, owner.namespace)
            pods = await self._read_pods(owner, before.spec.selector)
            nodes = await self._read_nodes({pod.node for pod in pods if pod.node})
            said = (await self._client.get(NAMESPACES, owner.namespace)).metadata
            found = await self._client.get(resource, owner.name, owner.namespace)
        except NotFound:
            return None
        if found.metadata.uid != owner.uid:
            return None
        sets = [
            each
            for each in self._cluster.replica_sets.values()
            if each.controller is not None and each.controller.uid == owner.uid
        ]
        now = owner_facts(to_plain_json(found), KINDS[owner.kind], self._table(), sets, self._cluster.nodes)
        namespace = Namespace(owner.namespace, said.labels, said.annotations)
        cluster = Cluster(pods={owner.uid: pods}, namespaces={owner.namespace: namespace})
        return RecheckedWorkload(
            workload_of(cluster, now, rules, memory), nodes, participation(now, namespace, rules).enabled
        )

    async def _read_nodes(self, names: Iterable[str]) -> dict[str, NodeFacts]:
        """Read the nodes; missing nodes are left out."""
        lane = asyncio.Semaphore(_AT_ONCE)

        async def read(name: str) -> NodeFacts | None:
            async with lane:
                try:
                    return self._node_facts(await self._client.get(NODES, name))
                except NotFound:
                    return None

        found = await asyncio.gather(*(read(name) for name in sorted(names)))
        return {facts.name: facts for facts in found if facts is not None}

    async def _read_pods(self, owner: Owner, selector: LabelSelector) -> tuple[PodFacts, ...]:
        """List by the workload's selector; the uids of controllers decide which pods belong to it."""
        labels = ",".join(f"{key}={value}" for key, value in sorted(selector.match_labels.items()))
        page = await self._client.list_all(PODS, owner.namespace, label_selector=labels)
        return tuple(self._pods_of_owner(owner, map(pod_facts, page.items)))

    def _pods_of_owner(self, owner: Owner, pods: Iterator[PodFacts]) -> Iterator[PodFacts]:
        for pod in pods:
            if pod.former_owner == owner.uid:
                yield pod
                continue
            chain = self._cluster.owner_of(pod.controller)
            if pod.controller == owner.uid or (chain is not None and chain.uid == owner.uid):
                yield pod
