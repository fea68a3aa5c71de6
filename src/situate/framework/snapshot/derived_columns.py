"""Filters and scores that depend only on amounts on a node, in a form that is cheap to evaluate repeatedly.

A plugin may compare numbers of a node with numbers of a Pod. It can then name the numbers of the node as *derived*
columns, which hardly ever depend on the Pod. `DerivedColumns` computes them once and then updates them row by row as
Pods come and go. A `ColumnEvaluator` evaluates them for each Pod of a cycle with a few operations.

An evaluator is a second way to the result of the plugin's own method. The plugin's tests check that both agree.
`Shortcuts.evaluators` switches evaluators off.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

import msgspec
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from situate.framework.snapshot.node_table import NodeTable
    from situate.framework.snapshot.snapshot import Snapshot

Numbers = NDArray[np.floating[Any]]
"""(width, nodes): derived columns of some nodes, in 64 bits, or in 32 bits where that is enough."""

_ONE_BY_ONE: Final = 8
"""Up to this number of rows, Python numbers are cheaper than the cost of NumPy calls."""


class Load(Protocol):
    """The load of the nodes, in integer columns."""

    requested: NDArray[np.int64]
    """(resources, rows)"""
    scored: NDArray[np.int64]
    """(cpu and memory, rows): includes the defaults of containers without a request."""
    pod_count: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ColumnDefinition:
    """Columns that follow from a node's capacity and its load."""

    key: Hashable
    """Starts with the plugin's name; equal keys mean equal columns."""
    compute_columns: Callable[[Snapshot], Numbers]
    """(width, nodes)"""
    compute_row: Callable[[NodeTable, Load, int], Sequence[float]]
    """The same for one row of a table, as Python numbers.

    The result may end at the first column that Pods do not change.
    """


class ColumnEvaluator(msgspec.Struct, frozen=True, eq=False):
    """A plugin's answer for Pods of one template on one table of nodes."""

    derived: ColumnDefinition
    read: Callable[[Numbers], NDArray[Any]]
    """Returns a filter's mask, or a score as 16-bit integers up to 100. It must not write to its argument."""
    where_it_fits: bool = False
    """Whether a score is valid only where the node has enough free capacity for the Pod's request."""


SKIPPED_EVALUATOR: Final = ColumnEvaluator(
    ColumnDefinition((), lambda _: np.zeros((0, 0)), lambda *_: ()), lambda _: np.zeros(0)
)
"""A score evaluator whose PreScore would skip the Pod."""


@runtime_checkable
class ColumnFilter(Protocol):
    """A filter that depends only on amounts on a node, at least for some Pods."""

    def filter_evaluator(self, template: Any, nodes: NodeTable) -> ColumnEvaluator | None:
        """Return the evaluator; None if only `filter` can answer."""
        ...


@runtime_checkable
class ColumnScore(Protocol):
    """A score that is not normalized."""

    def score_evaluator(self, template: Any, nodes: NodeTable) -> ColumnEvaluator | None:
        """Return the evaluator; None if only `pre_score` and `score` can answer."""
        ...


@dataclass(slots=True, eq=False)
class _CachedColumns:
    nodes: NodeTable
    position: int
    numbers: Numbers


class DerivedColumns:
    """The requested columns of one owner's load; mutable."""

    def __init__(self) -> None:
        self._cached: dict[Hashable, _CachedColumns] = {}

    def get(
        self,
        derived: ColumnDefinition,
        snapshot: Snapshot,
        load: Load,
        position: int,
        changed: Callable[[int], list[int] | None],
    ) -> Numbers:
        """Return (width, nodes) for a snapshot of all nodes. The array changes as its owner changes.

        `position` is the current position in the change log. `changed` returns the rows changed since an earlier
        position.
        """
        kept = self._cached.get(derived.key)
        if kept is None or kept.nodes is not snapshot.nodes:
            kept = None
        elif kept.position == position:
            return kept.numbers
        rows = changed(kept.position) if kept is not None else None
        if kept is None or rows is None:
            numbers = derived.compute_columns(snapshot)
            self._cached[derived.key] = _CachedColumns(snapshot.nodes, position, numbers)
            return numbers
        kept.position = position
        numbers = kept.numbers
        if len(rows) <= _ONE_BY_ONE:
            for row in rows:
                for place, value in enumerate(derived.compute_row(snapshot.nodes, load, row)):
                    numbers[place, row] = value
        else:
            some = np.unique(np.array(rows, dtype=np.intp))
            numbers[:, some] = derived.compute_columns(snapshot.select_nodes(some))
        return numbers
