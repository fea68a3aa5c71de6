"""Nodes as JSON: the reports of a simulated kubelet, and initial nodes of a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from situate.cluster.errors.times import timestamp

DEFAULT_CAPACITY: Mapping[str, str] = {"cpu": "32", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110"}
"""Capacity of nodes that do not state theirs."""

VERSION = "v1.36.3"
"""The nodes' kubeletVersion."""

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"

_PRESSURES = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)


def node(
    name: str,
    *,
    cpu: str = "32",
    memory: str = "256Gi",
    pods: int = 110,
    zone: str = "",
    labels: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a Node as a kubelet registers it."""
    own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    if zone:
        own[ZONE] = zone
    room = {"cpu": cpu, "memory": memory, "ephemeral-storage": "1Ti", "pods": str(pods)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**own, **(labels or {})}},
        "status": {"capacity": dict(room), "allocatable": dict(room)},
    }


def nodes(
    count: int,
    *,
    cpu: str = "32",
    memory: str = "256Gi",
    pods: int = 110,
    zones: Iterable[str] = (),
    prefix: str = "node-",
) -> list[dict[str, Any]]:
    """Return equal nodes `node-0`, `node-1`, ... distributed over the zones in turn."""
    names = list(zones)
    return [
        node(
            f"{prefix}{number}",
            cpu=cpu,
            memory=memory,
            pods=pods,
            zone=names[number % len(names)] if names else "",
        )
        for number in range(count)
    ]


def ready_status(obj: Mapping[str, Any], address: str, now: float) -> dict[str, Any]:
    """Return the report of a healthy kubelet: conditions, addresses, and capacity if the node has none."""
    status = obj.get("status") or {}
    reported: dict[str, Any] = {"conditions": _conditions(status.get("conditions") or (), now)}
    if not status.get("allocatable"):
        room = dict(status.get("capacity") or DEFAULT_CAPACITY)
        reported["capacity"] = reported["allocatable"] = room
    if not status.get("addresses"):
        hostname = {"type": "Hostname", "address": obj["metadata"]["name"]}
        reported["addresses"] = [{"type": "InternalIP", "address": address}, hostname]
    if not (status.get("nodeInfo") or {}).get("kubeletVersion"):
        reported["nodeInfo"] = _node_info(obj["metadata"]["uid"])
    return reported


def _node_info(uid: str) -> dict[str, str]:
    return {
        "machineID": uid,
        "systemUUID": uid,
        "bootID": uid,
        "kernelVersion": "6.0.0-situate",
        "osImage": "situate stand-in",
        "containerRuntimeVersion": "situate://0.1",
        "kubeletVersion": VERSION,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


def _conditions(before: Iterable[Mapping[str, Any]], now: float) -> list[dict[str, Any]]:
    at = timestamp(now)
    known = {entry.get("type"): entry for entry in before}
    wanted = [(kind, "False", reason, message) for kind, reason, message in _PRESSURES]
    wanted.append(("Ready", "True", "KubeletReady", "kubelet is posting ready status"))
    conditions = [dict(entry) for entry in before if entry.get("type") not in {kind for kind, *_ in wanted}]
    for kind, status, reason, message in wanted:
        old = known.get(kind)
        same = old is not None and old.get("status") == status and old.get("lastTransitionTime")
        conditions.append(
            {
                "type": kind,
                "status": status,
                "lastHeartbeatTime": at,
                "lastTransitionTime": old["lastTransitionTime"] if same and old else at,
                "reason": reason,
                "message": message,
            }
        )
    return conditions
