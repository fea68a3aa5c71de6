"""Empty deleted namespaces and finalize them; create the service account `default` in living ones.

Upstream: pkg/controller/namespace and pkg/controller/serviceaccount.
"""

from __future__ import annotations

from collections.abc import Iterator

from situate.cluster.controllers.machinery.actions import (
    NO_WRITES,
    Action,
    Create,
    Delete,
    Finalize,
    ReconcileResult,
    concurrent_writes,
    sequential_writes,
)
from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.controllers import Controller, ControllerContext
from situate.cluster.controllers.machinery.tables import NAMESPACES, SERVICE_ACCOUNTS, Key

_BATCH_SIZE = 500
"""Largest number of objects deleted in one reconcile."""
_RETRY_S = 5.0
"""Seconds until the next check of contents that are being deleted, if no change comes before."""


class NamespaceController(Controller):
    """Controller of terminating namespaces, which are its keys."""

    name = "namespace"
    user = "system:serviceaccount:kube-system:namespace-controller"
    manager = "namespace-controller"
    watches = None

    def __init__(self, cluster: ControllerContext) -> None:
        self._cluster = cluster
        self._terminating: set[str] = set()

    def observe(self, change: Change, now: float) -> Iterator[Key]:  # noqa: ARG002  # the protocol's
        if change.resource == NAMESPACES:
            name = change.last.name
            if change.new is None:
                self._terminating.discard(name)
            elif change.new.deleting:
                self._terminating.add(name)
                yield "", name
        elif change.new is None and change.last.namespace in self._terminating:
            yield "", change.last.namespace

    def reconcile(self, key: Key, now: float) -> ReconcileResult:
        namespace = self._cluster.get(NAMESPACES, *key)
        if namespace is None or "deletionTimestamp" not in namespace["metadata"]:
            return NO_WRITES
        remaining = False
        actions: list[Action] = []
        for resource in self._cluster.catalog.stored_resources():
            if not resource.namespaced:
                continue
            for stored in self._cluster.store.table(resource.table).sorted_objects(key[1]):
                remaining = True
                if not stored.deleting and len(actions) < _BATCH_SIZE:
                    actions.append(Delete(resource.table, key[1], stored.name, stored.uid, propagation="Background"))
        if remaining:
            return concurrent_writes(actions, now + _RETRY_S)
        spec = namespace.get("spec") or {}
        kept = [entry for entry in spec.get("finalizers") or () if entry != "kubernetes"]
        return sequential_writes([Finalize({**namespace, "spec": {**spec, "finalizers": kept}})])


class ServiceAccountController(Controller):
    """Controller of the service account `default`. Keys are namespaces."""

    name = "serviceaccount"
    user = "system:serviceaccount:kube-system:service-account-controller"
    manager = "service-account-controller"
    watches = frozenset({NAMESPACES, SERVICE_ACCOUNTS})

    def __init__(self, cluster: ControllerContext) -> None:
        self._cluster = cluster

    def observe(self, change: Change, now: float) -> Iterator[Key]:  # noqa: ARG002  # the protocol's
        if change.resource == NAMESPACES and change.new is not None:
            yield "", change.last.name
        elif change.resource == SERVICE_ACCOUNTS and change.new is None and change.last.name == "default":
            yield "", change.last.namespace

    def reconcile(self, key: Key, now: float) -> ReconcileResult:  # noqa: ARG002  # the protocol's
        namespace = self._cluster.store.get(NAMESPACES, *key)
        if namespace is None or namespace.deleting:
            return NO_WRITES
        if self._cluster.store.get(SERVICE_ACCOUNTS, key[1], "default") is not None:
            return NO_WRITES
        metadata = {"name": "default", "namespace": key[1]}
        return sequential_writes(
            [Create(SERVICE_ACCOUNTS, key[1], {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})]
        )
