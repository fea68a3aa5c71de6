"""Arguments that kube-scheduler refuses are refused, with the path and what may stand there; what it takes is taken."""

from __future__ import annotations

from typing import Any

import pytest

from situate.objects.settings.section import parse_section
from situate.plugins.default_preemption import DefaultPreemptionArgs
from situate.plugins.dynamic_resources import DynamicResourcesArgs
from situate.plugins.inter_pod_affinity import InterPodAffinityArgs
from situate.plugins.node_affinity import NodeAffinityArgs
from situate.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocationArgs
from situate.plugins.node_resources_fit import NodeResourcesFitArgs
from situate.plugins.pod_topology_spread_args import PodTopologySpreadArgs
from situate.plugins.volume_binding_args import VolumeBindingArgs

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def strategy(**fields: Any) -> dict[str, Any]:
    return {"scoringStrategy": fields}


def constraint(**fields: Any) -> dict[str, Any]:
    return {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", **fields}


def listed(*constraints: dict[str, Any]) -> dict[str, Any]:
    return {"defaultingType": "List", "defaultConstraints": list(constraints)}


def demand(**requirement: Any) -> dict[str, Any]:
    return {"addedAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}}


def field(**requirement: Any) -> dict[str, Any]:
    preference = {"preference": {"matchFields": [requirement]}, "weight": 1}
    return {"addedAffinity": {PREFERRED: [preference]}}


TERM = f"addedAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0]"
FIELD = f"addedAffinity.{PREFERRED}[0].preference.matchFields[0]"


@pytest.mark.parametrize(
    ("kind", "wire", "path"),
    [
        (
            NodeResourcesFitArgs,
            strategy(resources=[{"name": "cpu", "weight": 0}]),
            "scoringStrategy.resources[0].weight",
        ),
        (
            NodeResourcesFitArgs,
            strategy(resources=[{"name": "cpu", "weight": 101}]),
            "scoringStrategy.resources[0].weight",
        ),
        (NodeResourcesFitArgs, strategy(type="Fullest"), "scoringStrategy.type"),
        (NodeResourcesFitArgs, strategy(type="RequestedToCapacityRatio"), "scoringStrategy.requestedToCapacityRatio"),
        (
            NodeResourcesFitArgs,
            strategy(requestedToCapacityRatio={"shape": [{}]}),
            "scoringStrategy.requestedToCapacityRatio",
        ),
        (
            NodeResourcesFitArgs,
            strategy(type="RequestedToCapacityRatio", requestedToCapacityRatio={"shape": []}),
            "scoringStrategy.requestedToCapacityRatio.shape",
        ),
        (
            NodeResourcesFitArgs,
            strategy(
                type="RequestedToCapacityRatio",
                requestedToCapacityRatio={"shape": [{"utilization": 9}, {"utilization": 9}]},
            ),
            "scoringStrategy.requestedToCapacityRatio.shape[1].utilization",
        ),
        (
            NodeResourcesFitArgs,
            strategy(type="RequestedToCapacityRatio", requestedToCapacityRatio={"shape": [{"score": 11}]}),
            "scoringStrategy.requestedToCapacityRatio.shape[0].score",
        ),
        (NodeResourcesFitArgs, {"ignoredResources": ["not a name"]}, "ignoredResources[0]"),
        (NodeResourcesFitArgs, {"ignoredResourceGroups": ["example.com/thing"]}, "ignoredResourceGroups[0]"),
        (NodeResourcesBalancedAllocationArgs, {"resources": [{"name": "cpu", "weight": 2}]}, "resources[0].weight"),
        (NodeResourcesBalancedAllocationArgs, {"resources": [{"name": "cpu"}] * 2}, "resources[1].name"),
        (InterPodAffinityArgs, {"hardPodAffinityWeight": 101}, "hardPodAffinityWeight"),
        (InterPodAffinityArgs, {"hardPodAffinityWeight": -1}, "hardPodAffinityWeight"),
        (InterPodAffinityArgs, {"hardPodAffinityWieght": 1}, "hardPodAffinityWieght"),
        (DefaultPreemptionArgs, {"minCandidateNodesPercentage": 101}, "minCandidateNodesPercentage"),
        (DefaultPreemptionArgs, {"minCandidateNodesAbsolute": -1}, "minCandidateNodesAbsolute"),
        (
            DefaultPreemptionArgs,
            {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
            "minCandidateNodesPercentage",
        ),
        (VolumeBindingArgs, {"bindTimeoutSeconds": -1}, "bindTimeoutSeconds"),
        (VolumeBindingArgs, {"bindTimeoutSeconds": "600s"}, "bindTimeoutSeconds"),
        (VolumeBindingArgs, {"shape": []}, "shape"),
        (VolumeBindingArgs, {"shape": [{"utilization": 9}, {"utilization": 9}]}, "shape[1].utilization"),
        (VolumeBindingArgs, {"shape": [{"utilization": 101}]}, "shape[0].utilization"),
        (DynamicResourcesArgs, {"filterTimeout": "-1s"}, "filterTimeout"),
        (DynamicResourcesArgs, {"bindingTimeout": "500ms"}, "bindingTimeout"),
        (PodTopologySpreadArgs, {"defaultingType": "Own"}, "defaultingType"),
        (PodTopologySpreadArgs, {**listed(constraint()), "defaultingType": "System"}, "defaultingType"),
        (PodTopologySpreadArgs, listed(constraint(maxSkew=0)), "defaultConstraints[0].maxSkew"),
        (PodTopologySpreadArgs, listed(constraint(topologyKey="")), "defaultConstraints[0].topologyKey"),
        (PodTopologySpreadArgs, listed(constraint(whenUnsatisfiable="No")), "defaultConstraints[0].whenUnsatisfiable"),
        (PodTopologySpreadArgs, listed(constraint(labelSelector={})), "defaultConstraints[0].labelSelector"),
        (PodTopologySpreadArgs, listed(constraint(), constraint()), "defaultConstraints[1]"),
        (NodeAffinityArgs, demand(key="zone", operator="Near", values=["a"]), f"{TERM}.operator"),
        (NodeAffinityArgs, demand(key="zone", operator="In"), f"{TERM}.values"),
        (NodeAffinityArgs, demand(key="zone", operator="In", values=["not a value"]), f"{TERM}.values[0]"),
        (NodeAffinityArgs, demand(key="zone", operator="Exists", values=["a"]), f"{TERM}.values"),
        (NodeAffinityArgs, demand(key="zone", operator="Gt", values=["much"]), f"{TERM}.values"),
        (NodeAffinityArgs, demand(key="", operator="Exists"), f"{TERM}.key"),
        (NodeAffinityArgs, field(key="metadata.uid", operator="In", values=["a"]), f"{FIELD}.key"),
        (NodeAffinityArgs, field(key="metadata.name", operator="Exists", values=["a"]), f"{FIELD}.operator"),
        (NodeAffinityArgs, field(key="metadata.name", operator="In", values=["a", "b"]), f"{FIELD}.values"),
    ],
)
def test_refused(kind: Any, wire: dict[str, Any], path: str) -> None:
    arguments, mistakes = parse_section(wire, kind)
    assert arguments is None
    assert path in [mistake.path for mistake in mistakes]


@pytest.mark.parametrize(
    ("kind", "wire"),
    [
        (NodeResourcesFitArgs, {"ignoredResources": ["example.com/a"], "ignoredResourceGroups": ["example.com"]}),
        (NodeResourcesFitArgs, strategy(type="MostAllocated", resources=[{"name": "cpu", "weight": 100}] * 2)),
        (InterPodAffinityArgs, {"hardPodAffinityWeight": 0, "ignorePreferredTermsOfExistingPods": True}),
        (DefaultPreemptionArgs, {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 1}),
        (PodTopologySpreadArgs, listed(constraint(), constraint(whenUnsatisfiable="DoNotSchedule"))),
        (PodTopologySpreadArgs, {"defaultingType": "List"}),
        (VolumeBindingArgs, {"bindTimeoutSeconds": 0, "shape": [{"score": 10}, {"utilization": 100, "score": 0}]}),
        (DynamicResourcesArgs, {"filterTimeout": "0s", "bindingTimeout": "1s"}),
        (NodeAffinityArgs, demand(key="gen", operator="Gt", values=["-3"])),
        (NodeAffinityArgs, field(key="metadata.name", operator="NotIn", values=["a"])),
    ],
)
def test_taken(kind: Any, wire: dict[str, Any]) -> None:
    arguments, mistakes = parse_section(wire, kind)
    assert not mistakes
    assert arguments is not None
