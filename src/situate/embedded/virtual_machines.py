"""Run the VirtualMachines and migrations of `situate.vm.emulator` in the in-memory cluster, as a controller.

Not every cluster runs this controller: the composer of a cluster passes it to `Machinery` as a further controller. It
does nothing until the definitions of `situate.vm.emulator.crds` and objects of their kinds exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from situate.cluster.controllers.machinery.actions import Action, ReconcileResult, sequential_writes
from situate.cluster.controllers.machinery.actions import Create as CreateAction
from situate.cluster.controllers.machinery.actions import Delete as DeleteAction
from situate.cluster.controllers.machinery.actions import EventTemplate as Told
from situate.cluster.controllers.machinery.actions import Patch as PatchAction
from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.controllers import Controller, ControllerContext
from situate.cluster.controllers.machinery.tables import PODS, Key, Obj
from situate.cluster.storage.stored_object import StoredObject
from situate.vm import emulator
from situate.vm.api.well_known import API_VERSION, GROUP, NAME_LABEL
from situate.vm.emulator import Create, Delete, Kind, Note, Patch, Settings, Write

_RESOURCES = {
    Kind.MACHINE: f"{Kind.MACHINE.value}.{GROUP}",
    Kind.MIGRATION: f"{Kind.MIGRATION.value}.{GROUP}",
    Kind.POD: PODS,
}
_KINDS = {resource: kind for kind, resource in _RESOURCES.items()}


class VirtualMachineController(Controller):
    """Controller of virtual machines and migrations.

    A key is `kind/namespace` and name, because a machine and a migration may have the same name.
    """

    name = "virtual-machines"
    user = "system:serviceaccount:kube-system:virtual-machine-controller"
    manager = "virtual-machine-controller"
    watches = frozenset(_KINDS)

    def __init__(self, cluster: ControllerContext, settings: Settings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._of_machine: dict[tuple[Kind, Key], dict[str, None]] = {}
        """Names of migrations and pods by namespace and machine, in the order of arrival."""
        self._read: dict[tuple[Kind, Key], tuple[StoredObject, Obj]] = {}
        """Decoded machines, migrations and pods, each at its last read version. They are read many times."""

    def observe(self, change: Change, now: float) -> Iterator[Key]:  # noqa: ARG002  # the protocol's
        kind = _KINDS[change.resource]
        if change.new is None:
            self._read.pop((kind, change.key), None)
        machine = _machine_of(kind, change.object)
        if machine:
            names = self._of_machine.setdefault((kind, (change.key[0], machine)), {})
            if change.new is None:
                names.pop(change.key[1], None)
            else:
                names[change.key[1]] = None
        told = [change.object]
        if change.pod_before is not None and change.pod_before.labels != change.last.labels and change.old is not None:
            told.append(change.old.object())
        for each in told:
            for key in emulator.affected_keys(self, kind, each):
                yield f"{key.kind.value}/{key.namespace}", key.name

    def reconcile(self, key: Key, now: float) -> ReconcileResult:
        plural, _, namespace = key[0].partition("/")
        looked = emulator.reconcile_object(self, emulator.Key(Kind(plural), namespace, key[1]), now, self._settings)
        again_at = looked.requeue_at
        if again_at is not None and again_at <= now:
            again_at = None  # the write triggers the next reconcile
        return sequential_writes([] if looked.write is None else [_action(looked.write)], again_at)

    def get(self, kind: Kind, namespace: str, name: str) -> Obj | None:
        """Return an object for `machines.Objects`. It must not be changed."""
        stored = self._cluster.store.get(_RESOURCES[kind], namespace, name)
        if stored is None:
            return None
        known = self._read.get((kind, (namespace, name)))
        if known is None or known[0] is not stored:
            known = self._read[kind, (namespace, name)] = stored, stored.object()
        return known[1]

    def migrations_of(self, namespace: str, machine: str) -> Iterable[Obj]:
        """Return the migrations of a machine, for `machines.Objects`."""
        return self._objects_of_machine(Kind.MIGRATION, namespace, machine)

    def pods_of(self, namespace: str, machine: str) -> Iterable[Obj]:
        """Return the pods of a machine, for `machines.Objects`."""
        return self._objects_of_machine(Kind.POD, namespace, machine)

    def _objects_of_machine(self, kind: Kind, namespace: str, machine: str) -> list[Obj]:
        names = self._of_machine.get((kind, (namespace, machine)), ())
        found = (self.get(kind, namespace, name) for name in names)
        # a changed or removed label moves a pod to another machine or to none
        return [each for each in found if each is not None and _machine_of(kind, each) == machine]


def _machine_of(kind: Kind, obj: Obj) -> str:
    """Return the machine of a migration or pod; empty for a machine itself, and for pods without a machine."""
    match kind:
        case Kind.MACHINE:
            return ""
        case Kind.MIGRATION:
            return str((obj.get("spec") or {}).get("vmName") or "")
        case Kind.POD:
            return str((obj["metadata"].get("labels") or {}).get(NAME_LABEL) or "")


def _action(write: Write) -> Action:
    resource, done = _RESOURCES[write.kind], _event_of(write.note)
    match write:
        case Create():
            refused = (
                None if done is None else Told(done.regarding, "FailedCreate", "Error creating: {error}", "Warning")
            )
            return CreateAction(resource, write.namespace, write.body, done=done, failed=refused)
        case Patch():
            return PatchAction(resource, write.namespace, write.name, write.body, write.subresource, done=done)
        case Delete():
            return DeleteAction(resource, write.namespace, write.name, write.uid, done=done)
        case _:
            assert_never(write)


def _event_of(note: Note | None) -> Told | None:
    if note is None:
        return None
    regarding = {"apiVersion": API_VERSION, "kind": note.kind, **note.regarding}
    return Told(regarding, note.reason, note.message, "Warning" if note.warning else "Normal")
