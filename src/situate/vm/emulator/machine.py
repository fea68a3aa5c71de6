"""The VM controller (C33): the runner Pod of a VM, its phases, and its size.

    "" -> Pending -> Running <-> Scaling, Running -> PreMigrating -> Migrating -> Running,
    alive -> Succeeded | Failed -> Pending, with restartCount + 1

The migration controller owns PreMigrating and Migrating. Here they can only end: a VM in one of them without a live
migration runs again at once (D9). Deleting a VM deletes its Pods, because the VM owns them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from situate.vm.api.parse_errors import Unreadable
from situate.vm.api.quantities import cpu_value, memory_value
from situate.vm.emulator import object_fields
from situate.vm.emulator.decision import QUIET, Create, Kind, Look, Note, Obj, Patch
from situate.vm.emulator.hypervisor import HYPERVISOR, read_behaviour
from situate.vm.emulator.runner_pods import metadata_changes, pod_name, runner_pod, size, wanted_size
from situate.vm.emulator.settings import Settings
from situate.vm.emulator.view import MachineSight


def look_at_machine(sight: MachineSight, now: float, settings: Settings) -> Look:
    machine, pod = sight.machine, sight.pod
    phase = object_fields.phase(machine)
    if object_fields.deleting(machine):
        return QUIET
    if sight.strays:
        # a late write made this Pod after the VM had continued without it
        return Look(object_fields.deletion(Kind.POD, sight.strays[0]))
    if phase == "":
        begun = {"podName": pod_name(object_fields.name(machine), object_fields.uid(machine)), "restartCount": 0}
        return Look(_status(machine, now, begun, phase="Pending", available=("Unknown", "Pending", "")))
    if phase in ("Succeeded", "Failed"):
        return _restart(machine, pod, now)
    if pod is not None and not object_fields.owned_by(pod, machine):
        return _name_taken(machine, pod, now, settings)
    if phase == "Pending":
        return _pending(machine, pod, now, settings)
    if phase not in object_fields.ALIVE:
        return QUIET
    if phase in object_fields.FROZEN and not object_fields.held(machine, sight.migrations):
        note = Note(machine, "Unfrozen", f"The VM was {phase} without a migration and returns to Running", warning=True)
        return Look(_status(machine, now, {}, phase="Running", note=note))
    if pod is not None:
        copied = metadata_changes(machine, pod)
        if copied is not None:
            return Look(copied)
    if phase in object_fields.FROZEN:
        return QUIET  # the migration controller decides about its Pod meanwhile
    if pod is None:
        return Look(
            _ended(
                machine, now, "Failed", "PodGone", f"Runner Pod {object_fields.status(machine).get('podName')} is gone"
            )
        )
    if object_fields.ended(pod):
        return Look(
            _ended(
                machine, now, object_fields.phase(pod), "PodEnded", f"Runner Pod {object_fields.name(pod)} has ended"
            )
        )
    return _running(machine, pod, now, settings)


def restarts(machine: Obj) -> bool:
    """Return whether an ended VM starts again."""
    policy = object_fields.spec(machine).get("restartPolicy") or "Always"
    return policy == "Always" or (policy == "OnFailure" and object_fields.phase(machine) == "Failed")


def _restart(machine: Obj, pod: Obj | None, now: float) -> Look:
    """Restart a VM. The old Pod goes first: with two Pods, the VM would run on two nodes."""
    if not restarts(machine):
        return QUIET
    if pod is not None and object_fields.owned_by(pod, machine):
        return QUIET if object_fields.deleting(pod) else Look(object_fields.deletion(Kind.POD, pod))
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
    return Look(_status(machine, now, changes, phase="Pending", available=("Unknown", "Pending", ""), note=note))


def _pending(machine: Obj, pod: Obj | None, now: float, settings: Settings) -> Look:
    if pod is None:
        body = runner_pod(machine, str(object_fields.status(machine).get("podName")), settings)
        note = Note(machine, "Created", f"Runner Pod {body['metadata']['name']} was created")
        return Look(Create(Kind.POD, object_fields.namespace(machine), body, note))
    if object_fields.ended(pod):
        return Look(
            _ended(
                machine, now, object_fields.phase(pod), "PodEnded", f"Runner Pod {object_fields.name(pod)} has ended"
            )
        )
    copied = metadata_changes(machine, pod)
    if copied is not None:
        return Look(copied)
    if not object_fields.ready(pod):
        return QUIET
    available = ("True", "Running", "The runner Pod is ready")
    return Look(_status(machine, now, {**_where(pod), **_size(machine)}, phase="Running", available=available))


def _running(machine: Obj, pod: Obj, now: float, settings: Settings) -> Look:
    said, where = object_fields.status(machine), _where(pod)
    if any(said.get(key) != value for key, value in where.items() if value):
        return Look(_status(machine, now, where))
    if size(machine) != wanted_size(machine):
        return _scale(machine, now, settings)
    if object_fields.phase(machine) == "Scaling":
        return Look(_scaled(machine, now))
    revision = (object_fields.spec(machine).get("targetRevision") or {}).get("revision")
    if revision is not None and (said.get("currentRevision") or {}).get("revision") != revision:
        current = {"revision": revision, "updatedAt": object_fields.timestamp(now)}
        return Look(_status(machine, now, {"currentRevision": current}))
    return QUIET


def _scale(machine: Obj, now: float, settings: Settings) -> Look:
    """Write the phase first, and the size when the hypervisor has finished."""
    if object_fields.phase(machine) != "Scaling":
        wanted = _size(machine)
        note = Note(machine, "Scaling", f"The VM scales to {wanted['cpus']} CPUs and {wanted['memorySize']} memory")
        return Look(_status(machine, now, {}, phase="Scaling", scaling=("True", "SizeDiffers"), note=note))
    behaviour = read_behaviour(
        object_fields.annotations_of(machine).get(HYPERVISOR), f"VirtualMachine {object_fields.name(machine)}"
    )
    scale_s = settings.scale_s
    if not isinstance(behaviour, Unreadable) and behaviour.scale_s is not None:
        scale_s = behaviour.scale_s
    since = (object_fields.condition(machine, "Scaling") or {}).get("lastTransitionTime")
    due = object_fields.moment(since, now) + scale_s
    return Look(_scaled(machine, now)) if now >= due else Look(again_at=due)


def _scaled(machine: Obj, now: float) -> Patch:
    return _status(machine, now, _size(machine), phase="Running", scaling=("False", "AsWanted"))


def _ended(machine: Obj, now: float, phase: str, reason: str, message: str) -> Patch:
    note = Note(machine, reason, message, warning=phase == "Failed")
    return _status(machine, now, {}, phase=phase, available=("False", reason, message), note=note)


def _name_taken(machine: Obj, pod: Obj, now: float, settings: Settings) -> Look:
    """Report a foreign Pod under the VM's name. The Pod is not changed; its owner must delete it."""
    message = (
        f"Pod {object_fields.name(pod)} has another owner; delete it so that the runner Pod of this VM can be created"
    )
    before = object_fields.condition(machine, "Degraded")
    again_at = now + settings.wait_s
    if before is not None and before.get("status") == "True" and before.get("message") == message:
        return Look(again_at=again_at)
    at = object_fields.timestamp(now)
    conditions = object_fields.conditions(machine, "Degraded", "True", "PodNameTaken", message, at)
    note = Note(machine, "PodNameTaken", message, warning=True)
    return Look(object_fields.status_patch(Kind.MACHINE, machine, {"conditions": conditions}, note), again_at)


def _size(machine: Obj) -> dict[str, Any]:
    cpu, memory = wanted_size(machine)
    return {"cpus": cpu_value(cpu), "memorySize": str(memory_value(memory))}


def _where(pod: Obj) -> dict[str, Any]:
    return {"podIP": object_fields.status(pod).get("podIP"), "node": object_fields.spec(pod).get("nodeName")}


def _status(
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
            body["conditions"] = object_fields.conditions(told, kind, *said, at)
            told = {**machine, "status": {"conditions": body["conditions"]}}
    return object_fields.status_patch(Kind.MACHINE, machine, body, note)
