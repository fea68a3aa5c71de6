"""Random clusters: nodes, pods in place, and whatever else a decision may depend on."""

from __future__ import annotations

from typing import Any

from tests.e2e.differential.api import Object
from tests.e2e.differential.configuration import GPU, IGNORED
from tests.e2e.differential.drawing import FEATURES, HOSTNAME, IMAGES, MEBI, ZONE, Draw
from tests.e2e.differential.extenders import ASKED, TASTER
from tests.e2e.differential.objects import NAMESPACES, Cluster
from tests.e2e.differential.pods import Theme, draw_pod
from tests.e2e.differential.volumes import draw_storage


def draw_cluster(draw: Draw) -> Cluster:
    """Up to a hundred nodes, mostly few: where little room is left, refusals and ties are common."""
    count = draw.one(
        (draw.number(2, 6), draw.number(3, 8), draw.number(4, 12), draw.number(8, 30), draw.number(30, 100))
    )
    lively = draw.one((0.0, 0.1, 0.3))  # so many nodes have taints, or are cordoned
    nodes = [_node(draw, number, lively) for number in range(count)]
    if draw.chance(0.4):  # where all are of one size, it is their load that tells them apart
        for node in nodes:
            node["status"] |= {each: nodes[0]["status"][each] for each in ("capacity", "allocatable")}
    cluster: Cluster = {
        "namespaces": [_namespace(draw, name) for name in NAMESPACES],
        "nodes": nodes,
        "services": [_service(draw, number) for number in range(draw.number(0, 3))],
        "replicationcontrollers": _owners(draw, "ReplicationController"),
        "replicasets": _owners(draw, "ReplicaSet"),
        "statefulsets": _owners(draw, "StatefulSet"),
        "poddisruptionbudgets": [_budget(draw, number) for number in range(draw.number(0, 3))],
        "pods": [],
    }
    if draw.chance(0.85):
        cluster |= draw_storage(draw, nodes)
    busy = draw.one((1, 2, 4))
    homes = [node["metadata"]["name"] for node in nodes for _ in range(draw.number(0, busy))]
    starts = draw.some(range(len(homes)), len(homes), len(homes))
    cluster["pods"] += [
        _in_place(draw, f"{node}-{number}", node, start, claims_of(cluster))
        for number, (node, start) in enumerate(zip(homes, starts, strict=True))
    ]
    for node in nodes:
        _share_no_ports([pod for pod in cluster["pods"] if pod["spec"]["nodeName"] == node["metadata"]["name"]])
    if draw.chance(0.4):
        cluster["pods"] += [_promised(draw, number, nodes) for number in range(draw.number(1, 2))]
    return cluster


def _namespace(draw: Draw, name: str) -> Object:
    return {"metadata": {"name": name, "labels": draw.maybe(0.8, "team", lambda: draw.one("xy"))}}


def changed_nodes(draw: Draw, cluster: Cluster) -> list[Object]:
    """Some of the nodes as they are later, and now and then a new one."""
    count = len(cluster["nodes"])
    numbers = sorted(draw.some(range(count), 1, count // 2 + 1)) + ([count] if draw.chance(0.4) else [])
    return [_node(draw, number, 0.1) for number in numbers]


def _node(draw: Draw, number: int, lively: float) -> Object:
    name = f"node-{number}"
    labels = {"kind": draw.one("aabc"), "gen": draw.one(("1", "2", "3", "x"))}
    labels |= draw.maybe(0.9, ZONE, lambda: draw.one(("z1", "z2", "z3")))
    labels |= draw.maybe(0.93, HOSTNAME, lambda: name if draw.chance(0.95) else "another")
    labels |= draw.maybe(0.7, "rack", lambda: draw.one(("r1", "r2")))
    room = {
        "cpu": draw.one(("1", "2", "4", "7500m", "16")),
        "memory": draw.one(("2Gi", "4Gi", "16Gi", "33333333k")),
        "pods": draw.one(("3", "5", "110", "110")),
        "ephemeral-storage": draw.one(("3Gi", "50Gi")),
    }
    room |= draw.maybe(0.5, GPU, lambda: draw.one(("0", "2", "8")))
    room |= draw.maybe(0.2, IGNORED, lambda: draw.one(("1", "4")))
    room |= draw.maybe(0.3, "hugepages-2Mi", lambda: draw.one(("8Mi", "64Mi")))
    room |= dict.fromkeys(ASKED, "50") | {TASTER: draw.one(("1", "8"))}
    spec: dict[str, Any] = {}
    if draw.chance(lively):
        spec["unschedulable"] = True
    if draw.chance(2 * lively):
        spec["taints"] = _taints(draw)
    if draw.chance(0.2):
        spec["taints"] = [*spec.get("taints", ()), {"key": "avoid", "effect": "PreferNoSchedule"}]
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {
            "capacity": room,
            "allocatable": room,
            "images": [{"names": [name], "sizeBytes": IMAGES[name] * MEBI} for name in draw.some(list(IMAGES), 0, 3)],
            "declaredFeatures": sorted(draw.some(FEATURES, 0, draw.one((0, 0, 1, 2)))),
        },
    }


def _taints(draw: Draw) -> list[Object]:
    pairs = [(key, effect) for key in "kl" for effect in ("NoSchedule", "NoExecute", "PreferNoSchedule")]
    return [{"key": key, "effect": effect, "value": draw.one("vw")} for key, effect in draw.some(pairs, 1, 2)]


def _service(draw: Draw, number: int) -> Object:
    spec: Object = {
        "clusterIP": "None",
        "ports": [{"port": 80}],
        **draw.maybe(0.9, "selector", lambda: {"app": "a", **draw.labels()}),
    }
    return {"metadata": {"name": f"service-{number}", "namespace": draw.one(NAMESPACES[:2])}, "spec": spec}


def _owners(draw: Draw, kind: str) -> list[Object]:
    """Named `web`, one a namespace at most; nothing acts on them."""
    found: list[Object] = []
    for namespace in NAMESPACES[:2]:
        if not draw.chance(0.4):
            continue
        labels = {"app": draw.one("ab"), **draw.maybe(0.5, "tier", lambda: draw.one("cd"))}
        selector: Any = {"matchLabels": labels} if kind != "ReplicationController" else labels
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}}
        spec: Object = {"replicas": 0, "selector": selector, "template": template}
        if kind == "StatefulSet":
            spec["serviceName"] = "web"
        found.append({"metadata": {"name": "web", "namespace": namespace}, "spec": spec})
    return found


