"""A pod as the framework sees it: everything that decides where it may go, worked out once.

Pods of one template share a `PodTemplate`, which is the same object for equal pods: what is worked out per template is
worked out a few hundred times in a cluster of a hundred thousand pods. Labels are kept apart, since some owners give
each pod a label of its own (StatefulSets, indexed Jobs), and so is the node of a pod in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import count
from sys import intern
from typing import Any, Final, TypeVar

import msgspec

from situate.framework.pod.node_selection import Term
from situate.framework.pod.resources import PodRequest, ResourceColumns, pod_request
from situate.framework.pod.scheduling_equivalence import Kins
from situate.framework.pod.terms import AffinityTerm, SpreadConstraint, spread_constraint
from situate.objects.kinds.pods import Container, Pod, PodSpec, Toleration, Volume
from situate.objects.selection.label_selectors import BadSelector
from situate.objects.values.quantity import Quantity

K = TypeVar("K")
T = TypeVar("T")

PodKey = tuple[str, str]
"""Namespace and name."""
HostPort = tuple[str, str, int]
"""Address, protocol and port; `0.0.0.0` is every address."""
ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104  # what hostIP means when it is empty

_REMEMBERED: Final = 2**18
"""Entries before a table starts afresh. Equal values are then not always the same object: slower, not wrong."""


class BadPod(ValueError):
    """A field of a pod says nothing that can be acted on; the message names pod and field."""

    def __init__(self, pod: Pod, problem: str) -> None:
        super().__init__(f"pod {pod.metadata.namespace}/{pod.metadata.name}: {problem}")


class PodTemplate(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What equal pods have in common; interned by `PodReader`, and told apart by identity."""

    number: int
    """Counts up from 0."""
    kin: int
    """The same for templates that differ in nothing but what they request."""
    namespace: str
    scheduler_name: str
    request: PodRequest
    columns: tuple[tuple[int, int], ...]
    """The request as (column, amount), without zeros."""
    tolerations: tuple[Toleration, ...]
    node_selector: Mapping[str, str]
    node_terms: tuple[Term, ...] | None
    """Required node affinity: one of them must match; None demands nothing."""
    preferred_node_terms: tuple[tuple[int, Term], ...]
    """With weights."""
    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]
    preferred_affinity: tuple[AffinityTerm, ...]
    preferred_anti_affinity: tuple[AffinityTerm, ...]
    selects_namespaces: bool
    """Whether the labels of namespaces matter to one of these terms."""
    has_terms: bool
    """Whether it has any of these four."""
    host_ports: tuple[HostPort, ...]
    images: tuple[str, ...]
    """Of containers, init containers and volumes, with their tags."""
    containers: int
    """So many containers and init containers."""
    preemption_policy: str
    annotations: Mapping[str, str]
    """Those that plugins read (`AnnotationsPlugin`)."""


