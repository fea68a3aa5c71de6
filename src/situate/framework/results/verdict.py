"""One filter's answer for every node.

Most pods fit somewhere, and nobody asks why the other nodes were refused. So a verdict carries the mask of the nodes
that pass, and a function that tells codes and reasons when they are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from situate.framework.results.status import Code

Mask: TypeAlias = NDArray[np.bool_]
"""(nodes,)"""
Codes: TypeAlias = NDArray[np.uint8]
"""(nodes,), a `Code` each."""
Indices: TypeAlias = NDArray[np.intp]
"""Some of the nodes, ascending."""


@dataclass(frozen=True, slots=True, eq=False)
class Refusals:
    """Codes and reasons of one filter, node by node."""

    code: Codes
    """(nodes,); `Code.SUCCESS` where the node passes."""
    reasons: tuple[tuple[str, Indices], ...]
    """Each text with the nodes that it applies to; in the order in which a node's reasons are listed."""

    def of(self, node: int) -> tuple[str, ...]:
        """Why the node at this index is refused."""
        return tuple(text for text, nodes in self.reasons if _holds(nodes, node))


class Verdict(msgspec.Struct, frozen=True, eq=False):
    """Which nodes pass, and on demand why the others do not. Nodes that it was not asked about pass."""

    passes: Mask
    """(nodes,)"""
    refusals: Callable[[], Refusals]
    """Computed from frozen columns, so that it may be called late, or never."""


def refuse(where: Mask, text: str, code: Code = Code.UNSCHEDULABLE) -> Verdict:
    """Refuses the nodes of the mask, all for one reason."""
    return Verdict(~where, lambda: refusals(len(where), (where, text, code)))


def refuse_in_turn(*rules: tuple[Mask, str, Code]) -> Verdict:
    """Refuses each node for the first rule that covers it: a plugin that stops at its first complaint."""
    count = len(rules[0][0])

    def told() -> Refusals:
        left = np.ones(count, dtype=np.bool_)
        cut: list[tuple[Mask, str, Code]] = []
        for where, text, code in rules:
            cut.append((where & left, text, code))
            left &= ~where
        return refusals(count, *cut)

    refused = rules[0][0]
    for where, _, _ in rules[1:]:
        refused = refused | where
    return Verdict(~refused, told)


def refusals(count: int, *rules: tuple[Mask, str, Code]) -> Refusals:
    """All reasons that apply; a node's code is the gravest of its rules: unresolvable before unschedulable."""
    code = np.zeros(count, dtype=np.uint8)
    for where, _, grave in rules:
        np.maximum(code, where.view(np.uint8) * np.uint8(grave), out=code)  # a tenth of the time of `where=`
    return Refusals(code, tuple((text, where.nonzero()[0]) for where, text, _ in rules))


def refuse_all(count: int, text: str, code: Code) -> Verdict:
    """Refuses every node."""
    return refuse(np.ones(count, dtype=np.bool_), text, code)


def pass_all(count: int) -> Verdict:
    """Refuses none."""
    return Verdict(np.ones(count, dtype=np.bool_), lambda: refusals(count))


def first_refusals(verdicts: Iterable[tuple[str, Verdict]], left: Mask) -> list[tuple[str, Refusals, Mask]]:
    """Each plugin's refusals with the nodes that belong to it: those of `left` that no plugin before it has refused.

    Plugins that no node belongs to are left out, and are not asked why.
    """
    found: list[tuple[str, Refusals, Mask]] = []
    for name, verdict in verdicts:
        where = left & ~verdict.passes
        if where.any():
            found.append((name, verdict.refusals(), where))
            left = left & verdict.passes
    return found


def count_reasons(told: Iterable[tuple[Refusals, Mask]]) -> dict[str, int]:
    """So many nodes for each reason; each mask says which nodes count for the refusals beside it."""
    counts: dict[str, int] = {}
    for refused, where in told:
        for text, nodes in refused.reasons:
            number = int(np.count_nonzero(where[nodes]))
            if number:
                counts[text] = counts.get(text, 0) + number
    return counts


def _holds(nodes: Indices, node: int) -> bool:
    place = int(np.searchsorted(nodes, node))
    return place < len(nodes) and int(nodes[place]) == node
