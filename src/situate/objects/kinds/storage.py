"""Storage objects, with the fields that a scheduler reads (core/v1 and storage/v1 types.go)."""

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
"""The resource name of a claim's request and of a volume's capacity."""
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
"""Annotation of a claim that is bound for good; its value does not matter."""
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
"""Annotation of a volume that the controller, not the user, bound to its claim."""
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""Annotation of a claim: the node for which a volume has to be provisioned."""
MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
"""Annotation of a CSINode: in-tree plugins with volumes that a CSI driver serves there, separated by commas."""
_OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
READ_ANNOTATIONS: Final = frozenset((BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE, _OLD_CLASS))
"""The annotations of claims and volumes that are read; decoding drops all others."""


class PersistentVolumeClaimSpec(Model, frozen=True):
    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    """None accepts any volume."""
    resources: ResourceRequirements = ResourceRequirements()
    volume_name: str = ""
    """Empty while no volume is bound or requested by name."""
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
        """The name of the class, from the old annotation or else from the field; empty without a class."""
        return self.metadata.annotations.get(_OLD_CLASS, self.spec.storage_class_name)

    @property
    def requested_storage(self) -> Quantity | None:
        """The requested size; None without one."""
        return self.spec.resources.requests.get(STORAGE)

    @property
    def fully_bound(self) -> bool:
        """Whether the claim is bound for good."""
        return bool(self.spec.volume_name) and BIND_COMPLETED in self.metadata.annotations

    @property
    def selected_node(self) -> str | None:
        """The node for which a volume is being provisioned; None without a chosen node."""
        return self.metadata.annotations.get(SELECTED_NODE)


class ClaimReference(Model, frozen=True):
    """The claim that a volume is bound to, or reserved for."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    """Empty if the volume is reserved for any claim of this name."""


class CSIVolumeSource(Model, frozen=True):
    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(Model, frozen=True):
    required: NodeSelector | None = None
    """None means no requirement."""


class PersistentVolumeSpec(Model, frozen=True):
    """The spec of a volume, which is of one kind. Kinds without a rule of their own are not read."""

    capacity: Mapping[str, Quantity] = NO_QUANTITIES
    access_modes: tuple[str, ...] = ()
    claim_ref: ClaimReference | None = None
    """None if no claim has the volume."""
    node_affinity: VolumeNodeAffinity | None = None
    """None if all nodes can use the volume."""
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
        """The name of the class, from the old annotation or else from the field."""
        return self.metadata.annotations.get(_OLD_CLASS, self.spec.storage_class_name)

    @property
    def size(self) -> Quantity:
        """The size; zero without one."""
        return self.spec.capacity.get(STORAGE, _NO_SIZE)

    def is_for(self, claim: PersistentVolumeClaim) -> bool:
        """Return whether the volume is bound to the claim, or reserved for it."""
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
    """A term: all requirements must hold; an empty term matches no node."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    provisioner: str = ""
    volume_binding_mode: str | None = None
    """`Immediate` or `WaitForFirstConsumer`; None only if the server's default is missing."""
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()
    """One of them must match; without terms every node is allowed."""


class VolumeNodeResources(Model, frozen=True):
    count: int | None = None
    """The largest number of the driver's volumes on the node; None means no limit."""


class CSINodeDriver(Model, frozen=True):
    name: str = ""
    allocatable: VolumeNodeResources | None = None
    """None means no limit."""


class CSINodeSpec(Model, frozen=True):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Model, frozen=True):
    """The CSI drivers of the node with the same name."""

    metadata: ObjectMeta = ObjectMeta()
    spec: CSINodeSpec = CSINodeSpec()

    @property
    def limits(self) -> dict[str, int]:
        """The limits by driver, without drivers that have none."""
        return {
            driver.name: driver.allocatable.count
            for driver in self.spec.drivers
            if driver.allocatable is not None and driver.allocatable.count is not None
        }

    @property
    def migrated_plugins(self) -> frozenset[str]:
        """The in-tree plugins with volumes that a CSI driver serves on the node."""
        return frozenset(self.metadata.annotations.get(MIGRATED_PLUGINS, "").split(",")) - {""}


class CSIDriverSpec(Model, frozen=True):
    storage_capacity: bool = False
    """Whether the driver reports its free capacity."""


class CSIDriver(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Model, frozen=True):
    """The free capacity of a driver for volumes of a class, on some nodes."""

    metadata: ObjectMeta = ObjectMeta()
    node_topology: LabelSelector | None = None
    """None means no node."""
    storage_class_name: str = ""
    capacity: Quantity | None = None
    """None if the driver reports no value."""
    maximum_volume_size: Quantity | None = None
    """None if the driver reports no value."""

    @property
    def largest_volume(self) -> Quantity | None:
        """The largest volume that the driver can provision; None if the driver reports no value."""
        return self.capacity if self.maximum_volume_size is None else self.maximum_volume_size


class VolumeAttachmentSource(Model, frozen=True):
    persistent_volume_name: str = ""
    """Empty for an inline volume of a Pod."""


class VolumeAttachmentSpec(Model, frozen=True):
    attacher: str = ""
    """The CSI driver."""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


StorageObject: TypeAlias = (
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
