"""Which of two states of the server is the newer one.

resourceVersions of one resource are decimal numbers that grow (KEP-5504 makes the comparison official); where they are
anything else, as an aggregated API may choose, nothing is ever called older.
"""

from __future__ import annotations

from situate.objects.kinds.meta import KubernetesObject

_MOST_TOMBSTONES = 4096


def older(one: str, other: str) -> bool:
    """Whether `one` is certainly from before `other`."""
    # As text, for this runs for every event: of decimals without leading zeros the longer is the larger.
    if len(one) == len(other):
        return one < other and one.isdecimal() and other.isdecimal()
    return len(one) < len(other) and one.isdecimal() and other.isdecimal()


class Versions:
    """What was known when, so that a late or repeated event neither brings an object back nor undoes a change."""

    def __init__(self) -> None:
        self._listed = ""
        self._deleted: dict[tuple[str, str], str] = {}

    def is_news(self, known: KubernetesObject | None, new: KubernetesObject) -> bool:
        """Whether `new` is later than what is known of this name, deletions included."""
        meta = new.metadata
        version = meta.resource_version
        if known is not None:
            before = known.metadata.resource_version
            if version == before:
                return known.metadata.uid != meta.uid
            # Nearly always the next number of as many digits: seen at a glance.
            return (version > before and len(version) == len(before)) or not older(version, before)
        deleted = self._deleted.get((meta.namespace, meta.name), self._listed)
        return not (version == deleted or older(version, deleted))

    def deleted(self, namespace: str, name: str, version: str) -> None:
        """An object has gone in this version."""
        self._deleted.pop((namespace, name), None)
        self._deleted[namespace, name] = version
        if len(self._deleted) > _MOST_TOMBSTONES:
            del self._deleted[next(iter(self._deleted))]

    def gone_since(self, namespace: str, name: str, version: str) -> bool:
        """Whether the object of this name is known to have gone after this version."""
        return older(version, self._deleted.get((namespace, name), ""))

    def listed_since(self, version: str) -> bool:
        """Whether a listing of after this version was taken."""
        return older(version, self._listed)

    def listed(self, version: str) -> None:
        """Everything that existed at this version is known: what is not known then had gone by then."""
        self._listed = version
        self._deleted = {key: each for key, each in self._deleted.items() if older(version, each)}
