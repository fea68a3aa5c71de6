"""A small KubeVirt for the in-memory cluster: VMs get virt-launcher pods and pass through KubeVirt's phases.

It plays only the parts that a scheduler sees: nothing runs and nothing is copied. Each reconcile reads the objects and
performs the next step of KubeVirt's controllers, one phase at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from situate.cluster.controllers.machinery.actions import (
    NO_WRITES,
    Action,
    Create,
    Delete,
    Patch,
    ReconcileResult,
    Refusal,
    sequential_writes,
)
from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.controllers import ControllerContext
from situate.cluster.controllers.machinery.tables import PODS, Key, Obj
from situate.objects.values.timestamps import micro_time, parse_time
from situate.vm.backends.kubevirt_names import (
    APP_LABEL,
    GROUP,
    HOSTNAME_LABEL,
    INSTANCE_KIND,
    INSTANCE_MIGRATIONS,
    INSTANCES,
    LAUNCHER,
    LIVE_MIGRATABLE,
    MIGRATION_NAME,
    MIGRATION_UID_LABEL,
)

FINALIZER: Final = f"{GROUP}/migrationJobFinalize"
STAYS_ANNOTATION: Final = "tests/not-live-migratable"
"""Annotation of an instance: the reason why it cannot migrate."""
STALLS_ANNOTATION: Final = "tests/stalls"
"""Annotation of an instance: while it exists, copying does not end."""
FAILS_ANNOTATION: Final = "tests/fails"
"""Annotation of an instance: copying fails at its end, for this reason."""
_FINAL: Final = ("Succeeded", "Failed")
_BEFORE_HAND_OFF: Final = ("", "Pending", "Scheduling", "Scheduled")


@dataclass(frozen=True, slots=True)
class KubeVirtPace:
    copy_s: float = 4.0
    leave_s: float = 1.0
    """Seconds from the end of copying until the source's pod has ended."""


