"""Define the watches of a supervisor and their stores."""

from __future__ import annotations

import random
from typing import Any, TypeAlias

from situate.kube.client import Client
from situate.kube.watch.reflector import Reflector
from situate.kube.watch.store import Store
from situate.objects.kinds.config_maps import ConfigMap
from situate.objects.kinds.leases import Lease
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.resources import CONFIGMAPS, LEASES, NODES, PODS
from situate.sharding.model.names import POOL
from situate.sharding.supervisor.controller.observe.objects_watch import ObjectsWatch
from situate.sharding.supervisor.controller.observe.trimmed_objects import TrimmedObjects
from situate.sharding.supervisor.scope import Scope

StoreUpdater: TypeAlias = Reflector[Any] | ObjectsWatch
"""A service that keeps a store current."""


class SupervisorStores:
    """The stores of a supervisor; the result of `reflectors` keeps them current."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        fixed = not scope.partition_table
        self.objects = TrimmedObjects(
            scope.resource.group_resource, scope.keyspace if fixed and not scope.keyspace.covers_everything else None
        )
        """All objects, also those of other partitions unless the server leaves them out."""
        self.leases: Store[Lease] = Store("leases of executors")
        self.pods: Store[Pod] = Store("pods of executors")
        self.nodes: Store[Node] = Store("nodes")
        self.own_lease: Store[Lease] = Store("lease of supervisors")
        self.table: Store[ConfigMap] = Store("table of partitions")

    def reflectors(self, client: Client, rng: random.Random) -> tuple[list[StoreUpdater], list[Reflector[Any]]]:
        """Return the reflectors that every decision needs, with that of the objects first; then the others."""
        scope = self._scope
        where, own = scope.executors.namespace, scope.lease_namespace
        pool, selector = f"{POOL}={scope.pool}", scope.executors.selector
        shard = "" if scope.partition_table else scope.keyspace.shard_selector or ""
        objects = Reflector(
            client, scope.resource, self.objects, rng=rng, namespace=scope.namespace, shard_selector=shard
        )
        needed: list[StoreUpdater] = [
            ObjectsWatch(objects) if scope.partition_table else objects,
            Reflector(client, LEASES, self.leases, rng=rng, namespace=where, label_selector=pool),
            Reflector(client, PODS, self.pods, rng=rng, namespace=where, label_selector=selector),
        ]
        if scope.partition_table:
            named = f"metadata.name={scope.partition_table}"
            needed.append(Reflector(client, CONFIGMAPS, self.table, rng=rng, namespace=own, field_selector=named))
        named = f"metadata.name={scope.lease.name}"
        return needed, [
            Reflector(client, NODES, self.nodes, rng=rng),
            Reflector(client, LEASES, self.own_lease, rng=rng, namespace=own, field_selector=named),
        ]
