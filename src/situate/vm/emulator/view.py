"""Views of a VM or a migration: the objects that decide about it, all of one moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from situate.vm.emulator import object_fields
from situate.vm.emulator.decision import Key, Kind, Obj


class Objects(Protocol):
    """The objects of a cluster, as last seen, including the emulator's own writes."""

    def get(self, kind: Kind, namespace: str, name: str) -> Obj | None: ...

    def migrations_of(self, namespace: str, machine: str) -> Iterable[Obj]:
        """Return the migrations with this `spec.vmName`."""
        ...

    def pods_of(self, namespace: str, machine: str) -> Iterable[Obj]:
        """Return the Pods with the VM's name in their label, with any owners."""
        ...


@dataclass(frozen=True, slots=True)
class MachineView:
    machine: Obj
    pod: Obj | None
    """The Pod named by its status, with any owners."""
    migrations: tuple[Obj, ...]
    """Its migrations that have not ended, oldest first."""
    strays: tuple[Obj, ...] = ()
    """Pods that only this VM owns although it runs in another Pod, and no migration of it owns them."""


@dataclass(frozen=True, slots=True)
class MigrationView:
    migration: Obj
    machine: Obj | None
    source: Obj | None
    target: Obj | None
    """Pods that its status names. Before the status names it, the source is the VM's Pod."""
    others: tuple[Obj, ...]
    """Further migrations of the VM that have not ended, oldest first."""


def machine_view(objects: Objects, key: Key) -> MachineView | None:
    """Collect the objects around a VM; None: there is no such VM."""
    machine = objects.get(Kind.MACHINE, key.namespace, key.name)
    if machine is None:
        return None
    pod = _pod(objects, key.namespace, object_fields.status(machine).get("podName"))
    strays = tuple(object_fields.age_order(_stray_pods(objects, machine)))
    return MachineView(machine, pod, _ongoing_migrations(objects, key.namespace, key.name), strays)


def migration_view(objects: Objects, key: Key) -> MigrationView | None:
    """Collect the objects around a migration; None: there is no such migration."""
    migration = objects.get(Kind.MIGRATION, key.namespace, key.name)
    if migration is None:
        return None
    vm_name = str(object_fields.spec(migration).get("vmName") or "")
    machine = objects.get(Kind.MACHINE, key.namespace, vm_name)
    said = object_fields.status(migration)
    source = said.get("sourcePodName")
    if not source and machine is not None and object_fields.phase(migration) == "":
        source = object_fields.status(machine).get("podName")
    others = tuple(
        each
        for each in _ongoing_migrations(objects, key.namespace, vm_name)
        if object_fields.uid(each) != object_fields.uid(migration)
    )
    return MigrationView(
        migration,
        machine,
        _pod(objects, key.namespace, source),
        _pod(objects, key.namespace, said.get("targetPodName")),
        others,
    )


def _stray_pods(objects: Objects, machine: Obj) -> Iterator[Obj]:
    namespace, vm_name = object_fields.namespace(machine), object_fields.name(machine)
    migrations = list(objects.migrations_of(namespace, vm_name))
    for pod in objects.pods_of(namespace, vm_name):
        if object_fields.name(pod) == object_fields.status(machine).get("podName") or object_fields.is_deleting(pod):
            continue
        if object_fields.is_owned_by(pod, machine) and not any(
            object_fields.is_owned_by(pod, each) for each in migrations
        ):
            yield pod


def _ongoing_migrations(objects: Objects, namespace: str, machine: str) -> tuple[Obj, ...]:
    """Return the live migrations. Those that are only held by foreign finalizers count as gone."""
    found = objects.migrations_of(namespace, machine)
    return tuple(
        object_fields.age_order(
            each
            for each in found
            if object_fields.phase(each) in object_fields.ONGOING and not object_fields.is_released(each)
        )
    )


def _pod(objects: Objects, namespace: str, name: object) -> Obj | None:
    return objects.get(Kind.POD, namespace, str(name)) if name else None
