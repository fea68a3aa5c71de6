"""The combined answer of all plugins that read amounts, computed in one step.

NumPy needs the same time for twenty numbers as for one, and for five thousand mostly the time of memory access. If one
of these filters and scores knows all others, it can provide a *meter* with their combined answer. A meter evaluates one
row for many templates (`Readings`), or all rows for one template (`Meter.bounds`). It takes fewer and narrower
operations than the single plugins. `situate.framework.class_cache.score_board` and
`situate.framework.class_cache.pod_class_cache` use meters.

A meter gives exactly the answer of the plugins' own methods. The plugin's tests check this. `Shortcuts.gauges` switches
meters off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from situate.framework.plugin_api.plugin import FilterPlugin
from situate.framework.pod.pods import PodTemplate
from situate.framework.profile.profile import Weighted
from situate.framework.results.verdict import Indices, Mask
from situate.framework.snapshot.derived_columns import Derived, Load, Numbers
from situate.framework.snapshot.node_table import NodeTable

Narrow: TypeAlias = NDArray[np.int16]
"""Weighted scores, or totals."""

NO_ROOM: Final = -1
"""A meter's total for a node that the filters refuse."""


class Readings(Protocol):
    """A meter prepared for some templates."""

    def at(self, load: Load, rows: Sequence[int] | Indices) -> tuple[Narrow, Mask | None]:
        """Return (templates, rows): the weighted scores, and where the filters pass; None means everywhere.

        Scores are valid only where the filters pass. The arrays are valid until the next call.
        """
        ...


class Meter(Protocol):
    """The combined answer of several plugins on one node table."""

    derived: Derived
    """The columns that `bounds` takes as `numbers`."""

    def asked(self, template: PodTemplate) -> Any:
        """Return the template's values for `bounds`, `total` and `readings`; None if only the plugins can answer."""
        ...

    def bounds(self, numbers: Numbers, asked: Any, settled: Narrow) -> Narrow:
        """Return (nodes,): an upper bound of `settled` plus the scores, for each node that passes the filters.

        The bound is exact or slightly too high. It is negative where `settled` is far below zero. Refused nodes have
        any number (see `refuse`). The array is valid until the next call, and the caller may modify it.
        """
        ...

    def refuse(self, numbers: Numbers, asked: Any, bounds: Narrow) -> None:
        """Make the bounds negative where the filters refuse. Nodes with a very small shortage may keep their bounds."""
        ...

    def has_room(self, load: Load, row: int, asked: Any) -> bool:
        """Return whether this row passes the filters."""
        ...

    def total(self, load: Load, row: int, asked: Any) -> int:
        """Return the weighted scores of one row, or `NO_ROOM`."""
        ...

    def readings(self, asked: Sequence[Any]) -> Readings:
        """Return readings for these templates, given as results of `asked`."""
        ...


@runtime_checkable
class MeteringPlugin(Protocol):
    """A plugin that can evaluate other plugins together with itself."""

    name: str

    def meter(self, filters: Sequence[FilterPlugin], scores: Sequence[Weighted], nodes: NodeTable) -> Meter | None:
        """Return the combined meter on these nodes; None if a plugin is unknown to it, or numbers are too large."""
        ...
