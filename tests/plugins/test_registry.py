from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import ClassVar

from situate.framework.plugin_api.configuration import KubeSchedulerConfiguration
from situate.framework.profile.profile import WeightedPlugin
from situate.framework.profile.profiles import profiles_of
from situate.objects.settings.section import parse_section
from situate.plugins.registry import GROUP, registry


class Mine:
    """A third party's plugin."""

    name: ClassVar[str] = "Mine"


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name, value, GROUP)


def test_the_default_profile_is_upstreams() -> None:
    shipped, mistakes = registry(())
    assert not mistakes
    (profile,), wrong = profiles_of(KubeSchedulerConfiguration(), shipped)
    assert not wrong
    assert [plugin.name for plugin in profile.filter] == [
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
        "NodeDeclaredFeatures",
    ]
    assert [plugin.name for plugin in shipped.defaults][8:16] == [
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
        "DynamicResources",
        "DefaultPreemption",
    ]
    assert [plugin.name for plugin in profile.reserve] == ["VolumeBinding"]
    assert [plugin.name for plugin in profile.pre_bind] == ["VolumeBinding"]
    assert {each.name: each.weight for each in profile.score} == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "VolumeBinding": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }
    assert all(isinstance(each, WeightedPlugin) for each in profile.score)
    assert profile.queue_sort.name == "PrioritySort"
    assert [plugin.name for plugin in profile.pre_enqueue] == ["SchedulingGates"]
    assert [plugin.name for plugin in profile.post_filter] == ["DynamicResources", "DefaultPreemption"]
    assert [plugin.name for plugin in profile.bind] == ["DefaultBinder"]


def test_arguments_reach_the_plugin_and_wrong_ones_are_named() -> None:
    shipped, _ = registry(())
    wire = {
        "profiles": [
            {
                "pluginConfig": [
                    {"name": "PodTopologySpread", "args": {"defaultConstraints": [{"maxSkew": 0}]}},
                    {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 101}},
                    {"name": "DefaultPreemption", "args": {"minCandidateNodesPercentage": 101}},
                    {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": -1, "shape": []}},
                    {"name": "DynamicResources", "args": {"filterTimeout": "soon"}},
                    {"name": "VolumeZone", "args": {"zones": "all"}},
                ]
            }
        ]
    }
    configuration, mistakes = parse_section(wire, KubeSchedulerConfiguration)
    assert configuration is not None, mistakes
    _, wrong = profiles_of(configuration, shipped)
    args = "profiles[0].pluginConfig[{}].args.{}"
    assert {mistake.path for mistake in wrong} == {
        args.format(0, "defaultingType"),
        args.format(0, "defaultConstraints[0].maxSkew"),
        args.format(0, "defaultConstraints[0].topologyKey"),
        args.format(0, "defaultConstraints[0].whenUnsatisfiable"),
        args.format(1, "hardPodAffinityWeight"),
        args.format(2, "minCandidateNodesPercentage"),
        args.format(3, "bindTimeoutSeconds"),
        args.format(4, "filterTimeout"),
        args.format(5, "")[:-1],
    }


def test_a_plugin_of_others_is_found_by_its_name() -> None:
    all_plugins, mistakes = registry([entry("Mine", "tests.plugins.test_registry:Mine")])
    assert not mistakes
    assert all_plugins.types["Mine"]().name == "Mine"
    assert "Mine" not in {plugin.name for plugin in all_plugins.defaults}, "it has to be enabled"


def test_a_plugin_that_cannot_be_loaded_is_named_and_left_out() -> None:
    all_plugins, mistakes = registry(
        [
            entry("Gone", "no.such.module:Gone"),
            entry("Missing", "tests.plugins.test_registry:Missing"),
            entry("NodeName", "tests.plugins.test_registry:Mine"),
            entry("Other", "tests.plugins.test_registry:Mine"),
        ]
    )
    assert [mistake.path.split()[2] for mistake in mistakes] == ["Gone", "Missing", "NodeName", "Other"]
    assert "ModuleNotFoundError" in str(mistakes[0])
    assert {"Gone", "Missing", "Other"}.isdisjoint(all_plugins.types)
    assert all_plugins.types["NodeName"] is not Mine
