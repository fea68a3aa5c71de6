"""Store objects with only the data that decisions and writes need: identity, and JSON without managed fields.

A supervisor holds every object of its kind, so an unused field costs memory many thousand times. An object that is
archived is read again from the API server, with all fields.
"""

from __future__ import annotations

from typing import Final

import msgspec

from situate.kube.watch.store import Store
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.unstructured import Unstructured
from situate.sharding.partitions.partitions import Keyspace

_NOTHING: Final = b"{}"
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class TrimmedObjects(Store[Unstructured]):
    """A store whose objects have no more metadata than name, namespace, UID and resourceVersion."""

    def __init__(self, name: str, keyspace: Keyspace | None = None) -> None:
        """`keyspace`: of an object outside of it, only the identity is kept; None: the JSON of all objects is kept."""
        super().__init__(name)
        self._keyspace = keyspace

    def put(self, new: Unstructured) -> None:
        """Store the object without the data that is not needed. For the reflector."""
        foreign = self._keyspace is not None and not self._keyspace.holds(new.metadata)
        if not foreign and new.raw == _NOTHING:
            return  # from before the object was ours, through a list in progress at that time
        super().put(Unstructured(_identity(new.metadata), _NOTHING) if foreign else trim_object(new))

    def restrict_to(self, keyspace: Keyspace) -> None:
        """Keep the JSON of the objects in this keyspace from now on.

        Objects in it of which only the identity is stored are removed: they must be listed again.
        """
        self._keyspace = keyspace
        for each in self.list():
            ours, empty = keyspace.holds(each.metadata), each.raw == _NOTHING
            if ours and empty:
                self.remove(each.metadata.name, each.metadata.namespace)
            elif not ours and not empty:
                self.put(each)


def trim_object(found: Unstructured) -> Unstructured:
    """Return the object without the data that is not needed."""
    return Unstructured(_identity(found.metadata), _remove_managed_fields(found.raw))


def _identity(meta: ObjectMeta) -> ObjectMeta:
    return ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid, resource_version=meta.resource_version)


def _remove_managed_fields(raw: bytes) -> bytes:
    """Remove the managed fields, half the size of most objects; the other fields are copied without parsing."""
    if b'"managedFields"' not in raw:
        return raw
    fields = _FIELDS.decode(raw)
    metadata = _FIELDS.decode(fields["metadata"])
    metadata.pop("managedFields", None)
    fields["metadata"] = msgspec.Raw(msgspec.json.encode(metadata))
    return msgspec.json.encode(fields)
