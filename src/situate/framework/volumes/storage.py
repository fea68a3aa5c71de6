"""Claims, volumes and related objects as one immutable value, and the part reserved for Pods.

A scheduler's decision about storage reaches the API server only when it is written. Until then it is a *promise*, and
the methods here return volumes and claims as they will be. A promise counts only for the version of the object that it
was made for. As soon as the watch shows another version, that version is valid (upstream plugins/volumebinding
passive_assume_cache.go).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, TypeVar

from situate.framework.volumes.persistent_map import EMPTY_MAP, PersistentMap
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

Name: TypeAlias = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True, slots=True, eq=False)
class ReservedVolume:
    """An existing volume, and the claim that it is reserved for."""

    volume: PersistentVolume
    """The volume as it will be, with its claim."""
    claim: PersistentVolumeClaim
    write: bool
    """Whether the change must be written to the API server."""


@dataclass(frozen=True, slots=True, eq=False)
class ClaimToProvision:
    """A claim whose volume must be provisioned for the Pod's node."""

    claim: PersistentVolumeClaim
    """The claim as it will be, with the node."""
    write: bool
    """Whether the change must be written to the API server."""


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """The storage reserved for a Pod together with its node."""

    given: tuple[ReservedVolume, ...] = ()
    wanted: tuple[ClaimToProvision, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.given or self.wanted)


@dataclass(frozen=True, slots=True, eq=False)
class Promises:
    """The reservations of all Pods that are being bound. Several Pods may reserve the same volume for one claim."""

    by_pod: PersistentMap[str, Reservation] = EMPTY_MAP
    """By the Pod's uid."""
    volumes: PersistentMap[str, tuple[PersistentVolume, ...]] = EMPTY_MAP
    claims: PersistentMap[Name, tuple[PersistentVolumeClaim, ...]] = EMPTY_MAP
    by_claim: PersistentMap[Name, tuple[str, ...]] = EMPTY_MAP
    """The names of the volumes reserved for a claim, in order of reservation, with repetitions."""

    def with_reservation(self, uid: str, reservation: Reservation) -> Promises:
        """Return the promises with this reservation of a Pod, which replaces its earlier one."""
        volumes, claims, by_claim = self._other_reservations(uid)
        for given in reservation.given:
            volumes = _push_value(volumes, given.volume.metadata.name, given.volume)
            by_claim = _push_value(by_claim, name_of(given.claim), given.volume.metadata.name)
        for wanted in reservation.wanted:
            claims = _push_value(claims, name_of(wanted.claim), wanted.claim)
        return Promises(self.by_pod.with_entry(uid, reservation), volumes, claims, by_claim)

    def without_reservation(self, uid: str) -> Promises:
        """Return the promises without those of one Pod; the same object if it has none."""
        if uid not in self.by_pod:
            return self
        return Promises(self.by_pod.without_key(uid), *self._other_reservations(uid))

    def _other_reservations(self, uid: str) -> tuple[Any, Any, Any]:
        volumes, claims, by_claim = self.volumes, self.claims, self.by_claim
        kept = self.by_pod.get(uid)
        for given in kept.given if kept is not None else ():
            volumes = _pop_value(volumes, given.volume.metadata.name, given.volume)
            by_claim = _pop_value(by_claim, name_of(given.claim), given.volume.metadata.name)
        for wanted in kept.wanted if kept is not None else ():
            claims = _pop_value(claims, name_of(wanted.claim), wanted.claim)
        return volumes, claims, by_claim


NO_PROMISES: Final = Promises()


