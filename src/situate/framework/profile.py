"""One scheduler's plugins, ready to be asked: who is called at which extension point, in which order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from situate.framework.plugin import (
    AllotPlugin,
    AnnotationsPlugin,
    BindPlugin,
    EnqueuePlugin,
    FilterPlugin,
    GradingPlugin,
    NormalizePlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    ScorePlugin,
)

ALL_NODES: Final = 100
"""Percentage of nodes to score: every one."""


@dataclass(frozen=True, slots=True)
class Weighted:
    """A Score plugin and what its scores are multiplied by."""

    plugin: ScorePlugin
    weight: int
    name: str
    normalizer: NormalizePlugin | None
    """The same plugin, if it normalizes."""
    grading: GradingPlugin | None
    """The same plugin, if it can say few scores once."""

    @classmethod
    def of(cls, plugin: ScorePlugin, weight: int) -> Weighted:
        """Weight 0 means 1, as upstream."""
        return cls(
            plugin,
            weight or 1,
            plugin.name,
            plugin if isinstance(plugin, NormalizePlugin) else None,
            plugin if isinstance(plugin, GradingPlugin) else None,
        )


@dataclass(frozen=True, slots=True)
class Profile:
    """Frozen; plugins appear in the order of their calls."""

    scheduler_name: str
    queue_sort: QueueSortPlugin
    pre_enqueue: tuple[PreEnqueuePlugin, ...] = ()
    enqueue: tuple[EnqueuePlugin, ...] = ()
    pre_filter: tuple[PreFilterPlugin, ...] = ()
    filter: tuple[FilterPlugin, ...] = ()
    post_filter: tuple[PostFilterPlugin, ...] = ()
    pre_score: tuple[PreScorePlugin, ...] = ()
    score: tuple[Weighted, ...] = ()
    allot: tuple[AllotPlugin, ...] = ()
    annotations: tuple[AnnotationsPlugin, ...] = ()
    reserve: tuple[ReservePlugin, ...] = ()
    permit: tuple[PermitPlugin, ...] = ()
    pre_bind: tuple[PreBindPlugin, ...] = ()
    bind: tuple[BindPlugin, ...] = ()
    post_bind: tuple[PostBindPlugin, ...] = ()
    percentage_of_nodes_to_score: int = ALL_NODES


def profile_of(
    scheduler_name: str, plugins: Iterable[tuple[Plugin, int]], percentage_of_nodes_to_score: int = ALL_NODES
) -> Profile:
    """Every plugin at every extension point that it implements, in this order; each comes with its weight."""
    listed = list(plugins)
    members = [plugin for plugin, _ in listed]
    (sort,) = (plugin for plugin in members if isinstance(plugin, QueueSortPlugin))
    return Profile(
        scheduler_name,
        sort,
        pre_enqueue=tuple(plugin for plugin in members if isinstance(plugin, PreEnqueuePlugin)),
        enqueue=tuple(plugin for plugin in members if isinstance(plugin, EnqueuePlugin)),
        pre_filter=tuple(plugin for plugin in members if isinstance(plugin, PreFilterPlugin)),
        filter=tuple(plugin for plugin in members if isinstance(plugin, FilterPlugin)),
        post_filter=tuple(plugin for plugin in members if isinstance(plugin, PostFilterPlugin)),
        pre_score=tuple(plugin for plugin in members if isinstance(plugin, PreScorePlugin)),
        score=tuple(Weighted.of(plugin, weight) for plugin, weight in listed if isinstance(plugin, ScorePlugin)),
        allot=tuple(plugin for plugin in members if isinstance(plugin, AllotPlugin)),
        annotations=tuple(plugin for plugin in members if isinstance(plugin, AnnotationsPlugin)),
        reserve=tuple(plugin for plugin in members if isinstance(plugin, ReservePlugin)),
        permit=tuple(plugin for plugin in members if isinstance(plugin, PermitPlugin)),
        pre_bind=tuple(plugin for plugin in members if isinstance(plugin, PreBindPlugin)),
        bind=tuple(plugin for plugin in members if isinstance(plugin, BindPlugin)),
        post_bind=tuple(plugin for plugin in members if isinstance(plugin, PostBindPlugin)),
        percentage_of_nodes_to_score=percentage_of_nodes_to_score,
    )
