"""Objects of the chapters on sharding: a kind, executors for it, and their supervisor's configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from situate.cli.demo.kube_objects import build_workload
from situate.cli.demo.sharding.kind import RENDERS
from situate.cli.demo.vpod.objects import CONFIGURATION, NODE_LABELS, SYSTEM, TENANT

EXECUTORS: Final = "demo-executors"
"""Name of the Deployment, and label of its Pods."""
ACCOUNT: Final = f"{RENDERS.plural}-executor"
"""ServiceAccount of executors, as the manifests name it."""
EXECUTOR_COUNT: Final = 3
"""Number of executors."""
LEASE_S: Final = 6.0
ROLLED_ANNOTATION: Final = "situate-demo/rolled"
"""Annotation of the Deployment's Pods. A change of it rolls them."""
_OPEN_SCHEMA: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition() -> dict[str, Any]:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _OPEN_SCHEMA, "status": _OPEN_SCHEMA}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": RENDERS.group_resource},
        "spec": {
            "group": RENDERS.group,
            "scope": "Namespaced",
            "names": {"plural": "renders", "singular": "render", "kind": "Render"},
            "versions": [version],
        },
    }


def deployment() -> dict[str, Any]:
    """Return the executors' Deployment, whose Pods are processes on this machine. A rollout surges by one Pod."""
    field = {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "POD_UID": "metadata.uid"}
    container = {
        "name": "executor",
        "image": "example.com/renderer:1",
        "command": ["python", "-m", "situate.cli.demo.sharding.executor"],
        "args": [*_lease_flags(), "--executor-namespace=$(POD_NAMESPACE)", f"--namespace={TENANT}"],
        "env": [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in field.items()],
    }
    pod = {
        "serviceAccountName": ACCOUNT,
        "nodeSelector": NODE_LABELS,
        "terminationGracePeriodSeconds": 30,
        "containers": [container],
    }
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    return build_workload("Deployment", EXECUTORS, pod, replicas=EXECUTOR_COUNT, minReadySeconds=2, strategy=strategy)


def render(name: str, frames: int, *, held: bool) -> dict[str, Any]:
    """Return a render. If it is `held`, it continues after its last frame until it is released."""
    return {
        "apiVersion": RENDERS.api_version,
        "kind": RENDERS.kind,
        "metadata": {"name": name, "namespace": TENANT},
        "spec": {"frames": frames, "held": held},
    }


def configuration(archive: Path) -> Mapping[str, Any]:
    """Return the configuration of a process that supervises, as a user would write it."""
    supervisor = {
        "resource": f"{RENDERS.api_version}/{RENDERS.plural}",
        "namespace": TENANT,
        "executorNamespace": SYSTEM,
        "executorSelector": f"app={EXECUTORS}",
        "leaseDuration": f"{LEASE_S:g}s",
        "archive": {"url": archive.as_uri(), "ttl": "0s"},
    }
    kept = ("apiVersion", "kind", "leaderElection")
    return {**{key: CONFIGURATION[key] for key in kept}, "sharding": [supervisor]}


def _lease_flags() -> Iterator[str]:
    """Return the flags that an executor needs with short Leases."""
    yield f"--lease-duration={LEASE_S:g}s"
    yield from ("--renew-interval=1s", "--retry-interval=300ms", "--renew-deadline=4s", "--cancel-grace=1600ms")
