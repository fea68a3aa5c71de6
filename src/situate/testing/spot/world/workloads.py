"""Workloads of a history as their users write them."""

from __future__ import annotations

from typing import Any

from situate.spot.model.pods_nodes_workloads import LEADER, ON_DEMAND
from situate.spot.workloads.owners import KINDS
from situate.testing.spot.world.initial_objects import WorkloadPlan
from situate.testing.spot.world.world import SHOP


def workload(plan: WorkloadPlan) -> dict[str, Any]:
    """Build a workload as its user writes it."""
    labels = {"app": plan.name}
    pod: dict[str, Any] = {
        "terminationGracePeriodSeconds": 2,
        "containers": [{"name": "c", "image": "example.com/c:1", "resources": {"requests": {"cpu": "100m"}}}],
    }
    if plan.zone:
        pod["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _zone_terms(plan.zone)}}
    spec: dict[str, Any] = {
        "replicas": plan.replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
        "minReadySeconds": plan.min_ready_s,
    }
    if plan.kind == "StatefulSet":
        spec |= {"serviceName": plan.name, "podManagementPolicy": "Parallel" if plan.parallel else "OrderedReady"}
    elif plan.kind == "Deployment":
        rolling = {"maxSurge": "25%", "maxUnavailable": 0} if plan.surge else {"maxSurge": 0, "maxUnavailable": 1}
        spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}
    annotations = {ON_DEMAND: plan.policy} if plan.policy else {}
    annotations |= {LEADER: plan.leader} if plan.leader else {}
    kind = KINDS[plan.kind]
    named = {"apiVersion": f"{kind.group}/{kind.version}", "kind": kind.kind}
    return {**named, "metadata": {"name": plan.name, "annotations": annotations}, "spec": spec}


def collection(plan: WorkloadPlan) -> str:
    """Return the path of the collection of its kind."""
    kind = KINDS[plan.kind]
    return f"/apis/{kind.group}/{kind.version}/namespaces/{SHOP}/{kind.plural}"


def _zone_terms(zone: str) -> dict[str, Any]:
    def term(value: str) -> dict[str, Any]:
        return {"matchExpressions": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": [value]}]}

    return {"nodeSelectorTerms": [term(zone), term("zone-of-nobody")]}