@dataclass(frozen=True, slots=True, eq=False)
class Storage:
    """Storage objects and promises; immutable. A change of one object costs only that object."""

    claims: PersistentMap[Name, PersistentVolumeClaim] = EMPTY_MAP
    """As the API server has them; `claim` includes promises."""
    volumes: PersistentMap[str, PersistentVolume] = EMPTY_MAP
    """As the API server has them; `volume` includes promises."""
    unclaimed: PersistentMap[str, tuple[PersistentVolume, ...]] = EMPTY_MAP
    """By class: the volumes without a claim, the smallest first, then by name."""
    claimed: PersistentMap[Name, tuple[str, ...]] = EMPTY_MAP
    """By claim: the names of the volumes that are bound to it or reserved for it, in order."""
    classes: PersistentMap[str, StorageClass] = EMPTY_MAP
    csi_nodes: PersistentMap[str, CSINode] = EMPTY_MAP
    csi_drivers: PersistentMap[str, CSIDriver] = EMPTY_MAP
    capacities: PersistentMap[str, PersistentMap[Name, CSIStorageCapacity]] = EMPTY_MAP
    """By class."""
    attachments: PersistentMap[str, PersistentMap[str, VolumeAttachment]] = EMPTY_MAP
    """By node."""
    promises: Promises = NO_PROMISES

    @classmethod
    def from_objects(cls, objects: Iterable[StorageObject]) -> Storage:
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
        return cls(
            claims=_map_by_name(kinds.get(PersistentVolumeClaim, ())),
            volumes=PersistentMap.from_entries(volumes.items()),
            unclaimed=PersistentMap.from_entries(
                (each, tuple(sorted(listed, key=_size))) for each, listed in unclaimed.items()
            ),
            claimed=PersistentMap.from_entries((each, tuple(names)) for each, names in claimed.items()),
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

    # With promises

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        """Return the claim, with its node if one has been selected for provisioning."""
        stored = self.claims.get((namespace, name))
        for promised in self.promises.claims.get((namespace, name), ())[-1:]:
            if stored is not None and _same_version(promised, stored):
                return promised
        return stored

    def volume(self, name: str) -> PersistentVolume | None:
        """Return the volume, with its claim if one has been selected."""
        stored = self.volumes.get(name)
        for promised in self.promises.volumes.get(name, ())[-1:]:
            if stored is not None and _same_version(promised, stored):
                return promised
        return stored

    def volumes_for(self, claim: PersistentVolumeClaim) -> list[PersistentVolume]:
        """Return the volumes that are bound to the claim or reserved for it, by name."""
        name = name_of(claim)
        names = {*self.claimed.get(name, ()), *self.promises.by_claim.get(name, ())}
        found = (self.volume(each) for each in sorted(names))
        return [volume for volume in found if volume is not None and volume.is_for(claim)]

    def reservation(self, uid: str) -> Reservation:
        """Return the reservation of the Pod with this uid."""
        return self.promises.by_pod.get(uid, _NOTHING_RESERVED)

    def has_written(self, reservation: Reservation) -> bool:
        """Return whether the API server has the whole reservation, so that it can be dropped."""
        for given in reservation.given:
            stored = self.volumes.get(given.volume.metadata.name)
            if given.write and stored is not None and _same_version(given.volume, stored):
                return False
        for wanted in reservation.wanted:
            claim = self.claims.get(name_of(wanted.claim))
            if wanted.write and claim is not None and _same_version(wanted.claim, claim):
                return False
        return True

    # Changed copies

    def stored_object(self, stored: StorageObject) -> StorageObject | None:
        """Return the stored object of this kind and name; None if there is none."""
        name = stored.metadata.name
        match stored:
            case PersistentVolumeClaim():
                return self.claims.get(name_of(stored))
            case PersistentVolume():
                return self.volumes.get(name)
            case StorageClass():
                return self.classes.get(name)
            case CSINode():
                return self.csi_nodes.get(name)
            case CSIDriver():
                return self.csi_drivers.get(name)
            case CSIStorageCapacity():
                return self.capacities.get(stored.storage_class_name, EMPTY_MAP).get(name_of(stored))
            case VolumeAttachment():
                return self.attachments.get(stored.spec.node_name, EMPTY_MAP).get(name)

    def with_object(self, stored: StorageObject) -> Storage:
        """Return the storage with this object added or replaced."""
        return self._replace_object(stored, stored)

    def without_object(self, stored: StorageObject) -> Storage:
        """Return the storage without the object of this kind and name."""
        return self._replace_object(stored, None)

    def with_promises(self, promises: Promises) -> Storage:
        """Return the storage with these promises in place of its own."""
        return self if promises is self.promises else replace(self, promises=promises)

    def _replace_object(self, named: StorageObject, new: Any) -> Storage:
        name = named.metadata.name
        match named:
            case PersistentVolumeClaim():
                return replace(self, claims=_put(self.claims, name_of(named), new))
            case PersistentVolume():
                return self._with_volume(self.volumes.get(name), new, name)
            case StorageClass():
                return replace(self, classes=_put(self.classes, name, new))
            case CSINode():
                return replace(self, csi_nodes=_put(self.csi_nodes, name, new))
            case CSIDriver():
                return replace(self, csi_drivers=_put(self.csi_drivers, name, new))
            case CSIStorageCapacity():
                return replace(
                    self, capacities=_put_within(self.capacities, named.storage_class_name, name_of(named), new)
                )
            case VolumeAttachment():
                return replace(self, attachments=_put_within(self.attachments, named.spec.node_name, name, new))

    def _with_volume(self, old: PersistentVolume | None, new: PersistentVolume | None, name: str) -> Storage:
        unclaimed, claimed = self.unclaimed, self.claimed
        if old is not None and old.spec.claim_ref is None:
            listed = unclaimed[old.storage_class]
            at = bisect_left(listed, _size(old), key=_size)
            unclaimed = _put(unclaimed, old.storage_class, (*listed[:at], *listed[at + 1 :]) or None)
        elif old is not None and old.spec.claim_ref is not None:
            claim = old.spec.claim_ref.namespace, old.spec.claim_ref.name
            claimed = _put(claimed, claim, tuple(each for each in claimed[claim] if each != name) or None)
        if new is not None and new.spec.claim_ref is None:
            listed = unclaimed.get(new.storage_class, ())
            at = bisect_left(listed, _size(new), key=_size)
            unclaimed = unclaimed.with_entry(new.storage_class, (*listed[:at], new, *listed[at:]))
        elif new is not None and new.spec.claim_ref is not None:
            claim = new.spec.claim_ref.namespace, new.spec.claim_ref.name
            claimed = claimed.with_entry(claim, tuple(sorted((*claimed.get(claim, ()), name))))
        return replace(self, volumes=_put(self.volumes, name, new), unclaimed=unclaimed, claimed=claimed)


EMPTY_STORAGE: Final = Storage()
_NOTHING_RESERVED: Final = Reservation()


def name_of(stored: PersistentVolumeClaim | CSIStorageCapacity) -> Name:
    """Return the namespace and name of a namespaced object."""
    return stored.metadata.namespace, stored.metadata.name


def _size(volume: PersistentVolume) -> tuple[int, str]:
    return volume.size.nano_value, volume.metadata.name


def _same_version(
    one: PersistentVolume | PersistentVolumeClaim, other: PersistentVolume | PersistentVolumeClaim
) -> bool:
    return one.metadata.resource_version == other.metadata.resource_version


def _map_by_name(listed: Iterable[Any]) -> PersistentMap[Name, Any]:
    return PersistentMap.from_entries((name_of(each), each) for each in listed)


def _map_by_own_name(listed: Iterable[Any]) -> PersistentMap[str, Any]:
    return PersistentMap.from_entries((each.metadata.name, each) for each in listed)


def _map_by_group(listed: Iterable[tuple[str, Any, Any]]) -> PersistentMap[str, PersistentMap[Any, Any]]:
    groups: dict[str, list[tuple[Any, Any]]] = {}
    for group, name, each in listed:
        groups.setdefault(group, []).append((name, each))
    return PersistentMap.from_entries((group, PersistentMap.from_entries(entries)) for group, entries in groups.items())


def _put(table: PersistentMap[K, V], key: K, value: V | None) -> PersistentMap[K, V]:
    """Store the value, or remove the entry if the value is None."""
    return table.without_key(key) if value is None else table.with_entry(key, value)


def _put_within(
    table: PersistentMap[str, PersistentMap[K, V]], group: str, key: K, value: V | None
) -> PersistentMap[str, PersistentMap[K, V]]:
    changed = _put(table.get(group, EMPTY_MAP), key, value)
    return _put(table, group, changed or None)


def _push_value(table: PersistentMap[K, tuple[V, ...]], key: K, value: V) -> PersistentMap[K, tuple[V, ...]]:
    return table.with_entry(key, (*table.get(key, ()), value))


def _pop_value(table: PersistentMap[K, tuple[V, ...]], key: K, value: V) -> PersistentMap[K, tuple[V, ...]]:
    """Remove one occurrence of the value."""
    held = list(table[key])
    held.remove(value)
    return _put(table, key, tuple(held) or None)
