"""Build the status that a kubelet reports for a pod."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from situate.cluster.controllers.machinery.tables import Obj
from situate.cluster.controllers.node.pods import condition, with_condition
from situate.cluster.errors.times import timestamp


@dataclass(frozen=True, slots=True)
class ContainerHealth:
    """State of the containers of a pod."""

    ready: bool = True
    crashes: int = 0
    """Number of times they have ended; above 0 they wait in CrashLoopBackOff."""
    back_off: float = 0.0
    """Seconds of the present back-off."""
    crashed_at: float = 0.0
    """Time of the last crash in seconds since 1970."""


def running_status(pod: Obj, pod_ip: str, host_ip: str, health: ContainerHealth, now: float) -> dict[str, Any]:
    """Return the status of a pod with started containers. Conditions that no kubelet owns stay."""
    status = pod.get("status") or {}
    spec = pod["spec"]
    at = timestamp(now)
    containers = [_container_status(pod, entry, "containerStatuses", health, at) for entry in spec["containers"]]
    reported: dict[str, Any] = {
        "phase": "Running",
        "observedGeneration": pod["metadata"].get("generation", 0),
        "podIP": status.get("podIP") or pod_ip,
        "podIPs": status.get("podIPs") or [{"ip": pod_ip}],
        "startTime": status.get("startTime") or at,
        "containerStatuses": containers,
        "conditions": _conditions(pod, health, at),
    }
    if host_ip:
        reported["hostIP"] = host_ip
        reported["hostIPs"] = [{"ip": host_ip}]
    if spec.get("initContainers"):
        reported["initContainerStatuses"] = [_init_container_status(pod, entry, at) for entry in spec["initContainers"]]
    return reported


def readiness_gates_met(pod: Obj) -> bool:
    """Return whether every readiness gate of the pod has its condition."""
    for gate in pod["spec"].get("readinessGates") or ():
        found = condition(pod, gate["conditionType"])
        if found is None or found.get("status") != "True":
            return False
    return True


def _conditions(pod: Obj, health: ContainerHealth, at: str) -> list[dict[str, Any]]:
    conditions = [dict(entry) for entry in (pod.get("status") or {}).get("conditions") or ()]
    generation = pod["metadata"].get("generation", 0)
    ready = health.ready and not health.crashes
    names = " ".join(entry["name"] for entry in pod["spec"]["containers"])
    for kind, holds in (
        ("PodReadyToStartContainers", True),
        ("Initialized", True),
        ("ContainersReady", ready),
        ("Ready", ready and readiness_gates_met(pod)),
    ):
        new: dict[str, Any] = {"type": kind, "status": "True" if holds else "False", "lastTransitionTime": at}
        new["observedGeneration"] = generation
        if not holds and not ready:
            new |= {"reason": "ContainersNotReady", "message": f"containers with unready status: [{names}]"}
        elif not holds:
            new |= {"reason": "ReadinessGatesNotReady", "message": "the status of a readiness gate is not True"}
        conditions = with_condition(conditions, new)
    return conditions


def _previous_status(pod: Obj, field: str, name: str) -> Mapping[str, Any]:
    for entry in (pod.get("status") or {}).get(field) or ():
        if entry.get("name") == name:
            return entry  # type: ignore[no-any-return]  # decoded JSON
    return {}


def _container_status(pod: Obj, container: Obj, field: str, health: ContainerHealth, at: str) -> dict[str, Any]:
    before = _previous_status(pod, field, container["name"])
    running = (before.get("state") or {}).get("running")
    resources = container.get("resources") or {}
    status: dict[str, Any] = {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": container.get("image", ""),
        "ready": health.ready and not health.crashes,
        "started": not health.crashes,
        "restartCount": max(health.crashes, before.get("restartCount", 0)),
        "state": {"running": running or {"startedAt": at}},
        "resources": resources,
        "lastState": before.get("lastState") or {},
    }
    # The server stores no empty map, but it stores an empty state. A status in another form would be reported at every
    # reconcile.
    if resources.get("requests"):
        status["allocatedResources"] = resources["requests"]
    if health.crashes:
        name = pod["metadata"]["name"]
        seconds = int(health.back_off)
        told = f"back-off {seconds}s restarting failed container={container['name']} pod={name}"
        status["state"] = {"waiting": {"reason": "CrashLoopBackOff", "message": told}}
        crashed = timestamp(health.crashed_at)
        ended = {"exitCode": 1, "reason": "Error", "startedAt": crashed, "finishedAt": crashed}
        status["lastState"] = {"terminated": ended}
    return status


def _init_container_status(pod: Obj, container: Obj, at: str) -> dict[str, Any]:
    """Return the status: a sidecar runs, and any other init container has completed."""
    status = _container_status(pod, container, "initContainerStatuses", ContainerHealth(), at)
    if container.get("restartPolicy") != "Always":
        ended = {"exitCode": 0, "reason": "Completed", "startedAt": at, "finishedAt": at}
        before = (_previous_status(pod, "initContainerStatuses", container["name"]).get("state") or {}).get(
            "terminated"
        )
        status["state"] = {"terminated": before or ended}
        status["started"] = False
    return status
