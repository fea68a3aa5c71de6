"""Compare a live object with its archived version, apart from our own marks and the server's fields.

After the archive's copy is verified, the supervisor removes the finalizer and adds an annotation with this digest. If a
supervisor later finds the annotation with the digest of the live object, it only has to delete the object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from situate.archive.records.canonical_json import canonical_json, digest, mapping_at

SERVER_SET: Final = (
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)
"""Metadata fields that the server writes. The UID is not one of them: an object made from a copy of this one,
with its annotations, is another object and was never archived."""


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks that situate writes on objects."""

    finalizer: str
    annotations: frozenset[str]
    labels: frozenset[str] = frozenset()


def content_digest(content: Mapping[str, Any], marks: Marks) -> str:
    """Return the digest of the object without our marks and the server's fields. `ValueError` for bad metadata."""
    metadata = {name: value for name, value in mapping_at(content, "metadata").items() if name not in SERVER_SET}
    finalizers = [entry for entry in metadata.pop("finalizers", None) or () if entry != marks.finalizer]
    annotations = _remove_keys(mapping_at(metadata, "annotations"), marks.annotations)
    labels = _remove_keys(mapping_at(metadata, "labels"), marks.labels)
    for name, value in (("finalizers", finalizers), ("annotations", annotations), ("labels", labels)):
        metadata.pop(name, None)
        if value:  # empty equals absent: our marks may have been the only entries
            metadata[name] = value
    return digest(canonical_json({**content, "metadata": metadata}))


def _remove_keys(mapping: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name not in names}
