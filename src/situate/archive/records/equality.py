"""Whether a live object is still what was archived, although we and the server have written on it since.

After the archive's copy was verified, the finalizer goes and an annotation with this digest comes. Whoever finds the
annotation later, and the digest of the live object equal to it, only has to delete.
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
"""Fields of metadata that the server writes. The UID stays: an object made from a copy of this one, annotations and
all, is another object and was never archived."""


@dataclass(frozen=True, slots=True)
class Marks:
    """What we write on objects ourselves."""

    finalizer: str
    annotations: frozenset[str]
    labels: frozenset[str] = frozenset()


def content_digest(content: Mapping[str, Any], marks: Marks) -> str:
    """Over the object without our marks and without what the server sets. `ValueError` if metadata is malformed."""
    metadata = {name: value for name, value in mapping_at(content, "metadata").items() if name not in SERVER_SET}
    finalizers = [entry for entry in metadata.pop("finalizers", None) or () if entry != marks.finalizer]
    annotations = _without(mapping_at(metadata, "annotations"), marks.annotations)
    labels = _without(mapping_at(metadata, "labels"), marks.labels)
    for name, value in (("finalizers", finalizers), ("annotations", annotations), ("labels", labels)):
        metadata.pop(name, None)
        if value:  # empty and absent are one: our marks may have been all there was
            metadata[name] = value
    return digest(canonical_json({**content, "metadata": metadata}))


def _without(mapping: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in mapping.items() if name not in names}
