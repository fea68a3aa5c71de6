"""Build the Kubernetes objects that several chapters create: nodes, Pods and workloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def build_node(name: str, labels: Mapping[str, str], **further: Any) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name, **labels}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, **further}


def build_pod(name: str, labels: Mapping[str, str], spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def build_workload(
    kind: str, name: str, pod: Mapping[str, Any], annotations: Mapping[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    """Return a Deployment or a StatefulSet, whose Pods have its name as label `app`."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {**spec, "selector": {"matchLabels": labels}, "template": template},
    }


def build_pod_spec(
    selector: Mapping[str, str], container: str, image: str, requests: Mapping[str, str] | None = None, **further: Any
) -> dict[str, Any]:
    """Return the spec of a Pod that ends at once."""
    resources = {"resources": {"requests": requests}} if requests else {}
    return {
        "nodeSelector": selector,
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": container, "image": image, **resources}],
        **further,
    }
