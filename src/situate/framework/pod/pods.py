"""A Pod as the framework sees it: all values that decide its placement, computed once.

Equal Pods share one `PodTemplate` object. Values per template are computed a few hundred times in a cluster of 100,000
Pods. Labels are separate, because some owners give each Pod a label of its own (StatefulSets, indexed Jobs). The node
of a placed Pod is separate too.
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
from situate.framework.pod.scheduling_equivalence import EquivalenceClasses
from situate.framework.pod.terms import AffinityTerm, SpreadConstraint, spread_constraint
from situate.objects.kinds.pods import Container, Pod, PodSpec, Toleration, Volume
from situate.objects.selection.label_selectors import BadSelector
from situate.objects.values.quantity import Quantity

K = TypeVar("K")
T = TypeVar("T")

PodKey = tuple[str, str]
"""Namespace and name."""
HostPort = tuple[str, str, int]
"""Address, protocol and port; `0.0.0.0` means every address."""
ANY_ADDRESS: Final = "0.0.0.0"  # noqa: S104  # what hostIP means when it is empty

_TABLE_LIMIT: Final = 2**18
"""Number of entries at which a table is cleared. Equal values may then be separate objects, which costs time only."""


class BadPod(ValueError):
    """A field of a Pod is invalid; the message names the Pod and the field."""

    def __init__(self, pod: Pod, problem: str) -> None:
        super().__init__(f"pod {pod.metadata.namespace}/{pod.metadata.name}: {problem}")


class PodTemplate(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The common part of equal Pods. `PodReader` interns it, and templates are compared by identity."""

    number: int
    """Numbered from 0."""
    equivalence_class: int
    """The same for templates that differ only in their requests."""
    namespace: str
    scheduler_name: str
    request: PodRequest
    columns: tuple[tuple[int, int], ...]
    """The request as (column, amount), without zeros."""
    tolerations: tuple[Toleration, ...]
    node_selector: Mapping[str, str]
    node_terms: tuple[Term, ...] | None
    """Required node affinity: at least one term must match. None means no requirement."""
    preferred_node_terms: tuple[tuple[int, Term], ...]
    """With weights."""
    affinity: tuple[AffinityTerm, ...]
    anti_affinity: tuple[AffinityTerm, ...]
    preferred_affinity: tuple[AffinityTerm, ...]
    preferred_anti_affinity: tuple[AffinityTerm, ...]
    selects_namespaces: bool
    """Whether one of these terms selects namespaces by their labels."""
    has_terms: bool
    """Whether one of these four tuples has a term."""
    host_ports: tuple[HostPort, ...]
    images: tuple[str, ...]
    """Images of containers, init containers and volumes, with their tags."""
    containers: int
    """The number of containers and init containers."""
    preemption_policy: str
    annotations: Mapping[str, str]
    """The annotations that plugins read (`AnnotationsPlugin`)."""


