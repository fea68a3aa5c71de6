"""Of each object no more is kept than decisions and writes need: who it is, and its JSON without managed fields.

A supervisor holds every object of its kind, so a field that nothing reads is paid for many thousand times. Whatever is
archived is read anew, and whole.
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


class KeptObjects(Store[Unstructured]):
    """A store whose objects have no more metadata than name, namespace, UID and resourceVersion."""

    def __init__(self, name: str, keyspace: Keyspace | None = None) -> None:
        """`keyspace`: of an object outside of it, nothing else is kept; None: of all, their JSON is."""
        super().__init__(name)
        self._keyspace = keyspace

    def put(self, new: Unstructured) -> None:
        """As the store's."""
        foreign = self._keyspace is not None and not self._keyspace.holds(new.metadata)
        if not foreign and new.raw == _NOTHING:
            return  # known so before it was ours, to a listing that was under way then
        super().put(Unstructured(_identity(new.metadata), _NOTHING) if foreign else kept(new))

    def confine(self, keyspace: Keyspace) -> None:
        """Keeps the objects of this one from now on. Those of which nothing was kept are not known any more: they have
        to be listed anew."""
        self._keyspace = keyspace
        for each in self.list():
            ours, empty = keyspace.holds(each.metadata), each.raw == _NOTHING
            if ours and empty:
                self.remove(each.metadata.name, each.metadata.namespace)
            elif not ours and not empty:
                self.put(each)


def kept(found: Unstructured) -> Unstructured:
    """The object without what is kept of no object."""
    return Unstructured(_identity(found.metadata), _without_managed_fields(found.raw))


def _identity(meta: ObjectMeta) -> ObjectMeta:
    return ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid, resource_version=meta.resource_version)


def _without_managed_fields(raw: bytes) -> bytes:
    """Half of most objects, as a server writes them; the fields beside are copied and not looked at."""
    if b'"managedFields"' not in raw:
        return raw
    fields = _FIELDS.decode(raw)
    metadata = _FIELDS.decode(fields["metadata"])
    metadata.pop("managedFields", None)
    fields["metadata"] = msgspec.Raw(msgspec.json.encode(metadata))
    return msgspec.json.encode(fields)
