"""Capacities that a pod's own constraints allow: node selector and required node affinity.

Specs are plain JSON, as admission gets them; an unreadable constraint excludes nothing. Every label of the signal table
is tried with each value that means on demand, then with each that means spot. Named nodes have their known capacity.
Rule: P25.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from situate.framework.pod.node_selection import NAME_FIELD, meets_requirement
from situate.objects.kinds.pods import NodeSelectorRequirement
from situate.spot.model.counts import Nodes
from situate.spot.model.pods_nodes_workloads import HOSTNAME, Capacity, NodeFacts
from situate.spot.nodes.known_signals import on_demand_requirement
from situate.spot.nodes.node_signals import Signal

Json = Mapping[str, Any]
NO_NODES: Final[Nodes] = {}
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
LOST_NODE_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints of a lost node, whose default tolerations last 300 s."""


@dataclass(frozen=True, slots=True)
class CapacityConstraint:
    """Capacities that the user's constraints allow."""

    capacity: Capacity | None = None
    """The only allowed capacity; None if both are allowed, or neither."""
    placeable: bool = True
    """Whether any capacity is allowed."""
    field: str = ""
    """The restricting field, such as `spec.nodeSelector`; empty if both capacities are allowed."""


def capacity_constraint(spec: Json, table: Sequence[Signal], nodes: Nodes = NO_NODES) -> CapacityConstraint:
    """Return the capacities that a pod spec's own constraints allow.

    `nodes`: the known ones, by name. A named node that is unknown may be of either capacity.
    """
    fields = {
        capacity: _excluding_field(spec, table, nodes, capacity) for capacity in (Capacity.ON_DEMAND, Capacity.SPOT)
    }
    on_demand, spot = fields[Capacity.ON_DEMAND], fields[Capacity.SPOT]
    if not on_demand and not spot:
        return CapacityConstraint()
    if on_demand and spot:
        return CapacityConstraint(
            None, placeable=False, field=on_demand if on_demand == spot else f"{on_demand} and {spot}"
        )
    return CapacityConstraint(Capacity.SPOT if on_demand else Capacity.ON_DEMAND, field=on_demand or spot)


def named_nodes(spec: Json) -> frozenset[str]:
    """Return the nodes that a pod spec names in any of its constraints."""
    hostname = as_mapping(spec.get("nodeSelector")).get(HOSTNAME)
    found = [frozenset((str(hostname),))] if hostname is not None else []
    named = (
        _nodes_of_term([*label_requirements(term)], _field_requirements(term)) for term in required_terms(spec) or ()
    )
    return frozenset[str]().union(*found, *(each for each in named if each is not None))


def required_terms(spec: Json) -> list[Any] | None:
    """Return the required terms unchanged; None if nothing is required."""
    required = as_mapping(as_mapping(as_mapping(spec.get("affinity")).get("nodeAffinity")).get(REQUIRED))
    terms = required.get("nodeSelectorTerms")
    return terms if isinstance(terms, list) else None


def as_mapping(value: object) -> Json:
    """Return the value if it is a mapping; else an empty one."""
    return value if isinstance(value, Mapping) else {}


def as_list(value: object) -> list[Any]:
    """Return the value if it is a list; else an empty one."""
    return value if isinstance(value, list) else []


def _excluding_field(spec: Json, table: Sequence[Signal], nodes: Nodes, capacity: Capacity) -> str:
    """Return the field that excludes this capacity; empty if none does."""
    selector = [
        NodeSelectorRequirement(str(key), "In", (str(value),))
        for key, value in as_mapping(spec.get("nodeSelector")).items()
    ]

    def satisfiable(requirements: Sequence[NodeSelectorRequirement], fields: Iterable[NodeSelectorRequirement]) -> bool:
        named = _nodes_of_term(requirements, fields)
        there = named is None or any(_may_have_capacity(nodes.get(name), capacity) for name in named)
        return there and _is_satisfiable(requirements, table, capacity)

    if not satisfiable(selector, ()):
        return "spec.nodeSelector"
    terms = required_terms(spec)
    if terms is None:
        return ""
    if any(
        satisfiable([*selector, *label_requirements(term)], [*_field_requirements(term)])
        for term in terms
        if has_requirements(term)
    ):
        return ""
    return f"spec.affinity.nodeAffinity.{REQUIRED}"


def has_requirements(term: object) -> bool:
    """Return whether a term has requirements; an empty term matches no node."""
    return bool(as_mapping(term).get("matchExpressions")) or bool(as_mapping(term).get("matchFields"))


def label_requirements(term: object) -> Iterator[NodeSelectorRequirement]:
    """Yield the label requirements of a term."""
    yield from _parse_requirements(term, "matchExpressions")


def _field_requirements(term: object) -> Iterator[NodeSelectorRequirement]:
    yield from _parse_requirements(term, "matchFields")


def _parse_requirements(term: object, of: str) -> Iterator[NodeSelectorRequirement]:
    for wire in as_list(as_mapping(term).get(of)):
        try:
            yield msgspec.convert(wire, NodeSelectorRequirement)
        except msgspec.ValidationError:
            continue  # the API server refuses the pod with a message


def _nodes_of_term(
    requirements: Iterable[NodeSelectorRequirement], fields: Iterable[NodeSelectorRequirement]
) -> frozenset[str] | None:
    """Return the only nodes that the term names; None if it names none. A hostname usually is a node's name."""
    named = [each.values for each in requirements if each.key == HOSTNAME and each.operator == "In"]
    named += [each.values for each in fields if each.key == NAME_FIELD and each.operator == "In"]
    return frozenset.intersection(*map(frozenset, named)) if named else None


def _may_have_capacity(node: NodeFacts | None, capacity: Capacity) -> bool:
    """Return whether the node may serve the capacity: a node of unknown capacity suits spot but never on demand.

    The spot class only prefers spot nodes. Rule: I10.
    """
    if node is None:
        return True
    return (node.capacity is Capacity.ON_DEMAND) is (capacity is Capacity.ON_DEMAND)


def _is_satisfiable(
    requirements: Iterable[NodeSelectorRequirement], table: Sequence[Signal], capacity: Capacity
) -> bool:
    """Return whether a node of this capacity can meet all requirements; labels unrelated to capacity always can."""
    by_key: dict[str, list[NodeSelectorRequirement]] = {}
    for requirement in requirements:
        by_key.setdefault(requirement.key, []).append(requirement)
    return all(
        any(
            all(meets_requirement(each, labels) for each in wanted)
            for labels in _possible_labels(key, wanted, table, capacity)
        )
        for key, wanted in by_key.items()
        if any(signal.source == "label" and signal.key == key for signal in table)
    )


def _possible_labels(
    key: str, wanted: Sequence[NodeSelectorRequirement], table: Sequence[Signal], capacity: Capacity
) -> Iterator[Mapping[str, str]]:
    """Yield the labels that nodes of the capacity may carry under this key.

    For labels other than the class's own, a value outside the table says nothing about the capacity.
    """
    known = (each for each in table if each.source == "label" and each.key == key and each.capacity is not None)
    means = {signal.value: signal.capacity for signal in known}
    yield from ({key: value} for value, said in means.items() if value is not None and said == capacity)
    ours = on_demand_requirement(table)
    if key != ours.key and means.get(None, capacity) == capacity:
        yield from ({key: value} for each in wanted for value in each.values if value not in means)
    if key != ours.key or (capacity is Capacity.ON_DEMAND and ours.operator == "NotIn"):
        yield {}  # not every cloud uses every label
