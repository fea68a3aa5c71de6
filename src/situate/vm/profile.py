"""The scheduler's profile that vm runs on: the default plugins with the ledger's beside them (C31)."""

from __future__ import annotations

from typing import Final

from situate.framework.configuration import (
    DisabledPlugin,
    EnabledPlugin,
    KubeSchedulerConfiguration,
    Plugins,
    PluginSet,
    SchedulerProfile,
)
from situate.framework.profiles import Registry
from situate.vm.plugin import NAME, VirtualMachines

_SCORES_OFF: Final = ("ImageLocality", "NodeResourcesBalancedAllocation", "NodeResourcesFit")
"""Their say would work against the ledger's: it prefers nodes that are used up to a point, and knows what pods hold."""


def configuration(scheduler_name: str) -> KubeSchedulerConfiguration:
    """In KubeSchedulerConfiguration's own terms; every node is scored."""
    off = tuple(DisabledPlugin(name) for name in _SCORES_OFF)
    plugins = Plugins(multi_point=PluginSet(enabled=(EnabledPlugin(NAME),)), score=PluginSet(disabled=off))
    profile = SchedulerProfile(scheduler_name=scheduler_name, plugins=plugins)
    return KubeSchedulerConfiguration(percentage_of_nodes_to_score=100, profiles=(profile,))


def with_ledger(registry: Registry, plugin: VirtualMachines) -> Registry:
    """Plugins that a profile may name, and this one."""
    return Registry({**registry.types, NAME: lambda: plugin}, registry.defaults)
