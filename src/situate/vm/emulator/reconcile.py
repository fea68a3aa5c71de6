"""Objects to reconcile after a change, and the reconcile function."""

from __future__ import annotations

from collections.abc import Iterator

from situate.vm.api.well_known import NAME_LABEL
from situate.vm.emulator import object_fields
from situate.vm.emulator.decision import NOTHING_TO_DO, Key, Kind, Obj, ReconcileResult
from situate.vm.emulator.machine import reconcile_machine
from situate.vm.emulator.migration import reconcile_migration
from situate.vm.emulator.settings import Settings
from situate.vm.emulator.view import Objects, machine_view, migration_view


def affected_keys(objects: Objects, kind: Kind, changed: Obj) -> Iterator[Key]:
    """Yield the keys whose reconciliation may change after this object was added, changed or deleted; the VM first."""
    namespace = object_fields.namespace(changed)
    match kind:
        case Kind.MACHINE:
            machine = object_fields.name(changed)
        case Kind.MIGRATION:
            machine = str(object_fields.spec(changed).get("vmName") or "")
            yield Key(Kind.MIGRATION, namespace, object_fields.name(changed))
        case Kind.POD:
            machine = object_fields.labels_of(changed).get(NAME_LABEL, "")
            if not machine:
                return
    yield Key(Kind.MACHINE, namespace, machine)
    for migration in object_fields.age_order(objects.migrations_of(namespace, machine)):
        yield Key(Kind.MIGRATION, namespace, object_fields.name(migration))


def reconcile_object(objects: Objects, key: Key, now: float, settings: Settings) -> ReconcileResult:
    """Return the next step for a VM or a migration; `now` in seconds since the epoch."""
    if key.kind is Kind.MACHINE:
        machine = machine_view(objects, key)
        return NOTHING_TO_DO if machine is None else reconcile_machine(machine, now, settings)
    migration = migration_view(objects, key)
    return NOTHING_TO_DO if migration is None else reconcile_migration(migration, now, settings)
