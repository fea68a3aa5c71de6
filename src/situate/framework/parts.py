"""Some of the nodes, with what has been worked out for them.

Pods of a class are compared on the same nodes again and again: those where its filters pass. What depends on which
nodes these are, and on nothing that pods change, is worked out once (`Snapshot.plan`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from situate.framework.verdict import Indices

P = TypeVar("P")


class Part:
    """Of one node table; lives as long as somebody goes on asking about these nodes."""

    __slots__ = ("_plans", "nodes")

    def __init__(self, nodes: Indices) -> None:
        self.nodes = nodes
        """Must not be written to any more."""
        self._plans: dict[Hashable, Any] = {}

    def plan(self, key: Hashable, build: Callable[[], P]) -> P:
        """What `build` makes, made once; whatever a key names by `id` has to be kept by the result."""
        known: P | None = self._plans.get(key)
        if known is None:
            known = self._plans[key] = build()
        return known
