"""Change of one stored object, as the controllers see it."""

from __future__ import annotations

from situate.cluster.controllers.machinery.tables import Key, Obj
from situate.cluster.controllers.node.pods import PodFacts
from situate.cluster.storage.stored_object import StoredObject


class Change:
    """One object before and after a write. It is decoded only on first use."""

    __slots__ = ("_object", "key", "new", "old", "pod", "pod_before", "resource")

    def __init__(self, resource: str, old: StoredObject | None, new: StoredObject | None) -> None:
        self.resource = resource
        """Plural and group as upstream writes a GroupResource: `pods`, `deployments.apps`."""
        self.old = old
        """None if the object was created."""
        self.new = new
        """None if the object was deleted."""
        self.pod: PodFacts | None = None
        """The pod after the change; None if it was deleted, or for other objects."""
        self.pod_before: PodFacts | None = None
        """The pod before the change."""
        self._object: Obj | None = None
        self.key: Key = (self.last.namespace, self.last.name)
        """One tuple that all holders share."""

    @property
    def last(self) -> StoredObject:
        """The newest known version of the object."""
        known = self.new if self.new is not None else self.old
        assert known is not None
        return known

    @property
    def object(self) -> Obj:
        """The newest known version of the object, decoded."""
        if self._object is None:
            self._object = self.last.object()
        return self._object
