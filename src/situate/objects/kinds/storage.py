"""Storage: what a scheduler reads of claims, volumes and what is said about them (core/v1 and storage/v1 types.go)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.pods import (
    AWSElasticBlockStoreSource,
    AzureDiskSource,
    CinderSource,
    GCEPersistentDiskSource,
    NodeSelector,
    PortworxSource,
    ResourceRequirements,
)
from situate.objects.kinds.selectors import LabelSelector
from situate.objects.model import Model
from situate.objects.values.quantity import NO_QUANTITIES, Quantity

STORAGE: Final = "storage"
"""The resource that claims request and volumes have."""
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
"""Annotation of a claim that has its volume for good; the value does not matter."""
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
"""Annotation of a volume whose claim was not chosen by its owner."""
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""Annotation of a claim: the node for which a volume is to be made."""
MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
"""Annotation of a CSINode: in-tree plugins whose volumes a CSI driver serves there, separated by commas."""
_OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
READ_ANNOTATIONS: Final = frozenset((BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE, _OLD_CLASS))
"""Of claims and volumes; all others are left out when they are decoded."""


class PersistentVolumeClaimSpec(Model, frozen=True):
    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    """None takes any volume."""
    resources: ResourceRequirements = ResourceRequirements()
    volume_name: str = ""
    """Empty while no volume is bound or asked for by name."""
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str = ""


class PersistentVolumeClaimStatus(Model, frozen=True):
    phase: str = ""
    """`Pending`, `Bound` or `Lost`."""


class PersistentVolumeClaim(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()

    @property
    def storage_class(self) -> str:
        """The class's name, by annotation as long ago, else by field; empty if none is asked for."""
        return self.metadata.annotations.get(_OLD_CLASS, self.spec.storage_class_name)

    @property
    def requested(self) -> Quantity | None:
        """The size; None if none is named."""
        return self.spec.resources.requests.get(STORAGE)

    @property
    def fully_bound(self) -> bool:
        """Whether it has its volume for good."""
        return bool(self.spec.volume_name) and BIND_COMPLETED in self.metadata.annotations

    @property
    def selected_node(self) -> str | None:
        """The node for which a volume is being made; None if none has been chosen."""
        return self.metadata.annotations.get(SELECTED_NODE)


class ClaimReference(Model, frozen=True):
    """The claim that a volume is bound to, or meant for."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    """Empty if the volume is meant for whichever claim gets the name."""


class CSIVolumeSource(Model, frozen=True):
    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(Model, frozen=True):
    required: NodeSelector | None = None
    """None demands nothing."""


class PersistentVolumeSpec(Model, frozen=True):
    """A volume is of one kind; kinds that no rule tells apart are not read."""

    capacity: Mapping[str, Quantity] = NO_QUANTITIES
    access_modes: tuple[str, ...] = ()
    claim_ref: ClaimReference | None = None
    """None while nobody has claimed it."""
    node_affinity: VolumeNodeAffinity | None = None
    """None if it can be used everywhere."""
    storage_class_name: str = ""
    volume_mode: str = "Filesystem"
    volume_attributes_class_name: str = ""
    csi: CSIVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreSource | None = None
    azure_disk: AzureDiskSource | None = None
    cinder: CinderSource | None = None
    portworx_volume: PortworxSource | None = None


class PersistentVolumeStatus(Model, frozen=True):
    phase: str = ""
    """`Pending`, `Available`, `Bound`, `Released` or `Failed`."""


class PersistentVolume(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()

    @property
    def storage_class(self) -> str:
        """The class's name, by annotation as long ago, else by field."""
        return self.metadata.annotations.get(_OLD_CLASS, self.spec.storage_class_name)

    @property
    def size(self) -> Quantity:
        """None named is zero."""
        return self.spec.capacity.get(STORAGE, _NO_SIZE)

    def is_for(self, claim: PersistentVolumeClaim) -> bool:
        """Whether it is bound to the claim, or meant for it."""
        ref = self.spec.claim_ref
        return (
            ref is not None
            and ref.name == claim.metadata.name
            and ref.namespace == claim.metadata.namespace
            and ref.uid in ("", claim.metadata.uid)
        )


class TopologySelectorLabelRequirement(Model, frozen=True):
    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Model, frozen=True):
    """All of it must hold; an empty term matches no node."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    """`Immediate` or `WaitForFirstConsumer`; None only from whoever leaves out the server's default."""
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()
    """One of them must match; none allows every node."""


class VolumeNodeResources(Model, frozen=True):
    count: int | None = None
    """So many volumes of the driver may be on the node; None is no limit."""


class CSINodeDriver(Model, frozen=True):
    name: str = ""
    allocatable: VolumeNodeResources | None = None
    """None is no limit."""


class CSINodeSpec(Model, frozen=True):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Model, frozen=True):
    """The CSI drivers of the node with the same name."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()

    @property
    def limits(self) -> dict[str, int]:
        """By driver; those without a limit are left out."""
        return {
            driver.name: driver.allocatable.count
            for driver in self.spec.drivers
            if driver.allocatable is not None and driver.allocatable.count is not None
        }

    @property
    def migrated(self) -> frozenset[str]:
        """The in-tree plugins whose volumes a CSI driver serves on the node."""
        return frozenset(self.metadata.annotations.get(MIGRATED_PLUGINS, "").split(",")) - {""}


class CSIDriverSpec(Model, frozen=True):
    storage_capacity: bool = False
    """Whether it says how much room it has where."""


class CSIDriver(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Model, frozen=True):
    """How much room a driver has for volumes of a class, on some nodes."""

    metadata: ObjectMeta = ObjectMeta()
    node_topology: LabelSelector | None = None
    """None is no node."""
    storage_class_name: str = ""
    capacity: Quantity | None = None
    """None if the driver did not say."""
    maximum_volume_size: Quantity | None = None
    """None if the driver did not say."""

    @property
    def largest(self) -> Quantity | None:
        """The largest volume that can be made; None if the driver did not say."""
        return self.capacity if self.maximum_volume_size is None else self.maximum_volume_size


class VolumeAttachmentSource(Model, frozen=True):
    persistent_volume_name: str = ""
    """Empty for a volume that a pod describes itself."""


class VolumeAttachmentSpec(Model, frozen=True):
    attacher: str = ""
    """The CSI driver."""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


Stored: TypeAlias = (
    PersistentVolumeClaim
    | PersistentVolume
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
)
"""The objects that scheduling reads because of volumes."""

_NO_SIZE: Final = Quantity(0)
