"""Claims, volumes and pods that use them, in the fewest words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from situate.objects.kinds.meta import ObjectMeta, OwnerReference
from situate.objects.kinds.pods import (
    Container,
    EphemeralVolumeSource,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolumeClaimSource,
    Pod,
    PodSpec,
    ResourceRequirements,
    Volume,
)
from situate.objects.kinds.storage import (
    BIND_COMPLETED,
    MIGRATED_PLUGINS,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    ClaimReference,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeNodeAffinity,
    VolumeNodeResources,
)
from situate.objects.values.quantity import parse_quantity

NAMESPACE = "default"
HOSTNAME = "kubernetes.io/hostname"


def claim(
    name: str,
    *,
    size: str = "1Gi",
    storage_class: str = "local",
    volume: str = "",
    bound: bool = False,
    selected: str = "",
    version: str = "1",
    namespace: str = NAMESPACE,
    owner: str = "",
    annotations: Mapping[str, str] | None = None,
    deleted: Any = None,
    phase: str = "",
    **spec: Any,
) -> PersistentVolumeClaim:
    """Its uid is its name; `bound` for good to `volume`; `selected` for a node; `owner` is a pod's uid."""
    notes = dict(annotations or {})
    if bound:
        notes[BIND_COMPLETED] = "yes"
    if selected:
        notes[SELECTED_NODE] = selected
    owners = (OwnerReference("Pod", owner, owner, "v1", controller=True),) if owner else ()
    requests = ResourceRequirements(requests={"storage": parse_quantity(size)} if size else {})
    return PersistentVolumeClaim(
        ObjectMeta(
            name=name,
            namespace=namespace,
            uid=name,
            resource_version=version,
            annotations=notes,
            owner_references=owners,
            deletion_timestamp=deleted,
        ),
        PersistentVolumeClaimSpec(
            resources=requests, volume_name=volume, storage_class_name=storage_class, **{"access_modes": RWO, **spec}
        ),
        PersistentVolumeClaimStatus(phase or ("Bound" if bound else "Pending")),
    )


RWO = ("ReadWriteOnce",)


def volume(
    name: str,
    *,
    size: str = "1Gi",
    storage_class: str = "local",
    claimed_by: str = "",
    claim_uid: str | None = None,
    on: tuple[str, ...] = (),
    version: str = "1",
    driver: str = "",
    handle: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    deleted: Any = None,
    phase: str = "",
    affinity: VolumeNodeAffinity | None = None,
    **spec: Any,
) -> PersistentVolume:
    """`on` these nodes alone, by hostname; `claimed_by` a claim of the namespace, whose uid is its name unless said."""
    if on:
        affinity = VolumeNodeAffinity(
            NodeSelector((NodeSelectorTerm((NodeSelectorRequirement(HOSTNAME, "In", on),)),)),
        )
    ref = ClaimReference(NAMESPACE, claimed_by, claimed_by if claim_uid is None else claim_uid) if claimed_by else None
    return PersistentVolume(
        ObjectMeta(
            name=name,
            resource_version=version,
            labels=labels or {},
            annotations=annotations or {},
            deletion_timestamp=deleted,
        ),
        PersistentVolumeSpec(
            capacity={"storage": parse_quantity(size)},
            claim_ref=ref,
            node_affinity=affinity,
            storage_class_name=storage_class,
            csi=CSIVolumeSource(driver, handle or name) if driver else None,
            **{"access_modes": RWO, **spec},
        ),
        PersistentVolumeStatus(phase or ("Bound" if claimed_by else "Available")),
    )


def storage_class(
    name: str = "local",
    *,
    provisioner: str = "kubernetes.io/no-provisioner",
    mode: str | None = WAIT_FOR_FIRST_CONSUMER,
    **fields: Any,
) -> StorageClass:
    return StorageClass(ObjectMeta(name=name), provisioner, mode, **fields)


def using(claim_name: str) -> Volume:
    return Volume(claim_name, persistent_volume_claim=PersistentVolumeClaimSource(claim_name))


def ephemeral(name: str) -> Volume:
    """Its claim is called after the pod and this name."""
    return Volume(name, ephemeral=EphemeralVolumeSource())


def pod(name: str, *volumes: Volume, namespace: str = NAMESPACE, **spec: Any) -> Pod:
    """Its uid is its name."""
    return Pod(
        ObjectMeta(name=name, namespace=namespace, uid=name),
        PodSpec(scheduler_name="here", containers=(Container(),), volumes=volumes, **spec),
    )


def csi_node(name: str, *limits: tuple[str, int | None], migrated: str = "") -> CSINode:
    """So many volumes of each driver; `migrated`: in-tree plugins, with commas between them."""
    drivers = tuple(CSINodeDriver(driver, VolumeNodeResources(limit)) for driver, limit in limits)
    return CSINode(ObjectMeta(name=name, annotations={MIGRATED_PLUGINS: migrated}), CSINodeSpec(drivers))


def attached(name: str, node: str, driver: str = "csi") -> VolumeAttachment:
    """A volume of this name to a node."""
    spec = VolumeAttachmentSpec(driver, node, VolumeAttachmentSource(name))
    return VolumeAttachment(ObjectMeta(name=f"{name} on {node}"), spec)
