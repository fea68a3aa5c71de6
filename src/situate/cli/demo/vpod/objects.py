"""Objects of the demo: Nodes, a StatefulSet for vreplicas, ConsumerGroups to place, and plain Pods."""

from __future__ import annotations

from typing import Any

from situate.cli.demo.kube_objects import build_node, build_pod, build_pod_spec, build_workload
from situate.scheduler.config.settings import SCHEDULER_NAME

SYSTEM = "situate-demo"
"""Namespace of the StatefulSet."""
MACHINES_NAMESPACE = "situate-demo-vm"
"""Namespace of the scheduler for VMs. It is separate because the objects of two configurations share names."""
TENANT = "situate-demo-tenant"
"""Namespace of the sources."""
DISPATCHER = "demo-dispatcher"
SOURCE_KIND = "demo"
CAPACITY = 8
"""Vreplicas that a Pod holds."""
NODES = ("demo-a", "demo-b", "demo-c")
NODE_LABELS = {"situate-demo": "true"}
"""Labels of these nodes."""
ZONES = ("north", "south", "west")
TASKS = "demo-tasks"
"""Label of the plain Pods."""
REPORT = "report"
"""Plain Pod that needs an SSD."""
TAINT = {"key": "team", "value": "b", "effect": "NoSchedule"}
"""Taint of the only node with an SSD."""

CONFIGURATION = {
    "apiVersion": "situate.dev/v1alpha1",
    "kind": "Situate",
    "leaderElection": {"namespace": SYSTEM, "leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "500ms"},
    "vpod": [
        {
            "statefulSetNamespace": SYSTEM,
            "statefulSetName": DISPATCHER,
            "podCapacity": CAPACITY,
            "sources": [{"kind": "ConsumerGroup", "namespace": TENANT, "sourceKind": SOURCE_KIND}],
            "refreshPeriod": "2s",
            "scaleDownStabilization": "3s",
            "podGrace": "3s",
            "drain": {"settle": "1s"},
            "rebalance": {"enabled": True, "interval": "2s", "maxMovesPerVPod": 8, "maxMoves": "50%"},
        }
    ],
    "scheduler": {},
}
"""Configuration as a user would write it, with times short enough to watch."""


def node(name: str, zone: str) -> dict[str, Any]:
    return build_node(name, {"topology.kubernetes.io/zone": zone, **NODE_LABELS})


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def dispatcher() -> dict[str, Any]:
    """Return the StatefulSet. Its Pods run nothing; they are spread over the demo's nodes and hold vreplicas."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": DISPATCHER}},
    }
    pod = build_pod_spec(
        NODE_LABELS, "worker", "example.com/worker:1", {"cpu": "1"}, topologySpreadConstraints=[spread]
    )
    return build_workload(
        "StatefulSet", DISPATCHER, pod, replicas=0, serviceName=DISPATCHER, podManagementPolicy="Parallel"
    )


def task(name: str, **selector: str) -> dict[str, Any]:
    """Return a Pod with small requests, for the demo's nodes with the given labels."""
    nodes = {**NODE_LABELS, **selector}
    spec = build_pod_spec(nodes, "task", "example.com/task:1", {"cpu": "10m"}, schedulerName=SCHEDULER_NAME)
    return build_pod(name, {"app": TASKS}, spec)


def consumer_group(name: str, replicas: int) -> dict[str, Any]:
    labels = {"kafka.eventing.knative.dev/metadata.uid": name}
    return {
        "apiVersion": "internal.kafka.eventing.knative.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {
            "name": name,
            "namespace": TENANT,
            "labels": {"kafka.eventing.knative.dev/metadata.kind": SOURCE_KIND},
        },
        "spec": {
            "replicas": replicas,
            "selector": labels,
            "template": {"metadata": {"labels": labels}, "spec": {"topics": [name]}},
        },
    }
