"""The migration controller (C34, with D9 to D12): migrates a VM into another Pod, one write at a time.

    ""      prepare; freeze the VM (PreMigrating); then Pending
    Pending create the target and wait until it runs; mark the source; start copying; then Running
    Running copy; the VM runs at its target; swap the owners; then Succeeded
    Failed  the VM runs where it was; source and target are as before

One write decides a failure: the phase with its reason. The steps that follow are made under that phase, even after an
interruption (D10). Deleting an ongoing migration first makes it fail as Cancelled. If its memory is already copied, the
migration finishes instead.

Only one migration of a VM goes on at a time: the most advanced one, among equals the oldest. A VM that is frozen under
a migration with phase "" is the half-done step of that migration (D9).
"""

from __future__ import annotations

from typing import Any, Final

from situate.vm.api.parse_errors import ParseError
from situate.vm.api.quantities import cpu_value
from situate.vm.api.well_known import FINALIZER
from situate.vm.emulator import object_fields
from situate.vm.emulator.decision import NOTHING_TO_DO, Create, Kind, Note, Obj, ReconcileResult
from situate.vm.emulator.hypervisor import (
    COPIED_CPUS,
    COPYING_SINCE,
    HYPERVISOR,
    Behaviour,
    MigrationInfo,
    progress,
    read_behaviour,
    terms,
)
from situate.vm.emulator.migration_end import failure_patch, reconcile_ended_migration
from situate.vm.emulator.runner_pods import pod_name, size, target_pod, wanted_size
from situate.vm.emulator.settings import Settings
from situate.vm.emulator.view import MigrationView

COMPLETION_S: Final = 3600
"""`completionTimeout` if the server has not set its default."""
_RANK: Final = {"": 0, "Pending": 1, "Running": 2}


def reconcile_migration(sight: MigrationView, now: float, settings: Settings) -> ReconcileResult:
    if object_fields.phase(sight.migration) not in object_fields.ONGOING:
        return reconcile_ended_migration(sight, now, settings)
    if object_fields.is_deleting(sight.migration):
        return _reconcile_deletion(sight, now)
    ahead = _preceding_migration(sight)
    if ahead is not None and not (settings.compat and object_fields.phase(sight.migration) == ""):
        who = object_fields.spec(sight.migration).get("vmName")
        return _fail(
            sight,
            now,
            "Busy",
            f"Migration {object_fields.name(ahead)} of VM {who} is in progress; try again after it ends",
        )
    unprepared = _preparation(sight, now)
    if unprepared is not None:
        return unprepared
    lost = _terminal_failure(sight, now)
    if lost is not None:
        return lost
    match object_fields.phase(sight.migration):
        case "":
            return _freeze(sight, now, settings)
        case "Pending":
            return _reconcile_pending(sight, now, settings)
        case _:
            return _reconcile_running(sight, now, settings)


def _preparation(sight: MigrationView, now: float) -> ReconcileResult | None:
    """Return the next write that prepares the migration, one at a time; None when prepared."""
    migration, machine = sight.migration, sight.machine
    finalizers = list(migration["metadata"].get("finalizers") or ())
    if FINALIZER not in finalizers:
        return ReconcileResult(
            object_fields.metadata_patch(Kind.MIGRATION, migration, {"finalizers": [*finalizers, FINALIZER]})
        )
    if machine is None or object_fields.phase(migration) != "":
        return None
    controlled = any(each.get("controller") for each in object_fields.owners(migration))
    if not controlled or not object_fields.is_owned_by_machine(migration):
        owners = object_fields.with_owners(migration, object_fields.machine_owner(machine, controller=not controlled))
        return ReconcileResult(object_fields.metadata_patch(Kind.MIGRATION, migration, {"ownerReferences": owners}))
    if object_fields.condition(migration, "Available") is None:
        at = object_fields.timestamp(now)
        conditions = object_fields.with_condition(
            migration, "Available", "Unknown", "Preparing", "The migration has not started", at
        )
        return ReconcileResult(object_fields.status_patch(Kind.MIGRATION, migration, {"conditions": conditions}))
    if not object_fields.status(migration).get("targetPodName"):
        name = pod_name(object_fields.name(machine), object_fields.uid(migration))
        return ReconcileResult(object_fields.status_patch(Kind.MIGRATION, migration, {"targetPodName": name}))
    return None


