"""The scheduler's watches: pods that have not ended, nodes, and further resources that plugins read."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from situate.framework.plugin_api.catalog_keeper import CATALOG_RESOURCES
from situate.kube.client import Client
from situate.kube.watch.reflector import Reflector
from situate.kube.watch.reflectors import first_problem, relist_all, wait_all_synced
from situate.kube.watch.store import Store
from situate.objects.kinds.meta import KubernetesObject
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.resources import NODES, PODS, ResourceType

T = TypeVar("T", bound=KubernetesObject)

NOT_ENDED: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""Pods that use or need capacity; a pod that ends leaves the watch as if it were deleted."""


@dataclass(frozen=True, slots=True)
class Stores:
    """The known objects of a cluster, filled by watches or by a reader of dumps and recordings."""

    pods: Store[Pod]
    nodes: Store[Node]
    others: Mapping[ResourceType[Any], Store[Any]]

    @classmethod
    def create_empty(cls) -> Stores:
        others: dict[ResourceType[Any], Store[Any]] = {each: Store(each.group_resource) for each in CATALOG_RESOURCES}
        return cls(Store(PODS.group_resource), Store(NODES.group_resource), others)

    def store_of(self, resource: ResourceType[Any]) -> Store[Any] | None:
        """Return the store of a resource; None if the scheduler does not read the resource."""
        stores: dict[ResourceType[Any], Store[Any]] = {PODS: self.pods, NODES: self.nodes, **self.others}
        return stores.get(resource)


@dataclass(frozen=True, slots=True)
class Informers:
    """Reflectors and their stores. They follow the server whether or not this process leads."""

    pods: Reflector[Pod]
    nodes: Reflector[Node]
    others: Mapping[ResourceType[Any], Reflector[Any]]
    further: Sequence[Reflector[Any]] = ()
    """Watches of a product that is part of the scheduler; a resource that is not served has an empty store."""

    @classmethod
    def create(
        cls, client: Client, rng: random.Random, pods: str = NOT_ENDED, further: Sequence[ResourceType[Any]] = ()
    ) -> Informers:
        """Create the reflectors. `pods` is a field selector; the scheduler itself needs no pods that have ended."""

        def reflector(resource: ResourceType[T], fields: str = "") -> Reflector[T]:
            store: Store[T] = Store(resource.group_resource)
            return Reflector(client, resource, store, rng=rng, field_selector=fields)

        others = {each: reflector(each) for each in CATALOG_RESOURCES}
        return cls(reflector(PODS, pods), reflector(NODES), others, tuple(map(reflector, further)))

    @property
    def stores(self) -> Stores:
        return Stores(self.pods.store, self.nodes.store, {each: found.store for each, found in self.others.items()})

    def reflectors(self) -> Iterator[Reflector[Any]]:
        yield self.nodes
        yield self.pods
        yield from self.others.values()
        yield from self.further

    def unserved_resources(self) -> list[str]:
        """Return the resources of `further` that the cluster does not serve."""
        return [each.scope.resource.group_resource for each in self.further if each.not_served.is_set()]

    def _served_reflectors(self) -> Iterator[Reflector[Any]]:
        return (each for each in self.reflectors() if each not in self.further or not each.not_served.is_set())

    @property
    def synced(self) -> bool:
        return all(reflector.store.synced for reflector in self._served_reflectors())

    async def wait_synced(self) -> None:
        await wait_all_synced((self.nodes, self.pods, *self.others.values()), self.further)

    async def relist(self) -> None:
        """Compare every store with fresh listings and repair it. Raises the client's errors."""
        await relist_all(self._served_reflectors())

    def not_ready(self) -> str | None:
        """Return why pods cannot be placed yet; None once everything was listed."""
        return first_problem(self._served_reflectors())
