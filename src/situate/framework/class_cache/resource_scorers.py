"""What all plugins that look at amounts say of a node, worked out in one go.

NumPy takes as long for twenty numbers as for one, and for five thousand mostly what memory takes. So where the filters
and scores that look at amounts are known to each other, one of them may give a *meter*, which says what all of them
together say: of one row for many templates (`Readings`), and of all rows for one template (`Meter.bounds`), in fewer
and narrower operations than each plugin on its own. `situate.framework.class_cache.score_board` and
`situate.framework.class_cache.pod_class_cache` use them.

A meter says exactly what the plugins' own methods say. That it does is for the tests of the plugin to show;
`Shortcuts.gauges` switches meters off.
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
"""What a meter says of a node that the filters refuse."""


class Readings(Protocol):
    """Of some templates."""

    def at(self, load: Load, rows: Sequence[int] | Indices) -> tuple[Narrow, Mask | None]:
        """(templates, rows): the weighted scores, right where the filters pass, and where they do; None is everywhere.

        Good until it is asked again.
        """
        ...


class Meter(Protocol):
    """Of one node table."""

    derived: Derived
    """Of which `bounds` is told the numbers."""

    def asked(self, template: PodTemplate) -> Any:
        """What `bounds`, `total` and `readings` have to know of the template; None where only the plugins know."""
        ...

    def bounds(self, numbers: Numbers, asked: Any, settled: Narrow) -> Narrow:
        """(nodes,): for each node that the filters let pass, `settled` and the scores, or a little more, never less.

        Negative where `settled` is far below zero. What the filters refuse has any number (`refuse`). Good until it is
        asked again, and the asker's until then.
        """
        ...

    def refuse(self, numbers: Numbers, asked: Any, bounds: Narrow) -> None:
        """Makes those of these bounds negative where the filters refuse; what they refuse by a hair may stay."""
        ...

    def has_room(self, load: Load, row: int, asked: Any) -> bool:
        """Whether the filters let this row pass."""
        ...

    def total(self, load: Load, row: int, asked: Any) -> int:
        """The weighted scores of one row, or `NO_ROOM`."""
        ...

    def readings(self, asked: Sequence[Any]) -> Readings:
        """For templates that ask for this."""
        ...


@runtime_checkable
class MeteringPlugin(Protocol):
    """A plugin that can speak for others."""

    name: str

    def meter(self, filters: Sequence[FilterPlugin], scores: Sequence[Weighted], nodes: NodeTable) -> Meter | None:
        """What these say together on these nodes; None where it does not know them all, or numbers are too large."""
        ...
