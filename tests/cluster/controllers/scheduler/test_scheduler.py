"""The stand-in scheduler."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from situate.cluster.controllers import WriteAnswer
from situate.cluster.controllers.machinery.actions import Bind
from situate.cluster.controllers.node.nodes import node
from situate.cluster.controllers.node.pods import condition
from tests.cluster.controllers.world import World, pod, stateful_set


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
        "2 Insufficient cpu. no new claims to deallocate, preemption: 0/4 nodes are available: "
        "4 Preemption is not helpful for scheduling."
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


def test_pods_of_a_set_are_spread_over_zones_before_they_fill_a_node() -> None:
    world = cluster(*(node(name, cpu="64", labels={"topology.kubernetes.io/zone": name}) for name in "abc"))
    world.create("statefulsets.apps", stateful_set(replicas=6))
    world.run(60)
    assert Counter(entry["spec"]["nodeName"] for entry in world.list("pods")) == {"a": 2, "b": 2, "c": 2}


def test_pods_that_repel_each_other_stand_apart() -> None:
    world = cluster(*(node(name, labels={"kubernetes.io/hostname": name}) for name in "ab"))
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for number in range(3):
        made = asking(f"p{number}", affinity=apart)
        made["metadata"]["labels"] = {"app": "x"}
        world.create("pods", made)
    world.run(2)
    assert [where(world, f"p{number}") for number in range(3)] == ["a", "b", ""]
    assert reason(world, "p2").startswith("0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules. ")


def test_a_pod_of_more_importance_gets_the_room_of_lesser_ones() -> None:
    world = cluster(node("a", cpu="2"), node("b", cpu="2"))
    for name, priority in (("small", 5), ("least", 1)):
        world.create("pods", asking(name, "2", priority=priority))
        world.run(5)
    world.create("pods", asking("urgent", "2", priority=10))
    world.run(60)
    assert world.get("pods", "least") is None
    assert where(world, "urgent") == "b"
    assert where(world, "small") == "a"
    said = {entry["reason"]: entry["message"] for entry in world.list("events")}
    assert said["Preempted"].endswith(" on node b")
    assert said["FailedScheduling"].startswith("0/2 nodes are available: 2 Insufficient cpu.")


def test_a_pod_that_could_not_be_bound_gives_its_room_back_and_is_tried_again() -> None:
    world = cluster(node("a", cpu="1"))
    world.refuse = lambda action: WriteAnswer(500, "InternalError", "not now") if isinstance(action, Bind) else None
    world.create("pods", asking("p", "1"))
    world.run(5)
    assert where(world, "p") == ""
    world.refuse = lambda _: None
    world.run(30)
    assert where(world, "p") == "a"


def test_a_pod_that_cannot_be_read_is_told_so_and_stops_nobody() -> None:
    world = cluster(node("a", cpu="1"))
    world.create("pods", asking("odd", "much"))
    world.create("pods", asking("p", "1"))
    world.run(2)
    assert where(world, "p") == "a"
    assert "much" in reason(world, "odd")
    (event,) = (entry for entry in world.list("events") if entry["reason"] == "FailedScheduling")
    assert event["involvedObject"]["name"] == "odd"


def test_a_claim_keeps_no_pod_waiting() -> None:
    world = cluster(node("a"))
    world.create(
        "pods", asking("p", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "nobody-made-it"}}])
    )
    world.run(2)
    assert where(world, "p") == "a"
