"""Pods: what a scheduler reads of them (core/v1 types.go)."""

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
    """A port that a container opens; `host_port` 0 claims none of the node's."""

    container_port: int = 0
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"
    name: str = ""


class ContainerRestartRule(Model, frozen=True):
    """What to do when a container exits; on which exits is not read."""

    action: str = ""
    """`Restart` or `RestartAllContainers`."""


class ContainerResizePolicy(Model, frozen=True):
    """What becomes of a container when the amount that it has of a resource changes."""

    resource_name: str = ""
    restart_policy: str = ""
    """`NotRequired` or `RestartContainer`."""


class Container(Model, frozen=True):
    """A container's claims; commands, probes and mounts are not read."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""
    """`Always` on an init container makes it a sidecar."""
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    resize_policy: tuple[ContainerResizePolicy, ...] = ()


class Toleration(Model, frozen=True):
    """Taints that a pod puts up with."""

    key: str = ""
    """Empty with operator `Exists` means every taint."""
    operator: str = ""
    """Empty means `Equal`."""
    value: str = ""
    effect: str = ""
    """Empty means every effect."""
    toleration_seconds: int | None = None
    """None means for ever."""


class NodeSelectorRequirement(Model, frozen=True):
    """One condition on a node's labels or fields."""

    key: str = ""
    operator: str = ""
    """`In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`."""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Model, frozen=True):
    """All of its requirements must hold; an empty term matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Model, frozen=True):
    """One of its terms must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(Model, frozen=True):
    """A wish with a weight of 1 to 100."""

    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Model, frozen=True):
    """Demands and wishes towards nodes."""

    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")
    """None demands nothing."""
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Model, frozen=True):
    """Pods that attract or repel, in a topology domain."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    """None matches no pod."""
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    """None means the pod's own namespace, unless `namespaces` names others; an empty selector means all."""
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Model, frozen=True):
    """A wish with a weight of 1 to 100."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Model, frozen=True):
    """Also the shape of pod anti-affinity."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Model, frozen=True):
    """None asks nothing."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Model, frozen=True):
    """How evenly the pods of a selector must stand over the domains of a node label."""

    max_skew: int = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    """`DoNotSchedule` or `ScheduleAnyway`."""
    label_selector: LabelSelector | None = None
    """None matches no pod."""
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
    """A claim named `<pod>-<volume>` that lives as long as the pod."""


class GCEPersistentDiskSource(Model, frozen=True):
    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStoreSource(Model, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")


class RBDSource(Model, frozen=True):
    """An image of a Ceph cluster, known by its monitors."""

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
    """A volume that lives as long as the pod, and no claim."""

    driver: str = ""


class ImageVolumeSource(Model, frozen=True):
    """An image whose files are a volume."""

    reference: str = ""


class Volume(Model, frozen=True):
    """A volume of a kind that decides, or may decide, where the pod goes; None where it is of another kind."""

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
    """Devices that the pod is to get (dynamic resource allocation); which ones is not read."""

    name: str = ""


class PodSpec(Model, frozen=True):
    """What a pod asks of the place where it runs."""

    node_name: str = ""
    """Empty until bound."""
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
    """Of the pod as a whole, beside those of its containers."""
    node_selector: Mapping[str, str] = NO_LABELS
    affinity: Affinity = Affinity()
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    volumes: tuple[Volume, ...] = ()
    """Only those of the kinds that `Volume` has."""
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    host_network: bool = False
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    """None means the server's default, 30 s."""
    host_users: bool | None = None
    """False asks for a user namespace; None is the same as true."""
    resource_claims: tuple[PodResourceClaim, ...] = ()


class ContainerStateRunning(Model, frozen=True):
    started_at: datetime | None = None
    """None if the kubelet did not say."""


class ContainerStateWaiting(Model, frozen=True):
    reason: str = ""
    message: str = ""


class ContainerStateTerminated(Model, frozen=True):
    exit_code: int = 0
    reason: str = ""
    finished_at: datetime | None = None
    """None if the kubelet did not say."""


class ContainerState(Model, frozen=True):
    """At most one of the three; none means waiting."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Model, frozen=True):
    """What the kubelet reports of a container; image and container ids are not read."""

    name: str = ""
    ready: bool = False
    started: bool | None = None
    """None if the kubelet did not say."""
    restart_count: int = 0
    state: ContainerState = ContainerState()
    allocated_resources: Mapping[str, Quantity] = NO_QUANTITIES
    """What the kubelet has admitted during a resize."""
    resources: ResourceRequirements | None = None
    """What the container runs with; None if the kubelet did not say."""


class PodStatus(Model, frozen=True):
    """What is known of a running pod."""

    phase: str = ""
    """`Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`."""
    reason: str = ""
    message: str = ""
    conditions: tuple[Condition, ...] = ()
    nominated_node_name: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    host_ip: str = msgspec.field(default="", name="hostIP")
    start_time: datetime | None = None
    """None until a kubelet has seen the pod."""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    qos_class: str = ""
    resize: str = ""
    """Servers before 1.33 say here how a resize goes; later ones in conditions."""
    observed_generation: int = 0


class Pod(Model, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    def condition(self, type_: str) -> Condition | None:
        """The condition of this type; None if nobody has reported it."""
        for condition in self.status.conditions:
            if condition.type == type_:
                return condition
        return None

    @property
    def ready(self) -> bool:
        """Whether the pod's `Ready` condition is `True`."""
        condition = self.condition("Ready")
        return condition is not None and condition.status == "True"

    @property
    def finished(self) -> bool:
        """Whether all containers have ended for good, so that the pod holds no room on its node."""
        return self.status.phase in ("Succeeded", "Failed")
