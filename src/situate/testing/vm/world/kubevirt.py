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
    NOTHING,
    Action,
    Create,
    Delete,
    Outcome,
    Patch,
    Refusal,
    in_order,
)
from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.machinery.controllers import Cluster
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
STAYS: Final = "tests/not-live-migratable"
"""Annotation of an instance: the reason why it cannot migrate."""
STALLS: Final = "tests/stalls"
"""Annotation of an instance: while it exists, copying does not end."""
FAILS: Final = "tests/fails"
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

    def __init__(self, cluster: Cluster, pace: KubeVirtPace = KubeVirtPace()) -> None:
        self._cluster = cluster
        self._pace = pace

    def observe(self, change: Change, now: float) -> Iterator[Key]:  # noqa: ARG002  # the protocol's
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

    def reconcile(self, key: Key, now: float) -> Outcome:
        plural, _, namespace = key[0].partition("/")
        if plural == INSTANCES.plural:
            machine = self._cluster.get(INSTANCES.group_resource, namespace, key[1])
            return NOTHING if machine is None else self._look_at_machine(machine, now)
        migration = self._cluster.get(INSTANCE_MIGRATIONS.group_resource, namespace, key[1])
        return NOTHING if migration is None else self._look_at_migration(migration, now)

    def refused(self, key: Key, refusal: Refusal) -> None:
        """Do nothing: the next reconcile repeats the step."""

    def _look_at_machine(self, machine: Obj, now: float) -> Outcome:
        state = (machine.get("status") or {}).get("migrationState") or {}
        if not state.get("completed") or state.get("failed"):
            return in_order(self._start(machine, list(self._pods(machine))))
        left = next((each for each in self._pods(machine) if each["metadata"]["name"] == state["sourcePod"]), None)
        if left is None or _phase(left) != "Running":
            return NOTHING
        ends_at = _at(state["endTimestamp"]) + self._pace.leave_s
        if now < ends_at:
            return Outcome(again_at=ends_at)
        return in_order([Patch(PODS, left["metadata"]["namespace"], state["sourcePod"], _ended(left, now), "status")])

    def _start(self, machine: Obj, pods: list[Obj]) -> Iterator[Action]:
        meta, status = machine["metadata"], machine.get("status") or {}
        if not pods and not status.get("phase"):
            yield Create(PODS, meta["namespace"], _launcher(machine, meta["uid"]))
            yield _tell_machine(machine, {"phase": "Scheduling"})
        running = [each for each in pods if _phase(each) == "Running"]
        if running and status.get("phase") == "Scheduling":
            stays = (meta.get("annotations") or {}).get(STAYS)
            condition = {"type": LIVE_MIGRATABLE, "status": "False" if stays else "True", "reason": stays or ""}
            yield _tell_machine(
                machine,
                {"phase": "Running", "nodeName": running[0]["spec"]["nodeName"], "conditions": [condition]},
            )

    def _look_at_migration(self, migration: Obj, now: float) -> Outcome:
        meta, phase = migration["metadata"], (migration.get("status") or {}).get("phase", "")
        if phase in _FINAL:
            finalizers = [each for each in meta.get("finalizers") or () if each != FINALIZER]
            if len(finalizers) == len(meta.get("finalizers") or ()):
                return NOTHING
            return in_order([_patch(migration, {"metadata": {"finalizers": finalizers}})])
        machine = self._cluster.get(INSTANCES.group_resource, meta["namespace"], migration["spec"]["vmiName"])
        if machine is None:
            return in_order([_enter(migration, "Failed")])
        target = next((each for each in self._pods(machine) if _made_for(each) == meta["uid"]), None)
        if "deletionTimestamp" in meta or (target is not None and _phase(target) in _FINAL):
            return in_order(self._give_up(migration, machine, target, "it was cancelled", now))
        if phase == "Running":
            return self._copy(migration, machine, target, now)
        return in_order(self._advance(migration, phase, machine, target, now))

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
                yield _enter(migration, "Failed" if busy else "Pending")
            case "Pending" if target is None:
                if (machine.get("status") or {}).get("phase") == "Running":
                    yield Create(PODS, meta["namespace"], _target(machine, migration))
            case "Pending":
                yield _enter(migration, "Scheduling")
            case "Scheduling" if target is not None and _phase(target) == "Running":
                yield _enter(migration, "Scheduled")
            case "Scheduled" if target is not None:
                source = next(each for each in self._pods(machine) if _runs(machine, each))
                state = {
                    "migrationUid": meta["uid"],
                    "sourceNode": source["spec"]["nodeName"],
                    "sourcePod": source["metadata"]["name"],
                    "targetNode": target["spec"]["nodeName"],
                    "targetPod": target["metadata"]["name"],
                    **dict.fromkeys(("completed", "failed"), False),
                    **dict.fromkeys(("startTimestamp", "endTimestamp", "failureReason"), None),
                }
                yield _tell_machine(machine, {"migrationState": state})
                yield _enter(migration, "PreparingTarget")
            case "PreparingTarget":
                yield _tell_machine(machine, {"migrationState": {"targetNodeAddress": "192.0.2.1"}})
                yield _enter(migration, "TargetReady")
            case "TargetReady":
                yield _tell_machine(machine, {"migrationState": {"startTimestamp": _time(now)}})
                yield _enter(migration, "Running")

    def _copy(self, migration: Obj, machine: Obj, target: Obj | None, now: float) -> Outcome:
        state, notes = machine["status"]["migrationState"], machine["metadata"].get("annotations") or {}
        done_at = _at(state["startTimestamp"]) + self._pace.copy_s
        if target is None or FAILS in notes:
            return in_order(self._give_up(migration, machine, target, notes.get(FAILS, "its target is gone"), now))
        if STALLS in notes:
            return NOTHING
        if now < done_at:
            return Outcome(again_at=done_at)
        moved = {
            "nodeName": state["targetNode"],
            "migrationState": {"completed": True, "endTimestamp": _time(now)},
        }
        whole = {**state, **moved["migrationState"]}
        return in_order([_tell_machine(machine, moved), _enter(migration, "Succeeded", migrationState=whole)])

    def _give_up(self, migration: Obj, machine: Obj, target: Obj | None, why: str, now: float) -> Iterator[Action]:
        """Yield the actions that cancel the migration. The VM continues on its source."""
        handed_off = (migration.get("status") or {}).get("phase", "") not in _BEFORE_HAND_OFF
        state = {"completed": True, "failed": True, "failureReason": why, "endTimestamp": _time(now)}
        if handed_off:
            yield _tell_machine(machine, {"migrationState": state})
        if target is not None:
            meta = target["metadata"]
            yield Delete(PODS, meta["namespace"], meta["name"], meta["uid"])
        yield _enter(migration, "Failed", **({"migrationState": state} if handed_off else {}))

    def _migrations(self, namespace: str, machine: str) -> list[Obj]:
        there = self._cluster.list(INSTANCE_MIGRATIONS.group_resource, namespace)
        return [each for each in there if each["spec"]["vmiName"] == machine]

    def _pods(self, machine: Obj) -> Iterator[Obj]:
        uid = machine["metadata"]["uid"]
        for each in self._cluster.list(PODS, machine["metadata"]["namespace"]):
            if any(owner["uid"] == uid for owner in _owners(each)):
                yield each


