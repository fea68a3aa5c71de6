"""What a KubeSchedulerConfiguration may say about extenders, and what it then means."""

from __future__ import annotations

from typing import Any

import pytest

from situate.framework.engine.decisions import Placed, Refused
from situate.framework.engine.engine import Engine
from situate.framework.plugin_api.configuration import KubeSchedulerConfiguration
from situate.framework.profile.profiles import profiles_of
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node, NodeStatus
from situate.objects.kinds.pods import Container, Pod, PodSpec, ResourceRequirements
from situate.objects.settings.section import parse_section
from situate.objects.values.quantity import parse_quantity
from situate.plugins.registry import registry

LICENCE = "example.com/licence"


def managing(*names: str, ignored: bool = False) -> dict[str, Any]:
    return {"managedResources": [{"name": name, "ignoredByScheduler": ignored} for name in names]}


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"urlPrefix": "extender:80"}, "extenders[0].urlPrefix"),
        ({"prioritizeVerb": "score"}, "extenders[0].weight"),
        (managing("cpu"), "extenders[0].managedResources[0].name"),
        (managing("kubernetes.io/batch"), "extenders[0].managedResources[0].name"),
        (managing(LICENCE, LICENCE), "extenders[0].managedResources[1].name"),
        ({"httpTimeout": "-1s"}, "extenders[0].httpTimeout"),
        ({"enableHttps": True}, "extenders[0].enableHttps"),
        ({"tlsConfig": {"caData": "not base64!"}}, "extenders[0].tlsConfig.caData"),
        ({"tlsConfig": {"insecure": True, "caFile": "/ca"}}, "extenders[0].tlsConfig.insecure"),
        ({"tlsConfig": {"certFile": "/cert"}}, "extenders[0].tlsConfig.keyFile"),
        ({"tlsConfig": {"keyData": "cGVt"}}, "extenders[0].tlsConfig.certFile"),
    ],
)
def test_mistakes_about_an_extender_are_named(fields: dict[str, Any], path: str) -> None:
    _, mistakes = parse_section({"extenders": [{"urlPrefix": "http://extender", **fields}]}, KubeSchedulerConfiguration)
    assert [mistake.path for mistake in mistakes] == [path]


@pytest.mark.parametrize("field", [{"bindVerb": "bind"}, managing(LICENCE)])
def test_only_one_extender_binds_and_only_one_manages_a_resource(field: dict[str, Any]) -> None:
    extenders = [{"urlPrefix": f"http://{name}", **field} for name in ("one", "two")]
    _, mistakes = parse_section({"extenders": extenders}, KubeSchedulerConfiguration)
    assert [mistake.path.split(".")[0] for mistake in mistakes] == ["extenders[1]"]


def test_everything_that_kube_scheduler_takes_is_taken() -> None:
    extender = {
        "urlPrefix": "https://extender/prefix",
        "filterVerb": "filter",
        "preemptVerb": "preempt",
        "prioritizeVerb": "prioritize",
        "weight": 5,
        "bindVerb": "bind",
        "enableHTTPS": True,
        "tlsConfig": {"serverName": "extender", "certFile": "/cert", "keyData": "cGVt", "caData": "cGVt"},
        "httpTimeout": "30s",
        "nodeCacheCapable": True,
        "managedResources": [{"name": LICENCE, "ignoredByScheduler": True}],
        "ignorable": True,
    }
    configuration, mistakes = parse_section({"extenders": [extender]}, KubeSchedulerConfiguration)
    assert not mistakes
    assert configuration is not None
    assert configuration.extenders[0].http_timeout == 30.0


def placed(arguments: dict[str, Any] | None, *, ignored: bool, asks: str = LICENCE) -> bool:
    """Whether a pod that asks for something that no node has is placed."""
    profile: dict[str, Any] = {"schedulerName": "here"}
    if arguments is not None:
        profile["pluginConfig"] = [{"name": "NodeResourcesFit", "args": arguments}]
    wire = {"profiles": [profile], "extenders": [{"urlPrefix": "http://extender"} | managing(LICENCE, ignored=ignored)]}
    configuration, mistakes = parse_section(wire, KubeSchedulerConfiguration)
    assert configuration is not None, mistakes
    profiles, mistakes = profiles_of(configuration, registry(())[0])
    assert not mistakes
    engine = Engine(profiles)
    room = {name: parse_quantity("8") for name in ("cpu", "memory", "pods")}
    engine.set_node(Node(ObjectMeta(name="a"), status=NodeStatus(allocatable=room)), 0)
    container = Container(resources=ResourceRequirements(requests={asks: parse_quantity("1")}))
    spec = PodSpec(scheduler_name="here", containers=(container,))
    engine.set_pod(Pod(ObjectMeta(name="p", namespace="default", uid="p"), spec), 0)
    decision = engine.schedule(0)
    assert isinstance(decision, Placed | Refused)
    return isinstance(decision, Placed)


@pytest.mark.parametrize("arguments", [None, {"scoringStrategy": {"type": "MostAllocated"}}])
def test_resources_that_an_extender_looks_after_alone_are_not_counted(arguments: dict[str, Any] | None) -> None:
    assert not placed(arguments, ignored=False)
    assert placed(arguments, ignored=True)


def test_they_take_the_place_of_the_ones_in_the_arguments() -> None:
    arguments = {"ignoredResources": ["example.com/other"]}
    assert placed(arguments, ignored=False, asks="example.com/other")
    assert not placed(arguments, ignored=True, asks="example.com/other")