class PodInfo(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A pod to place, or in place; told apart by identity. Each pod has one: a dataclass takes five times as long."""

    pod: Pod
    key: PodKey
    uid: str
    priority: int
    template: PodTemplate
    labels: Mapping[str, str]
    """Interned by `PodReader`."""
    spread: tuple[SpreadConstraint, ...]
    """The pod's own constraints; interned with the labels that they look at."""
    volumes: tuple[Volume, ...] = ()
    """Not a part of the template: pods of a StatefulSet have a claim each, and are alike in all else."""
    peers: object = None
    """The same for pods to place that make no difference to any decision, their own or others'; None for one that is
    like no other: it is being deleted, or has a node or the promise of one.
    """

    @property
    def namespace(self) -> str:
        return self.key[0]

    @property
    def name(self) -> str:
        return self.key[1]

    @property
    def has_claims(self) -> bool:
        """Whether it has volumes of kinds that decide, or claims devices."""
        return bool(self.volumes or self.pod.spec.resource_claims)

    @property
    def terminating(self) -> bool:
        return self.pod.metadata.deletion_timestamp is not None

    @property
    def nominated(self) -> str:
        """The node that has been promised; empty if none has."""
        return self.pod.status.nominated_node_name

    @property
    def started(self) -> datetime | None:
        """None while no kubelet has seen it."""
        return self.pod.status.start_time

    def annotated(self, annotations: Mapping[str, str]) -> PodInfo:
        """The pod with these annotations too, which tell no templates apart."""
        metadata = self.pod.metadata
        metadata = msgspec.structs.replace(metadata, annotations={**metadata.annotations, **annotations})
        return msgspec.structs.replace(self, pod=msgspec.structs.replace(self.pod, metadata=metadata), peers=None)

    def __str__(self) -> str:
        return f"{self.key[0]}/{self.key[1]}"


class PodReader:
    """Makes `PodInfo` of pods, sharing what is equal; one a cluster."""

    def __init__(self, columns: ResourceColumns, annotations: Iterable[str] = ()) -> None:
        """`annotations`: the keys of those that make a difference between pods."""
        self._columns = columns
        self._annotations = tuple(sorted(annotations))
        self._texts: dict[str, str] = {}
        self._numbers = count()
        self._kins = Kins()
        self._peers: dict[tuple[object, ...], object] = {}
        self._by_parts: dict[tuple[Any, ...], tuple[tuple[Any, ...], PodTemplate]] = {}
        self._by_content: dict[bytes, PodTemplate] = {}
        self._labels: dict[frozenset[tuple[str, str]], Mapping[str, str]] = {}
        self._spread: dict[tuple[int, int], tuple[Any, tuple[SpreadConstraint, ...]]] = {}

    def read(self, pod: Pod) -> PodInfo:
        """`BadPod` names what cannot be read."""
        metadata, spec = pod.metadata, pod.spec
        labels = self._shared_labels(metadata.labels)
        priority, template, spread = spec.priority or 0, self._template(pod), self._spread_of(pod, labels)
        peers = None
        if metadata.deletion_timestamp is None and not pod.status.nominated_node_name and not spec.node_name:
            owner = metadata.controller if metadata.owner_references else None
            owned = None if owner is None else (owner.api_version, owner.kind, owner.name)  # pods are spread by it
            peers = self._peers_of(priority, owned, template, labels, spread, spec.volumes)
        key = metadata.namespace, metadata.name
        return PodInfo(pod, key, metadata.uid, priority, template, labels, spread, spec.volumes, peers)

    def _peers_of(self, priority: int, owned: object, *parts: object) -> object:
        """The parts themselves: those of the first of them, whose identities they keep."""
        identity = (priority, owned, *map(id, parts))
        known = self._peers.get(identity)
        if known is None:
            known = parts
            _remember(self._peers, identity, parts)
        return known

    def _template(self, pod: Pod) -> PodTemplate:
        parts = _parts(pod)
        if self._annotations:
            parts += self._told(pod)
        identity = tuple(map(id, parts))
        known = self._by_parts.get(identity)
        if known is not None:
            return known[1]
        content = _ENCODER.encode(parts)
        template = self._by_content.get(content)
        if template is None:
            template = self._compile(pod)
            _remember(self._by_content, content, template)
        _remember(self._by_parts, identity, (parts, template))
        return template

    def _told(self, pod: Pod) -> tuple[str, ...]:
        """Keys and values of the annotations that make a difference; equal ones are the same objects."""
        there = pod.metadata.annotations
        told: list[str] = []
        for key in self._annotations:
            value = there.get(key)
            if value is not None:
                if value not in self._texts:
                    _remember(self._texts, value, value)
                told += (key, self._texts[value])
        return tuple(told)

    def _shared_labels(self, labels: Mapping[str, str]) -> Mapping[str, str]:
        content = frozenset(labels.items())
        known = self._labels.get(content)
        if known is None:
            known = labels
            _remember(self._labels, content, known)
        return known

    def _spread_of(self, pod: Pod, labels: Mapping[str, str]) -> tuple[SpreadConstraint, ...]:
        wires = pod.spec.topology_spread_constraints
        if not wires:
            return ()
        identity = (id(wires), id(labels) if any(wire.match_label_keys for wire in wires) else 0)
        known = self._spread.get(identity)
        if known is not None:
            return known[1]
        try:
            compiled = tuple(
                spread_constraint(wire, labels, f"spec.topologySpreadConstraints[{number}]")
                for number, wire in enumerate(wires)
            )
        except BadSelector as problem:
            raise BadPod(pod, str(problem)) from problem
        _remember(self._spread, identity, ((wires, labels), compiled))
        return compiled

    def _compile(self, pod: Pod) -> PodTemplate:
        spec, there = pod.spec, pod.metadata.annotations
        request = pod_request(pod)
        columns = [(self._columns.column(name), value) for name, value in request.amounts.items()]
        containers = (*spec.init_containers, *spec.containers)
        images = [container.image for container in containers]
        if spec.volumes:
            images += _image_volumes(spec)
        tagged = tuple(map(with_tag, images))
        host_ports = _host_ports(spec)
        annotations = {key: there[key] for key in self._annotations if key in there}
        rules = tuple([container.restart_policy_rules for container in containers])
        try:
            kin = self._kins.of(pod, host_ports, tagged, rules, *annotations.items())
        except BadSelector as problem:
            raise BadPod(pod, str(problem)) from problem
        return PodTemplate(
            number=next(self._numbers),
            kin=kin.number,
            namespace=pod.metadata.namespace,
            scheduler_name=spec.scheduler_name,
            request=request,
            columns=tuple(sorted(columns)),
            tolerations=spec.tolerations,
            node_selector=spec.node_selector,
            node_terms=kin.node_terms,
            preferred_node_terms=kin.preferred_node_terms,
            affinity=kin.affinity,
            anti_affinity=kin.anti_affinity,
            preferred_affinity=kin.preferred_affinity,
            preferred_anti_affinity=kin.preferred_anti_affinity,
            selects_namespaces=kin.selects_namespaces,
            has_terms=kin.has_terms,
            host_ports=host_ports,
            images=tagged,
            containers=len(containers),
            preemption_policy=spec.preemption_policy,
            annotations=annotations,
        )


def _remember(table: dict[K, T], key: K, value: T) -> None:
    if len(table) >= _REMEMBERED:
        table.clear()
    table[key] = value


def _parts(pod: Pod) -> tuple[Any, ...]:
    """All that a template is made of. Decoded pods share equal parts, so that their identity tells most of the time."""
    spec = pod.spec
    running: list[Any] = []
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        if status.resources is not None:
            running += (status.name, status.resources, status.allocated_resources)
    pending = pod.condition("PodResizePending") if running else None
    return (
        pod.metadata.namespace,
        spec.scheduler_name,
        spec.containers,
        spec.init_containers,
        spec.overhead,
        spec.resources,
        spec.tolerations,
        spec.node_selector,
        spec.affinity,
        spec.host_network,
        spec.host_users,
        spec.preemption_policy,
        None if pending is None else pending.reason,
        *running,
        *_image_volumes(spec),
    )


def _image_volumes(spec: PodSpec) -> list[str]:
    """The images that are volumes; interned, so that equal ones are told by identity."""
    return [intern(volume.image.reference) for volume in spec.volumes if volume.image is not None]


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Of containers and sidecars (upstream scheduler util GetHostPorts)."""
    running: tuple[Container, ...] = spec.containers
    if spec.init_containers:
        sidecars = (container for container in spec.init_containers if container.restart_policy == "Always")
        running = (*sidecars, *running)
    ports = [port for container in running for port in container.ports if port.host_port > 0]
    return tuple([(port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port) for port in ports])


def with_tag(image: str) -> str:
    """As nodes name images: without a tag it is the latest (upstream image_locality.go normalizedImageName)."""
    return image if image.rfind(":") > image.rfind("/") else image + ":latest"


def _wire(part: object) -> str:
    """An amount, whose notation makes no difference, or a map that must not change, which is mostly the empty one."""
    return str(part.nano_value if isinstance(part, Quantity) else part)


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_wire, order="deterministic")
