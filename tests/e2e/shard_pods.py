"""Pods of operators whose containers run as processes here, with the tokens that the kubelet would give them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.controlplane.kubeconfig import write_kubeconfig
from tests.controlplane.plane import ControlPlane


def kubeconfig_of(plane: ControlPlane, pod: dict[str, Any], folder: Path) -> Path:
    """With a token of the pod's account that is bound to the pod."""
    name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": pod["metadata"]["uid"]}
    spec = {"audiences": [], "expirationSeconds": 7200, "boundObjectRef": bound}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    account = pod["spec"]["serviceAccountName"]
    made = plane.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token", body)
    path, token = folder / f"{name}.kubeconfig", str(made["status"]["token"])
    return write_kubeconfig(path, url=plane.url, authority=plane.authority, user=name, token=token, namespace=namespace)


def environment_of(pod: dict[str, Any]) -> dict[str, str]:
    """What the manifest gives its one container, with the fields of the pod filled in."""
    (container,) = pod["spec"]["containers"]
    return {each["name"]: _value(pod, each) for each in container["env"]}


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _value(pod: dict[str, Any], variable: dict[str, Any]) -> str:
    if "value" in variable:
        return str(variable["value"])
    found: Any = pod
    for step in variable["valueFrom"]["fieldRef"]["fieldPath"].split("."):
        found = found[step]
    return str(found)
