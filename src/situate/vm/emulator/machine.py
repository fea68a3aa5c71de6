"""The VM controller (C33): the runner Pod of a VM, its phases, and its size.

    "" -> Pending -> Running <-> Scaling, Running -> PreMigrating -> Migrating -> Running,
    alive -> Succeeded | Failed -> Pending, with restartCount + 1

The migration controller owns PreMigrating and Migrating. Here they can only end: a VM in one of them without a live
migration runs again at once (D9). Deleting a VM deletes its Pods, because the VM owns them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from situate.vm.api.parse_errors import ParseError
from situate.vm.api.quantities import cpu_value, memory_value
from situate.vm.emulator import object_fields
from situate.vm.emulator.decision import NOTHING_TO_DO, Create, Kind, Note, Obj, Patch, ReconcileResult
from situate.vm.emulator.hypervisor import HYPERVISOR, read_behaviour
from situate.vm.emulator.runner_pods import metadata_changes, pod_name, runner_pod, size, wanted_size
from situate.vm.emulator.settings import Settings
from situate.vm.emulator.view import MachineView


def reconcile_machine(sight: MachineView, now: float, settings: Settings) -> ReconcileResult:
    machine, pod = sight.machine, sight.pod
    phase = object_fields.phase(machine)
    if object_fields.is_deleting(machine):
        return NOTHING_TO_DO
    if sight.strays:
        # a late write made this Pod after the VM had continued without it
        return ReconcileResult(object_fields.deletion(Kind.POD, sight.strays[0]))
    if phase == "":
        begun = {"podName": pod_name(object_fields.name(machine), object_fields.uid(machine)), "restartCount": 0}
        return ReconcileResult(
            _status_patch(machine, now, begun, phase="Pending", available=("Unknown", "Pending", ""))
        )
    if phase in ("Succeeded", "Failed"):
        return _restart(machine, pod, now)
    if pod is not None and not object_fields.is_owned_by(pod, machine):
        return _report_taken_name(machine, pod, now, settings)
    if phase == "Pending":
        return _reconcile_pending(machine, pod, now, settings)
    if phase not in object_fields.ALIVE:
        return NOTHING_TO_DO
    if phase in object_fields.FROZEN and not object_fields.is_held(machine, sight.migrations):
        note = Note(machine, "Unfrozen", f"The VM was {phase} without a migration and returns to Running", warning=True)
        return ReconcileResult(_status_patch(machine, now, {}, phase="Running", note=note))
    if pod is not None:
        copied = metadata_changes(machine, pod)
        if copied is not None:
            return ReconcileResult(copied)
    if phase in object_fields.FROZEN:
        return NOTHING_TO_DO  # the migration controller decides about its Pod meanwhile
    if pod is None:
        return ReconcileResult(
            _ended_patch(
                machine, now, "Failed", "PodGone", f"Runner Pod {object_fields.status(machine).get('podName')} is gone"
            )
        )
    if object_fields.has_ended(pod):
        return ReconcileResult(
            _ended_patch(
                machine, now, object_fields.phase(pod), "PodEnded", f"Runner Pod {object_fields.name(pod)} has ended"
            )
        )
    return _reconcile_running(machine, pod, now, settings)


def restarts_after_end(machine: Obj) -> bool:
    """Return whether an ended VM starts again."""
    policy = object_fields.spec(machine).get("restartPolicy") or "Always"
    return policy == "Always" or (policy == "OnFailure" and object_fields.phase(machine) == "Failed")


def _restart(machine: Obj, pod: Obj | None, now: float) -> ReconcileResult:
    """Restart a VM. The old Pod goes first: with two Pods, the VM would run on two nodes."""
    if not restarts_after_end(machine):
        return NOTHING_TO_DO
    if pod is not None and object_fields.is_owned_by(pod, machine):
        return (
            NOTHING_TO_DO if object_fields.is_deleting(pod) else ReconcileResult(object_fields.deletion(Kind.POD, pod))
        )
    count = int(object_fields.status(machine).get("restartCount") or 0) + 1
    changes = {
        "podName": pod_name(object_fields.name(machine), object_fields.uid(machine), count),
        "podIP": None,
        "node": None,
        "restartCount": count,
    }
    note = Note(
        machine, "Restarted", f"The VM {object_fields.phase(machine).lower()} and starts again (restart {count})"
    )
    return ReconcileResult(
        _status_patch(machine, now, changes, phase="Pending", available=("Unknown", "Pending", ""), note=note)
    )


def _reconcile_pending(machine: Obj, pod: Obj | None, now: float, settings: Settings) -> ReconcileResult:
    if pod is None:
        body = runner_pod(machine, str(object_fields.status(machine).get("podName")), settings)
        note = Note(machine, "Created", f"Runner Pod {body['metadata']['name']} was created")
        return ReconcileResult(Create(Kind.POD, object_fields.namespace(machine), body, note))
    if object_fields.has_ended(pod):
        return ReconcileResult(
            _ended_patch(
                machine, now, object_fields.phase(pod), "PodEnded", f"Runner Pod {object_fields.name(pod)} has ended"
            )
        )
    copied = metadata_changes(machine, pod)
    if copied is not None:
        return ReconcileResult(copied)
    if not object_fields.is_ready(pod):
        return NOTHING_TO_DO
    available = ("True", "Running", "The runner Pod is ready")
    return ReconcileResult(
        _status_patch(
            machine, now, {**_location_fields(pod), **_size_fields(machine)}, phase="Running", available=available
        )
    )


def _reconcile_running(machine: Obj, pod: Obj, now: float, settings: Settings) -> ReconcileResult:
    said, where = object_fields.status(machine), _location_fields(pod)
    if any(said.get(key) != value for key, value in where.items() if value):
        return ReconcileResult(_status_patch(machine, now, where))
    if size(machine) != wanted_size(machine):
        return _scale(machine, now, settings)
    if object_fields.phase(machine) == "Scaling":
        return ReconcileResult(_scaled_patch(machine, now))
    revision = (object_fields.spec(machine).get("targetRevision") or {}).get("revision")
    if revision is not None and (said.get("currentRevision") or {}).get("revision") != revision:
        current = {"revision": revision, "updatedAt": object_fields.timestamp(now)}
        return ReconcileResult(_status_patch(machine, now, {"currentRevision": current}))
    return NOTHING_TO_DO


def _scale(machine: Obj, now: float, settings: Settings) -> ReconcileResult:
    """Write the phase first, and the size when the hypervisor has finished."""
    if object_fields.phase(machine) != "Scaling":
        wanted = _size_fields(machine)
        note = Note(machine, "Scaling", f"The VM scales to {wanted['cpus']} CPUs and {wanted['memorySize']} memory")
        return ReconcileResult(
            _status_patch(machine, now, {}, phase="Scaling", scaling=("True", "SizeDiffers"), note=note)
        )
    behaviour = read_behaviour(
        object_fields.annotations_of(machine).get(HYPERVISOR), f"VirtualMachine {object_fields.name(machine)}"
    )
    scale_s = settings.scale_s
    if not isinstance(behaviour, ParseError) and behaviour.scale_s is not None:
        scale_s = behaviour.scale_s
    since = (object_fields.condition(machine, "Scaling") or {}).get("lastTransitionTime")
    due = object_fields.parse_moment(since, now) + scale_s
    return ReconcileResult(_scaled_patch(machine, now)) if now >= due else ReconcileResult(requeue_at=due)


def _scaled_patch(machine: Obj, now: float) -> Patch:
    return _status_patch(machine, now, _size_fields(machine), phase="Running", scaling=("False", "AsWanted"))


def _ended_patch(machine: Obj, now: float, phase: str, reason: str, message: str) -> Patch:
    note = Note(machine, reason, message, warning=phase == "Failed")
    return _status_patch(machine, now, {}, phase=phase, available=("False", reason, message), note=note)


def _report_taken_name(machine: Obj, pod: Obj, now: float, settings: Settings) -> ReconcileResult:
    """Report a foreign Pod under the VM's name. The Pod is not changed; its owner must delete it."""
    message = (
        f"Pod {object_fields.name(pod)} has another owner; delete it so that the runner Pod of this VM can be created"
    )
    before = object_fields.condition(machine, "Degraded")
    again_at = now + settings.wait_s
    if before is not None and before.get("status") == "True" and before.get("message") == message:
        return ReconcileResult(requeue_at=again_at)
    at = object_fields.timestamp(now)
    conditions = object_fields.with_condition(machine, "Degraded", "True", "PodNameTaken", message, at)
    note = Note(machine, "PodNameTaken", message, warning=True)
    return ReconcileResult(
        object_fields.status_patch(Kind.MACHINE, machine, {"conditions": conditions}, note), again_at
    )


def _size_fields(machine: Obj) -> dict[str, Any]:
    cpu, memory = wanted_size(machine)
    return {"cpus": cpu_value(cpu), "memorySize": str(memory_value(memory))}


def _location_fields(pod: Obj) -> dict[str, Any]:
    return {"podIP": object_fields.status(pod).get("podIP"), "node": object_fields.spec(pod).get("nodeName")}


def _status_patch(
    machine: Obj,
    now: float,
    changes: Mapping[str, Any],
    *,
    phase: str = "",
    available: tuple[str, str, str] | None = None,
    scaling: tuple[str, str] | None = None,
    note: Note | None = None,
) -> Patch:
    """Return a patch of the status. `available` and `scaling` are status and reason of those conditions."""
    body: dict[str, Any] = {**changes, "phase": phase} if phase else dict(changes)
    told: Mapping[str, Any] = machine
    at = object_fields.timestamp(now)
    for kind, said in (("Available", available), ("Scaling", (*scaling, "") if scaling else None)):
        if said is not None:
            body["conditions"] = object_fields.with_condition(told, kind, *said, at)
            told = {**machine, "status": {"conditions": body["conditions"]}}
    return object_fields.status_patch(Kind.MACHINE, machine, body, note)
