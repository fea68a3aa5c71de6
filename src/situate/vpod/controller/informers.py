"""The watches of one StatefulSet's scheduler: the set, its Pods, nodes, sources, their workers and the policies."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from situate.kube.client import Client
from situate.kube.watch.reflector import Reflector
from situate.kube.watch.reflectors import first_problem, relist_all, wait_all_synced
from situate.kube.watch.store import Store
from situate.objects.kinds.config_maps import ConfigMap
from situate.objects.kinds.meta import KubernetesObject
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.kinds.workloads import StatefulSet
from situate.objects.resources import CONFIGMAPS, NODES, PODS, STATEFULSETS, ResourceType, unstructured
from situate.vpod.config.settings import SourceSettings, StatefulSetSettings
from situate.vpod.sources.crds import INTERNAL_GROUP

T = TypeVar("T", bound=KubernetesObject)

CONSUMERS = unstructured(INTERNAL_GROUP, "v1alpha1", "Consumer", "consumers")
BY_OWNER = "owner"
"""Index of workers by namespace and name of the ConsumerGroup that controls them."""


@dataclass(frozen=True, slots=True)
class SourceInformer:
    """One kind of vpods, with its watch."""

    settings: SourceSettings
    resource: ResourceType[Unstructured]
    reflector: Reflector[Unstructured]
    prefix: str
    """Prefix of the name in a vpod's key, so that two kinds may use the same name; empty for the first kind."""


@dataclass(frozen=True, slots=True)
class Informers:
    """Reflectors and their stores. They follow the server whether or not this process leads."""

    statefulset: Reflector[StatefulSet]
    pods: Reflector[Pod]
    nodes: Reflector[Node]
    sources: tuple[SourceInformer, ...]
    workers: Reflector[Unstructured] | None
    """None if no source has workers."""
    policies: Reflector[ConfigMap] | None = field(default=None)
    """None unless a policy is configured by ConfigMaps."""

    @classmethod
    def create(cls, settings: StatefulSetSettings, client: Client, rng: random.Random) -> Informers:
        namespace = settings.stateful_set_namespace

        def reflector(
            resource: ResourceType[T], namespace: str | None, labels: str = "", fields: str = ""
        ) -> Reflector[T]:
            store: Store[T] = Store(resource.group_resource)
            return Reflector(
                client, resource, store, rng=rng, namespace=namespace, label_selector=labels, field_selector=fields
            )

        sources = []
        for number, source in enumerate(settings.completed_sources()):
            resource = unstructured(source.group, source.version, source.kind, source.resource)
            watch = reflector(resource, source.namespace, source.label_selector)
            sources.append(SourceInformer(source, resource, watch, f"{source.resource}/" if number else ""))
        workers = None
        with_workers = [source.settings for source in sources if has_workers(source.settings)]
        if with_workers:
            namespaces = {source.namespace for source in with_workers}
            workers = reflector(CONSUMERS, namespaces.pop() if len(namespaces) == 1 else None)
            workers.store.add_index(BY_OWNER, _consumer_group_keys)
        policies = reflector(CONFIGMAPS, namespace) if settings.policy == "policy" else None
        by_name = f"metadata.name={settings.stateful_set_name}"
        return cls(
            reflector(STATEFULSETS, namespace, fields=by_name),
            reflector(PODS, namespace),
            reflector(NODES, None),
            tuple(sources),
            workers,
            policies,
        )

    def reflectors(self) -> Iterator[Reflector[Any]]:
        yield self.statefulset
        yield self.pods
        yield self.nodes
        for source in self.sources:
            yield source.reflector
        if self.workers is not None:
            yield self.workers
        if self.policies is not None:
            yield self.policies

    async def wait_synced(self) -> None:
        await wait_all_synced(self.reflectors())

    async def relist(self) -> None:
        """Compare every store with a fresh listing and repair it. Raises the client's errors."""
        await relist_all(self.reflectors())

    def not_ready(self) -> str | None:
        """Return the reason why placements cannot be decided yet, or None if all stores are synced."""
        return first_problem(self.reflectors())


def has_workers(source: SourceSettings) -> bool:
    return source.kind == "ConsumerGroup" and source.workers


def _consumer_group_keys(worker: Unstructured) -> Iterator[tuple[str, str]]:
    owner = worker.metadata.controller
    if owner is not None and owner.kind == "ConsumerGroup":
        yield worker.metadata.namespace, owner.name
