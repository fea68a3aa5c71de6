"""The stand-in scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from situate.cluster.controllers.nodes import node
from situate.cluster.controllers.pods import condition
from situate.cluster.controllers.scheduler import pod_requests
from tests.cluster.controllers.world import World, pod


def asking(name: str, cpu: str = "", **spec: Any) -> dict[str, Any]:
    made = pod(name)
    container = {"name": "app", "image": "x"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}  # type: ignore[assignment]  # JSON
    made["spec"] = {"containers": [container], **spec}
    return made


def where(world: World, name: str) -> str:
    found = world.get("pods", name)
    assert found is not None
    result: str = found["spec"].get("nodeName", "")
    return result


def reason(world: World, name: str) -> str:
    found = world.get("pods", name)
    assert found is not None
    told = condition(found, "PodScheduled")
    return told["message"] if told else ""


def cluster(*nodes: dict[str, Any]) -> World:
    world = World(node_count=0)
    for entry in nodes:
        world.create("nodes", entry)
    world.run(1)
    return world


def test_pods_go_to_the_emptier_node() -> None:
    world = cluster(node("a", cpu="4"), node("b", cpu="4"))
    for number in range(4):
        world.create("pods", asking(f"p{number}", "1"))
        world.run(1)
    assert [where(world, f"p{number}") for number in range(4)] == ["a", "b", "a", "b"]


EXPRESSIONS: list[tuple[dict[str, Any], str]] = [
    ({"key": "disk", "operator": "In", "values": ["ssd"]}, "b"),
    ({"key": "disk", "operator": "NotIn", "values": ["ssd"]}, "a"),
    ({"key": "disk", "operator": "Exists"}, "b"),
    ({"key": "disk", "operator": "DoesNotExist"}, "a"),
    ({"key": "generation", "operator": "Gt", "values": ["3"]}, "b"),
    ({"key": "generation", "operator": "Lt", "values": ["3"]}, "a"),
]


def _affinity(**expression: Any) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"nodeSelector": {"disk": "ssd"}}, "b", id="node selector"),
        pytest.param(
            {"tolerations": [{"key": "gpu", "operator": "Exists"}], "nodeSelector": {"gpu": "1"}}, "c", id="toleration"
        ),
        pytest.param({"nodeSelector": {"gpu": "1"}}, "", id="untolerated taint"),
        pytest.param({"nodeSelector": {"cordoned": "1"}}, "", id="cordon"),
        pytest.param({"schedulingGates": [{"name": "wait"}]}, "", id="gated"),
        pytest.param({"schedulerName": "other"}, "", id="another scheduler's"),
        *[pytest.param(_affinity(**expression), want, id=expression["operator"]) for expression, want in EXPRESSIONS],
    ],
)
def test_constraints(spec: dict[str, Any], want: str) -> None:
    tainted = node("c", labels={"gpu": "1"})
    tainted["spec"] = {"taints": [{"key": "gpu", "value": "1", "effect": "NoSchedule"}]}
    cordoned = node("d", labels={"cordoned": "1"})
    cordoned["spec"] = {"unschedulable": True}
    world = cluster(
        node("a", labels={"generation": "2"}), node("b", labels={"disk": "ssd", "generation": "4"}), tainted, cordoned
    )
    world.create("pods", asking("p", **spec))
    world.run(5)
    assert where(world, "p") == want


def preferring(weight: int, *values: str) -> dict[str, Any]:
    term = {"key": "disk", "operator": "In", "values": list(values)}
    return {"weight": weight, "preference": {"matchExpressions": [term]}}


@pytest.mark.parametrize(
    ("preferred", "taint", "want"),
    [
        pytest.param([preferring(1, "ssd")], "", {"b"}, id="a preference outweighs room"),
        pytest.param([preferring(1, "ssd"), preferring(2, "hdd")], "", {"a"}, id="the heavier one"),
        pytest.param([preferring(1, "ssd", "hdd"), preferring(1, "ssd")], "", {"b"}, id="weights add up"),
        pytest.param([preferring(1, "tape")], "", {"a", "b"}, id="one that no node fulfils"),
        pytest.param([], "PreferNoSchedule", {"b"}, id="a soft taint outweighs room"),
        pytest.param([preferring(100, "hdd")], "PreferNoSchedule", {"b"}, id="and a preference"),
    ],
)
def test_preferences(preferred: list[dict[str, Any]], taint: str, want: set[str]) -> None:
    first = node("a", cpu="8", labels={"disk": "hdd"})
    first["spec"] = {"taints": [{"key": "slow", "effect": taint}]} if taint else {}
    world = cluster(first, node("b", cpu="8", labels={"disk": "ssd"}))
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    for number in range(6):
        world.create("pods", asking(f"p{number}", "1", affinity=affinity))
    world.run(2)
    assert {where(world, f"p{number}") for number in range(6)} == want


def nominate(world: World, name: str, host: str | None) -> None:
    world.patch("pods", name, {"status": {"nominatedNodeName": host}})
    world.run(1)


def gated(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    return asking(name, cpu, schedulingGates=[{"name": "wait"}], **spec)


@pytest.mark.parametrize(
    ("holder", "other", "want"),
    [
        pytest.param({}, {}, "", id="against its equals"),
        pytest.param({"priority": 5}, {}, "", id="against lower ones"),
        pytest.param({}, {"priority": 5}, "a", id="not against higher ones"),
        pytest.param({"schedulerName": "another"}, {}, "a", id="not for another scheduler's"),
    ],
)
def test_a_nomination_holds_room(holder: dict[str, Any], other: dict[str, Any], want: str) -> None:
    world = cluster(node("a", cpu="4"))
    world.create("pods", gated("holder", "3", **holder))
    nominate(world, "holder", "a")
    world.create("pods", asking("other", "2", **other))
    world.run(2)
    assert where(world, "other") == want
    nominate(world, "holder", None)
    assert where(world, "other") == "a", "the room is free again"


def test_a_nominated_pod_takes_the_room_that_it_holds() -> None:
    world = cluster(node("a", cpu="4"), node("b", cpu="8"))
    world.create("pods", gated("holder", "3"))
    nominate(world, "holder", "a")
    world.patch("pods", "holder", {"spec": {"schedulingGates": None}})
    world.run(2)
    assert where(world, "holder") == "a"


def test_the_sentence_counts_nodes_by_reason() -> None:
    tainted, cordoned = node("a"), node("b")
    tainted["spec"] = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    cordoned["spec"] = {"unschedulable": True}
    world = cluster(tainted, cordoned, node("c", cpu="1"), node("d", cpu="1", pods=0))
    world.create("pods", asking("p", "2"))
    world.run(5)
    want = (
        "0/4 nodes are available: 1 Too many pods, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable, "
        "2 Insufficient cpu."
    )
    assert reason(world, "p") == want
    (event,) = (entry for entry in world.list("events") if entry["reason"] == "FailedScheduling")
    assert (event["message"], event["type"]) == (want, "Warning")


def test_no_nodes() -> None:
    world = cluster()
    world.create("pods", asking("p"))
    world.run(1)
    assert reason(world, "p") == "no nodes available to schedule pods"


def test_a_waiting_pod_is_placed_when_room_comes() -> None:
    world = cluster(node("a", cpu="1"))
    world.create("pods", asking("first", "1"))
    world.run(1)
    world.create("pods", asking("second", "1"))
    world.create("pods", asking("third", "1"))
    world.run(10)
    assert where(world, "second") == where(world, "third") == ""
    world.delete("pods", "first")
    world.run(5)
    assert where(world, "second") == "a"
    world.create("nodes", node("b", cpu="1"))
    world.run(5)
    assert where(world, "third") == "b"


def test_no_node_is_ever_overfull() -> None:
    world = cluster(node("a", cpu="4", pods=3), node("b", cpu="2"))
    for number in range(12):
        world.create("pods", asking(f"p{number}", "1"))
    world.run(10)
    placed = [where(world, f"p{number}") for number in range(12)]
    assert (placed.count("a"), placed.count("b"), placed.count("")) == (3, 2, 7)


@pytest.mark.parametrize(
    ("spec", "cpu"),
    [
        pytest.param({"containers": [{"c": "1"}, {"c": "500m"}]}, 1500, id="containers add up"),
        pytest.param({"containers": [{"c": "1"}], "init": [{"c": "3"}, {"c": "2"}]}, 3000, id="largest init container"),
        pytest.param({"containers": [{"c": "1"}], "init": [{"c": "1", "always": 1}]}, 2000, id="sidecar adds"),
        pytest.param(
            {"containers": [{"c": "1"}], "init": [{"c": "1", "always": 1}, {"c": "2"}]}, 3000, id="init beside sidecar"
        ),
    ],
)
def test_requests_of_a_pod(spec: dict[str, Any], cpu: int) -> None:
    def container(entry: dict[str, Any]) -> dict[str, Any]:
        extra = {"restartPolicy": "Always"} if "always" in entry else {}
        return {"resources": {"requests": {"cpu": entry["c"]}}, **extra}

    made = {"containers": [container(entry) for entry in spec["containers"]]}
    made["initContainers"] = [container(entry) for entry in spec.get("init", ())]
    assert pod_requests({"spec": made})["cpu"] == cpu
