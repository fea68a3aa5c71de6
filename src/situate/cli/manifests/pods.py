"""Adapt a Deployment of situate to one program: its Pod, its volumes and its environment."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final, NamedTuple

TEMPORARY_FILES: Final = {"emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
"""Source of a volume for certificates, which are loaded from a temporary file."""


class Copy(NamedTuple):
    """Copy of a Deployment that may be changed, with its parts."""

    deployment: dict[str, Any]
    pod: dict[str, Any]
    """Spec of its Pods."""
    container: dict[str, Any]
    """Only container of its Pods."""

    def mount(self, name: str, path: str, source: Mapping[str, Any], *, read_only: bool = True) -> None:
        """Add a volume, and mount it into the container."""
        mount = {"name": name, "mountPath": path, **({"readOnly": True} if read_only else {})}
        self.container.setdefault("volumeMounts", []).append(mount)
        self.pod.setdefault("volumes", []).append({"name": name, **source})


def copy_deployment(deployment: Mapping[str, Any]) -> Copy:
    changed: dict[str, Any] = deepcopy(dict(deployment))
    pod = changed["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    return Copy(changed, pod, container)


def field_variable(name: str, path: str) -> dict[str, Any]:
    """Return an environment variable with the value of a field of the Pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def set_arguments(assignments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the assignments as arguments of the process."""
    return tuple(part for each in assignments for part in ("--set", each))


def empty_lease(name: str, namespace: str, labels: Mapping[str, str]) -> dict[str, Any]:
    """Return a Lease for a leader to fill. A second apply leaves its content unchanged."""
    metadata = {"name": name, "namespace": namespace, "labels": dict(labels)}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": {}}
