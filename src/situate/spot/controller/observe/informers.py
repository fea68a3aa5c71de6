"""Watches of spot: pods, their controllers, nodes, namespaces, and Events about nodes and refused pods.

Rules: P21, P22.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from situate.kube.client import Client
from situate.kube.watch.reflector import Reflector
from situate.kube.watch.reflectors import first_problem, relist_all, wait_all_synced
from situate.kube.watch.store import Store
from situate.objects.kinds.config_maps import Namespace
from situate.objects.kinds.events import CoreEvent
from situate.objects.kinds.meta import KubernetesObject
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.resources import CORE_EVENTS, NAMESPACES, NODES, PODS, ResourceType
from situate.spot.controller.observe.trimmed_objects import (
    DEPLOYMENTS,
    REPLICASETS,
    STATEFULSETS,
    WORKLOADS,
    SlimReplicaSet,
    WorkloadObject,
)
from situate.spot.workloads.owners import DEFAULT_KINDS

T = TypeVar("T", bound=KubernetesObject)

FAILED_CREATE_EVENTS: Final = "involvedObject.kind=ReplicaSet,reason=FailedCreate"
"""Field selector of Events about pods that were not created (P21)."""
NODE_EVENTS: Final = "involvedObject.kind=Node"
"""Field selector of Events about nodes, which include signals of the table."""


@dataclass(frozen=True, slots=True)
class Informers:
    """Reflectors and their stores. They follow the API server in every replica."""

    pods: Reflector[Pod]
    replica_sets: Reflector[SlimReplicaSet]
    deployments: Reflector[WorkloadObject]
    stateful_sets: Reflector[WorkloadObject]
    nodes: Reflector[Node]
    namespaces: Reflector[Namespace]
    refusals: Reflector[CoreEvent]
    node_events: Reflector[CoreEvent]
    optional_kinds: Mapping[str, Reflector[WorkloadObject]]
    """Kinds of workloads that not every cluster serves; an unserved kind has no objects."""

    @classmethod
    def create(cls, client: Client, rng: random.Random, kinds: Sequence[str] = DEFAULT_KINDS) -> Informers:
        """Create the reflectors. `kinds`: of workloads that take part."""

        def reflector(resource: ResourceType[T], fields: str = "") -> Reflector[T]:
            store: Store[T] = Store(resource.group_resource)
            return Reflector(client, resource, store, rng=rng, field_selector=fields)

        return cls(
            reflector(PODS),
            reflector(REPLICASETS),
            reflector(DEPLOYMENTS),
            reflector(STATEFULSETS),
            reflector(NODES),
            reflector(NAMESPACES),
            reflector(CORE_EVENTS, FAILED_CREATE_EVENTS),
            reflector(CORE_EVENTS, NODE_EVENTS),
            {kind: reflector(WORKLOADS[kind]) for kind in kinds if kind not in DEFAULT_KINDS},
        )

    @property
    def workloads(self) -> Mapping[str, Reflector[WorkloadObject]]:
        """Return the reflectors of workloads by kind."""
        return {"Deployment": self.deployments, "StatefulSet": self.stateful_sets, **self.optional_kinds}

    def reflectors(self) -> Iterator[Reflector[Any]]:
        yield from self._required_reflectors()
        yield from self.optional_kinds.values()

    def _required_reflectors(self) -> Iterator[Reflector[Any]]:
        yield self.pods
        yield self.replica_sets
        yield self.deployments
        yield self.stateful_sets
        yield self.nodes
        yield self.namespaces
        yield self.refusals
        yield self.node_events

    def _served_reflectors(self) -> Iterator[Reflector[Any]]:
        yield from self._required_reflectors()
        yield from (each for each in self.optional_kinds.values() if not each.not_served.is_set())

    def unserved_kinds(self) -> list[str]:
        """Return the kinds of workloads that this cluster does not serve, by their resource."""
        return [each.scope.resource.group_resource for each in self.optional_kinds.values() if each.not_served.is_set()]

    async def wait_synced(self) -> None:
        await wait_all_synced(self._required_reflectors(), self.optional_kinds.values())

    async def relist(self) -> None:
        """Compare the objects that counts depend on with fresh lists. Raises the client's errors."""
        served = (each for each in self.workloads.values() if not each.not_served.is_set())
        await relist_all((self.pods, self.replica_sets, *served))

    def not_ready(self) -> str | None:
        """Return why no pod can be classified yet; None once every store is synced."""
        return first_problem(self._served_reflectors())
