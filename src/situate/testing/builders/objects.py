"""Kubernetes objects as a client sends them: the caller gives the values that matter, and defaults fill the rest.

client.create(PODS, pod("web", cpu="500m", node="n1"), "default")
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from situate.cluster.controllers.node.nodes import node, nodes

__all__ = ["consumer_group", "node", "nodes", "pod", "stateful_set"]


def pod(
    name: str,
    *,
    cpu: str = "",
    memory: str = "",
    node: str = "",
    labels: Mapping[str, str] | None = None,
    scheduler: str = "default-scheduler",
) -> dict[str, Any]:
    """Build a Pod with one container that requests the given amounts. With `node` it is already bound."""
    requests = {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount}
    container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": requests} if requests else {}}
    spec: dict[str, Any] = {"schedulerName": scheduler, "containers": [container]}
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": name, "labels": dict(labels or {})}, "spec": spec}


def stateful_set(name: str, *, replicas: int = 0, parallel: bool = True) -> dict[str, Any]:
    """Build a StatefulSet with Pods NAME-0, NAME-1 … and the selector `app: NAME`."""
    labels = {"app": name}
    template = pod(name, labels=labels)
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": "Parallel" if parallel else "OrderedReady",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template["spec"]},
        },
    }


def consumer_group(
    name: str, vreplicas: int, *, kind: str = "kafkasource", placements: Iterable[tuple[str, int]] = ()
) -> dict[str, Any]:
    """Build a source for vpod. The kind label `kind` chooses its StatefulSet. A create call drops the status."""
    labels = {"kafka.eventing.knative.dev/metadata.kind": kind}
    content: dict[str, Any] = {
        "metadata": {"name": name, "labels": labels},
        "spec": {"replicas": vreplicas, "template": {"spec": {"topics": [name]}}},
    }
    placed = [{"podName": pod_name, "vreplicas": number} for pod_name, number in placements]
    if placed:
        content["status"] = {"placements": placed}
    return content