def _budget(draw: Draw, number: int) -> Object:
    selector = {} if draw.chance(0.1) else draw.selector()
    status = {
        "disruptionsAllowed": draw.one((0, 0, 0, 1, 2)),
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
        "observedGeneration": 1,
        **draw.maybe(0.3, "disruptedPods", lambda: {f"node-{draw.number(0, 4)}-{draw.number(0, 9)}": started(0)}),
    }
    return {
        "metadata": {"name": f"budget-{number}", "namespace": draw.one(NAMESPACES[:2])},
        "spec": {"minAvailable": 1, "selector": selector},
        "status": status,
    }


def claims_of(cluster: Cluster) -> list[tuple[str, str]]:
    """Namespace and name of each."""
    listed = (claim["metadata"] for claim in cluster.get("persistentvolumeclaims", ()))
    return [(metadata["namespace"], metadata["name"]) for metadata in listed]


def _in_place(draw: Draw, name: str, node: str, start: int, claims: list[tuple[str, str]]) -> Object:
    """A pod on a node: running for some time, on its way out, done, or under resize.

    No two have started in the same second: of two equally important pods kube-scheduler takes any for the more
    important one, and without a start time even each before the other (pkg/scheduler/util/utils.go MoreImportantPod).
    """
    pod = draw_pod(draw, name, Theme.IN_PLACE, claims)
    pod["spec"]["nodeName"] = node
    if pod["spec"]["terminationGracePeriodSeconds"] and draw.chance(0.16):
        pod["metadata"]["deletionTimestamp"] = "soon"
    status: Object = {"phase": "Running", "startTime": started(start)}
    if draw.chance(0.04):
        status["phase"] = draw.one(("Succeeded", "Failed"))
    elif draw.chance(0.1):
        status |= _resizing(draw, pod)
    return {**pod, "status": status}


def _share_no_ports(pods: list[Object]) -> None:
    """Of one node: no scheduler lets a host port be taken twice, and kube-scheduler takes it for free again as soon as
    one of the two pods goes (HostPortInfo of kube-scheduler/framework/types.go is a set).
    """
    taken: set[tuple[Any, ...]] = set()
    for container in (container for pod in pods for container in pod["spec"]["containers"]):
        free = []
        for port in container.get("ports", ()):
            what = (port["hostPort"], port["protocol"], port.get("hostIP", "0.0.0.0"))
            if what not in taken:
                taken.add(what)
                free.append(port)
        if "ports" in container:
            container["ports"] = free


def started(number: int) -> str:
    """A time of its own for each."""
    return f"2026-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z"


def _resizing(draw: Draw, pod: Object) -> Object:
    """What a kubelet says of containers whose resources it is changing."""
    statuses = []
    for container in pod["spec"]["containers"]:
        given = {name: draw.one(("100m", "700m", "1500m")) if name == "cpu" else "256Mi" for name in ("cpu", "memory")}
        statuses.append(
            {
                "name": container["name"],
                "image": container["image"],
                "imageID": "",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
                "resources": {"requests": given},
                **draw.maybe(0.5, "allocatedResources", lambda: {"cpu": "900m", "memory": "128Mi"}),
            }
        )
    found: Object = {"containerStatuses": statuses}
    if draw.chance(0.3):
        found["conditions"] = [
            {"type": "PodResizePending", "status": "True", "reason": draw.one(("Infeasible", "Deferred"))}
        ]
    return found


def _promised(draw: Draw, number: int, nodes: list[Object]) -> Object:
    """A pod that has been promised a node and may not go there yet."""
    pod = draw_pod(draw, f"promised-{number}", Theme.PROMISED)
    pod["spec"]["schedulingGates"] = [{"name": "example.com/later"}]
    pod["status"] = {"nominatedNodeName": draw.one(nodes)["metadata"]["name"]}
    return pod
