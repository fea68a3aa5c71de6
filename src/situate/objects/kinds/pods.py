"""Pods, with the fields that a scheduler reads (core/v1 types.go)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from situate.objects.kinds.meta import NO_LABELS, Condition, ObjectMeta
from situate.objects.kinds.selectors import LabelSelector
from situate.objects.model import Model
from situate.objects.values.quantity import NO_QUANTITIES, Quantity


class ResourceRequirements(Model, frozen=True):
    """Amounts by resource name, such as `cpu`."""

    requests: Mapping[str, Quantity] = NO_QUANTITIES
    limits: Mapping[str, Quantity] = NO_QUANTITIES


class ContainerPort(Model, frozen=True):
    """A port that a container opens; with `host_port` 0 it uses no port of the node."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"
    name: str = ""


class ContainerRestartRule(Model, frozen=True):
    """The action after a container exits; the exit codes of the rule are not read."""

    action: str = ""
    """`Restart` or `RestartAllContainers`."""


class ContainerResizePolicy(Model, frozen=True):
    """Whether a container restarts when its amount of a resource changes."""

    resource_name: str = ""
    restart_policy: str = ""
    """`NotRequired` or `RestartContainer`."""


class Container(Model, frozen=True):
    """A container and its requests; commands, probes and mounts are not read."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""
    """`Always` on an init container makes it a sidecar."""
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    resize_policy: tuple[ContainerResizePolicy, ...] = ()


class Toleration(Model, frozen=True):
    """A toleration of taints."""

    key: str = ""
    """Empty with operator `Exists` means every taint."""
    operator: str = ""
    """Empty means `Equal`."""
    value: str = ""
    effect: str = ""
    """Empty means every effect."""
    toleration_seconds: int | None = None
    """None means without limit."""


class NodeSelectorRequirement(Model, frozen=True):
    """One condition on a node's labels or fields."""

    key: str = ""
    operator: str = ""
    """`In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`."""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Model, frozen=True):
    """A term: all its requirements must hold; an empty term matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Model, frozen=True):
    """A node selector: one of its terms must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Model, frozen=True):
    """A preference with a weight of 1 to 100."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Model, frozen=True):
    """Requirements and preferences about nodes."""

    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    """None means no requirement."""
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Model, frozen=True):
    """Pods that attract or repel a Pod, in a topology domain."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    """None matches no Pod."""
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    """None means the Pod's own namespace, unless `namespaces` names others; an empty selector means all."""
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Model, frozen=True):
    """A preference with a weight of 1 to 100."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Model, frozen=True):
    """Pod affinity; Pod anti-affinity has the same form."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Model, frozen=True):
    """The affinities of a Pod; None means no requirement."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Model, frozen=True):
    """How evenly the Pods of a selector must spread over the domains of a node label."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    """`DoNotSchedule` or `ScheduleAnyway`."""
    label_selector: LabelSelector | None = None
    """None matches no Pod."""
    min_domains: int | None = None
    """None counts as 1."""
    node_affinity_policy: str = "Honor"
    node_taints_policy: str = "Ignore"
    match_label_keys: tuple[str, ...] = ()


class PodSchedulingGate(Model, frozen=True):
    name: str = ""


class PersistentVolumeClaimSource(Model, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class EphemeralVolumeSource(Model, frozen=True):
    """A claim named `<pod>-<volume>` that exists as long as the Pod."""


class GCEPersistentDiskSource(Model, frozen=True):
    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStoreSource(Model, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")


class RBDSource(Model, frozen=True):
    """An image of a Ceph cluster; its monitors identify the cluster."""

    monitors: tuple[str, ...] = ()
    pool: str = "rbd"
    image: str = ""
    read_only: bool = False


class ISCSISource(Model, frozen=True):
    iqn: str = ""
    read_only: bool = False


class AzureDiskSource(Model, frozen=True):
    disk_uri: str = msgspec.field(default="", name="diskURI")
    kind: str = "Shared"
    """`Managed`, `Shared` or `Dedicated`."""


class CinderSource(Model, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")


class PortworxSource(Model, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")


class CSIInlineSource(Model, frozen=True):
    """A volume without a claim that exists as long as the Pod."""

    driver: str = ""


class ImageVolumeSource(Model, frozen=True):
    """An image whose files form a volume."""

    reference: str = ""


class Volume(Model, frozen=True):
    """A volume of a kind that can restrict the node of the Pod; all fields are None for other kinds."""

    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    csi: CSIInlineSource | None = None
    image: ImageVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreSource | None = None
    rbd: RBDSource | None = None
    iscsi: ISCSISource | None = None
    azure_disk: AzureDiskSource | None = None
    cinder: CinderSource | None = None
    portworx_volume: PortworxSource | None = None


class PodResourceClaim(Model, frozen=True):
    """Devices for the Pod (dynamic resource allocation); the devices are not read."""

    name: str = ""


class PodSpec(Model, frozen=True):
    """The requirements of a Pod on its node."""

    node_name: str = ""
    """Empty until the Pod is bound."""
    hostname: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    """None counts as 0."""
    priority_class_name: str = ""
    preemption_policy: str = ""
    """Empty means `PreemptLowerPriority`."""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: Mapping[str, Quantity] = NO_QUANTITIES
    resources: ResourceRequirements = ResourceRequirements()
    """The requests of the Pod as a whole, in addition to those of its containers."""
    node_selector: Mapping[str, str] = NO_LABELS
    affinity: Affinity = Affinity()
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    """Only the volumes of the kinds in `Volume`."""
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    host_network: bool = False
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    """None means the server's default, 30 s."""
    host_users: bool | None = None
    """False requests a user namespace; None means true."""
    resource_claims: tuple[PodResourceClaim, ...] = ()


