"""The scheduler's profile that vm runs on: the default plugins with the ledger's beside them (C31).

QueueSort is the default one, unless pods that machines move into are to come first (N16).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from situate.framework.plugin_api.configuration import (
    DisabledPlugin,
    EnabledPlugin,
    KubeSchedulerConfiguration,
    Plugins,
    PluginSet,
    SchedulerProfile,
)
from situate.framework.plugin_api.plugin import Plugin
from situate.framework.profile.profiles import Registry
from situate.plugins.priority_sort import PrioritySort
from situate.vm.backends.systems import System
from situate.vm.placement.plugin import NAME, VirtualMachines
from situate.vm.placement.queue_sort import TargetsFirst

_SCORES_OFF: Final = ("ImageLocality", "NodeResourcesBalancedAllocation", "NodeResourcesFit")
"""Their say would work against the ledger's: it prefers nodes that are used up to a point, and knows what pods hold."""

_TARGETS_FIRST: Final = PluginSet(
    enabled=(EnabledPlugin(TargetsFirst.name),), disabled=(DisabledPlugin(PrioritySort.name),)
)


def configuration(scheduler_name: str, *, targets_first: bool = False) -> KubeSchedulerConfiguration:
    """In KubeSchedulerConfiguration's own terms; every node is scored."""
    off = tuple(DisabledPlugin(name) for name in _SCORES_OFF)
    plugins = Plugins(
        multi_point=PluginSet(enabled=(EnabledPlugin(NAME),)),
        score=PluginSet(disabled=off),
        queue_sort=_TARGETS_FIRST if targets_first else PluginSet(),
    )
    profile = SchedulerProfile(scheduler_name=scheduler_name, plugins=plugins)
    return KubeSchedulerConfiguration(percentage_of_nodes_to_score=100, profiles=(profile,))


def with_ledger(registry: Registry, plugin: VirtualMachines, system: System[Any]) -> Registry:
    """Plugins that a profile may name, and those of vm."""
    ours: dict[str, Callable[[], Plugin]] = {NAME: lambda: plugin, TargetsFirst.name: lambda: TargetsFirst(system)}
    return Registry({**registry.types, **ours}, registry.defaults)