class PodInfo(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A Pod to place, or a placed Pod; compared by identity.

    Each Pod has one. A dataclass would take five times as long to create.
    """

    pod: Pod
    key: PodKey
    uid: str
    priority: int
    template: PodTemplate
    labels: Mapping[str, str]
    """Interned by `PodReader`."""
    spread: tuple[SpreadConstraint, ...]
    """The Pod's own constraints, interned together with the labels that they read."""
    volumes: tuple[Volume, ...] = ()
    """Not a part of the template: Pods of a StatefulSet are equal except that each has its own claim."""
    peers: object = None
    """The same object for unplaced Pods that no decision distinguishes, neither about themselves nor about other Pods.

    None if no other Pod is equal: the Pod is being deleted, has a node, or is nominated to one.
    """

    @property
    def namespace(self) -> str:
        return self.key[0]

    @property
    def name(self) -> str:
        return self.key[1]

    @property
    def has_claims(self) -> bool:
        """Whether the Pod has volumes of kinds that plugins evaluate, or claims devices."""
        return bool(self.volumes or self.pod.spec.resource_claims)

    @property
    def terminating(self) -> bool:
        return self.pod.metadata.deletion_timestamp is not None

    @property
    def nominated(self) -> str:
        """The nominated node; empty if there is none."""
        return self.pod.status.nominated_node_name

    @property
    def started(self) -> datetime | None:
        """None until a kubelet has reported the Pod."""
        return self.pod.status.start_time

    def with_annotations(self, annotations: Mapping[str, str]) -> PodInfo:
        """Return the Pod with these annotations added. Use only annotations that do not distinguish templates."""
        metadata = self.pod.metadata
        metadata = msgspec.structs.replace(metadata, annotations={**metadata.annotations, **annotations})
        return msgspec.structs.replace(self, pod=msgspec.structs.replace(self.pod, metadata=metadata), peers=None)

    def __str__(self) -> str:
        return f"{self.key[0]}/{self.key[1]}"


class PodReader:
    """Compile Pods into `PodInfo` and share equal parts. A cluster has one reader."""

    def __init__(self, columns: ResourceColumns, annotations: Iterable[str] = ()) -> None:
        """`annotations` are the keys of the annotations that distinguish Pods."""
        self._columns = columns
        self._annotations = tuple(sorted(annotations))
        self._texts: dict[str, str] = {}
        self._numbers = count()
        self._equivalence_classes = EquivalenceClasses()
        self._peers: dict[tuple[object, ...], object] = {}
        self._by_parts: dict[tuple[Any, ...], tuple[tuple[Any, ...], PodTemplate]] = {}
        self._by_content: dict[bytes, PodTemplate] = {}
        self._labels: dict[frozenset[tuple[str, str]], Mapping[str, str]] = {}
        self._spread: dict[tuple[int, int], tuple[Any, tuple[SpreadConstraint, ...]]] = {}

    def read(self, pod: Pod) -> PodInfo:
        """Compile a Pod; `BadPod` names the invalid field."""
        metadata, spec = pod.metadata, pod.spec
        labels = self._shared_labels(metadata.labels)
        priority, template, spread = spec.priority or 0, self._template(pod), self._spread_constraints_of(pod, labels)
        peers = None
        if metadata.deletion_timestamp is None and not pod.status.nominated_node_name and not spec.node_name:
            owner = metadata.controller if metadata.owner_references else None
            owned = None if owner is None else (owner.api_version, owner.kind, owner.name)  # pods are spread by it
            peers = self._peers_of(priority, owned, template, labels, spread, spec.volumes)
        key = metadata.namespace, metadata.name
        return PodInfo(pod, key, metadata.uid, priority, template, labels, spread, spec.volumes, peers)

    def _peers_of(self, priority: int, owned: object, *parts: object) -> object:
        """Return the same object for equal parts: the first parts seen, so that their identities stay in use."""
        identity = (priority, owned, *map(id, parts))
        known = self._peers.get(identity)
        if known is None:
            known = parts
            _remember(self._peers, identity, parts)
        return known

    def _template(self, pod: Pod) -> PodTemplate:
        parts = _template_parts(pod)
        if self._annotations:
            parts += self._distinguishing_annotations(pod)
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

    def _distinguishing_annotations(self, pod: Pod) -> tuple[str, ...]:
        """Return keys and values of the annotations that distinguish templates; equal values are the same object."""
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

    def _spread_constraints_of(self, pod: Pod, labels: Mapping[str, str]) -> tuple[SpreadConstraint, ...]:
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
        tagged = tuple(map(normalized_image_name, images))
        host_ports = _host_ports(spec)
        annotations = {key: there[key] for key in self._annotations if key in there}
        rules = tuple([container.restart_policy_rules for container in containers])
        try:
            kin = self._equivalence_classes.class_of(pod, host_ports, tagged, rules, *annotations.items())
        except BadSelector as problem:
            raise BadPod(pod, str(problem)) from problem
        return PodTemplate(
            number=next(self._numbers),
            equivalence_class=kin.number,
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
    if len(table) >= _TABLE_LIMIT:
        table.clear()
    table[key] = value


def _template_parts(pod: Pod) -> tuple[Any, ...]:
    """Return all parts of a template. Decoded Pods share equal parts, so identity alone usually finds the template."""
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
    """Return the images that are volumes, interned so that equal images have the same identity."""
    return [intern(volume.image.reference) for volume in spec.volumes if volume.image is not None]


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    """Return the host ports of containers and sidecars (upstream scheduler util GetHostPorts)."""
    running: tuple[Container, ...] = spec.containers
    if spec.init_containers:
        sidecars = (container for container in spec.init_containers if container.restart_policy == "Always")
        running = (*sidecars, *running)
    ports = [port for container in running for port in container.ports if port.host_port > 0]
    return tuple([(port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port) for port in ports])


def normalized_image_name(image: str) -> str:
    """Return the image as nodes name it, by default with `:latest` (upstream image_locality.go normalizedImageName)."""
    return image if image.rfind(":") > image.rfind("/") else image + ":latest"


def _encode_part(part: object) -> str:
    """Encode an amount by its value, so that notation does not matter, or an immutable map, which is mostly empty."""
    return str(part.nano_value if isinstance(part, Quantity) else part)


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_encode_part, order="deterministic")
