"""A cluster as objects of the API, in JSON, by kind: what is drawn, loaded, compared and kept in case files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.e2e.differential.api import Object

NAMESPACES = ("east", "west", "north")
"""Nobody deletes them: their labels change from cluster to cluster."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Of objects that a decision may depend on."""

    plural: str
    prefix: str
    namespaced: bool
    with_status: bool = False
    """Whether a status has to be written apart."""

    def path(self, namespace: str = "", name: str = "") -> str:
        """Of one object, of those in a namespace, or of all."""
        inside = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return f"{self.prefix}{inside}/{self.plural}" + (f"/{name}" if name else "")

    def path_of(self, item: Object) -> str:
        return self.path(item["metadata"].get("namespace", ""), item["metadata"]["name"])


PODS = Kind("pods", "/api/v1", namespaced=True, with_status=True)
NODES = Kind("nodes", "/api/v1", namespaced=False)
OTHERS = (
    Kind("services", "/api/v1", namespaced=True),
    Kind("replicationcontrollers", "/api/v1", namespaced=True),
    Kind("replicasets", "/apis/apps/v1", namespaced=True),
    Kind("statefulsets", "/apis/apps/v1", namespaced=True),
    Kind("poddisruptionbudgets", "/apis/policy/v1", namespaced=True, with_status=True),
    Kind("storageclasses", "/apis/storage.k8s.io/v1", namespaced=False),
    Kind("csinodes", "/apis/storage.k8s.io/v1", namespaced=False),
    Kind("csidrivers", "/apis/storage.k8s.io/v1", namespaced=False),
    Kind("csistoragecapacities", "/apis/storage.k8s.io/v1", namespaced=True),
    Kind("persistentvolumes", "/api/v1", namespaced=False, with_status=True),
    Kind("persistentvolumeclaims", "/api/v1", namespaced=True, with_status=True),
)
KINDS = (NODES, *OTHERS, PODS)
"""In the order in which they are made: pods in place come last."""

Cluster = dict[str, list[Object]]
"""Objects by the plural of their kind; `namespaces` too. Statuses count, and so do deletion timestamps."""


def key_of(item: Object) -> str:
    """Namespace and name."""
    metadata: dict[str, Any] = item["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def as_made(item: Object) -> Object:
    """Without what the server fills in, so that it can be made again."""
    metadata = {
        name: value
        for name, value in item["metadata"].items()
        if name not in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink")
        and not name.startswith("deletion")
    }
    spec = item.get("spec")
    if "uid" in item["metadata"] and spec is not None:
        spec = _without_label_keys(spec)
    return {**item, "metadata": metadata, **({} if spec is None else {"spec": spec})}


def _without_label_keys(value: Any) -> Any:
    """The server has made requirements of them, and refuses both."""
    if isinstance(value, list):
        return [_without_label_keys(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: _without_label_keys(each)
        for name, each in value.items()
        if name not in ("matchLabelKeys", "mismatchLabelKeys")
    }
