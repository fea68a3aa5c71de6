"""What spot watches: pods, what controls them, nodes, namespaces, and Events of pods that could not be created."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from situate.kube.client import Client
from situate.kube.reflector import Reflector
from situate.kube.store import Store
from situate.objects.configuration import Namespace
from situate.objects.events import CoreEvent
from situate.objects.meta import KubernetesObject
from situate.objects.nodes import Node
from situate.objects.pods import Pod
from situate.objects.resources import CORE_EVENTS, NAMESPACES, NODES, PODS, ResourceType
from situate.spot.controller.slim import DEPLOYMENTS, REPLICASETS, STATEFULSETS, SlimReplicaSet, Workload

T = TypeVar("T", bound=KubernetesObject)

REFUSED = "involvedObject.kind=ReplicaSet,reason=FailedCreate"
"""Field selector of the Events that tell of pods that were not created (P21)."""


@dataclass(frozen=True, slots=True)
class Watched:
    """Reflectors and their stores. They follow the server whether or not this process leads."""

    pods: Reflector[Pod]
    replica_sets: Reflector[SlimReplicaSet]
    deployments: Reflector[Workload]
    stateful_sets: Reflector[Workload]
    nodes: Reflector[Node]
    namespaces: Reflector[Namespace]
    refusals: Reflector[CoreEvent]

    @classmethod
    def of(cls, client: Client, rng: random.Random) -> Watched:
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
            reflector(CORE_EVENTS, REFUSED),
        )

    def reflectors(self) -> Iterator[Reflector[Any]]:
        yield self.pods
        yield self.replica_sets
        yield self.deployments
        yield self.stateful_sets
        yield self.nodes
        yield self.namespaces
        yield self.refusals

    async def wait_synced(self) -> None:
        for reflector in self.reflectors():
            await reflector.store.wait_synced()

    async def relist(self) -> None:
        """Compares what counts are made of with fresh listings (P22). Raises what the client raises."""
        await asyncio.gather(
            self.pods.relist(), self.replica_sets.relist(), self.deployments.relist(), self.stateful_sets.relist()
        )

    def not_ready(self) -> str | None:
        """Why no pod can be classed yet; None once everything was seen."""
        for reflector in self.reflectors():
            problem = reflector.not_ready()
            if problem is not None:
                return problem
        return None
