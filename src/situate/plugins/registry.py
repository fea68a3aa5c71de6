"""The plugins that a configuration may name: the built-in ones, and external ones.

Built-in plugins are registered here and not as entry points. A checkout, a zip and a frozen program therefore have them
too, and no other installed package can take their names. External plugins are loaded by name from the entry point group
`situate.plugins`. Each entry point is a class as in `situate.framework.plugin_api.plugin`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import EntryPoint
from typing import Any, Final

from situate.framework.plugin_api.configuration import EnabledPlugin
from situate.framework.profile.profiles import Registry
from situate.objects.settings.section import Mistake
from situate.plugins.default_binder import DefaultBinder
from situate.plugins.default_preemption import DefaultPreemption
from situate.plugins.dynamic_resources import DynamicResources
from situate.plugins.gpu_share.best_fit_score import BestFitScore
from situate.plugins.gpu_share.dot_product_score import DotProductScore
from situate.plugins.gpu_share.fgd_score import FGDScore
from situate.plugins.gpu_share.gpu_clustering_score import GpuClusteringScore
from situate.plugins.gpu_share.gpu_packing_score import GpuPackingScore
from situate.plugins.gpu_share.gpu_share import GpuShare
from situate.plugins.gpu_share.random_score import RandomScore
from situate.plugins.image_locality import ImageLocality
from situate.plugins.inter_pod_affinity import InterPodAffinity
from situate.plugins.node_affinity import NodeAffinity
from situate.plugins.node_declared_features import NodeDeclaredFeatures
from situate.plugins.node_name import NodeName
from situate.plugins.node_ports import NodePorts
from situate.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from situate.plugins.node_resources_fit import NodeResourcesFit
from situate.plugins.node_unschedulable import NodeUnschedulable
from situate.plugins.node_volume_limits import NodeVolumeLimits
from situate.plugins.pod_topology_spread import PodTopologySpread
from situate.plugins.priority_sort import PrioritySort
from situate.plugins.scheduling_gates import SchedulingGates
from situate.plugins.taint_toleration import TaintToleration
from situate.plugins.volume_binding import VolumeBinding
from situate.plugins.volume_restrictions import VolumeRestrictions
from situate.plugins.volume_zone import VolumeZone

GROUP: Final = "situate.plugins"

PluginType = Callable[..., Any]
"""A plugin class; `situate.framework.profile.profiles` describes its construction."""

_BUILT_IN: Final[tuple[tuple[PluginType, int], ...]] = (
    (SchedulingGates, 0),
    (PrioritySort, 0),
    (NodeUnschedulable, 0),
    (NodeName, 0),
    (TaintToleration, 3),
    (NodeAffinity, 2),
    (NodePorts, 0),
    (NodeResourcesFit, 1),
    (VolumeRestrictions, 0),
    (NodeVolumeLimits, 0),
    (VolumeBinding, 0),
    (VolumeZone, 0),
    (PodTopologySpread, 2),
    (InterPodAffinity, 2),
    (DynamicResources, 2),
    (DefaultPreemption, 0),
    (NodeResourcesBalancedAllocation, 1),
    (ImageLocality, 1),
    (DefaultBinder, 0),
    (NodeDeclaredFeatures, 0),
)
"""With their weights, 0 if upstream has none; in upstream's order (apis/config/v1 default_plugins.go)."""


_OPTIONAL: Final[tuple[PluginType, ...]] = (
    GpuShare,
    RandomScore,
    DotProductScore,
    GpuClusteringScore,
    GpuPackingScore,
    BestFitScore,
    FGDScore,
)
"""Plugins that are active only if a profile names them."""


def registry(others: Iterable[EntryPoint]) -> tuple[Registry, tuple[Mistake, ...]]:
    """Return all plugins, and the mistakes of external plugins that were left out.

    `others` are the entry points of group `GROUP`.
    """
    types = {_name(make): make for make in (*(make for make, _ in _BUILT_IN), *_OPTIONAL)}
    mistakes: list[Mistake] = []
    for entry in sorted(others, key=lambda each: (each.name, each.value)):
        loaded = _load_plugin(entry, types)
        if isinstance(loaded, Mistake):
            mistakes.append(loaded)
        else:
            types[entry.name] = loaded
    defaults = tuple(EnabledPlugin(_name(make), weight or None) for make, weight in _BUILT_IN)
    return Registry(types, defaults), tuple(mistakes)


def _load_plugin(entry: EntryPoint, types: Mapping[str, PluginType]) -> PluginType | Mistake:
    path = f"entry point {entry.name} of group {GROUP}"
    if entry.name in types:
        return Mistake(path, entry.value, "a name that no other plugin has", "rename the plugin")
    try:
        loaded: Any = entry.load()
    except Exception as problem:
        return Mistake(path, entry.value, "a plugin class that can be imported", f"{type(problem).__name__}: {problem}")
    if not callable(loaded) or _name(loaded) != entry.name:
        return Mistake(path, entry.value, f"a class with the `name` {entry.name!r}")
    make: PluginType = loaded
    return make


def _name(make: PluginType) -> str:
    """Return the plugin's name; empty if the object is not a plugin."""
    name: str = getattr(make, "name", "")
    return name
