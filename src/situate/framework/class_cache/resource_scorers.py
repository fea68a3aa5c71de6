"""The combined answer of all plugins that read amounts, computed in one step.

NumPy needs the same time for twenty numbers as for one, and for five thousand mostly the time of memory access. If one
of these filters and scores knows all others, it can provide a *scorer* with their combined answer. A scorer evaluates
one row for many templates (`TemplatesScorer`), or all rows for one template (`ResourceScorer.upper_bounds`). It takes
fewer and narrower operations than the single plugins. `situate.framework.class_cache.score_board` and
`situate.framework.class_cache.pod_class_cache` use scorers.

A scorer gives exactly the answer of the plugins' own methods. The plugin's tests check this. `Shortcuts.evaluators`
switches scorers off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from situate.framework.plugin_api.plugin import FilterPlugin
from situate.framework.pod.pods import PodTemplate
from situate.framework.profile.profile import WeightedPlugin
from situate.framework.results.verdict import Indices, Mask
from situate.framework.snapshot.derived_columns import ColumnDefinition, Load, Numbers
from situate.framework.snapshot.node_table import NodeTable

NarrowScores: TypeAlias = NDArray[np.int16]
"""Weighted scores, or totals."""

NO_CAPACITY: Final = -1
"""A scorer's total for a node that the filters refuse."""


class TemplatesScorer(Protocol):
    """A scorer prepared for some templates."""

    def scores_at(self, load: Load, rows: Sequence[int] | Indices) -> tuple[NarrowScores, Mask | None]:
        """Return (templates, rows): the weighted scores, and where the filters pass; None means everywhere.

        Scores are valid only where the filters pass. The arrays are valid until the next call.
        """
        ...


class ResourceScorer(Protocol):
    """The combined answer of several plugins on one node table."""

    derived: ColumnDefinition
    """The columns that `upper_bounds` takes as `numbers`."""

    def requests_of(self, template: PodTemplate) -> Any:
        """Return the template's values for `upper_bounds`, `total` and `scorer_for_templates`.

        None: only the plugins can answer.
        """
        ...

    def upper_bounds(self, numbers: Numbers, asked: Any, settled: NarrowScores) -> NarrowScores:
        """Return (nodes,): an upper bound of `settled` plus the scores, for each node that passes the filters.

        The bound is exact or slightly too high. It is negative where `settled` is far below zero. Refused nodes have
        any number (see `lower_refused_bounds`). The array is valid until the next call, and the caller may modify it.
        """
        ...

    def lower_refused_bounds(self, numbers: Numbers, asked: Any, bounds: NarrowScores) -> None:
        """Make the bounds negative where the filters refuse. Nodes with a very small shortage may keep their bounds."""
        ...

    def has_capacity(self, load: Load, row: int, asked: Any) -> bool:
        """Return whether this row passes the filters."""
        ...

    def total(self, load: Load, row: int, asked: Any) -> int:
        """Return the weighted scores of one row, or `NO_CAPACITY`."""
        ...

    def scorer_for_templates(self, asked: Sequence[Any]) -> TemplatesScorer:
        """Return readings for these templates, given as results of `requests_of`."""
        ...


@runtime_checkable
class ResourceScorerPlugin(Protocol):
    """A plugin that can evaluate other plugins together with itself."""

    name: str

    def resource_scorer(
        self, filters: Sequence[FilterPlugin], scores: Sequence[WeightedPlugin], nodes: NodeTable
    ) -> ResourceScorer | None:
        """Return the combined scorer on these nodes; None if a plugin is unknown to it, or numbers are too large."""
        ...
