"""The value of many storage objects at once, as the changes of single objects must make it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from situate.framework.volumes.persistent_map import EMPTY_MAP, PersistentMap
from situate.framework.volumes.storage import Name, Storage, name_of
from situate.objects.kinds.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    StorageObject,
    VolumeAttachment,
)

K = TypeVar("K")
V = TypeVar("V")


def map_of(entries: Iterable[tuple[K, V]]) -> PersistentMap[K, V]:
    """Create a map with these entries. Of equal keys the last one counts."""
    found: PersistentMap[K, V] = EMPTY_MAP
    for key, value in entries:
        found = found.with_entry(key, value)
    return found


def storage_of(objects: Iterable[StorageObject]) -> Storage:
    """Build the value from these objects at once."""
    kinds: dict[type, list[Any]] = {}
    for each in objects:
        kinds.setdefault(type(each), []).append(each)
    volumes = {each.metadata.name: each for each in kinds.get(PersistentVolume, ())}
    unclaimed: dict[str, list[PersistentVolume]] = {}
    claimed: dict[Name, list[str]] = {}
    for name in sorted(volumes):
        volume = volumes[name]
        ref = volume.spec.claim_ref
        if ref is None:
            unclaimed.setdefault(volume.storage_class, []).append(volume)
        else:
            claimed.setdefault((ref.namespace, ref.name), []).append(name)
    return Storage(
        claims=_map_by_name(kinds.get(PersistentVolumeClaim, ())),
        volumes=map_of(volumes.items()),
        unclaimed=map_of((each, tuple(sorted(listed, key=_size))) for each, listed in unclaimed.items()),
        claimed=map_of((each, tuple(names)) for each, names in claimed.items()),
        classes=_map_by_own_name(kinds.get(StorageClass, ())),
        csi_nodes=_map_by_own_name(kinds.get(CSINode, ())),
        csi_drivers=_map_by_own_name(kinds.get(CSIDriver, ())),
        capacities=_map_by_group(
            (each.storage_class_name, name_of(each), each) for each in kinds.get(CSIStorageCapacity, ())
        ),
        attachments=_map_by_group(
            (each.spec.node_name, each.metadata.name, each) for each in kinds.get(VolumeAttachment, ())
        ),
    )


def _map_by_name(listed: Iterable[Any]) -> PersistentMap[Name, Any]:
    return map_of((name_of(each), each) for each in listed)


def _map_by_own_name(listed: Iterable[Any]) -> PersistentMap[str, Any]:
    return map_of((each.metadata.name, each) for each in listed)


def _map_by_group(listed: Iterable[tuple[str, Any, Any]]) -> PersistentMap[str, PersistentMap[Any, Any]]:
    groups: dict[str, list[tuple[Any, Any]]] = {}
    for group, name, each in listed:
        groups.setdefault(group, []).append((name, each))
    return map_of((group, map_of(entries)) for group, entries in groups.items())


def _size(volume: PersistentVolume) -> tuple[int, str]:
    return volume.size.nano_value, volume.metadata.name
