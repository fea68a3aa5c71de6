"""Some of the nodes, with what has been worked out for them.

Pods of a class are compared on the same nodes again and again: those where its filters pass. What depends on which
nodes these are, and on nothing that pods change, is worked out once (`Snapshot.plan`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final, TypeVar

import numpy as np

from situate.framework.results.verdict import Indices, Mask

P = TypeVar("P")

_KEPT: Final = 2**18
"""Nodes of all parts that are remembered; 8 bytes each, and as many for each topology key that is asked about."""


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


class Parts:
    """Gives the same part for equal masks, as many classes have: what is shared stays in the processor's cache."""

    def __init__(self) -> None:
        self._known: dict[bytes, Part] = {}

    def of(self, passes: Mask) -> Part:
        """The nodes of the mask."""
        key = passes.tobytes()
        known = self._known.get(key)
        if known is None:
            if len(self._known) * len(passes) >= _KEPT:
                self._known.clear()
            known = self._known[key] = Part(np.flatnonzero(passes))
        return known
