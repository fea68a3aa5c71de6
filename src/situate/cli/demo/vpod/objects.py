"""Objects of the demo: Nodes, a StatefulSet for vreplicas, ConsumerGroups to place, and plain Pods."""

from __future__ import annotations

from typing import Any

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
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, "situate-demo": "true"},
        },
    }


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def dispatcher() -> dict[str, Any]:
    """Return the StatefulSet. Its Pods run nothing; they are spread over the demo's nodes and hold vreplicas."""
    labels = {"app": DISPATCHER}
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": labels},
    }
    pod = {
        "nodeSelector": {"situate-demo": "true"},
        "topologySpreadConstraints": [spread],
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "worker", "image": "example.com/worker:1", "resources": {"requests": {"cpu": "1"}}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": DISPATCHER, "namespace": SYSTEM},
        "spec": {
            "replicas": 0,
            "serviceName": DISPATCHER,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def task(name: str, **selector: str) -> dict[str, Any]:
    """Return a Pod with small requests, for the demo's nodes with the given labels."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": TASKS}},
        "spec": {
            "schedulerName": SCHEDULER_NAME,
            "nodeSelector": {"situate-demo": "true", **selector},
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "task", "image": "example.com/task:1", "resources": {"requests": {"cpu": "10m"}}}],
        },
    }


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