class KubeVirtController:
    """The controller that plays KubeVirt.

    Keys are `plural/namespace` and name. The cluster runs it as a further one.
    """

    name = "kubevirt"
    user = "system:serviceaccount:kubevirt:kubevirt-controller"
    manager = "virt-controller"
    watches = frozenset((INSTANCES.group_resource, INSTANCE_MIGRATIONS.group_resource, PODS))

    def __init__(self, cluster: ControllerContext, pace: KubeVirtPace = KubeVirtPace()) -> None:
        self._cluster = cluster
        self._pace = pace

    def observe(self, change: Change, now: float) -> Iterator[Key]:  # the protocol's
        each, namespace = change.object, change.key[0]
        if change.resource == PODS:
            machine = next((owner["name"] for owner in _owners(each) if owner["kind"] == INSTANCE_KIND), "")
        elif change.resource == INSTANCES.group_resource:
            machine = change.key[1]
        else:
            machine = each["spec"]["vmiName"]
            yield f"{INSTANCE_MIGRATIONS.plural}/{namespace}", change.key[1]
        if machine:
            yield f"{INSTANCES.plural}/{namespace}", machine
            for migration in self._migrations(namespace, machine):
                yield f"{INSTANCE_MIGRATIONS.plural}/{namespace}", migration["metadata"]["name"]

    def reconcile(self, key: Key, now: float) -> ReconcileResult:
        plural, _, namespace = key[0].partition("/")
        if plural == INSTANCES.plural:
            machine = self._cluster.get(INSTANCES.group_resource, namespace, key[1])
            return NO_WRITES if machine is None else self._reconcile_machine(machine, now)
        migration = self._cluster.get(INSTANCE_MIGRATIONS.group_resource, namespace, key[1])
        return NO_WRITES if migration is None else self._reconcile_migration(migration, now)

    def handle_refusal(self, key: Key, refusal: Refusal) -> None:
        """Do nothing: the next reconcile repeats the step."""

    def _reconcile_machine(self, machine: Obj, now: float) -> ReconcileResult:
        state = (machine.get("status") or {}).get("migrationState") or {}
        if not state.get("completed") or state.get("failed"):
            return sequential_writes(self._start(machine, list(self._pods(machine))))
        left = next((each for each in self._pods(machine) if each["metadata"]["name"] == state["sourcePod"]), None)
        if left is None or _phase(left) != "Running":
            return NO_WRITES
        ends_at = _parse_seconds(state["endTimestamp"]) + self._pace.leave_s
        if now < ends_at:
            return ReconcileResult(requeue_at=ends_at)
        return sequential_writes(
            [Patch(PODS, left["metadata"]["namespace"], state["sourcePod"], _completed_status(left, now), "status")]
        )

    def _start(self, machine: Obj, pods: list[Obj]) -> Iterator[Action]:
        meta, status = machine["metadata"], machine.get("status") or {}
        if not pods and not status.get("phase"):
            yield Create(PODS, meta["namespace"], _launcher_pod(machine, meta["uid"]))
            yield _patch_machine_status(machine, {"phase": "Scheduling"})
        running = [each for each in pods if _phase(each) == "Running"]
        if running and status.get("phase") == "Scheduling":
            stays = (meta.get("annotations") or {}).get(STAYS_ANNOTATION)
            condition = {"type": LIVE_MIGRATABLE, "status": "False" if stays else "True", "reason": stays or ""}
            yield _patch_machine_status(
                machine,
                {"phase": "Running", "nodeName": running[0]["spec"]["nodeName"], "conditions": [condition]},
            )

    def _reconcile_migration(self, migration: Obj, now: float) -> ReconcileResult:
        meta, phase = migration["metadata"], (migration.get("status") or {}).get("phase", "")
        if phase in _FINAL:
            finalizers = [each for each in meta.get("finalizers") or () if each != FINALIZER]
            if len(finalizers) == len(meta.get("finalizers") or ()):
                return NO_WRITES
            return sequential_writes([_patch(migration, {"metadata": {"finalizers": finalizers}})])
        machine = self._cluster.get(INSTANCES.group_resource, meta["namespace"], migration["spec"]["vmiName"])
        if machine is None:
            return sequential_writes([_patch_phase(migration, "Failed")])
        target = next((each for each in self._pods(machine) if _migration_uid(each) == meta["uid"]), None)
        if "deletionTimestamp" in meta or (target is not None and _phase(target) in _FINAL):
            return sequential_writes(self._give_up(migration, machine, target, "it was cancelled", now))
        if phase == "Running":
            return self._copy(migration, machine, target, now)
        return sequential_writes(self._advance(migration, phase, machine, target, now))

    def _advance(self, migration: Obj, phase: str, machine: Obj, target: Obj | None, now: float) -> Iterator[Action]:
        """Yield the actions of the next phase before copying."""
        meta = migration["metadata"]
        match phase:
            case "":
                others = self._migrations(meta["namespace"], machine["metadata"]["name"])
                busy = any(
                    each["metadata"]["uid"] != meta["uid"]
                    and (each.get("status") or {}).get("phase", "") not in ("", *_FINAL)
                    for each in others
                )
                yield _patch(migration, {"metadata": {"finalizers": [FINALIZER]}})
                yield _patch_phase(migration, "Failed" if busy else "Pending")
            case "Pending" if target is None:
                if (machine.get("status") or {}).get("phase") == "Running":
                    yield Create(PODS, meta["namespace"], _target_pod(machine, migration))
            case "Pending":
                yield _patch_phase(migration, "Scheduling")
            case "Scheduling" if target is not None and _phase(target) == "Running":
                yield _patch_phase(migration, "Scheduled")
            case "Scheduled" if target is not None:
                source = next(each for each in self._pods(machine) if _is_running_on(machine, each))
                state = {
                    "migrationUid": meta["uid"],
                    "sourceNode": source["spec"]["nodeName"],
                    "sourcePod": source["metadata"]["name"],
                    "targetNode": target["spec"]["nodeName"],
                    "targetPod": target["metadata"]["name"],
                    **dict.fromkeys(("completed", "failed"), False),
                    **dict.fromkeys(("startTimestamp", "endTimestamp", "failureReason"), None),
                }
                yield _patch_machine_status(machine, {"migrationState": state})
                yield _patch_phase(migration, "PreparingTarget")
            case "PreparingTarget":
                yield _patch_machine_status(machine, {"migrationState": {"targetNodeAddress": "192.0.2.1"}})
                yield _patch_phase(migration, "TargetReady")
            case "TargetReady":
                yield _patch_machine_status(machine, {"migrationState": {"startTimestamp": _time_text(now)}})
                yield _patch_phase(migration, "Running")

    def _copy(self, migration: Obj, machine: Obj, target: Obj | None, now: float) -> ReconcileResult:
        state, notes = machine["status"]["migrationState"], machine["metadata"].get("annotations") or {}
        done_at = _parse_seconds(state["startTimestamp"]) + self._pace.copy_s
        if target is None or FAILS_ANNOTATION in notes:
            return sequential_writes(
                self._give_up(migration, machine, target, notes.get(FAILS_ANNOTATION, "its target is gone"), now)
            )
        if STALLS_ANNOTATION in notes:
            return NO_WRITES
        if now < done_at:
            return ReconcileResult(requeue_at=done_at)
        moved = {
            "nodeName": state["targetNode"],
            "migrationState": {"completed": True, "endTimestamp": _time_text(now)},
        }
        whole = {**state, **moved["migrationState"]}
        return sequential_writes(
            [_patch_machine_status(machine, moved), _patch_phase(migration, "Succeeded", migrationState=whole)]
        )

    def _give_up(self, migration: Obj, machine: Obj, target: Obj | None, why: str, now: float) -> Iterator[Action]:
        """Yield the actions that cancel the migration. The VM continues on its source."""
        handed_off = (migration.get("status") or {}).get("phase", "") not in _BEFORE_HAND_OFF
        state = {"completed": True, "failed": True, "failureReason": why, "endTimestamp": _time_text(now)}
        if handed_off:
            yield _patch_machine_status(machine, {"migrationState": state})
        if target is not None:
            meta = target["metadata"]
            yield Delete(PODS, meta["namespace"], meta["name"], meta["uid"])
        yield _patch_phase(migration, "Failed", **({"migrationState": state} if handed_off else {}))

    def _migrations(self, namespace: str, machine: str) -> list[Obj]:
        there = self._cluster.list(INSTANCE_MIGRATIONS.group_resource, namespace)
        return [each for each in there if each["spec"]["vmiName"] == machine]

    def _pods(self, machine: Obj) -> Iterator[Obj]:
        uid = machine["metadata"]["uid"]
        for each in self._cluster.list(PODS, machine["metadata"]["namespace"]):
            if any(owner["uid"] == uid for owner in _owners(each)):
                yield each


