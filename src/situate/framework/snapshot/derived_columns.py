"""Filters and scores that depend on amounts on a node alone, in a form that is cheap to work out over and over.

A plugin that compares numbers of a node with numbers of a pod can say which numbers of the node those are: *derived*
columns, which hardly ever depend on the pod. They are worked out once and then follow the pods that come and go, row by
row (`DerivedColumns`), while each pod of a cycle costs a few operations on them (`Gauge`).

A gauge is a second way to an answer that the plugin's own method gives as well. That they agree is for the tests of the
plugin to show; `Shortcuts.gauges` switches them off.
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
"""(width, nodes): derived columns of some nodes, in 64 bits or, where that is enough, 32."""

_ONE_BY_ONE: Final = 8
"""So many rows are followed one by one in Python numbers: that is cheaper than what NumPy takes for each call."""


class Load(Protocol):
    """What is on the nodes, in columns of integers."""

    requested: NDArray[np.int64]
    """(resources, rows)"""
    scored: NDArray[np.int64]
    """(cpu and memory, rows): with the defaults of containers that name no request."""
    pod_count: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Derived:
    """Columns that follow from what a node has and what is on it."""

    key: Hashable
    """Begins with the plugin's name; equal keys mean equal columns."""
    of: Callable[[Snapshot], Numbers]
    """(width, nodes)"""
    of_row: Callable[[NodeTable, Load, int], Sequence[float]]
    """The same of one row of a table, as Python numbers: the first of the columns, up to those that pods do not change.
    """


class Gauge(msgspec.Struct, frozen=True, eq=False):
    """What a plugin says of nodes, for pods of one template on one table of nodes."""

    derived: Derived
    read: Callable[[Numbers], NDArray[Any]]
    """A filter's mask, or a score's whole numbers, at most 100 in 16 bits; what it is given must not be written to."""
    where_it_fits: bool = False
    """Whether a score is right only where the node has room for what the pod requests."""


NO_SAY: Final = Gauge(Derived((), lambda _: np.zeros((0, 0)), lambda *_: ()), lambda _: np.zeros(0))
"""Of a score: PreScore would skip the pod."""


@runtime_checkable
class GaugedFilter(Protocol):
    """A filter that amounts on a node decide, for some pods at least."""

    def filter_gauge(self, template: Any, nodes: NodeTable) -> Gauge | None:
        """None where only `filter` knows."""
        ...


@runtime_checkable
class GaugedScore(Protocol):
    """A score that is not normalized."""

    def score_gauge(self, template: Any, nodes: NodeTable) -> Gauge | None:
        """None where only `pre_score` and `score` know."""
        ...


@dataclass(slots=True, eq=False)
class _Kept:
    nodes: NodeTable
    position: int
    numbers: Numbers


class DerivedColumns:
    """Those that were asked for, of one owner's load; mutable."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, _Kept] = {}

    def get(
        self,
        derived: Derived,
        snapshot: Snapshot,
        load: Load,
        position: int,
        changed: Callable[[int], list[int] | None],
    ) -> Numbers:
        """(width, nodes) of a snapshot of all nodes; they go on changing with the owner.

        `position` is that of the change log now, `changed` the rows since an earlier one.
        """
        kept = self._kept.get(derived.key)
        if kept is None or kept.nodes is not snapshot.nodes:
            kept = None
        elif kept.position == position:
            return kept.numbers
        rows = changed(kept.position) if kept is not None else None
        if kept is None or rows is None:
            numbers = derived.of(snapshot)
            self._kept[derived.key] = _Kept(snapshot.nodes, position, numbers)
            return numbers
        kept.position = position
        numbers = kept.numbers
        if len(rows) <= _ONE_BY_ONE:
            for row in rows:
                for place, value in enumerate(derived.of_row(snapshot.nodes, load, row)):
                    numbers[place, row] = value
        else:
            some = np.unique(np.array(rows, dtype=np.intp))
            numbers[:, some] = derived.of(snapshot.at(some))
        return numbers
