"""Share equal parts of Node objects to save memory.

In a large cluster, Nodes take half of the scheduler's memory. Most of them have the same amounts, conditions, taints
and zones as many others. Each Node read from the API server has its own copies, about 600 bytes. Equal immutable values
may be one object; nothing else changes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Final, TypeVar

from msgspec.structs import replace

from situate.objects.kinds.nodes import Node
from situate.objects.values.quantity import Quantity

T = TypeVar("T")

_TABLE_LIMIT: Final = 2**14
"""Number of values at which the table is cleared. Equal values may then be separate objects: larger, not wrong."""


class SharedParts:
    """The shared parts of the Nodes of one cache; mutable."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Any] = {}

    def share_parts(self, node: Node) -> Node:
        """Return an equal Node built from shared parts."""
        metadata, status = node.metadata, node.status
        name = metadata.name
        labels = {
            key: name if value == name else self._first_equal_value(value, value)
            for key, value in metadata.labels.items()
        }
        status = replace(
            status,
            capacity=self._shared_amounts(status.capacity),
            allocatable=self._shared_amounts(status.allocatable),
            conditions=self._first_equal_value(status.conditions, status.conditions),
        )
        return Node(replace(metadata, labels=labels), self._first_equal_value(node.spec, node.spec), status)

    def _shared_amounts(self, amounts: Mapping[str, Quantity]) -> Mapping[str, Quantity]:
        return self._first_equal_value(tuple(amounts.items()), amounts)

    def _first_equal_value(self, key: Hashable, value: T) -> T:
        """Return the first value that was stored under this type and key."""
        if len(self._known) >= _TABLE_LIMIT:
            self._known.clear()
        found: T = self._known.setdefault((type(value), key), value)
        return found