def _launcher_pod(machine: Obj, unique: str) -> dict[str, Any]:
    meta, spec = machine["metadata"], machine["spec"]
    owner = {"apiVersion": f"{GROUP}/v1", "kind": INSTANCE_KIND, "name": meta["name"], "uid": meta["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"virt-launcher-{meta['name']}-{unique[-5:]}",
            "namespace": meta["namespace"],
            "labels": {**(meta.get("labels") or {}), APP_LABEL: LAUNCHER, f"{GROUP}/created-by": meta["uid"]},
            "annotations": {f"{GROUP}/domain": meta["name"]},
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {
            "containers": [{"name": "compute", "image": "virt-launcher", "resources": spec["domain"]["resources"]}],
            "restartPolicy": "Never",
            "schedulerName": spec.get("schedulerName", "default-scheduler"),
        },
    }


def _target_pod(machine: Obj, migration: Obj) -> dict[str, Any]:
    """Build the target pod: like the VM's pod, labelled, and with its present node excluded."""
    pod, meta = _launcher_pod(machine, migration["metadata"]["uid"]), migration["metadata"]
    pod["metadata"]["labels"][MIGRATION_UID_LABEL] = meta["uid"]
    pod["metadata"]["annotations"][MIGRATION_NAME] = meta["name"]
    here = {"key": HOSTNAME_LABEL, "operator": "NotIn", "values": [machine["status"]["nodeName"]]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [here]}]}
    pod["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    pod["spec"]["nodeSelector"] = dict(migration["spec"].get("addedNodeSelector") or {})
    return pod


def _completed_status(pod: Obj, now: float) -> dict[str, Any]:
    statuses = [
        {**each, "ready": False, "state": {"terminated": {"exitCode": 0, "finishedAt": _time_text(now)}}}
        for each in pod["status"].get("containerStatuses") or ()
    ]
    return {"status": {"phase": "Succeeded", "containerStatuses": statuses}}


def _is_running_on(machine: Obj, pod: Obj) -> bool:
    return bool(pod["spec"].get("nodeName") == machine["status"]["nodeName"] and _phase(pod) == "Running")


def _migration_uid(pod: Obj) -> str:
    return str((pod["metadata"].get("labels") or {}).get(MIGRATION_UID_LABEL, ""))


def _phase(pod: Obj) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


def _owners(pod: Obj) -> Iterable[Any]:
    return pod["metadata"].get("ownerReferences") or ()


def _patch_machine_status(machine: Obj, status: dict[str, Any]) -> Patch:
    meta = machine["metadata"]
    return Patch(INSTANCES.group_resource, meta["namespace"], meta["name"], {"status": status})


def _patch_phase(migration: Obj, phase: str, **more: Any) -> Patch:
    return _patch(migration, {"status": {"phase": phase, **more}}, "status")


def _patch(migration: Obj, body: dict[str, Any], subresource: str = "") -> Patch:
    meta = migration["metadata"]
    return Patch(INSTANCE_MIGRATIONS.group_resource, meta["namespace"], meta["name"], body, subresource)


def _time_text(at: float) -> str:
    return micro_time(datetime.fromtimestamp(at, UTC))


def _parse_seconds(text: str) -> float:
    return parse_time(text).timestamp()
