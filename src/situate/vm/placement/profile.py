"""The scheduler profile of vm: the default plugins and the ledger's.

QueueSort is the default plugin, unless target Pods should come first (C31, N16).
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
"""Default scores that would work against the ledger's score, which prefers full nodes up to a point.

The ledger also knows the reserved amount of each Pod.
"""

_TARGETS_FIRST: Final = PluginSet(
    enabled=(EnabledPlugin(TargetsFirst.name),), disabled=(DisabledPlugin(PrioritySort.name),)
)


def configuration(scheduler_name: str, *, targets_first: bool = False) -> KubeSchedulerConfiguration:
    """Return the profile as a KubeSchedulerConfiguration. Every node is scored."""
    off = tuple(DisabledPlugin(name) for name in _SCORES_OFF)
    plugins = Plugins(
        multi_point=PluginSet(enabled=(EnabledPlugin(NAME),)),
        score=PluginSet(disabled=off),
        queue_sort=_TARGETS_FIRST if targets_first else PluginSet(),
    )
    profile = SchedulerProfile(scheduler_name=scheduler_name, plugins=plugins)
    return KubeSchedulerConfiguration(percentage_of_nodes_to_score=100, profiles=(profile,))


def registry_with_ledger(registry: Registry, plugin: VirtualMachines, system: System[Any]) -> Registry:
    """Return the registry with the plugins of vm added."""
    ours: dict[str, Callable[[], Plugin]] = {NAME: lambda: plugin, TargetsFirst.name: lambda: TargetsFirst(system)}
    return Registry({**registry.types, **ours}, registry.defaults)
