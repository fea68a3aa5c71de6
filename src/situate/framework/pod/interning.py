"""What nodes have in common, held once: a large cluster's nodes are half of what its scheduler holds in memory.

Most nodes have the same amounts, conditions, taints and zones as many others. A node read from the API server has
objects of its own for all of them, some 600 bytes. Equal frozen values may be one object, and nothing else changes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from situate.objects.kinds.nodes import Node
from situate.objects.values.quantity import Quantity

T = TypeVar("T")

_REMEMBERED: Final = 2**14
"""Values before the table starts afresh. Equal values are then not always the same object: larger, not wrong."""


class SharedParts:
    """Of one cache; mutable."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}

    def of(self, node: Node) -> Node:
        """An equal node, made of parts that others may have as well."""
        metadata, status = node.metadata, node.status
        name = metadata.name
        labels = {key: name if value == name else self._one(value, value) for key, value in metadata.labels.items()}
        status = replace(
            status,
            capacity=self._amounts(status.capacity),
            allocatable=self._amounts(status.allocatable),
            conditions=self._one(status.conditions, status.conditions),
        )
        return Node(replace(metadata, labels=labels), self._one(node.spec, node.spec), status)

    def _amounts(self, amounts: Mapping[str, Quantity]) -> Mapping[str, Quantity]:
        return self._one(tuple(amounts.items()), amounts)

    def _one(self, key: Hashable, value: T) -> T:
        """The first of all equal ones, by what tells them apart."""
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        found: T = self._known.setdefault((type(value), key), value)
        return found
