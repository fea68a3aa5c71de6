"""Pods as they arrive, and how a hundred thousand of them fit into memory.

What pods of one template share is kept undecoded until `Interner` has seen that it is new; short words that recur,
such as the phase and the node's name, are kept once.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from sys import intern
from typing import Any, Final, TypeVar

import msgspec

from situate.objects.interning import LIMIT, Interner, PartError
from situate.objects.meta import NO_LABELS, Condition, ObjectMeta, OwnerReference
from situate.objects.pods import (
    Affinity,
    Container,
    ContainerPort,
    ContainerState,
    ContainerStatus,
    EphemeralVolumeSource,
    PersistentVolumeClaimSource,
    Pod,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
    Volume,
)
from situate.objects.quantity import NO_QUANTITIES, Quantity, decode_quantity

T = TypeVar("T")

_NOTHING: Final = msgspec.Raw()


class _MetaWire(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: msgspec.Raw = _NOTHING
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: msgspec.Raw = _NOTHING
    annotations: msgspec.Raw = _NOTHING
    owner_references: msgspec.Raw = _NOTHING
    finalizers: msgspec.Raw = _NOTHING
    generate_name: str = ""


class _ContainerWire(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    image: str = ""
    resources: msgspec.Raw = _NOTHING
    ports: msgspec.Raw = _NOTHING
    restart_policy: str = ""


class _VolumeWire(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    persistent_volume_claim: PersistentVolumeClaimSource | None = None
    ephemeral: EphemeralVolumeSource | None = None


class _ContainerStatusWire(msgspec.Struct, gc=False, rename="camel"):
    name: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: msgspec.Raw = _NOTHING
    allocated_resources: msgspec.Raw = _NOTHING
    resources: msgspec.Raw = _NOTHING


class _SpecWire(msgspec.Struct, gc=False, rename="camel"):
    node_name: str = ""
    hostname: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    preemption_policy: str = ""
    containers: list[_ContainerWire] = []
    init_containers: list[_ContainerWire] = []
    overhead: msgspec.Raw = _NOTHING
    resources: msgspec.Raw = _NOTHING
    node_selector: msgspec.Raw = _NOTHING
    affinity: msgspec.Raw = _NOTHING
    tolerations: msgspec.Raw = _NOTHING
    topology_spread_constraints: msgspec.Raw = _NOTHING
    volumes: list[_VolumeWire] = []
    scheduling_gates: msgspec.Raw = _NOTHING
    host_network: bool = False
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None


class _StatusWire(msgspec.Struct, gc=False, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: msgspec.Raw = _NOTHING
    nominated_node_name: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    host_ip: str = msgspec.field(default="", name="hostIP")
    start_time: msgspec.Raw = _NOTHING
    container_statuses: list[_ContainerStatusWire] = []
    init_container_statuses: list[_ContainerStatusWire] = []
    qos_class: str = ""
    resize: str = ""
    observed_generation: int = 0


class PodWire(msgspec.Struct, gc=False, rename="camel"):
    """A pod whose shared parts are still bytes."""

    metadata: _MetaWire = msgspec.field(default_factory=_MetaWire)
    spec: _SpecWire = msgspec.field(default_factory=_SpecWire)
    status: _StatusWire = msgspec.field(default_factory=_StatusWire)


class PodReader:
    """Makes pods out of what arrived, sharing equal parts between all pods that it has read.

    Arguments are given by position, in the order of the model's fields: by name they cost a tenth of an event's time.
    A test compares the result with a plain decoding.
    """

    def __init__(self) -> None:
        self._labels = _interner(Mapping[str, str], NO_LABELS, "metadata.labels")
        self._annotations = _interner(Mapping[str, str], NO_LABELS, "metadata.annotations")
        self._owners = _interner(tuple[OwnerReference, ...], (), "metadata.ownerReferences")
        self._finalizers = _interner(tuple[str, ...], (), "metadata.finalizers")
        self._created = _interner(datetime | None, None, "metadata.creationTimestamp")
        self._overhead = _interner(Mapping[str, Quantity], NO_QUANTITIES, "spec.overhead")
        self._resources = _interner(ResourceRequirements, ResourceRequirements(), "spec.resources")
        self._node_selector = _interner(Mapping[str, str], NO_LABELS, "spec.nodeSelector")
        self._affinity = _interner(Affinity, Affinity(), "spec.affinity")
        self._tolerations = _interner(tuple[Toleration, ...], (), "spec.tolerations")
        self._spread = _interner(tuple[TopologySpreadConstraint, ...], (), "spec.topologySpreadConstraints")
        self._gates = _interner(tuple[PodSchedulingGate, ...], (), "spec.schedulingGates")
        self._conditions = _interner(tuple[Condition, ...], (), "status.conditions")
        self._started = _interner(datetime | None, None, "status.startTime")
        self._containers = ContainerReader()

    def pod(self, wire: PodWire) -> Pod:
        """Raises `PartError` where a shared part does not decode."""
        return Pod(self._metadata(wire.metadata), self._spec(wire.spec), self._status(wire.status))

    def _metadata(self, wire: _MetaWire) -> ObjectMeta:
        return ObjectMeta(
            wire.name,
            intern(wire.namespace),
            wire.uid,
            wire.resource_version,
            wire.generation,
            self._created(wire.creation_timestamp),
            wire.deletion_timestamp,
            wire.deletion_grace_period_seconds,
            self._labels(wire.labels),
            self._annotations(wire.annotations),
            self._owners(wire.owner_references),
            self._finalizers(wire.finalizers),
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
            self._containers.containers(wire.init_containers, "spec.initContainers"),
            self._overhead(wire.overhead),
            self._resources(wire.resources),
            self._node_selector(wire.node_selector),
            self._affinity(wire.affinity),
            self._tolerations(wire.tolerations),
            self._spread(wire.topology_spread_constraints),
            _binding_volumes(wire.volumes),
            self._gates(wire.scheduling_gates),
            wire.host_network,
            intern(wire.restart_policy),
            wire.termination_grace_period_seconds,
        )

    def _status(self, wire: _StatusWire) -> PodStatus:
        return PodStatus(
            intern(wire.phase),
            intern(wire.reason),
            wire.message,
            self._conditions(wire.conditions),
            intern(wire.nominated_node_name),
            wire.pod_ip,
            intern(wire.host_ip),
            self._started(wire.start_time),
            self._containers.statuses(wire.container_statuses, "status.containerStatuses"),
            self._containers.statuses(wire.init_container_statuses, "status.initContainerStatuses"),
            intern(wire.qos_class),
            intern(wire.resize),
            wire.observed_generation,
        )


class ContainerReader:
    """Containers and their statuses, told apart by what is read of them.

    Their bytes hardly ever repeat, because of the names of mounted tokens and the ids of containers.
    """

    def __init__(self) -> None:
        self._containers: dict[tuple[object, ...], tuple[Container, ...]] = {}
        self._statuses: dict[tuple[object, ...], tuple[ContainerStatus, ...]] = {}

    def containers(self, wires: list[_ContainerWire], path: str) -> tuple[Container, ...]:
        """Raises `PartError` with the path in the whole object."""
        if not wires:
            return ()
        key = tuple([(w.name, w.image, w.restart_policy, bytes(w.resources), bytes(w.ports)) for w in wires])
        known = self._containers.get(key)
        if known is not None:
            return known
        built = tuple(
            Container(
                name=wire.name,
                image=wire.image,
                resources=_decoded(_RESOURCES, wire.resources, ResourceRequirements(), f"{path}[{n}].resources"),
                ports=_decoded(_PORTS, wire.ports, (), f"{path}[{n}].ports"),
                restart_policy=wire.restart_policy,
            )
            for n, wire in enumerate(wires)
        )
        return _remembered(self._containers, key, built)

    def statuses(self, wires: list[_ContainerStatusWire], path: str) -> tuple[ContainerStatus, ...]:
        """Raises `PartError` with the path in the whole object."""
        if not wires:
            return ()
        key = tuple([_status_key(wire) for wire in wires])
        known = self._statuses.get(key)
        if known is not None:
            return known
        built = tuple(
            ContainerStatus(
                name=wire.name,
                ready=wire.ready,
                started=wire.started,
                restart_count=wire.restart_count,
                state=_decoded(_STATE, wire.state, ContainerState(), f"{path}[{n}].state"),
                allocated_resources=_decoded(
                    _QUANTITIES, wire.allocated_resources, NO_QUANTITIES, f"{path}[{n}].allocatedResources"
                ),
                resources=_decoded(_RESOURCES, wire.resources, None, f"{path}[{n}].resources"),
            )
            for n, wire in enumerate(wires)
        )
        return _remembered(self._statuses, key, built)


def _status_key(wire: _ContainerStatusWire) -> tuple[object, ...]:
    state, allocated, resources = bytes(wire.state), bytes(wire.allocated_resources), bytes(wire.resources)
    return (wire.name, wire.ready, wire.started, wire.restart_count, state, allocated, resources)


def _remembered(table: dict[tuple[object, ...], T], key: tuple[object, ...], value: T) -> T:
    if len(table) >= LIMIT:
        table.clear()
    table[key] = value
    return value


def _decoded(decoder: msgspec.json.Decoder[Any], raw: msgspec.Raw, absent: Any, path: str) -> Any:
    body = bytes(raw)
    if not body:
        return absent
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise PartError(error, path) from error


def _binding_volumes(wires: list[_VolumeWire]) -> tuple[Volume, ...]:
    """Only the kinds that bind a pod to a place: nearly every pod has one with a service account's token."""
    return tuple(
        [
            Volume(wire.name, wire.persistent_volume_claim, wire.ephemeral)
            for wire in wires
            if wire.persistent_volume_claim or wire.ephemeral
        ]
    )


def _interner(type_: Any, absent: Any, path: str) -> Interner[Any]:
    return Interner(_decoder(type_).decode, absent, path)


def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_, dec_hook=decode_quantity)


_RESOURCES: Final = _decoder(ResourceRequirements)
_PORTS: Final = _decoder(tuple[ContainerPort, ...])
_STATE: Final = _decoder(ContainerState)
_QUANTITIES: Final = _decoder(Mapping[str, Quantity])
