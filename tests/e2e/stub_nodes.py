"""Nodes that are ready once and then say nothing more, beside those that kwok plays.

Their Leases are held by somebody else and end in an hour, so kwok leaves the nodes and their pods alone; nobody renews
them but in a block of `speaking`, and the stock controller-manager finds them silent in its own time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from tests.controlplane.errors import ControlPlaneError
from tests.controlplane.plane import ControlPlane
from tests.waiting import eventually

_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_HELD_S = 3600
_EVERY_S = 5.0


def add_stub_node(plane: ControlPlane, name: str, labels: Mapping[str, str]) -> None:
    now = datetime.now(UTC)
    held = {"holderIdentity": name, "leaseDurationSeconds": _HELD_S, "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}
    plane.request("POST", _LEASES, {"metadata": {"name": name}, "spec": held})
    room = {"cpu": "32", "memory": "64Gi", "pods": "110"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok"}
    times = dict.fromkeys(("lastHeartbeatTime", "lastTransitionTime"), now.strftime("%Y-%m-%dT%H:%M:%SZ"))
    status = {"capacity": room, "allocatable": room, "conditions": [ready | times]}
    body = {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}, "status": status}
    plane.request("POST", "/api/v1/nodes", body)


@contextmanager
def speaking(plane: ControlPlane, *names: str) -> Iterator[None]:
    """The stub nodes say that they are alive, as often as kubelets do; their silence begins after the block."""
    over = threading.Event()

    def speak() -> None:
        while not over.wait(_EVERY_S):
            for name in names:
                lease = plane.request("GET", f"{_LEASES}/{name}")
                lease["spec"]["renewTime"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
                plane.request("PUT", f"{_LEASES}/{name}", lease)

    thread = threading.Thread(target=speak, name="stub nodes", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def run_pod(plane: ControlPlane, namespace: str, name: str) -> None:
    """Reports a pod as running and ready, as the kubelet of its node would."""
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def reported() -> bool:
        pod = plane.request("GET", path)
        types = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
        conditions = [{"type": each, "status": "True", "lastTransitionTime": now} for each in types]
        pod["status"] |= {"phase": "Running", "startTime": now, "podIP": "10.9.9.9", "podIPs": [{"ip": "10.9.9.9"}]}
        pod["status"]["conditions"] = [*pod["status"].get("conditions", ()), *conditions]
        try:
            plane.request("PUT", f"{path}/status", pod)
        except ControlPlaneError as refused:
            if ": 409 " in str(refused):
                return False
            raise
        return True

    eventually(f"pod {name} is reported", reported)


def ready_condition(node: Mapping[str, Any]) -> str:
    return next((each["status"] for each in node["status"]["conditions"] if each["type"] == "Ready"), "")


def taints(node: Mapping[str, Any]) -> set[str]:
    """As `key:effect`."""
    return {f"{each['key']}:{each['effect']}" for each in node["spec"].get("taints", ())}
