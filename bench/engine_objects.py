"""Nodes and pods for the benchmarks of the engine, as a cluster's API server shows them.

Pods are read from the lines of a watch, as the live scheduler does, so that what equal pods have in common is shared.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from situate.objects.decoding.codec import changes_decoder
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod
from situate.objects.resources import NODES, PODS

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"

_LASTING = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
_TOLERATIONS = [
    {"key": "node.kubernetes.io/not-ready", **_LASTING},
    {"key": "node.kubernetes.io/unreachable", **_LASTING},
]


def container(requests: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """One that only waits; as much as it asks for is its limit."""
    amounts = requests or {}
    resources = {"limits": amounts, "requests": amounts} if amounts else {}
    return {
        "name": "pause",
        "image": "registry.example/pause:3.10",
        "resources": resources,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "imagePullPolicy": "IfNotPresent",
        **more,
    }


def pod_spec(requests: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """With what admission adds."""
    return {
        "containers": [container(requests)],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "serviceAccountName": "default",
        "securityContext": {},
        "schedulerName": "default-scheduler",
        "tolerations": _TOLERATIONS,
        "priority": 0,
        "enableServiceLinks": True,
        "preemptionPolicy": "PreemptLowerPriority",
        **more,
    }


def pod_event(
    name: str, spec: dict[str, Any], namespace: str = "default", labels: dict[str, str] | None = None, **metadata: Any
) -> bytes:
    """A line of a watch that tells of a new pod; its uid is made of its name."""
    pod = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"{namespace}/{name}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-01-02T03:04:05Z",
            **({"labels": labels} if labels else {}),
            **metadata,
        },
        "spec": spec,
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }
    return json.dumps({"type": "ADDED", "object": pod}, separators=(",", ":")).encode() + b"\n"


def equal_pods(
    prefix: str,
    count: int,
    spec: dict[str, Any],
    namespace: str = "default",
    labels: dict[str, str] | None = None,
    **metadata: Any,
) -> list[Pod]:
    """So many pods that differ in nothing but their names, `PREFIX-0` and so on."""
    return read_pods(equal_lines(prefix, count, spec, namespace, labels, **metadata))


def equal_lines(
    prefix: str,
    count: int,
    spec: dict[str, Any],
    namespace: str = "default",
    labels: dict[str, str] | None = None,
    **metadata: Any,
) -> Iterator[bytes]:
    """The lines of a watch that tell of them."""
    parts = pod_event(f"{prefix}-@number@", spec, namespace, labels, **metadata).split(b"@number@")
    return (str(number).encode().join(parts) for number in range(count))


def read_pods(lines: Iterable[bytes]) -> list[Pod]:
    """The pods that the lines of a watch tell of."""
    pods = []
    for change in changes_decoder(PODS)(lines):
        assert change is not None
        pods.append(change[1])
    return pods


def nodes(
    count: int,
    zones: Sequence[str] = (),
    room: dict[str, str] | None = None,
    *,
    prefix: str = "node",
    labels: dict[str, str] | None = None,
    taints: Sequence[dict[str, str]] = (),
) -> list[Node]:
    """Alternating over the zones; the room is that of scheduler_perf's nodes where none is given."""
    lines = []
    for number in range(count):
        name = f"{prefix}-{number}"
        zone = {ZONE: zones[number % len(zones)]} if zones else {}
        lines.append(node_event(name, {HOSTNAME: name, **zone, **(labels or {})}, room, taints))
    return read_nodes(lines)


def node_event(
    name: str, labels: dict[str, str], room: dict[str, str] | None = None, taints: Sequence[dict[str, str]] = ()
) -> bytes:
    """A line of a watch that tells of a new node."""
    amounts = room or {"cpu": "4", "memory": "32Gi", "pods": "110"}
    node = {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "uid": name, "resourceVersion": "1", "labels": labels},
        "spec": {"taints": taints} if taints else {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }
    return json.dumps({"type": "ADDED", "object": node}, separators=(",", ":")).encode() + b"\n"


def read_nodes(lines: Iterable[bytes]) -> list[Node]:
    """The nodes that the lines of a watch tell of."""
    found = []
    for change in changes_decoder(NODES)(lines):
        assert change is not None
        found.append(change[1])
    return found
