"""The answer of one filter for every node.

Most Pods fit somewhere, and then no reason is needed for the other nodes. A verdict therefore holds the mask of passing
nodes and a function that computes codes and reasons on demand.
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
"""(nodes,), one `Code` per node."""
Indices: TypeAlias = NDArray[np.intp]
"""Indices of some nodes, ascending."""


@dataclass(frozen=True, slots=True, eq=False)
class Refusals:
    """Codes and reasons of one filter for each node."""

    code: Codes
    """(nodes,); `Code.SUCCESS` where the node passes."""
    reasons: tuple[tuple[str, Indices], ...]
    """Each text with its nodes, in the order in which the reasons of a node are listed."""

    def reasons_at(self, node: int) -> tuple[str, ...]:
        """Return the reasons that refuse the node at this index."""
        return tuple(text for text, nodes in self.reasons if _contains(nodes, node))


class Verdict(msgspec.Struct, frozen=True, eq=False):
    """The passing nodes, and on demand the reasons of the others. Nodes that the filter did not evaluate pass."""

    passes: Mask
    """(nodes,)"""
    refusals: Callable[[], Refusals]
    """Computed from immutable columns, so the call may come late, or never."""


def refuse(where: Mask, text: str, code: Code = Code.UNSCHEDULABLE) -> Verdict:
    """Refuse the nodes of the mask, all with one reason."""
    return Verdict(~where, lambda: refusals(len(where), (where, text, code)))


def refuse_in_turn(*rules: tuple[Mask, str, Code]) -> Verdict:
    """Refuse each node for the first rule that covers it, like a plugin that stops at its first failed check."""
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
    """Return all reasons that apply.

    The code of a node is the most severe of its rules: unresolvable is more severe than unschedulable.
    """
    code = np.zeros(count, dtype=np.uint8)
    for where, _, grave in rules:
        np.maximum(code, where.view(np.uint8) * np.uint8(grave), out=code)  # takes a tenth of the time of `where=`
    return Refusals(code, tuple((text, where.nonzero()[0]) for where, text, _ in rules))


def refuse_all(count: int, text: str, code: Code) -> Verdict:
    """Refuse every node."""
    return refuse(np.ones(count, dtype=np.bool_), text, code)


def pass_all(count: int) -> Verdict:
    """Refuse no node."""
    return Verdict(np.ones(count, dtype=np.bool_), lambda: refusals(count))


def first_refusals(verdicts: Iterable[tuple[str, Verdict]], left: Mask) -> list[tuple[str, Refusals, Mask]]:
    """Return each plugin's refusals with the nodes that it owns: nodes of `left` that no earlier plugin refused.

    Plugins that own no node are left out, and their reasons are not computed.
    """
    found: list[tuple[str, Refusals, Mask]] = []
    for name, verdict in verdicts:
        where = left & ~verdict.passes
        if where.any():
            found.append((name, verdict.refusals(), where))
            left = left & verdict.passes
    return found


def count_reasons(told: Iterable[tuple[Refusals, Mask]]) -> dict[str, int]:
    """Count the nodes for each reason. Each mask selects the nodes to count in the refusals paired with it."""
    counts: dict[str, int] = {}
    for refused, where in told:
        for text, nodes in refused.reasons:
            number = int(np.count_nonzero(where[nodes]))
            if number:
                counts[text] = counts.get(text, 0) + number
    return counts


def _contains(nodes: Indices, node: int) -> bool:
    place = int(np.searchsorted(nodes, node))
    return place < len(nodes) and int(nodes[place]) == node
