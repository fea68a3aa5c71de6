"""Values of spot that say only what matters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from situate.objects.kinds.nodes import Node
from situate.objects.values.quantity import decode_quantity
from situate.spot.admission.admit import AdmissionSettings
from situate.spot.config.settings import SpotSettings
from situate.spot.model.misplaced_pods import Workload
from situate.spot.model.pods_nodes_workloads import Capacity, NodeFacts, NodeState, Owner, PodFacts, PodKey
from situate.spot.workloads.cluster_objects import Cluster
from situate.spot.workloads.on_demand_target import Namespace
from situate.spot.workloads.owners import Controller, ReplicaSetFacts

NOW = 1_000_000.0
UID = "uid-web"
SET = "uid-web-r1"
OD, SPOT, UNKNOWN = Capacity.ON_DEMAND, Capacity.SPOT, Capacity.UNKNOWN
NODES: Mapping[str, NodeFacts] = {
    "od": NodeFacts("od", OD),
    "spot": NodeFacts("spot", SPOT, pool="m5/a", instance_type="m5", zone="a", created=NOW - 3600),
    "bare": NodeFacts("bare"),
    "cordoned": NodeFacts("cordoned", SPOT, NodeState.CORDONED, cordoned=True),
    "risky": NodeFacts("risky", SPOT, NodeState.AT_RISK),
    "doomed": NodeFacts("doomed", SPOT, NodeState.DOOMED, deadline=NOW + 120),
    "doomed-od": NodeFacts("doomed-od", OD, NodeState.DOOMED, deadline=NOW + 120),
    "dead": NodeFacts("dead", SPOT, NodeState.DEAD, deadline=NOW),
}


def pod(name: str, on: str = "", meant: Capacity | None = None, **more: Any) -> PodFacts:
    """Ready for long if it has a node; of the ReplicaSet SET and revision r1 unless said."""
    given: dict[str, Any] = {
        "controller": SET,
        "revision": "r1",
        "phase": "Running" if on else "Pending",
        "ready": bool(on),
        "created": NOW - 5000,
        "started": NOW - 5000 if on else None,
        "labels": {"app": "web", "pod-template-hash": more.get("revision", "r1")},
    }
    given |= more
    if given["ready"]:
        given.setdefault("ready_since", NOW - 4000)
    return PodFacts(PodKey("shop", name), more.pop("uid", f"uid-{name}"), pod_class=meant, node=on, **given)


def pods(spec: str) -> list[PodFacts]:
    """`od:2 spot:3` as so many pods of that class on nodes of that capacity."""
    made = []
    for part in spec.split():
        place, _, count = part.partition(":")
        meant = {"od": OD, "spot": SPOT}.get(place)
        made += [pod(f"{place}-{number}", place, meant) for number in range(int(count))]
    return made


def owner(replicas: int = 5, kind: str = "Deployment", **more: Any) -> Owner:
    given: dict[str, Any] = {
        "stateful": kind == "StatefulSet",
        "releasable": kind == "Deployment",
        "revision": "r1",
    }
    return Owner(kind, "shop", more.pop("name", "web"), more.pop("uid", UID), replicas, **{**given, **more})


def workload(target: int, spec: str, replicas: int | None = None, **more: Any) -> Workload:
    """With as many replicas as pods unless said."""
    made = pods(spec)
    return Workload(owner(len(made) if replicas is None else replicas, **more), target, made)


def cluster(of: Owner, given: list[PodFacts], **more: Any) -> Cluster:
    between = ReplicaSetFacts(
        SET, Controller("apps/v1", of.kind, of.name, of.uid), "shop", f"{of.name}-r1", of.replicas, "r1"
    )
    fields: dict[str, Any] = {
        "owners": {of.uid: of},
        "replica_sets": {} if of.stateful else {SET: between},
        "pods": {of.uid: given},
        "nodes": NODES,
        "namespaces": {"shop": Namespace("shop")},
    }
    return Cluster(**{**fields, **more})


def node(**wire: Any) -> Node:
    """`labels`, `taints`, `conditions` and what else metadata and spec have."""
    metadata = {"name": "n", "labels": wire.pop("labels", {})}
    metadata |= {key: wire.pop(key) for key in ("creationTimestamp", "deletionTimestamp") if key in wire}
    spec = {"taints": wire.pop("taints", []), "unschedulable": wire.pop("unschedulable", False)}
    status = {"conditions": wire.pop("conditions", [])}
    assert not wire, wire
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Node, dec_hook=decode_quantity)


def created_by(
    by: str = SET, kind: str = "ReplicaSet", name: str = "", spec: Mapping[str, Any] | None = None, **metadata: Any
) -> dict[str, Any]:
    """The JSON of a new pod."""
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": "web-r1", "uid": by, "controller": True}
    content: dict[str, Any] = {"labels": {"pod-template-hash": "r1"}, "ownerReferences": [reference], **metadata}
    if name:
        content["name"] = name
    return {
        "metadata": content,
        "spec": {"containers": [{"name": "main", "image": "example.com/app:1"}], **(spec or {})},
    }


def settings(**more: Any) -> AdmissionSettings:
    return SpotSettings(**more).admission_settings(namespace="situate")