def _terminal_failure(sight: MigrationView, now: float) -> ReconcileResult | None:
    """Return the end of a migration in any phase: its VM is gone, or its time is over."""
    migration, machine = sight.migration, sight.machine
    if machine is None or object_fields.is_deleting(machine) or not object_fields.is_owned_by(migration, machine):
        vm_name = object_fields.spec(migration).get("vmName")
        return _fail(sight, now, "VMGone", f"VM {vm_name} does not exist any more")
    if _has_arrived(sight):
        return None
    limit_s = int(object_fields.spec(migration).get("completionTimeout") or COMPLETION_S)
    if now >= object_fields.parse_moment(migration["metadata"].get("creationTimestamp"), now) + limit_s:
        return _fail(sight, now, "CompletionTimeout", f"The migration exceeded its completionTimeout of {limit_s} s")
    return None


def _preceding_migration(sight: MigrationView) -> Obj | None:
    """Return a migration of the same VM with precedence."""
    ours = sight.migration
    rivals = object_fields.age_order([ours, *sight.others])
    first = max(rivals, key=lambda each: _RANK[object_fields.phase(each)])  # of equals the first: the oldest
    return None if first is ours else first


def _freeze(sight: MigrationView, now: float, settings: Settings) -> ReconcileResult:
    migration, machine = sight.migration, sight.machine
    assert machine is not None, "checked before"
    wait = ReconcileResult(requeue_at=now + settings.wait_s)
    if _preceding_migration(sight) is not None:
        return wait
    match object_fields.phase(machine):
        case "Running":
            return ReconcileResult(object_fields.status_patch(Kind.MACHINE, machine, {"phase": "PreMigrating"}))
        case "PreMigrating":
            return ReconcileResult(
                object_fields.status_patch(Kind.MIGRATION, migration, {"phase": "Pending", **_source_fields(machine)})
            )
        case _:
            return wait


def _source_fields(machine: Obj) -> dict[str, Any]:
    said = object_fields.status(machine)
    return {"sourcePodName": said.get("podName"), "sourcePodIP": said.get("podIP"), "sourceNode": said.get("node")}


def _reconcile_pending(sight: MigrationView, now: float, settings: Settings) -> ReconcileResult:
    migration, machine, source, target = sight.migration, sight.machine, sight.source, sight.target
    assert machine is not None, "checked before"
    wait = ReconcileResult(requeue_at=now + settings.wait_s)
    broken = _source_failure(sight, now)
    if broken is not None:
        return broken
    assert source is not None, "checked before"
    if object_fields.phase(machine) not in object_fields.FROZEN:
        if object_fields.phase(machine) == "Running":
            return ReconcileResult(object_fields.status_patch(Kind.MACHINE, machine, {"phase": "PreMigrating"}))
        return _fail(
            sight,
            now,
            "VMNotRunning",
            f"VM {object_fields.name(machine)} is {object_fields.phase(machine)}, not Running",
        )
    if target is None:
        name = str(object_fields.status(migration).get("targetPodName"))
        body = target_pod(machine, source, migration, name, settings)
        note = Note(migration, "Created", f"Target Pod {name} was created")
        return ReconcileResult(Create(Kind.POD, object_fields.namespace(migration), body, note), now + settings.wait_s)
    if not object_fields.is_owned_by(target, migration, controller=True):
        message = f"Pod {object_fields.name(target)} has another owner; delete it and migrate again"
        return _fail(sight, now, "TargetNameTaken", message)
    if object_fields.has_ended(target):
        return _fail(
            sight, now, "TargetFailed", f"Target Pod {object_fields.name(target)} is {object_fields.phase(target)}"
        )
    if object_fields.is_deleting(target):
        return wait  # it is created and scheduled again once it is gone (B14)
    if not object_fields.is_owned_by(source, migration):
        owners = object_fields.with_owners(source, object_fields.migration_owner(migration, controller=False))
        return ReconcileResult(object_fields.metadata_patch(Kind.POD, source, {"ownerReferences": owners}))
    if object_fields.phase(target) != "Running":
        return wait
    if _is_same_host(sight):
        node = object_fields.spec(target).get("nodeName")
        return _fail(
            sight, now, "SameHost", f"Target Pod {object_fields.name(target)} is on {node}, the node of its source"
        )
    return _start(sight, now, settings)


