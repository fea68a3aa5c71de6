"""The objects that the suite writes, and where they are found."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

IMAGE = "registry.example/app:1"


def core(namespace: str, resource: str, name: str = "", sub: str = "") -> str:
    return _path("/api/v1", namespace, resource, name, sub)


def apps(namespace: str, resource: str, name: str = "", sub: str = "") -> str:
    return _path("/apis/apps/v1", namespace, resource, name, sub)


def group(api: str, namespace: str, resource: str, name: str = "", sub: str = "") -> str:
    """`api` is group and version, as in policy/v1; namespace "" is the cluster, or all namespaces."""
    return _path(f"/apis/{api}", namespace, resource, name, sub)


def _path(root: str, namespace: str, *rest: str) -> str:
    parts = [root, *(["namespaces", namespace] if namespace else []), *(part for part in rest if part)]
    return "/".join(parts)


def configmap(name: str, data: Json | None = None, **metadata: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        **({"data": data} if data is not None else {}),
    }


def container(name: str = "app", *, requests: Json | None = None, limits: Json | None = None) -> Json:
    resources = {**({"requests": requests} if requests else {}), **({"limits": limits} if limits else {})}
    return {"name": name, "image": IMAGE, **({"resources": resources} if resources else {})}


def pod(
    name: str = "", *, requests: Json | None = None, limits: Json | None = None, meta: Json | None = None, **spec: Any
) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**({"name": name} if name else {}), **(meta or {})},
        "spec": {"containers": [container(requests=requests, limits=limits)], **spec},
    }


def node(name: str, *, labels: Json | None = None, cpu: str = "8", taints: list[Json] | None = None) -> Json:
    room = {"cpu": cpu, "memory": "32Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {"taints": taints} if taints else {},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok"}],
        },
    }


def binding(name: str, target: str, **metadata: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": target},
    }


def eviction(name: str, **options: Any) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name},
        **({"deleteOptions": options} if options else {}),
    }


def budget(name: str, labels: Json, **spec: Any) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, **spec},
    }


def template(labels: Json, **spec: Any) -> Json:
    return {"metadata": {"labels": labels}, "spec": {"containers": [container()], **spec}}


def deployment(name: str, replicas: int = 1, *, app: str = "", pod_spec: Json | None = None, **spec: Any) -> Json:
    labels = {"app": app or name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": template(labels, **(pod_spec or {})),
            **spec,
        },
    }


def statefulset(name: str, replicas: int = 1, *, pod_spec: Json | None = None, **spec: Any) -> Json:
    made = deployment(name, replicas, pod_spec=pod_spec)
    return {**made, "kind": "StatefulSet", "spec": {**made["spec"], "serviceName": name, **spec}}


def replicaset(name: str, replicas: int = 1, *, app: str = "", pod_spec: Json | None = None) -> Json:
    return {**deployment(name, replicas, app=app, pod_spec=pod_spec), "kind": "ReplicaSet"}


def bound(made: Json) -> Json:
    """The same pod with the status of one that runs and is Ready, for `…/status`."""
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("Initialized", "ContainersReady", "Ready", "PodScheduled")
    ]
    statuses = [
        {
            "name": each["name"],
            "image": each["image"],
            "imageID": each["image"],
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            "resources": each.get("resources", {}),
        }
        for each in made["spec"]["containers"]
    ]
    status = {"phase": "Running", "podIP": "10.1.2.3", "conditions": conditions, "containerStatuses": statuses}
    return {**made, "status": status}
