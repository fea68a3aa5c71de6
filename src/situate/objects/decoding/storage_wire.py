"""Claims and volumes as received, in a form in which a hundred thousand of them fit into memory.

There may be as many as Pods. Their shared parts are decoded only if `Interner` does not know them yet. Only the
annotations that a scheduler reads are stored, because others contain whole objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from sys import intern
from typing import Any, Final

import msgspec

from situate.objects.decoding.container_wire import json_decoder
from situate.objects.decoding.interning import NOTHING, Interner
from situate.objects.decoding.meta_wire import MetaWire
from situate.objects.kinds.meta import NO_LABELS, ObjectMeta, OwnerReference
from situate.objects.kinds.pods import (
    AWSElasticBlockStoreSource,
    AzureDiskSource,
    CinderSource,
    GCEPersistentDiskSource,
    PortworxSource,
    ResourceRequirements,
)
from situate.objects.kinds.selectors import LabelSelector
from situate.objects.kinds.storage import (
    READ_ANNOTATIONS,
    ClaimReference,
    CSIVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    VolumeNodeAffinity,
)
from situate.objects.values.quantity import NO_QUANTITIES, Quantity


class _ClaimSpecWire(msgspec.Struct, gc=False, rename="camel"):
    access_modes: msgspec.Raw = NOTHING
    selector: msgspec.Raw = NOTHING
    resources: msgspec.Raw = NOTHING
    volume_name: str = ""
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str = ""


class ClaimWire(msgspec.Struct, gc=False, rename="camel"):
    """A claim with undecoded shared parts."""

    metadata: MetaWire = msgspec.field(default_factory=MetaWire)
    spec: _ClaimSpecWire = msgspec.field(default_factory=_ClaimSpecWire)
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class _VolumeSpecWire(msgspec.Struct, gc=False, rename="camel"):
    capacity: msgspec.Raw = NOTHING
    access_modes: msgspec.Raw = NOTHING
    claim_ref: ClaimReference | None = None
    node_affinity: msgspec.Raw = NOTHING
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str = ""
    csi: CSIVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreSource | None = None
    azure_disk: AzureDiskSource | None = None
    cinder: CinderSource | None = None
    portworx_volume: PortworxSource | None = None


class VolumeWire(msgspec.Struct, gc=False, rename="camel"):
    """A volume with undecoded shared parts."""

    metadata: MetaWire = msgspec.field(default_factory=MetaWire)
    spec: _VolumeSpecWire = msgspec.field(default_factory=_VolumeSpecWire)
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class StorageReader:
    """Builds claims and volumes from received values; all that it has read share equal parts.

    A test compares the result with a plain decoding.
    """

    def __init__(self) -> None:
        self._labels = _interner(Mapping[str, str], NO_LABELS, "metadata.labels")
        self._annotations = Interner(_annotations, NO_LABELS, "metadata.annotations")
        self._owners = _interner(tuple[OwnerReference, ...], (), "metadata.ownerReferences")
        self._finalizers = _interner(tuple[str, ...], (), "metadata.finalizers")
        self._access_modes = _interner(tuple[str, ...], (), "spec.accessModes")
        self._selector = _interner(LabelSelector | None, None, "spec.selector")
        self._resources = _interner(ResourceRequirements, ResourceRequirements(), "spec.resources")
        self._capacity = _interner(Mapping[str, Quantity], NO_QUANTITIES, "spec.capacity")
        self._affinity = _interner(VolumeNodeAffinity | None, None, "spec.nodeAffinity")

    def claim(self, wire: ClaimWire) -> PersistentVolumeClaim:
        """Build a claim. Raises `PartError` if a shared part does not decode."""
        spec = wire.spec
        return PersistentVolumeClaim(
            self._metadata(wire.metadata),
            PersistentVolumeClaimSpec(
                self._access_modes(spec.access_modes),
                self._selector(spec.selector),
                self._resources(spec.resources),
                spec.volume_name,
                intern(spec.storage_class_name),
                intern(spec.volume_mode),
                intern(spec.volume_attributes_class_name),
            ),
            _CLAIM_STATUSES.get(wire.status.phase, wire.status),
        )

    def volume(self, wire: VolumeWire) -> PersistentVolume:
        """Build a volume. Raises `PartError` if a shared part does not decode."""
        spec, ref, csi = wire.spec, wire.spec.claim_ref, wire.spec.csi
        return PersistentVolume(
            self._metadata(wire.metadata),
            PersistentVolumeSpec(
                self._capacity(spec.capacity),
                self._access_modes(spec.access_modes),
                None if ref is None else ClaimReference(intern(ref.namespace), ref.name, ref.uid),
                self._affinity(spec.node_affinity),
                intern(spec.storage_class_name),
                intern(spec.volume_mode),
                intern(spec.volume_attributes_class_name),
                None if csi is None else CSIVolumeSource(intern(csi.driver), csi.volume_handle),
                spec.gce_persistent_disk,
                spec.aws_elastic_block_store,
                spec.azure_disk,
                spec.cinder,
                spec.portworx_volume,
            ),
            _VOLUME_STATUSES.get(wire.status.phase, wire.status),
        )

    def _metadata(self, wire: MetaWire) -> ObjectMeta:
        return ObjectMeta(
            wire.name,
            intern(wire.namespace),
            wire.uid,
            wire.resource_version,
            wire.generation,
            wire.creation_timestamp,
            wire.deletion_timestamp,
            wire.deletion_grace_period_seconds,
            self._labels(wire.labels),
            self._annotations(wire.annotations),
            self._owners(wire.owner_references),
            self._finalizers(wire.finalizers),
            intern(wire.generate_name),
        )


_CLAIM_STATUSES: Final = {phase: PersistentVolumeClaimStatus(phase) for phase in ("Pending", "Bound", "Lost")}
_VOLUME_STATUSES: Final = {
    phase: PersistentVolumeStatus(phase) for phase in ("Pending", "Available", "Bound", "Released", "Failed")
}
_MAP: Final = json_decoder(Mapping[str, str])


def _annotations(raw: bytes) -> Mapping[str, str]:
    """Decode only the annotations that are read."""
    found = {name: value for name, value in _MAP.decode(raw).items() if name in READ_ANNOTATIONS}
    return found or NO_LABELS


def _interner(type_: Any, absent: Any, path: str) -> Interner[Any]:
    decode: Callable[[bytes], Any] = json_decoder(type_).decode
    return Interner(decode, absent, path)
