"""Remaining steps of an ended migration: unfreeze the VM, and delete Pods (C34, B10, D10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from situate.vm.api.well_known import CLAIM, FINALIZER, HANDOVER
from situate.vm.emulator import object_fields
from situate.vm.emulator.decision import NOTHING_TO_DO, Kind, Note, Obj, Patch, ReconcileResult
from situate.vm.emulator.settings import Settings
from situate.vm.emulator.view import MigrationView


def failure_patch(
    migration: Obj, now: float, reason: str, message: str, info: Mapping[str, Any] | None = None
) -> Patch:
    """Return the single write that makes a migration fail."""
    conditions = object_fields.with_condition(
        migration, "Degraded", "True", reason, message, object_fields.timestamp(now)
    )
    note = Note(migration, reason, message, warning=True)
    changes: dict[str, Any] = {"phase": "Failed", "conditions": conditions}
    if info is not None:
        changes["info"] = info
    return object_fields.status_patch(Kind.MIGRATION, migration, changes, note)


def reconcile_ended_migration(sight: MigrationView, now: float, settings: Settings) -> ReconcileResult:
    """Reconcile a migration in phase Succeeded or Failed."""
    looked = _unfreeze_machine(sight)
    if looked is None:
        succeeded = object_fields.phase(sight.migration) == "Succeeded"
        looked = _remove_source(sight, now, settings) if succeeded else _undo_migration(sight)
    if looked is not None:
        return looked
    finalizers = list(sight.migration["metadata"].get("finalizers") or ())
    if object_fields.is_deleting(sight.migration) and FINALIZER in finalizers:
        finalizers.remove(FINALIZER)
        return ReconcileResult(
            object_fields.metadata_patch(Kind.MIGRATION, sight.migration, {"finalizers": finalizers})
        )
    return NOTHING_TO_DO


def _unfreeze_machine(sight: MigrationView) -> ReconcileResult | None:
    """Let a VM that is still frozen run again, unless another migration holds it (D10)."""
    machine = sight.machine
    if (
        machine is None
        or object_fields.is_deleting(machine)
        or object_fields.phase(machine) not in object_fields.FROZEN
    ):
        return None
    if object_fields.is_held(machine, sight.others):
        return None
    return ReconcileResult(object_fields.status_patch(Kind.MACHINE, machine, {"phase": "Running"}))


def _undo_migration(sight: MigrationView) -> ReconcileResult | None:
    """Delete the target, and remove the migration from the owners of the source.

    A source that is not the VM's Pod is deleted too: the VM is gone, or had arrived and has restarted elsewhere since.
    """
    migration, machine, source, target = sight.migration, sight.machine, sight.source, sight.target
    home = None if machine is None else object_fields.status(machine).get("podName")
    waits = (
        target is not None
        and object_fields.is_owned_by(target, migration, controller=True)
        and object_fields.name(target) != home
    )
    if waits and target is not None and not object_fields.is_deleting(target):
        return ReconcileResult(object_fields.deletion(Kind.POD, target))
    if source is not None and object_fields.is_owned_by(source, migration):
        if object_fields.name(source) != home:
            return (
                None if object_fields.is_deleting(source) else ReconcileResult(object_fields.deletion(Kind.POD, source))
            )
        owners = object_fields.without_owner(source, migration)
        return ReconcileResult(object_fields.metadata_patch(Kind.POD, source, {"ownerReferences": owners}))
    return None


def _remove_source(sight: MigrationView, now: float, settings: Settings) -> ReconcileResult | None:
    """Delete the source by the contract of the package, then remove its name from the status."""
    migration, source = sight.migration, sight.source
    if not object_fields.status(migration).get("sourcePodName"):
        return None
    if source is None or not object_fields.is_owned_by(source, migration):
        gone = dict.fromkeys(("sourcePodName", "sourcePodIP", "sourceNode"))
        return ReconcileResult(object_fields.status_patch(Kind.MIGRATION, migration, gone))
    if object_fields.is_deleting(source):
        return None if object_fields.is_deleting(migration) else NOTHING_TO_DO
    said = object_fields.annotations_of(migration)
    if CLAIM in said and HANDOVER not in said and not object_fields.is_deleting(migration):
        since = (object_fields.condition(migration, "Degraded") or {}).get("lastTransitionTime")
        due = object_fields.parse_moment(since, now) + settings.handover_s
        if now < due:
            return ReconcileResult(requeue_at=due)
    return ReconcileResult(object_fields.deletion(Kind.POD, source))
