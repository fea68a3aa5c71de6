"""What the scheduler watches: pods that have not ended, nodes, and what plugins read besides."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from situate.framework.catalog_keeper import CATALOGED
from situate.kube.client import Client
from situate.kube.reflector import Reflector
from situate.kube.store import Store
from situate.objects.meta import KubernetesObject
from situate.objects.nodes import Node
from situate.objects.pods import Pod
from situate.objects.resources import NODES, PODS, ResourceType

T = TypeVar("T", bound=KubernetesObject)

NOT_ENDED: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""Pods that hold room or wait for it; one that ends leaves the watch as if it were deleted."""


@dataclass(frozen=True, slots=True)
class Stores:
    """What is known of the cluster, whoever keeps it so: watches, or a reader of dumps and recordings."""

    pods: Store[Pod]
    nodes: Store[Node]
    others: Mapping[ResourceType[Any], Store[Any]]

    @classmethod
    def empty(cls) -> Stores:
        others: dict[ResourceType[Any], Store[Any]] = {each: Store(each.group_resource) for each in CATALOGED}
        return cls(Store(PODS.group_resource), Store(NODES.group_resource), others)

    def of(self, resource: ResourceType[Any]) -> Store[Any] | None:
        """None if the scheduler does not look at the resource."""
        stores: dict[ResourceType[Any], Store[Any]] = {PODS: self.pods, NODES: self.nodes, **self.others}
        return stores.get(resource)


@dataclass(frozen=True, slots=True)
class Watched:
    """Reflectors and their stores. They follow the server whether or not this process leads."""

    pods: Reflector[Pod]
    nodes: Reflector[Node]
    others: Mapping[ResourceType[Any], Reflector[Any]]

    @classmethod
    def of(cls, client: Client, rng: random.Random) -> Watched:
        def reflector(resource: ResourceType[T], fields: str = "") -> Reflector[T]:
            store: Store[T] = Store(resource.group_resource)
            return Reflector(client, resource, store, rng=rng, field_selector=fields)

        return cls(reflector(PODS, NOT_ENDED), reflector(NODES), {each: reflector(each) for each in CATALOGED})

    @property
    def stores(self) -> Stores:
        return Stores(self.pods.store, self.nodes.store, {each: found.store for each, found in self.others.items()})

    def reflectors(self) -> Iterator[Reflector[Any]]:
        yield self.nodes
        yield self.pods
        yield from self.others.values()

    @property
    def synced(self) -> bool:
        return all(reflector.store.synced for reflector in self.reflectors())

    async def wait_synced(self) -> None:
        for reflector in self.reflectors():
            await reflector.store.wait_synced()

    async def relist(self) -> None:
        """Compares every store with fresh listings and repairs it. Raises what the client raises."""
        await asyncio.gather(*(reflector.relist() for reflector in self.reflectors()))

    def not_ready(self) -> str | None:
        """Why pods cannot be placed yet; None once everything was seen."""
        problems = (reflector.not_ready() for reflector in self.reflectors())
        return next((problem for problem in problems if problem is not None), None)
