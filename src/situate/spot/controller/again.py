"""Reads a workload and all of its pods from the server itself, right before a pod of it is moved (3.7).

Pods are listed by the workload's selector, and whose they are, their controllers' uids say. A workload that cannot be
read is not moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from situate.kube.client import Client
from situate.kube.errors import NotFound
from situate.objects.pods import Pod
from situate.objects.resources import PODS
from situate.objects.selectors import LabelSelector
from situate.spot.controller.slim import WORKLOADS, plain
from situate.spot.evictions import Workload
from situate.spot.model import Owner, PodFacts
from situate.spot.observed import Cluster
from situate.spot.owners import KINDS, owner_facts, pod_facts
from situate.spot.signals import Signal


class Again:
    """A second look, at the server."""

    def __init__(self, client: Client, cluster: Cluster, table: Callable[[], Sequence[Signal]]) -> None:
        self._client = client
        self._cluster = cluster
        self._table = table

    async def pod(self, namespace: str, name: str) -> Pod | None:
        """None if there is none of the name."""
        try:
            return await self._client.get(PODS, name, namespace)
        except NotFound:
            return None

    async def workload(self, owner: Owner, target: int) -> Workload | None:
        """As it is; None if it is gone. Raises what the client raises.

        The workload is read after its pods: one that has changed meanwhile is newer than they are, and then its
        controller has not seen it yet, or pods are missing, which forbids a move either way.
        """
        resource = WORKLOADS[owner.kind]
        try:
            before = await self._client.get(resource, owner.name, owner.namespace)
            pods = await self._pods(owner, before.spec.selector)
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
        return Workload(owner_facts(plain(found), KINDS[owner.kind], self._table(), sets), target, pods)

    async def _pods(self, owner: Owner, selector: LabelSelector) -> tuple[PodFacts, ...]:
        labels = ",".join(f"{key}={value}" for key, value in sorted(selector.match_labels.items()))
        page = await self._client.list_all(PODS, owner.namespace, label_selector=labels)
        return tuple(self._of(owner, map(pod_facts, page.items)))

    def _of(self, owner: Owner, pods: Iterator[PodFacts]) -> Iterator[PodFacts]:
        for pod in pods:
            if pod.former_owner == owner.uid:
                yield pod
                continue
            chain = self._cluster.owner_of(pod.controller)
            if pod.controller == owner.uid or (chain is not None and chain.uid == owner.uid):
                yield pod
