"""Create pods from a template, and compute the short hashes that identify templates.

The hashes have upstream's alphabet and length but other values, because upstream's depend on how Go prints structs.
"""

from __future__ import annotations

from typing import Any

import msgspec

from situate.cluster.controllers.machinery.owners import controller_reference
from situate.cluster.controllers.machinery.tables import Obj

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def pod_from_template(template: Obj, owner: Obj) -> dict[str, Any]:
    """Return a new pod without a name, controlled by `owner` (upstream: controller.GetPodFromTemplate)."""
    metadata = template.get("metadata") or {}
    kept: dict[str, Any] = {
        "generateName": _prefix(owner["metadata"]["name"]),
        "namespace": owner["metadata"]["namespace"],
        "ownerReferences": [controller_reference(owner)],
    }
    for field in ("labels", "annotations"):
        if metadata.get(field):
            kept[field] = dict(metadata[field])
    if metadata.get("finalizers"):
        kept["finalizers"] = list(metadata["finalizers"])
    return {"apiVersion": "v1", "kind": "Pod", "metadata": kept, "spec": dict(template.get("spec") or {})}


def _prefix(name: str) -> str:
    """Return `name-`, or the name alone if the dash would make it too long for a pod's generateName."""
    return f"{name}-" if len(name) < 253 else name


def template_hash(template: Obj, collision_count: int | None) -> str:
    """Return eight to ten safe characters that differ for different templates."""
    encoded = msgspec.json.encode(template, order="sorted")
    if collision_count is not None:
        encoded += collision_count.to_bytes(8, "little", signed=True)
    return safe_hash(encoded)


def safe_hash(text: bytes) -> str:
    """Encode the 32-bit FNV-1a hash in letters that form no words (apimachinery util/rand SafeEncodeString)."""
    number = 2166136261
    for byte in text:
        number = (number ^ byte) * 16777619 & 0xFFFFFFFF
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(number))
