"""Remaining steps of an ended migration: unfreeze the VM, and delete Pods (C34, B10, D10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from situate.vm.api.well_known import CLAIM, FINALIZER, HANDOVER
from situate.vm.emulator import object_fields
from situate.vm.emulator.decision import QUIET, Kind, Look, Note, Obj, Patch
from situate.vm.emulator.settings import Settings
from situate.vm.emulator.view import MigrationSight


def over(migration: Obj, now: float, reason: str, message: str, info: Mapping[str, Any] | None = None) -> Patch:
    """Return the single write that makes a migration fail."""
    conditions = object_fields.conditions(migration, "Degraded", "True", reason, message, object_fields.timestamp(now))
    note = Note(migration, reason, message, warning=True)
    changes: dict[str, Any] = {"phase": "Failed", "conditions": conditions}
    if info is not None:
        changes["info"] = info
    return object_fields.status_patch(Kind.MIGRATION, migration, changes, note)


def look_at_end(sight: MigrationSight, now: float, settings: Settings) -> Look:
    """Reconcile a migration in phase Succeeded or Failed."""
    looked = _given_back(sight)
    if looked is None:
        succeeded = object_fields.phase(sight.migration) == "Succeeded"
        looked = _source_away(sight, now, settings) if succeeded else _undone(sight)
    if looked is not None:
        return looked
    finalizers = list(sight.migration["metadata"].get("finalizers") or ())
    if object_fields.deleting(sight.migration) and FINALIZER in finalizers:
        finalizers.remove(FINALIZER)
        return Look(object_fields.metadata_patch(Kind.MIGRATION, sight.migration, {"finalizers": finalizers}))
    return QUIET


def _given_back(sight: MigrationSight) -> Look | None:
    """Let a VM that is still frozen run again, unless another migration holds it (D10)."""
    machine = sight.machine
    if machine is None or object_fields.deleting(machine) or object_fields.phase(machine) not in object_fields.FROZEN:
        return None
    if object_fields.held(machine, sight.others):
        return None
    return Look(object_fields.status_patch(Kind.MACHINE, machine, {"phase": "Running"}))


def _undone(sight: MigrationSight) -> Look | None:
    """Delete the target, and remove the migration from the owners of the source.

    A source that is not the VM's Pod is deleted too: the VM is gone, or had arrived and has restarted elsewhere since.
    """
    migration, machine, source, target = sight.migration, sight.machine, sight.source, sight.target
    home = None if machine is None else object_fields.status(machine).get("podName")
    waits = (
        target is not None
        and object_fields.owned_by(target, migration, controller=True)
        and object_fields.name(target) != home
    )
    if waits and target is not None and not object_fields.deleting(target):
        return Look(object_fields.deletion(Kind.POD, target))
    if source is not None and object_fields.owned_by(source, migration):
        if object_fields.name(source) != home:
            return None if object_fields.deleting(source) else Look(object_fields.deletion(Kind.POD, source))
        owners = object_fields.without_owner(source, migration)
        return Look(object_fields.metadata_patch(Kind.POD, source, {"ownerReferences": owners}))
    return None


def _source_away(sight: MigrationSight, now: float, settings: Settings) -> Look | None:
    """Delete the source by the contract of the package, then remove its name from the status."""
    migration, source = sight.migration, sight.source
    if not object_fields.status(migration).get("sourcePodName"):
        return None
    if source is None or not object_fields.owned_by(source, migration):
        gone = dict.fromkeys(("sourcePodName", "sourcePodIP", "sourceNode"))
        return Look(object_fields.status_patch(Kind.MIGRATION, migration, gone))
    if object_fields.deleting(source):
        return None if object_fields.deleting(migration) else QUIET
    said = object_fields.annotations_of(migration)
    if CLAIM in said and HANDOVER not in said and not object_fields.deleting(migration):
        since = (object_fields.condition(migration, "Degraded") or {}).get("lastTransitionTime")
        due = object_fields.moment(since, now) + settings.handover_s
        if now < due:
            return Look(again_at=due)
    return Look(object_fields.deletion(Kind.POD, source))
