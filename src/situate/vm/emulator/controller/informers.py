"""Watches of the emulator: VMs, their migrations, and runner Pods, each with all fields."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, Final

from situate.kube.client import Client
from situate.kube.watch.reflector import Reflector
from situate.kube.watch.reflectors import first_problem, wait_all_synced
from situate.kube.watch.store import Store
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import ResourceType, unstructured
from situate.vm.api.well_known import NAME_LABEL
from situate.vm.backends.neonvm import MACHINES, MIGRATIONS
from situate.vm.emulator import Key, Kind, affected_keys
from situate.vm.emulator.decision import Obj

RESOURCES: Final[dict[Kind, ResourceType[Unstructured]]] = {
    Kind.MACHINE: MACHINES,
    Kind.MIGRATION: MIGRATIONS,
    Kind.POD: unstructured("", "v1", "Pod", Kind.POD.value),
}
_MACHINE_INDEX: Final = "machine"
"""Index of migrations and Pods: namespace and name of their VM."""


class EmulatorInformers:
    """Reflectors and their stores, as `Objects`. They follow the server whether or not this process leads."""

    def __init__(self, client: Client, rng: random.Random, namespace: str | None) -> None:
        self.reflectors: dict[Kind, Reflector[Unstructured]] = {}
        for kind, resource in RESOURCES.items():
            store: Store[Unstructured] = Store(resource.group_resource)
            # all Pods: one without its label would seem to be gone, and a second one would be created
            self.reflectors[kind] = Reflector(client, resource, store, rng=rng, namespace=namespace)
        self.reflectors[Kind.MIGRATION].store.add_index(_MACHINE_INDEX, _machine_of_migration)
        self.reflectors[Kind.POD].store.add_index(_MACHINE_INDEX, _machine_of_pod)

    def get(self, kind: Kind, namespace: str, name: str) -> Obj | None:
        found = self.reflectors[kind].store.get(name, namespace)
        return None if found is None else found.content

    def migrations_of(self, namespace: str, machine: str) -> Iterator[Obj]:
        return self._objects_of(Kind.MIGRATION, namespace, machine)

    def pods_of(self, namespace: str, machine: str) -> Iterator[Obj]:
        return self._objects_of(Kind.POD, namespace, machine)

    def all_keys(self) -> Iterator[Key]:
        """Yield the keys of all VMs and migrations."""
        for kind in (Kind.MACHINE, Kind.MIGRATION):
            for each in self.reflectors[kind].store.list():
                yield Key(kind, each.metadata.namespace, each.metadata.name)

    def on_change(self, tell: Callable[[Key], None]) -> None:
        """Call `tell` with every key whose reconciliation may change, from now on."""
        for kind, reflector in self.reflectors.items():
            reflector.store.on_change(self._handler(kind, tell))

    async def wait_synced(self) -> None:
        await wait_all_synced(self.reflectors.values())

    async def relist(self) -> None:
        """List everything again. Raises the client's errors.

        Pods come first: the state of a VM must not be older than that of its Pods. Otherwise the Pod that the VM has
        moved to would count as a stray.
        """
        for kind in (Kind.POD, Kind.MIGRATION, Kind.MACHINE):
            await self.reflectors[kind].relist()

    def not_ready(self) -> str | None:
        return first_problem(self.reflectors.values())

    def _objects_of(self, kind: Kind, namespace: str, machine: str) -> Iterator[Obj]:
        for each in self.reflectors[kind].store.by_index(_MACHINE_INDEX, (namespace, machine)):
            yield each.content

    def _handler(
        self, kind: Kind, tell: Callable[[Key], None]
    ) -> Callable[[Unstructured | None, Unstructured | None], None]:
        def changed(old: Unstructured | None, new: Unstructured | None) -> None:
            for each in (new, old):
                if each is not None and (each is new or new is None or each.metadata.labels != new.metadata.labels):
                    for key in affected_keys(self, kind, each.content):
                        tell(key)

        return changed


def _machine_of_migration(migration: Unstructured) -> tuple[tuple[str, str], ...]:
    spec: Any = migration.content.get("spec") or {}
    return ((migration.metadata.namespace, str(spec.get("vmName") or "")),)


def _machine_of_pod(pod: Unstructured) -> tuple[tuple[str, str], ...]:
    return ((pod.metadata.namespace, pod.metadata.labels.get(NAME_LABEL, "")),)