def _start(sight: MigrationView, now: float, settings: Settings) -> ReconcileResult:
    """Start copying, then write the phase of the VM, then that of the migration."""
    migration, machine, target = sight.migration, sight.machine, sight.target
    assert machine is not None, "checked before"
    assert target is not None, "checked before"
    said = object_fields.annotations_of(migration)
    if COPYING_SINCE not in said:
        behaviour = read_behaviour(object_fields.annotations_of(machine).get(HYPERVISOR), _about(machine))
        refused = str(behaviour) if isinstance(behaviour, ParseError) else behaviour.refuse
        if refused:
            return _fail(sight, now, "StartRefused", f"The hypervisor refused the start: {refused}")
        changes = {COPYING_SINCE: object_fields.timestamp(now)}
        if object_fields.spec(machine).get("cpuScalingMode", "QmpScaling") == "QmpScaling":
            changes[COPIED_CPUS] = str(cpu_value(size(machine)[0]))
        return ReconcileResult(object_fields.metadata_patch(Kind.MIGRATION, migration, {"annotations": changes}))
    if object_fields.phase(machine) != "Migrating":
        return ReconcileResult(object_fields.status_patch(Kind.MACHINE, machine, {"phase": "Migrating"}))
    at = object_fields.timestamp(now)
    changes_: dict[str, Any] = {
        "phase": "Running",
        "targetPodIP": object_fields.status(target).get("podIP"),
        "targetNode": object_fields.spec(target).get("nodeName"),
        "conditions": object_fields.with_condition(
            migration, "Available", "True", "Running", "The hypervisor copies the memory", at
        ),
    }
    note = Note(migration, "Started", f"The hypervisor copies the VM to node {changes_['targetNode']}")
    return ReconcileResult(object_fields.status_patch(Kind.MIGRATION, migration, changes_, note), now + settings.poll_s)


def _reconcile_running(sight: MigrationView, now: float, settings: Settings) -> ReconcileResult:
    if _has_arrived(sight):
        return _finish(sight, now)
    migration, machine, target = sight.migration, sight.machine, sight.target
    assert machine is not None, "checked before"
    broken = _source_failure(sight, now)
    if broken is not None:
        return broken
    if target is None or object_fields.is_deleting(target) or object_fields.has_ended(target):
        name = object_fields.status(migration).get("targetPodName")
        return _fail(sight, now, "TargetLost", f"Target Pod {name} is gone or has ended")
    if object_fields.phase(machine) not in object_fields.FROZEN:
        return _fail(
            sight,
            now,
            "VMNotMigrating",
            f"VM {object_fields.name(machine)} is {object_fields.phase(machine)}, not Migrating",
        )
    told = _progress(sight, now)
    match told.status:
        case "completed":
            return _arrive(sight, now)
        case "failed":
            return _fail(
                sight, now, "CopyFailed", f"The hypervisor stopped copying with {told.remaining} bytes left", told
            )
    again_at = now + settings.poll_s
    if told.ends_in_s is not None:
        again_at = min(again_at, now + max(told.ends_in_s, 0.001))
    if object_fields.status(migration).get("info") == told.info():
        return ReconcileResult(requeue_at=again_at)
    return ReconcileResult(object_fields.status_patch(Kind.MIGRATION, migration, {"info": told.info()}), again_at)


def _arrive(sight: MigrationView, now: float) -> ReconcileResult:
    """Move the VM to its target. After this write, the migration is finished and not undone."""
    machine, target = sight.machine, sight.target
    assert machine is not None, "checked before"
    assert target is not None, "checked before"
    changes = {
        "phase": "Running",
        "podName": object_fields.name(target),
        "podIP": object_fields.status(target).get("podIP"),
        "node": object_fields.spec(target).get("nodeName"),
    }
    note = Note(machine, "Migrated", f"The VM runs in Pod {object_fields.name(target)} on node {changes['node']}")
    return ReconcileResult(object_fields.status_patch(Kind.MACHINE, machine, changes, note), now)