class ContainerStateRunning(Model, frozen=True):
    started_at: datetime | None = None
    """None if the kubelet reports no time."""


class ContainerStateWaiting(Model, frozen=True):
    reason: str = ""
    message: str = ""


class ContainerStateTerminated(Model, frozen=True):
    exit_code: int = 0
    reason: str = ""
    finished_at: datetime | None = None
    """None if the kubelet reports no time."""


class ContainerState(Model, frozen=True):
    """The state of a container. At most one field is set; without one the container is waiting."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Model, frozen=True):
    """The kubelet's report on a container; image and container ids are not read."""

    name: str = ""
    ready: bool = False
    started: bool | None = None
    """None if the kubelet reports no value."""
    restart_count: int = 0
    state: ContainerState = ContainerState()
    allocated_resources: Mapping[str, Quantity] = NO_QUANTITIES
    """The amounts that the kubelet has admitted during a resize."""
    resources: ResourceRequirements | None = None
    """The amounts that the container runs with; None if the kubelet reports none."""


class PodStatus(Model, frozen=True):
    """The reported state of a Pod."""

    phase: str = ""
    """`Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`."""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    host_ip: str = msgspec.field(default="", name="hostIP")
    start_time: datetime | None = None
    """None until a kubelet has seen the Pod."""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    qos_class: str = ""
    resize: str = ""
    """The progress of a resize from servers before 1.33; later servers use conditions."""
    observed_generation: int = 0


class Pod(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def condition(self, type_: str) -> Condition | None:
        """Return the condition of this type; None if no component has reported it."""
        for condition in self.status.conditions:
            if condition.type == type_:
                return condition
        return None

    @property
    def ready(self) -> bool:
        """Whether the Pod's `Ready` condition is `True`."""
        condition = self.condition("Ready")
        return condition is not None and condition.status == "True"

    @property
    def finished(self) -> bool:
        """Whether all containers have ended for good, so that the Pod uses no capacity of its node."""
        return self.status.phase in ("Succeeded", "Failed")
