"""Compares the age of two states of the server.

resourceVersions of one resource are decimal numbers that grow (KEP-5504 makes the comparison official). Where they are
not, as an aggregated API may choose, no version counts as older.
"""

from __future__ import annotations

from situate.objects.kinds.meta import KubernetesObject

_MOST_TOMBSTONES = 4096


def is_older(one: str, other: str) -> bool:
    """Whether `one` is certainly older than `other`."""
    # Compared as text, because this runs for every event: of decimals without leading zeros the longer is the larger.
    if len(one) == len(other):
        return one < other and one.isdecimal() and other.isdecimal()
    return len(one) < len(other) and one.isdecimal() and other.isdecimal()


class VersionHistory:
    """Versions of deletions and listings, so that a late event neither restores an object nor undoes a change."""

    def __init__(self) -> None:
        self._listed = ""
        self._deleted: dict[tuple[str, str], str] = {}

    def is_news(self, known: KubernetesObject | None, new: KubernetesObject) -> bool:
        """Whether `new` is later than the known state of this name, deletions included."""
        meta = new.metadata
        version = meta.resource_version
        if known is not None:
            before = known.metadata.resource_version
            if version == before:
                return known.metadata.uid != meta.uid
            # Fast path: nearly always the next number, with the same number of digits.
            return (version > before and len(version) == len(before)) or not is_older(version, before)
        deleted = self._deleted.get((meta.namespace, meta.name), self._listed)
        return not (version == deleted or is_older(version, deleted))

    def record_deleted(self, namespace: str, name: str, version: str) -> None:
        """Record that an object was deleted at this version."""
        self._deleted.pop((namespace, name), None)
        self._deleted[namespace, name] = version
        if len(self._deleted) > _MOST_TOMBSTONES:
            del self._deleted[next(iter(self._deleted))]

    def is_deleted_since(self, namespace: str, name: str, version: str) -> bool:
        """Whether the object of this name is known to be deleted after this version."""
        return is_older(version, self._deleted.get((namespace, name), ""))

    def is_listed_since(self, version: str) -> bool:
        """Whether a listing later than this version was applied."""
        return is_older(version, self._listed)

    def record_listed(self, version: str) -> None:
        """Record a listing: an object of this version or older that it lacks is deleted."""
        self._listed = version
        self._deleted = {key: each for key, each in self._deleted.items() if is_older(version, each)}