def _finish(sight: MigrationView, now: float) -> ReconcileResult:
    """Swap the owners, those of the source first: the VM never has two Pods outside a migration."""
    migration, machine, source, target = sight.migration, sight.machine, sight.source, sight.target
    assert machine is not None, "checked before"
    if source is not None and object_fields.is_owned_by(source, machine, controller=True):
        owners = object_fields.with_owners(
            source,
            object_fields.machine_owner(machine, controller=False),
            object_fields.migration_owner(migration, controller=False),
        )
        return ReconcileResult(object_fields.metadata_patch(Kind.POD, source, {"ownerReferences": owners}))
    if target is not None and object_fields.is_owned_by(target, migration):
        both = object_fields.with_owners(target, object_fields.machine_owner(machine, controller=True))
        owners = [each for each in both if each.get("uid") != object_fields.uid(migration)]
        return ReconcileResult(object_fields.metadata_patch(Kind.POD, target, {"ownerReferences": owners}))
    info = _progress(sight, now).info()
    conditions = object_fields.with_condition(
        migration, "Degraded", "False", "Succeeded", "The VM runs in its target Pod", object_fields.timestamp(now)
    )
    note = Note(
        migration,
        "Succeeded",
        f"VM {object_fields.name(machine)} runs in Pod {object_fields.status(machine).get('podName')}",
    )
    changes = {"phase": "Succeeded", "info": info, "conditions": conditions}
    return ReconcileResult(object_fields.status_patch(Kind.MIGRATION, migration, changes, note))


def _reconcile_deletion(sight: MigrationView, now: float) -> ReconcileResult:
    """Handle the deletion of an ongoing migration."""
    migration, machine = sight.migration, sight.machine
    if object_fields.is_released(migration):
        return NOTHING_TO_DO
    if machine is not None and object_fields.phase(migration) == "Running":
        if _has_arrived(sight):
            return _finish(sight, now)
        copied = (
            sight.target is not None
            and not object_fields.has_ended(sight.target)
            and _source_failure(sight, now) is None
        )
        if (
            copied
            and object_fields.phase(machine) in object_fields.FROZEN
            and _progress(sight, now).status == "completed"
        ):
            return _arrive(sight, now)
    return _fail(sight, now, "Cancelled", "The migration was deleted before it ended")


def _source_failure(sight: MigrationView, now: float) -> ReconcileResult | None:
    """Return the failure if the VM has left this migration's source, or has ended."""
    migration, machine, source = sight.migration, sight.machine, sight.source
    assert machine is not None, "checked before"
    name = object_fields.status(migration).get("sourcePodName")
    if source is None or object_fields.has_ended(source) or object_fields.status(machine).get("podName") != name:
        return _fail(sight, now, "SourceLost", f"Source Pod {name} is gone, has ended, or does not run the VM any more")
    return None


def _fail(
    sight: MigrationView, now: float, reason: str, message: str, told: MigrationInfo | None = None
) -> ReconcileResult:
    return ReconcileResult(failure_patch(sight.migration, now, reason, message, None if told is None else told.info()))


def _has_arrived(sight: MigrationView) -> bool:
    """Return whether the VM runs at the target now."""
    if sight.machine is None or object_fields.phase(sight.migration) != "Running":
        return False
    target = object_fields.status(sight.migration).get("targetPodName")
    return bool(target) and object_fields.status(sight.machine).get("podName") == target


def _is_same_host(sight: MigrationView) -> bool:
    """Return whether both Pods are on one node. Affinity forbids this, but a scheduler may ignore affinity (I12)."""
    if object_fields.spec(sight.migration).get("preventMigrationToSameHost", True) is False:
        return False
    assert sight.source is not None, "checked before"
    assert sight.target is not None, "checked before"
    return bool(object_fields.spec(sight.source).get("nodeName") == object_fields.spec(sight.target).get("nodeName"))


def _behaviour(machine: Obj) -> Behaviour:
    """Return the behaviour of the VM's hypervisor, or the default if it has become unreadable since the start."""
    found = read_behaviour(object_fields.annotations_of(machine).get(HYPERVISOR), _about(machine))
    return Behaviour() if isinstance(found, ParseError) else found


def _about(machine: Obj) -> str:
    return f"VirtualMachine {object_fields.namespace(machine)}/{object_fields.name(machine)}"


def _progress(sight: MigrationView, now: float) -> MigrationInfo:
    migration, machine = sight.migration, sight.machine
    assert machine is not None, "checked before"
    since = object_fields.parse_moment(object_fields.annotations_of(migration).get(COPYING_SINCE), now)
    memory = size(machine)[1] or wanted_size(machine)[1]
    return progress(_behaviour(machine), terms(object_fields.spec(migration), memory), now - since)
