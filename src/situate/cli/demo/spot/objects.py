"""Objects of the chapters on spot: nodes of both capacities, ten replicas, the parts of an installation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from situate.cli.demo.kube_objects import build_node, build_pod, build_pod_spec, build_workload
from situate.cli.demo.vpod.objects import CONFIGURATION, SYSTEM, ZONES
from situate.cli.manifests.spot import admission_objects
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.settings.section import parse_section
from situate.spot.config.settings import SpotSettings
from situate.spot.model.object_names import WEBHOOK_PATH
from situate.spot.model.pods_nodes_workloads import CAPACITY_LABEL, ON_DEMAND, ZONE_LABEL

SPOT_NODES: Final = ("demo-spot-1", "demo-spot-2", "demo-spot-3")
NEW_SPOT_NODES: Final = ("demo-spot-4", "demo-spot-5", "demo-spot-6")
"""Nodes that replace the ended ones. New machines have new names, so that no client confuses them with the old ones."""
ON_DEMAND_NODES: Final = ("demo-od-1", "demo-od-2")
REPLICAS: Final = 10
PROBE_DEPLOYMENT: Final = "tried"
"""Deployment without Pods, used to find out whether API servers call the webhook."""
FLOOR: Final = 2
NOTICE_S: Final = 120
"""Notice of most clouds. The story need not wait for its end: empty nodes may be removed."""
NOTICE_TAINT: Final = {"key": "situate-demo/ends", "value": "soon", "effect": "NoSchedule"}
"""Taint of a node that has received its notice."""
SHUTDOWN_TAINT: Final = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
"""Taint of a node that is off, as the administrator of the machines sets it."""
_DEMO_LABELS: Final = {"situate-demo-spot": "true"}
"""Label of these nodes. No other Pods of the demo run there, and these replicas run nowhere else."""


def configuration(port: int) -> dict[str, Any]:
    """Return the configuration as a user would write it, with times that suit the story."""
    return {
        "apiVersion": CONFIGURATION["apiVersion"],
        "kind": CONFIGURATION["kind"],
        "leaderElection": {"namespace": SYSTEM},
        "spot": {
            "webhook": {"address": f"127.0.0.1:{port}", "timeout": "10s"},
            "signals": [{"source": "taint", "key": NOTICE_TAINT["key"], "state": "doomed", "noticeSeconds": NOTICE_S}],
            "start": "1s",
            "evictions": {"coolDown": "0s"},
            "return": {"enabled": False},
        },
    }


def installation_objects(port: int) -> Iterator[dict[str, Any]]:
    """Return the output of `situate manifests spot` without Deployment and rights.

    The API server calls the webhook on this machine.
    """
    settings, _ = parse_section(configuration(port)["spot"], SpotSettings)
    assert settings is not None
    for each in admission_objects(SYSTEM, SYSTEM, {}, settings):
        if each["kind"] == "Service":
            continue
        if each["kind"] == "MutatingWebhookConfiguration":
            each["webhooks"][0]["clientConfig"] = {"url": f"https://127.0.0.1:{port}{WEBHOOK_PATH}"}
        yield each


def capacity(node: str) -> str:
    return "on-demand" if node in ON_DEMAND_NODES else "spot"


def node(name: str) -> dict[str, Any]:
    zone = ZONES[(int(name[-1]) - 1) % len(ZONES)]
    labels = {ZONE_LABEL: zone, CAPACITY_LABEL: capacity(name), **_DEMO_LABELS}
    return build_node(name, labels)


def scout(name: str, node: str) -> dict[str, Any]:
    """Return a Pod of no workload for one node, created before those of the workload."""
    spec = build_pod_spec({"kubernetes.io/hostname": node}, "main", "example.com/web:1")
    return build_pod(f"{name}-scout-{node}", {"app": f"{name}-scout"}, spec)


def probe_pod(replica_set: ObjectMeta) -> dict[str, Any]:
    """Return a Pod as this ReplicaSet of the Deployment `PROBE_DEPLOYMENT` would create it."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": replica_set.name, "uid": replica_set.uid}
    metadata = {
        "generateName": f"{replica_set.name}-",
        "labels": dict(replica_set.labels),
        "ownerReferences": [{**owner, "controller": True}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": _pod_spec()}


def deployment(name: str, replicas: int = REPLICAS) -> dict[str, Any]:
    """Return a Deployment with two of its replicas on demand."""
    return build_workload("Deployment", name, _pod_spec(), {ON_DEMAND: str(FLOOR)}, replicas=replicas)


def _pod_spec() -> dict[str, Any]:
    return build_pod_spec(_DEMO_LABELS, "main", "example.com/web:1", {"cpu": "100m"})
