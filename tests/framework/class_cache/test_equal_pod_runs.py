"""Where a run of equal pods has to stop, so that each pod goes where it would have gone by itself."""

from __future__ import annotations

from typing import Any

import pytest

from situate.framework.class_cache.switches import Shortcuts
from situate.framework.engine.decisions import Placed, PlacedRun
from situate.framework.engine.engine import Engine
from situate.framework.profile.profile import profile_of
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node, NodeStatus
from situate.objects.kinds.pods import (
    Affinity,
    Container,
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    PreferredSchedulingTerm,
    ResourceRequirements,
)
from situate.objects.values.quantity import parse_quantity
from situate.plugins.node_affinity import NodeAffinity as NodeAffinityPlugin
from situate.plugins.node_resources_fit import NodeResourcesFit
from situate.plugins.priority_sort import PrioritySort

RUNS, ONE_BY_ONE = Shortcuts(), Shortcuts(batches=False)


def wish(weight: int, disk: str) -> PreferredSchedulingTerm:
    return PreferredSchedulingTerm(weight, NodeSelectorTerm((NodeSelectorRequirement("disk", "In", (disk,)),)))


def places(
    shortcuts: Shortcuts, plugins: list[Any], nodes: list[Node], spec: PodSpec, count: int, *placed: Pod
) -> list[str]:
    """The node of each of so many equal pods."""
    engine = Engine(
        [profile_of("here", [(PrioritySort(), 0), *((plugin, 1) for plugin in plugins)])], shortcuts=shortcuts
    )
    for node in nodes:
        engine.set_node(node, 0)
    for pod in placed:
        engine.set_pod(pod, 0)
    for number in range(count):
        engine.set_pod(Pod(ObjectMeta(name=f"p{number}", namespace="default", uid=f"{number}"), spec), 0)
    found: list[str] = []
    while decisions := engine.schedule_run(0, count):
        for decision in decisions:
            each = list(decision) if isinstance(decision, PlacedRun) else [decision]
            found += [one.node for one in each if isinstance(one, Placed)]
    return found


def a_node(name: str, disk: str, cpu: str) -> Node:
    room = {"cpu": parse_quantity(cpu), "memory": parse_quantity("64Gi"), "pods": parse_quantity("500")}
    return Node(ObjectMeta(name=name, labels={"disk": disk}), status=NodeStatus(allocatable=room))


def a_spec(cpu: str, *wishes: PreferredSchedulingTerm) -> PodSpec:
    requests = ResourceRequirements(requests={"cpu": parse_quantity(cpu)})
    affinity = Affinity(NodeAffinity(preferred=wishes))
    return PodSpec(scheduler_name="here", affinity=affinity, containers=(Container(resources=requests),))


def test_a_run_ends_where_the_node_that_scores_relate_to_is_full() -> None:
    """Once the best disk is gone, the second best is worth 100 instead of 50: that outweighs how full it is."""
    nodes = [a_node("best", "nvme", "2"), a_node("second", "ssd", "4"), a_node("large", "none", "64")]
    spec = a_spec("1", wish(100, "nvme"), wish(50, "ssd"))
    plugins = [NodeAffinityPlugin(), NodeResourcesFit()]
    requests = ResourceRequirements(requests={"cpu": parse_quantity("3"), "memory": parse_quantity("48Gi")})
    there = Pod(
        ObjectMeta(name="there", namespace="default", uid="there"),
        PodSpec(node_name="second", containers=(Container(resources=requests),)),
    )
    want = ["best", "best", "second", "large", "large"]
    assert places(ONE_BY_ONE, plugins, nodes, spec, 5, there) == want
    assert places(RUNS, plugins, nodes, spec, 5, there) == want


@pytest.mark.parametrize("count", [17, 60, 200])
def test_a_run_ends_where_a_node_may_have_room_for_more_than_was_looked_at(count: int) -> None:
    class Room:
        """Room, and no opinion on how full a node should be: the best node stays the best."""

        name = "NodeResourcesFit"
        reads = NodeResourcesFit.reads
        filter = NodeResourcesFit().filter

    nodes = [a_node("best", "nvme", "64"), *(a_node(f"other-{number}", "none", "64") for number in range(9))]
    spec = a_spec("1m", wish(100, "nvme"))
    assert places(RUNS, [NodeAffinityPlugin(), Room()], nodes, spec, count) == ["best"] * count


@pytest.mark.parametrize("count", [3, 16, 17, 29, 30, 90])
def test_few_pods_and_many_go_where_each_would_have_gone_by_itself(count: int) -> None:
    """Of thirty nodes, some equally good and some too small: the best are found in one of three ways."""
    nodes = [a_node(f"n{number}", "none", f"{1 + number * 7 % 5}") for number in range(30)]
    spec = a_spec("1100m")
    assert places(RUNS, [NodeResourcesFit()], nodes, spec, count) == places(
        ONE_BY_ONE, [NodeResourcesFit()], nodes, spec, count
    )
