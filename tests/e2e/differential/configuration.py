"""The configuration that both sides read: profiles that between them set every argument of every plugin."""

from __future__ import annotations

from typing import Any

from tests.e2e.differential.extenders import extenders_at

GPU = "example.com/gpu"
IGNORED = "ignored.example.com/port"


def _resources(*weights: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"name": name, "weight": weight} for name, weight in weights]


def _fit(kind: str, *weights: tuple[str, int], **more: Any) -> dict[str, Any]:
    strategy = {"type": kind, "resources": _resources(*weights), **more}
    return {"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}


def _points(*points: tuple[int, int]) -> dict[str, Any]:
    return {"shape": [{"utilization": utilization, "score": score} for utilization, score in points]}


def _selects(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


PROFILES: list[dict[str, Any]] = [
    {"schedulerName": "default-scheduler"},
    {
        "schedulerName": "packer",
        "pluginConfig": [
            _fit("MostAllocated", ("cpu", 2), ("memory", 1), (GPU, 5)),
            {
                "name": "NodeResourcesBalancedAllocation",
                "args": {"resources": _resources(("cpu", 1), ("memory", 1), (GPU, 1))},
            },
            {"name": "PodTopologySpread", "args": {"defaultingType": "List"}},
        ],
    },
    {
        "schedulerName": "ratio",
        "pluginConfig": [
            _fit(
                "RequestedToCapacityRatio",
                ("cpu", 2),
                ("memory", 1),
                (GPU, 5),
                requestedToCapacityRatio=_points((0, 10), (30, 2), (70, 9), (100, 0)),
            ),
            {"name": "NodeResourcesBalancedAllocation", "args": {"resources": _resources(("cpu", 1), (GPU, 1))}},
        ],
        "plugins": {"score": {"disabled": [{"name": "ImageLocality"}]}},
    },
    {
        "schedulerName": "strict",
        "pluginConfig": [
            {
                "name": "NodeAffinity",
                "args": {
                    "addedAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [_selects("kind", "NotIn", "c"), _selects("gen", "Gt", "2")]
                        },
                        "preferredDuringSchedulingIgnoredDuringExecution": [
                            {"weight": 7, "preference": _selects("kind", "In", "a")}
                        ],
                    }
                },
            },
            {
                "name": "PodTopologySpread",
                "args": {
                    "defaultingType": "List",
                    "defaultConstraints": [
                        {
                            "maxSkew": 2,
                            "topologyKey": "topology.kubernetes.io/zone",
                            "whenUnsatisfiable": "DoNotSchedule",
                        },
                        {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"},
                    ],
                },
            },
        ],
    },
    {
        "schedulerName": "neighbourly",
        "pluginConfig": [
            {
                "name": "InterPodAffinity",
                "args": {"hardPodAffinityWeight": 50, "ignorePreferredTermsOfExistingPods": True},
            },
            {
                "name": "NodeResourcesFit",
                "args": {"ignoredResources": [GPU], "ignoredResourceGroups": ["ignored.example.com"]},
            },
        ],
    },
    {
        "schedulerName": "weighted",
        "plugins": {
            "multiPoint": {
                "disabled": [{"name": "ImageLocality"}],
                "enabled": [{"name": "ImageLocality", "weight": 9}],
            },
            "score": {"disabled": [{"name": "TaintToleration"}], "enabled": [{"name": "TaintToleration", "weight": 1}]},
        },
    },
]
SCHEDULERS = tuple(str(profile["schedulerName"]) for profile in PROFILES)


def configuration(extenders: str = "") -> dict[str, Any]:
    """`extenders`: the URL at which they answer; there are none without it."""
    return {**_CONFIGURATION, **({"extenders": extenders_at(extenders)} if extenders else {})}


_CONFIGURATION: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "percentageOfNodesToScore": 100,
    "leaderElection": {"leaderElect": False},
    "clientConnection": {"qps": 5000, "burst": 5000},
    "profiles": PROFILES,
}