def _launcher(machine: Obj, unique: str) -> dict[str, Any]:
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


def _target(machine: Obj, migration: Obj) -> dict[str, Any]:
    """Build the target pod: like the VM's pod, labelled, and with its present node excluded."""
    pod, meta = _launcher(machine, migration["metadata"]["uid"]), migration["metadata"]
    pod["metadata"]["labels"][MIGRATION_UID_LABEL] = meta["uid"]
    pod["metadata"]["annotations"][MIGRATION_NAME] = meta["name"]
    here = {"key": HOSTNAME_LABEL, "operator": "NotIn", "values": [machine["status"]["nodeName"]]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [here]}]}
    pod["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    pod["spec"]["nodeSelector"] = dict(migration["spec"].get("addedNodeSelector") or {})
    return pod


def _ended(pod: Obj, now: float) -> dict[str, Any]:
    statuses = [
        {**each, "ready": False, "state": {"terminated": {"exitCode": 0, "finishedAt": _time(now)}}}
        for each in pod["status"].get("containerStatuses") or ()
    ]
    return {"status": {"phase": "Succeeded", "containerStatuses": statuses}}


def _runs(machine: Obj, pod: Obj) -> bool:
    return bool(pod["spec"].get("nodeName") == machine["status"]["nodeName"] and _phase(pod) == "Running")


def _made_for(pod: Obj) -> str:
    return str((pod["metadata"].get("labels") or {}).get(MIGRATION_UID_LABEL, ""))


def _phase(pod: Obj) -> str:
    return str((pod.get("status") or {}).get("phase", ""))


def _owners(pod: Obj) -> Iterable[Any]:
    return pod["metadata"].get("ownerReferences") or ()


def _tell_machine(machine: Obj, status: dict[str, Any]) -> Patch:
    meta = machine["metadata"]
    return Patch(INSTANCES.group_resource, meta["namespace"], meta["name"], {"status": status})


def _enter(migration: Obj, phase: str, **more: Any) -> Patch:
    return _patch(migration, {"status": {"phase": phase, **more}}, "status")


def _patch(migration: Obj, body: dict[str, Any], subresource: str = "") -> Patch:
    meta = migration["metadata"]
    return Patch(INSTANCE_MIGRATIONS.group_resource, meta["namespace"], meta["name"], body, subresource)


def _time(at: float) -> str:
    return micro_time(datetime.fromtimestamp(at, UTC))


def _at(text: str) -> float:
    return parse_time(text).timestamp()
