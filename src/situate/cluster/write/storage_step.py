"""Store the object in the last step of a write, unless it is unchanged, fully deleted, or a dry run."""

from __future__ import annotations

from typing import Final

import msgspec

from situate.cluster.errors.refusals import RequestRefused, already_exists
from situate.cluster.kinds.rules import Obj
from situate.cluster.storage.names import SUFFIX_LENGTH, NameGenerator
from situate.cluster.storage.resources import Resource
from situate.cluster.storage.selection import selectable_values
from situate.cluster.storage.store import Store
from situate.cluster.storage.stored_object import ManagedFieldsEntry, StoredObject, parse_managed_fields
from situate.cluster.write.calls import Call, Written

_MAX_NAME_ATTEMPTS: Final = 8
_MAX_GENERATED: Final = 63 - SUFFIX_LENGTH


class StorageStep:
    """Writer of objects to one store, with free names for generateName."""

    def __init__(self, store: Store, names: NameGenerator) -> None:
        self._store = store
        self._names = names

    def put(self, resource: Resource, obj: Obj) -> StoredObject:
        """Store an object of the resource's version as it is."""
        managed = parse_managed_fields(obj["metadata"].pop("managedFields", None))
        obj = _to_stored_version(resource, obj)
        return self._store.put(resource.table, obj, managed=managed, fields=selectable_values(resource, obj))

    def replace(self, call: Call, present: StoredObject, new: Obj, old: Obj) -> Written:
        """Replace the present object, which `old` holds decoded.

        An equal object is not written. A terminating object without finalizers is removed.
        """
        if _is_removable(new):
            if not call.options.dry_run:
                self._store.remove(call.resource.table, present.namespace, present.name)
            return Written(200, new)
        if call.options.dry_run:
            return Written(200, new)
        managed = parse_managed_fields(new["metadata"].pop("managedFields", None))
        old["metadata"].pop("managedFields", None)
        if new == old and _same_managers(managed, present.managed):
            return Written(200, present)
        new = _to_stored_version(call.resource, new)
        fields = selectable_values(call.resource, new)
        return Written(200, self._store.put(call.resource.table, new, managed=managed, fields=fields))

    def free_name(self, resource: Resource, namespace: str, prefix: str) -> str:
        """Return a free name that begins with a generateName. Raises `RequestRefused` if none was found."""
        for _ in range(_MAX_NAME_ATTEMPTS):
            name = prefix[:_MAX_GENERATED] + self._names.suffix()
            if self._store.get(resource.table, namespace, name) is None:
                return name
        raise RequestRefused(already_exists(resource, name))


def _same_managers(left: tuple[ManagedFieldsEntry, ...], right: tuple[ManagedFieldsEntry, ...]) -> bool:
    """Compare without the times, because a write that changes nothing else does not change them."""
    return len(left) == len(right) and all(
        msgspec.structs.replace(one, time="") == msgspec.structs.replace(other, time="")
        for one, other in zip(left, right, strict=True)
    )


def _is_removable(obj: Obj) -> bool:
    """Return whether a terminating object can be removed: no finalizer and no grace period is left."""
    metadata = obj["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    if metadata.get("deletionGracePeriodSeconds"):
        return False
    return obj["kind"] != "Namespace" or not obj.get("spec", {}).get("finalizers")


def _to_stored_version(resource: Resource, obj: Obj) -> Obj:
    if resource.to_stored is not None:
        return resource.to_stored(obj)
    obj["apiVersion"] = resource.stored_api_version
    return obj
