"""Build the pod and the claims of one ordinal (upstream: stateful_set_utils.go)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from situate.cluster.controllers.machinery.actions import Patch
from situate.cluster.controllers.machinery.pod_index import REVISION_LABEL
from situate.cluster.controllers.machinery.tables import PODS, Obj
from situate.cluster.controllers.node.pods import POD_INDEX_LABEL, POD_NAME_LABEL, PodFacts
from situate.cluster.controllers.workloads.templates import pod_from_template


def pod_name(stateful_set: Obj, ordinal: int) -> str:
    return f"{stateful_set['metadata']['name']}-{ordinal}"


def claim_name(stateful_set: Obj, template: Obj, ordinal: int) -> str:
    return f"{template['metadata']['name']}-{pod_name(stateful_set, ordinal)}"


def claim_templates(stateful_set: Obj) -> list[Obj]:
    return stateful_set["spec"].get("volumeClaimTemplates") or []


def new_pod(stateful_set: Obj, template: Obj, revision: str, ordinal: int) -> dict[str, Any]:
    """Build the pod of an ordinal at a revision, with the volumes of its claims."""
    pod = pod_from_template(template, stateful_set)
    name = pod_name(stateful_set, ordinal)
    metadata, spec = pod["metadata"], pod["spec"]
    metadata["name"] = name
    metadata["labels"] = {**metadata.get("labels", {}), **_own_labels(name, ordinal), REVISION_LABEL: revision}
    spec["hostname"] = name
    if stateful_set["spec"].get("serviceName"):
        spec["subdomain"] = stateful_set["spec"]["serviceName"]
    claims = {
        entry["metadata"]["name"]: claim_name(stateful_set, entry, ordinal) for entry in claim_templates(stateful_set)
    }
    if claims:
        volumes = [{"name": volume, "persistentVolumeClaim": {"claimName": claim}} for volume, claim in claims.items()]
        others = [volume for volume in spec.get("volumes") or () if volume.get("name") not in claims]
        spec["volumes"] = volumes + others
    return pod


def new_claims(stateful_set: Obj, ordinal: int) -> Iterator[dict[str, Any]]:
    """Build the claims of an ordinal from the templates, without owners."""
    selected = (stateful_set["spec"].get("selector") or {}).get("matchLabels") or {}
    for template in claim_templates(stateful_set):
        metadata = template["metadata"]
        kept = {field: metadata[field] for field in ("annotations", "finalizers") if metadata.get(field)}
        yield {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                **kept,
                "name": claim_name(stateful_set, template, ordinal),
                "namespace": stateful_set["metadata"]["namespace"],
                "labels": {**(metadata.get("labels") or {}), **selected},
            },
            "spec": template["spec"],
        }


def label_patch(pod: PodFacts) -> Patch:
    """Restore the labels of a pod's name and index."""
    body = {"metadata": {"uid": pod.uid, "labels": _own_labels(pod.name, pod.index)}}
    return Patch(PODS, pod.namespace, pod.name, body)


def _own_labels(name: str, ordinal: int) -> dict[str, str]:
    return {POD_NAME_LABEL: name, POD_INDEX_LABEL: str(ordinal)}
