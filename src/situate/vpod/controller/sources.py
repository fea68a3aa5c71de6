"""The objects of the watched sources, read as vpods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from situate.kube.events import reference
from situate.objects.kinds.events import ObjectReference
from situate.objects.kinds.unstructured import Unstructured
from situate.vpod.controller.informers import SourceInformer
from situate.vpod.model.vpod import Key, PlainVPod
from situate.vpod.sources.adapters import read_vpod


class SourceObject(msgspec.Struct, frozen=True):
    """An object of a source, and the watch that found it."""

    source: SourceInformer
    object: Unstructured

    @property
    def key(self) -> Key:
        return Key(self.object.metadata.namespace, self.source.prefix + self.object.metadata.name)

    @property
    def reference(self) -> ObjectReference:
        return reference(self.source.resource, self.object)


class Sources:
    """The vpods of the watched sources, by key. Each version of an object is read once, because reading is slow."""

    def __init__(self, watched: Sequence[SourceInformer]) -> None:
        self._informers = watched
        self._read_before: dict[Key, tuple[Unstructured, PlainVPod | None]] = {}

    def objects(self) -> Iterator[SourceObject]:
        """Yield every watched object, including the objects that are no vpods of this StatefulSet."""
        for source in self._informers:
            for each in source.reflector.store.list():
                yield SourceObject(source, each)

    def vpods(self) -> Iterator[PlainVPod]:
        for found in self.objects():
            vpod = self.read(found)
            if vpod is not None:
                yield vpod

    def find(self, key: Key) -> SourceObject | None:
        """Return the object of a vpod of this StatefulSet, or None if there is none with this key."""
        for found in self.objects_with_key(key):
            if self.read(found) is not None:
                return found
        return None

    def objects_with_key(self, key: Key) -> Iterator[SourceObject]:
        """Yield the objects with this key, including the objects that are no vpods of this StatefulSet."""
        for source in self._informers:
            if key.name.startswith(source.prefix) if source.prefix else "/" not in key.name:
                found = source.reflector.store.get(key.name.removeprefix(source.prefix), key.namespace)
                if found is not None:
                    yield SourceObject(source, found)

    def read(self, found: SourceObject) -> PlainVPod | None:
        """Return the vpod, or None if the object belongs to another StatefulSet."""
        known = self._read_before.get(found.key)
        if known is None or known[0] is not found.object:
            read = read_vpod(found.source.settings, found.object, found.source.prefix)
            known = self._read_before[found.key] = (found.object, read)
        return known[1]

    def forget(self, key: Key) -> None:
        """Forget an object that no longer exists."""
        self._read_before.pop(key, None)
