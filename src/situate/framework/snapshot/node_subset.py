"""A subset of the nodes, with cached results that depend on it.

Pods of a class are compared on the same nodes repeatedly: those where all its filters pass. Results that depend only on
this subset, and not on placed Pods, are computed once (`Snapshot.plan`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar

import numpy as np

from situate.framework.results.verdict import Indices, Mask

P = TypeVar("P")

_CACHED_NODES_LIMIT: Final = 2**18
"""Number of nodes in all cached parts together: 8 bytes each, and 8 more for each requested topology key."""


class NodeSubset:
    """A subset of one node table. It lives as long as callers use it."""

    __slots__ = ("_plans", "nodes")

    def __init__(self, nodes: Indices) -> None:
        self.nodes = nodes
        """Must not be modified."""
        self._plans: dict[Hashable, Any] = {}

    def plan(self, key: Hashable, build: Callable[[], P]) -> P:
        """Return the result of `build`, computed once.

        The result must reference each object that the key names by `id`.
        """
        known: P | None = self._plans.get(key)
        if known is None:
            known = self._plans[key] = build()
        return known


class NodeSubsets:
    """One part for equal masks, which many classes have. Shared parts stay in the processor's cache."""

    def __init__(self) -> None:
        self._known: dict[bytes, NodeSubset] = {}

    def subset_of(self, passes: Mask) -> NodeSubset:
        """Return the part with the nodes of the mask."""
        key = passes.tobytes()
        known = self._known.get(key)
        if known is None:
            if len(self._known) * len(passes) >= _CACHED_NODES_LIMIT:
                self._known.clear()
            known = self._known[key] = NodeSubset(np.flatnonzero(passes))
        return known
