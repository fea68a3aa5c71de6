"""Which capacities a pod's own constraints allow (P25): the node selector and the required node affinity of its spec.

Specs are JSON here, as admission gets them: whatever cannot be read as a constraint allows nothing less. Every label
that the table of signals knows is tried with each value that means on demand, then with each that means spot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from situate.framework.node_selection import holds
from situate.objects.pods import NodeSelectorRequirement
from situate.spot.model import Capacity
from situate.spot.signal_table import on_demand_requirement
from situate.spot.signals import Signal

Json = Mapping[str, Any]
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class Pinned:
    """What the user's constraints leave."""

    capacity: Capacity | None = None
    """The only one that is allowed; None if both are, or neither."""
    placeable: bool = True
    """Whether any is allowed."""
    field: str = ""
    """What says so, such as `spec.nodeSelector`; empty if both are allowed."""


def pinned(spec: Json, table: Sequence[Signal]) -> Pinned:
    """What a pod spec's own constraints leave of the two capacities."""
    fields = {capacity: _refusing(spec, table, capacity) for capacity in (Capacity.ON_DEMAND, Capacity.SPOT)}
    on_demand, spot = fields[Capacity.ON_DEMAND], fields[Capacity.SPOT]
    if not on_demand and not spot:
        return Pinned()
    if on_demand and spot:
        return Pinned(None, placeable=False, field=on_demand if on_demand == spot else f"{on_demand} and {spot}")
    return Pinned(Capacity.SPOT if on_demand else Capacity.ON_DEMAND, field=on_demand or spot)


def required_terms(spec: Json) -> list[Any] | None:
    """The required terms as they stand; None if nothing is required."""
    required = mapping(mapping(mapping(spec.get("affinity")).get("nodeAffinity")).get(REQUIRED))
    terms = required.get("nodeSelectorTerms")
    return terms if isinstance(terms, list) else None


def mapping(value: object) -> Json:
    """The value if it is one; else an empty one."""
    return value if isinstance(value, Mapping) else {}


def listed(value: object) -> list[Any]:
    """The value if it is a list; else an empty one."""
    return value if isinstance(value, list) else []


def _refusing(spec: Json, table: Sequence[Signal], capacity: Capacity) -> str:
    """The field that rules this capacity out; empty if none does."""
    selector = [
        NodeSelectorRequirement(str(key), "In", (str(value),))
        for key, value in mapping(spec.get("nodeSelector")).items()
    ]
    if not _satisfiable(selector, table, capacity):
        return "spec.nodeSelector"
    terms = required_terms(spec)
    if terms is None:
        return ""
    if any(_satisfiable([*selector, *expressions(term)], table, capacity) for term in terms if not_empty(term)):
        return ""
    return f"spec.affinity.nodeAffinity.{REQUIRED}"


def not_empty(term: object) -> bool:
    """Whether a term says anything; one that does not matches no node."""
    return bool(mapping(term).get("matchExpressions")) or bool(mapping(term).get("matchFields"))


def expressions(term: object) -> Iterator[NodeSelectorRequirement]:
    """What a term says of labels."""
    for wire in listed(mapping(term).get("matchExpressions")):
        try:
            yield msgspec.convert(wire, NodeSelectorRequirement)
        except msgspec.ValidationError:
            continue  # the server will refuse the pod and say why


def _satisfiable(requirements: Iterable[NodeSelectorRequirement], table: Sequence[Signal], capacity: Capacity) -> bool:
    """Whether some node of this capacity could meet all of them; labels that say nothing of capacity always can."""
    by_key: dict[str, list[NodeSelectorRequirement]] = {}
    for requirement in requirements:
        by_key.setdefault(requirement.key, []).append(requirement)
    return all(
        any(all(holds(each, labels) for each in wanted) for labels in _possible(key, wanted, table, capacity))
        for key, wanted in by_key.items()
        if any(signal.source == "label" and signal.key == key for signal in table)
    )


def _possible(
    key: str, wanted: Sequence[NodeSelectorRequirement], table: Sequence[Signal], capacity: Capacity
) -> Iterator[Mapping[str, str]]:
    """What nodes of the capacity may carry under this key.

    Of another label than ours a value that the table does not know says nothing of the capacity.
    """
    known = (each for each in table if each.source == "label" and each.key == key and each.capacity is not None)
    means = {signal.value: signal.capacity for signal in known}
    yield from ({key: value} for value, said in means.items() if value is not None and said == capacity)
    ours = on_demand_requirement(table)
    if key != ours.key and means.get(None, capacity) == capacity:
        yield from ({key: value} for each in wanted for value in each.values if value not in means)
    if key != ours.key or (capacity is Capacity.ON_DEMAND and ours.operator == "NotIn"):
        yield {}  # not every cloud uses every label
