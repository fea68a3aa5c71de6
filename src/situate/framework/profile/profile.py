"""The plugins of one scheduler at each extension point, in the order of their calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Final

from situate.framework.plugin_api.plugin import (
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
    implements,
)

ALL_NODES: Final = 100
"""Percentage of nodes to score: all."""


@dataclass(frozen=True, slots=True)
class WeightedPlugin:
    """A Score plugin with the weight of its scores."""

    plugin: ScorePlugin
    weight: int
    name: str
    normalizer: NormalizePlugin | None
    """The same plugin, if it normalizes."""
    grading: GradingPlugin | None
    """The same plugin, if it can return each distinct score once."""

    @classmethod
    def from_plugin(cls, plugin: ScorePlugin, weight: int) -> WeightedPlugin:
        """Create the entry. Weight 0 means 1, as upstream."""
        return cls(
            plugin,
            weight or 1,
            plugin.name,
            plugin if implements(plugin, NormalizePlugin) else None,
            plugin if implements(plugin, GradingPlugin) else None,
        )


@dataclass(frozen=True, slots=True)
class Profile:
    """The plugins of each extension point in the order of their calls; immutable."""

    scheduler_name: str
    queue_sort: QueueSortPlugin
    pre_enqueue: tuple[PreEnqueuePlugin, ...] = ()
    enqueue: tuple[EnqueuePlugin, ...] = ()
    pre_filter: tuple[PreFilterPlugin, ...] = ()
    filter: tuple[FilterPlugin, ...] = ()
    post_filter: tuple[PostFilterPlugin, ...] = ()
    pre_score: tuple[PreScorePlugin, ...] = ()
    score: tuple[WeightedPlugin, ...] = ()
    allot: tuple[AllotPlugin, ...] = ()
    annotations: tuple[AnnotationsPlugin, ...] = ()
    reserve: tuple[ReservePlugin, ...] = ()
    permit: tuple[PermitPlugin, ...] = ()
    pre_bind: tuple[PreBindPlugin, ...] = ()
    bind: tuple[BindPlugin, ...] = ()
    post_bind: tuple[PostBindPlugin, ...] = ()
    percentage_of_nodes_to_score: int = ALL_NODES


def profile_of(
    scheduler_name: str, weighted: Iterable[tuple[Plugin, int]], percentage_of_nodes_to_score: int = ALL_NODES
) -> Profile:
    """Build a profile with every plugin, in this order, at every extension point that it implements."""
    listed = list(weighted)
    plugins = [plugin for plugin, _ in listed]
    (sort,) = (plugin for plugin in plugins if implements(plugin, QueueSortPlugin))
    return Profile(
        scheduler_name,
        sort,
        pre_enqueue=tuple(plugin for plugin in plugins if implements(plugin, PreEnqueuePlugin)),
        enqueue=tuple(plugin for plugin in plugins if implements(plugin, EnqueuePlugin)),
        pre_filter=tuple(plugin for plugin in plugins if implements(plugin, PreFilterPlugin)),
        filter=tuple(plugin for plugin in plugins if implements(plugin, FilterPlugin)),
        post_filter=tuple(plugin for plugin in plugins if implements(plugin, PostFilterPlugin)),
        pre_score=tuple(plugin for plugin in plugins if implements(plugin, PreScorePlugin)),
        score=tuple(
            WeightedPlugin.from_plugin(plugin, weight) for plugin, weight in listed if implements(plugin, ScorePlugin)
        ),
        allot=tuple(plugin for plugin in plugins if implements(plugin, AllotPlugin)),
        annotations=tuple(plugin for plugin in plugins if implements(plugin, AnnotationsPlugin)),
        reserve=tuple(plugin for plugin in plugins if implements(plugin, ReservePlugin)),
        permit=tuple(plugin for plugin in plugins if implements(plugin, PermitPlugin)),
        pre_bind=tuple(plugin for plugin in plugins if implements(plugin, PreBindPlugin)),
        bind=tuple(plugin for plugin in plugins if implements(plugin, BindPlugin)),
        post_bind=tuple(plugin for plugin in plugins if implements(plugin, PostBindPlugin)),
        percentage_of_nodes_to_score=percentage_of_nodes_to_score,
    )


def plugins_of(profile: Profile) -> Iterator[Plugin]:
    """Yield the plugins of all extension points. A plugin at several points is repeated."""
    yield profile.queue_sort
    for point in fields(profile):
        value = getattr(profile, point.name)
        if isinstance(value, tuple):
            yield from (each.plugin if isinstance(each, WeightedPlugin) else each for each in value)


def map_plugins(profile: Profile, change: Callable[[Any], Any]) -> Profile:
    """Return the profile with `change` applied to each plugin, at all of its extension points.

    A plugin at several points stays a single object.
    """
    apart = {id(plugin): plugin for plugin in plugins_of(profile)}
    became: dict[int, Any] = {key: change(plugin) for key, plugin in apart.items()}
    changed: dict[str, Any] = {"queue_sort": became[id(profile.queue_sort)]}
    for point in fields(profile):
        value = getattr(profile, point.name)
        if point.name == "score":
            changed[point.name] = tuple(
                WeightedPlugin.from_plugin(became[id(each.plugin)], each.weight) for each in value
            )
        elif isinstance(value, tuple):
            changed[point.name] = tuple(became[id(plugin)] for plugin in value)
    return replace(profile, **changed)
