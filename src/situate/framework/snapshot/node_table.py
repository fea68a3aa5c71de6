"""Static columns over nodes: values that change only when a Node object changes.

Sets that many nodes share (labels, taints, images, features) are numbered, and the columns hold the numbers. A
predicate is evaluated once per distinct set, and its result is spread over the nodes by indexing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from sys import intern
from typing import Any, Final, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from situate.framework.pod.resources import PODS, ResourceColumns, amounts
from situate.framework.results.verdict import Indices, Mask
from situate.framework.snapshot.labels import Ids, LabelSets, NodeLabels
from situate.objects.kinds.nodes import Node, Taint

T = TypeVar("T", bound=Hashable)
A = TypeVar("A", bound=np.generic)
P = TypeVar("P")

Columns = NDArray[np.int64]
"""(resources, nodes)"""

_ZONE: Final = "topology.kubernetes.io/zone"
_REGION: Final = "topology.kubernetes.io/region"
_OLD_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
_OLD_REGION: Final = "failure-domain.beta.kubernetes.io/region"


class NumberedValues(Generic[T]):
    """Distinct values, numbered in order of first use."""

    def __init__(self) -> None:
        self._number: dict[T, int] = {}
        self.values: list[T] = []

    def number_of(self, value: T) -> int:
        number = self._number.get(value)
        if number is None:
            number = self._number[value] = len(self.values)
            self.values.append(value)
        return number


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The sets that the nodes of one cluster share. It only grows, so numbers stay valid for all its tables."""

    resources: ResourceColumns
    labels: LabelSets
    taints: NumberedValues[tuple[Taint, ...]]
    images: NumberedValues[frozenset[tuple[str, int]]]
    """Image name and size in bytes."""
    features: NumberedValues[frozenset[str]]
    allocatable_sets: dict[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]
    """Each set of allocatable amounts, mapped to itself: most nodes share one of a few sets."""

    @classmethod
    def create(cls) -> Vocabulary:
        return cls(ResourceColumns(), LabelSets(), NumberedValues(), NumberedValues(), NumberedValues(), {})


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node, in numbers. Equal rows with one name are equal for every decision."""

    name: str
    allocatable: tuple[tuple[int, int], ...]
    """(column, amount), without zeros."""
    allowed_pods: int
    labels: int
    taints: int
    images: int
    features: int
    unschedulable: bool
    zone: str
    """Region and zone. The visiting order alternates over this value."""


def node_row(node: Node, vocabulary: Vocabulary) -> NodeRow:
    """Return the values that the framework reads of a Node."""
    room = amounts(node.status.allocatable)
    labels = node.metadata.labels
    region = labels.get(_REGION) or labels.get(_OLD_REGION, "")
    zone = labels.get(_ZONE) or labels.get(_OLD_ZONE, "")
    columns = vocabulary.resources
    allocatable = tuple(sorted((columns.column(name), value) for name, value in room.items() if name != PODS and value))
    return NodeRow(
        name=node.metadata.name,
        allocatable=vocabulary.allocatable_sets.setdefault(allocatable, allocatable),
        allowed_pods=room.get(PODS, 0),
        labels=vocabulary.labels.number(node.metadata.name, labels),
        taints=vocabulary.taints.number_of(node.spec.taints),
        images=vocabulary.images.number_of(
            frozenset((name, image.size_bytes) for image in node.status.images for name in image.names)
        ),
        features=vocabulary.features.number_of(frozenset(node.status.declared_features)),
        unschedulable=node.spec.unschedulable,
        zone=intern(f"{region}:\0:{zone}") if region or zone else "",
    )


@dataclass(frozen=True, slots=True, eq=False)
class NodeTable:
    """Columns over nodes in visiting order. Immutable: a change returns another table."""

    vocabulary: Vocabulary
    names: Sequence[str]
    index: Mapping[str, int]
    allocatable: Columns
    allowed_pods: NDArray[np.int64]
    labels: NodeLabels
    label_set: Ids
    taint_set: Ids
    image_set: Ids
    feature_set: Ids
    unschedulable: Mask
    memo: dict[Hashable, NDArray[Any]]
    """Cached results that depend on the table only; each plugin's keys start with its name."""
    plans: dict[Hashable, Any]
    """Cached results of plugins for this table that are not columns."""

    def __len__(self) -> int:
        return len(self.names)

    @property
    def _cache_limit(self) -> int:
        """The maximum number of cached results."""
        return max(_CACHED_RESULTS_MINIMUM, _CACHED_ENTRIES_LIMIT // max(len(self), 1))

    def static(self, key: Hashable, build: Callable[[NodeTable], NDArray[A]]) -> NDArray[A]:
        """Return the result of `build` for this table, computed once."""
        known = self.memo.get(key)
        if known is None:
            if len(self.memo) >= self._cache_limit:
                self.memo.clear()
            known = self.memo[key] = build(self)
            known.flags.writeable = False
        return known

    def plan(self, key: Hashable, build: Callable[[], P]) -> P:
        """Return the result of `build`, computed once for this table.

        The result must reference each object that the key names by `id`.
        """
        known: P | None = self.plans.get(key)
        if known is None:
            if len(self.plans) >= self._cache_limit:
                self.plans.clear()
            known = self.plans[key] = build()
        return known

    def allocatable_floats(self, columns: tuple[int, ...]) -> NDArray[np.float64]:
        """Return `allocatable` of these resources, (resources, nodes), as floats."""
        return self.plan(("room", columns), lambda: self.allocatable[list(columns)].astype(np.float64))

    def range_of(self, column: int) -> tuple[int, int]:
        """Return the lowest and highest allocatable amount of this column over the nodes; zeros without nodes."""

        def found() -> tuple[int, int]:
            if column >= len(self.allocatable) or not len(self):
                return 0, 0
            return int(self.allocatable[column].min()), int(self.allocatable[column].max())

        return self.plan(("range", column), found)

    def where_taints(self, holds: Callable[[tuple[Taint, ...]], bool]) -> Mask:
        """Return (nodes,): the nodes whose taints satisfy `holds`."""
        return _spread_over_nodes(self.taint_set, self.vocabulary.taints.values, holds, np.bool_)

    def map_taints(self, count: Callable[[tuple[Taint, ...]], int]) -> NDArray[np.int64]:
        """Return (nodes,): a number for the taints of each node."""
        return _spread_over_nodes(self.taint_set, self.vocabulary.taints.values, count, np.int64)

    def where_features(self, holds: Callable[[frozenset[str]], bool]) -> Mask:
        """Return (nodes,): the nodes whose declared features satisfy `holds`."""
        return _spread_over_nodes(self.feature_set, self.vocabulary.features.values, holds, np.bool_)

    def map_images(self, count: Callable[[frozenset[tuple[str, int]]], int]) -> NDArray[np.int64]:
        """Return (nodes,): a number for the images on each node."""
        return _spread_over_nodes(self.image_set, self.vocabulary.images.values, count, np.int64)

    def taints(self, node: int) -> tuple[Taint, ...]:
        """Return the taints of the node at this index."""
        return self.vocabulary.taints.values[int(self.taint_set[node])]

    def with_rows(self, changed: Mapping[int, NodeRow]) -> NodeTable:
        """Return the table with some rows replaced; names and zones stay the same."""
        allocatable = _with_resource_rows(self.allocatable, len(self.vocabulary.resources))
        allowed_pods, unschedulable = self.allowed_pods.copy(), self.unschedulable.copy()
        sets = [each.copy() for each in (self.label_set, self.taint_set, self.image_set, self.feature_set)]
        for index, row in changed.items():
            allocatable[:, index] = 0
            for column, value in row.allocatable:
                allocatable[column, index] = value
            allowed_pods[index] = row.allowed_pods
            unschedulable[index] = row.unschedulable
            for ids, number in zip(sets, (row.labels, row.taints, row.images, row.features), strict=True):
                ids[index] = number
        same_labels = np.array_equal(sets[0], self.label_set)
        return replace(
            self,
            allocatable=allocatable,
            allowed_pods=allowed_pods,
            labels=self.labels if same_labels else NodeLabels(self.vocabulary.labels, self.names, sets[0]),
            label_set=sets[0],
            taint_set=sets[1],
            image_set=sets[2],
            feature_set=sets[3],
            unschedulable=unschedulable,
            memo={},
            plans={},
        )


_CACHED_ENTRIES_LIMIT: Final = 2**23
"""Number of entries in all cached columns together, of 1 to 8 bytes each."""
_CACHED_RESULTS_MINIMUM: Final = 128


def node_table(vocabulary: Vocabulary, rows: Iterable[NodeRow]) -> NodeTable:
    """Return a table of these nodes, in this order."""
    listed = list(rows)
    names = tuple(row.name for row in listed)
    allocatable = np.zeros((len(vocabulary.resources), len(listed)), dtype=np.int64)
    for index, row in enumerate(listed):
        for column, value in row.allocatable:
            allocatable[column, index] = value
    label_set = np.array([row.labels for row in listed], dtype=np.int32)
    return NodeTable(
        vocabulary,
        names,
        {name: index for index, name in enumerate(names)},
        allocatable,
        np.array([row.allowed_pods for row in listed], dtype=np.int64),
        NodeLabels(vocabulary.labels, names, label_set),
        label_set,
        np.array([row.taints for row in listed], dtype=np.int32),
        np.array([row.images for row in listed], dtype=np.int32),
        np.array([row.features for row in listed], dtype=np.int32),
        np.array([row.unschedulable for row in listed], dtype=np.bool_),
        {},
        {},
    )


def alternate_zones(rows: Iterable[NodeRow]) -> list[NodeRow]:
    """Take one node of each zone in turn (upstream backend/cache node_tree.go list).

    Zones, and the nodes of a zone, keep the order of their first appearance.
    """
    zones: dict[str, list[NodeRow]] = {}
    for row in rows:
        zones.setdefault(row.zone, []).append(row)
    if len(zones) <= 1:
        return [row for members in zones.values() for row in members]
    order: list[NodeRow] = []
    for turn in range(max(map(len, zones.values()))):
        order += [members[turn] for members in zones.values() if turn < len(members)]
    return order


def _spread_over_nodes(
    set_of_node: Ids, values: Sequence[Any], answer: Callable[[Any], Any], dtype: type[A]
) -> NDArray[A]:
    of_set = np.zeros(len(values), dtype=dtype)
    for number in np.unique(set_of_node).tolist():
        of_set[number] = answer(values[number])
    spread: NDArray[A] = of_set[set_of_node]
    return spread


def _with_resource_rows(columns: Columns, count: int) -> Columns:
    """Return a copy with rows for this number of resources."""
    grown = np.zeros((count, columns.shape[1]), dtype=np.int64)
    grown[: columns.shape[0]] = columns
    return grown


def take(column: NDArray[A], nodes: Indices | None) -> NDArray[A]:
    """Return the entries of these nodes; None means all nodes."""
    return column if nodes is None else column.take(nodes)
