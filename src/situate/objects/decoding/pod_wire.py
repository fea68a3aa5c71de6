"""Pods as received, in a form in which a hundred thousand of them fit into memory.

The parts that Pods of one template share are decoded only if `Interner` does not know them yet. Short words that
repeat, such as the phase and the node's name, are stored once.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from sys import intern
from typing import Any, Final, TypeVar

import msgspec

from situate.objects.decoding.container_wire import ContainerReader, ContainerStatusWire, ContainerWire, json_decoder
from situate.objects.decoding.interning import LIMIT, LONGEST, NOTHING, Interner
from situate.objects.decoding.meta_wire import MetaWire
from situate.objects.kinds.meta import NO_LABELS, Condition, ObjectMeta, OwnerReference
from situate.objects.kinds.pods import (
    Affinity,
    ContainerStatus,
    Pod,
    PodResourceClaim,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
    Volume,
)
from situate.objects.values.quantity import NO_QUANTITIES, Quantity

T = TypeVar("T")

_NO_RESOURCES: Final = ResourceRequirements()
_NO_AFFINITY: Final = Affinity()


class _SpecWire(msgspec.Struct, gc=False, rename="camel"):
    node_name: str = ""
    hostname: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    containers: list[ContainerWire] = []
    init_containers: list[ContainerWire] = []
    overhead: msgspec.Raw = NOTHING
    resources: msgspec.Raw = NOTHING
    node_selector: msgspec.Raw = NOTHING
    affinity: msgspec.Raw = NOTHING
    tolerations: msgspec.Raw = NOTHING
    topology_spread_constraints: msgspec.Raw = NOTHING
    volumes: list[Volume] = []
    scheduling_gates: msgspec.Raw = NOTHING
    host_network: bool = False
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    host_users: bool | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()


class _AnyStatusWire(msgspec.Struct, gc=False, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    nominated_node_name: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    host_ip: str = msgspec.field(default="", name="hostIP")
    start_time: datetime | None = None
    container_statuses: list[ContainerStatusWire] = []
    init_container_statuses: list[ContainerStatusWire] = []
    qos_class: str = ""
    resize: str = ""
    observed_generation: int = 0


class _StatusWire(_AnyStatusWire, gc=False, rename="camel"):
    conditions: msgspec.Raw = NOTHING


class _ChangedStatusWire(_AnyStatusWire, gc=False, rename="camel"):
    """The status in a watch event. Conditions are decoded at once, because they nearly always change."""

    conditions: tuple[Condition, ...] = ()


_SPEC: Final = json_decoder(_SpecWire)
_SPECS: Final = 8192
"""Number of Pods whose specs are stored while they change; at about 1.5 kB each they use 12 MB."""
_NO_SPEC: Final = msgspec.Raw(b"{}")


class PodWire(msgspec.Struct, gc=False, rename="camel"):
    """A Pod with undecoded shared parts."""

    metadata: MetaWire = msgspec.field(default_factory=MetaWire)
    spec: _SpecWire = msgspec.field(default_factory=_SpecWire)
    status: _StatusWire = msgspec.field(default_factory=_StatusWire)


class ChangedPodWire(msgspec.Struct, gc=False, rename="camel"):
    """A Pod in a watch event. Its spec is undecoded too, because it is nearly always the same in two events."""

    metadata: MetaWire = msgspec.field(default_factory=MetaWire)
    spec: msgspec.Raw = NOTHING
    status: _ChangedStatusWire = msgspec.field(default_factory=_ChangedStatusWire)


class PodReader:
    """Builds Pods from received values; all Pods that it has read share equal parts.

    Arguments are given by position, in the order of the model's fields: by name they cost a tenth of an event's time. A
    test compares the result with a plain decoding.
    """

    def __init__(self) -> None:
        self._labels = _interner(Mapping[str, str], NO_LABELS, "metadata.labels")
        self._annotations = _interner(Mapping[str, str], NO_LABELS, "metadata.annotations")
        self._owners = _interner(tuple[OwnerReference, ...], (), "metadata.ownerReferences")
        self._finalizers = _interner(tuple[str, ...], (), "metadata.finalizers")
        self._overhead = _interner(Mapping[str, Quantity], NO_QUANTITIES, "spec.overhead")
        self._resources = _interner(ResourceRequirements, _NO_RESOURCES, "spec.resources")
        self._node_selector = _interner(Mapping[str, str], NO_LABELS, "spec.nodeSelector")
        self._affinity = _interner(Affinity, _NO_AFFINITY, "spec.affinity")
        self._tolerations = _interner(tuple[Toleration, ...], (), "spec.tolerations")
        self._spread = _interner(tuple[TopologySpreadConstraint, ...], (), "spec.topologySpreadConstraints")
        self._gates = _interner(tuple[PodSchedulingGate, ...], (), "spec.schedulingGates")
        self._conditions = _interner(tuple[Condition, ...], (), "status.conditions", by_content=False)
        self._times: dict[datetime | None, datetime | None] = {}
        self._containers = ContainerReader()
        self._specs: dict[str, tuple[msgspec.Raw, PodSpec]] = {}
        self._fresh_statuses: dict[tuple[str | int, ...], PodStatus] = {}
        self._equal_specs: dict[bytes, tuple[msgspec.Raw, PodSpec]] = {}

    def pod(self, wire: PodWire) -> Pod:
        """Build a Pod. Raises `PartError` if a shared part does not decode."""
        status = wire.status
        containers = self._containers
        return Pod(
            self._metadata(wire.metadata),
            self._spec(wire.spec),
            self._status(
                status,
                self._conditions(status.conditions),
                containers.statuses(status.container_statuses, "status.containerStatuses"),
                containers.statuses(status.init_container_statuses, "status.initContainerStatuses"),
            ),
        )

    def changed_pod(self, wire: ChangedPodWire) -> Pod:
        """Do the same as `pod`, but reuse the spec of the Pod's earlier event if its bytes are the same."""
        metadata = self._metadata(wire.metadata)
        raw, status = wire.spec, wire.status
        known = self._specs.get(metadata.uid)
        # Comparing costs a tenth of making a key of this many bytes.
        spec = known[1] if known is not None and known[0] == raw else self._changed_spec(metadata.uid, raw)
        read = self._containers.changed_statuses
        return Pod(
            metadata,
            spec,
            self._status(
                status,
                status.conditions,
                read(status.container_statuses, "status.containerStatuses"),
                read(status.init_container_statuses, "status.initContainerStatuses")
                if status.init_container_statuses
                else (),
            ),
        )

    def _changed_spec(self, uid: str, raw: msgspec.Raw) -> PodSpec:
        kept = bytes(raw)  # without the rest of the event
        known = self._equal_specs.get(kept)
        if known is None:
            spec = self._spec(_SPEC.decode(_NO_SPEC if raw is NOTHING else raw))
            if len(kept) > LONGEST:
                return spec
            known = msgspec.Raw(kept), spec
            if len(self._equal_specs) >= LIMIT:
                self._equal_specs.clear()
            self._equal_specs[kept] = known
        if len(self._specs) >= _SPECS:
            self._specs.clear()
        self._specs[uid] = known
        return known[1]

    def _metadata(self, wire: MetaWire) -> ObjectMeta:
        labels, annotations, owners = wire.labels, wire.annotations, wire.owner_references
        if len(self._times) >= LIMIT:
            self._times.clear()
        created = wire.creation_timestamp
        return ObjectMeta(
            wire.name,
            intern(wire.namespace),
            wire.uid,
            wire.resource_version,
            wire.generation,
            self._times.setdefault(created, created),
            wire.deletion_timestamp,
            wire.deletion_grace_period_seconds,
            self._labels.by_bytes.get(bytes(labels)) or self._labels(labels),
            NO_LABELS
            if annotations is NOTHING
            else self._annotations.by_bytes.get(bytes(annotations)) or self._annotations(annotations),
            () if owners is NOTHING else self._owners.by_bytes.get(bytes(owners)) or self._owners(owners),
            () if wire.finalizers is NOTHING else self._finalizers(wire.finalizers),
            intern(wire.generate_name),
        )

    def _spec(self, wire: _SpecWire) -> PodSpec:
        return PodSpec(
            intern(wire.node_name),
            wire.hostname,
            intern(wire.scheduler_name),
            wire.priority,
            intern(wire.priority_class_name),
            intern(wire.preemption_policy),
            self._containers.containers(wire.containers, "spec.containers"),
            self._containers.containers(wire.init_containers, "spec.initContainers") if wire.init_containers else (),
            NO_QUANTITIES if wire.overhead is NOTHING else self._overhead(wire.overhead),
            _NO_RESOURCES if wire.resources is NOTHING else self._resources(wire.resources),
            NO_LABELS if wire.node_selector is NOTHING else self._node_selector(wire.node_selector),
            _NO_AFFINITY if wire.affinity is NOTHING else self._affinity(wire.affinity),
            self._tolerations(wire.tolerations),
            () if wire.topology_spread_constraints is NOTHING else self._spread(wire.topology_spread_constraints),
            _restricting_volumes(wire.volumes) if wire.volumes else (),
            () if wire.scheduling_gates is NOTHING else self._gates(wire.scheduling_gates),
            wire.host_network,
            intern(wire.restart_policy),
            wire.termination_grace_period_seconds,
            wire.host_users,
            wire.resource_claims,
        )

    def _status(
        self,
        wire: _AnyStatusWire,
        conditions: tuple[Condition, ...],
        containers: tuple[ContainerStatus, ...],
        init_containers: tuple[ContainerStatus, ...],
    ) -> PodStatus:
        started = wire.start_time
        if not (conditions or containers or init_containers or started or wire.pod_ip):
            return self._unhandled_status(wire)
        return PodStatus(
            intern(wire.phase),
            intern(wire.reason),
            wire.message,
            conditions,
            intern(wire.nominated_node_name),
            wire.pod_ip,
            intern(wire.host_ip),
            self._times.setdefault(started, started),  # Pods of one template often start at the same time
            containers,
            init_containers,
            intern(wire.qos_class),
            intern(wire.resize),
            wire.observed_generation,
        )

    def _unhandled_status(self, wire: _AnyStatusWire) -> PodStatus:
        """Return the status of a Pod that no kubelet has handled; Pods that wait for a node have equal statuses."""
        told = wire.phase, wire.reason, wire.message, wire.nominated_node_name, wire.host_ip, wire.qos_class
        key = *told, wire.resize, wire.observed_generation
        known = self._fresh_statuses.get(key)
        if known is None:
            if len(self._fresh_statuses) >= LIMIT:
                self._fresh_statuses.clear()
            known = self._fresh_statuses[key] = PodStatus(
                intern(wire.phase),
                intern(wire.reason),
                wire.message,
                nominated_node_name=intern(wire.nominated_node_name),
                host_ip=intern(wire.host_ip),
                qos_class=intern(wire.qos_class),
                resize=intern(wire.resize),
                observed_generation=wire.observed_generation,
            )
        return known


def _restricting_volumes(wires: list[Volume]) -> tuple[Volume, ...]:
    """Return only the volumes of the kinds that situate reads: nearly every Pod has a service account token as well."""
    return tuple([wire for wire in wires if wire != Volume(wire.name)])


def _interner(type_: Any, absent: Any, path: str, *, by_content: bool = True) -> Interner[Any]:
    return Interner(json_decoder(type_).decode, absent, path, by_content=by_content)
