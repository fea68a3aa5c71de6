"""Pods of a template that nobody has met yet: all nodes are looked at from above, and the best of them exactly."""

from __future__ import annotations

from situate.framework.class_cache.switches import NO_SHORTCUTS, Shortcuts
from situate.framework.engine.decisions import Placed, PlacedRun
from situate.framework.engine.engine import Engine
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node, NodeSpec, NodeStatus, Taint
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
from tests.framework.engine.test_choose_node import profile


def a_node(name: str, memory: int, disk: str = "", taints: int = 0, places: int = 10) -> Node:
    amounts = {"cpu": "1000m", "memory": str(memory), "pods": str(places)}
    return Node(
        ObjectMeta(name=name, labels={"disk": disk}),
        NodeSpec(taints=tuple(Taint(f"key-{number}", "", "PreferNoSchedule") for number in range(taints))),
        NodeStatus(allocatable={each: parse_quantity(amount) for each, amount in amounts.items()}),
    )


def home(nodes: list[Node], memory: int, cpu: str, affinity: Affinity, shortcuts: Shortcuts) -> str:
    """Where such a pod goes, the first of two that differ."""
    engine = Engine([profile()], shortcuts=shortcuts)
    for node in nodes:
        engine.set_node(node, 0.0)
    for name, asked in (("one", memory), ("other", 1)):
        requests = {"cpu": parse_quantity(cpu), "memory": parse_quantity(str(asked))}
        container = Container(resources=ResourceRequirements(requests=requests))
        spec = PodSpec(scheduler_name="here", containers=(container,), affinity=affinity)
        engine.set_pod(Pod(ObjectMeta(name=name, uid=name), spec), 0.0)
    first = engine.schedule_run(0.0, 2)[0]
    assert isinstance(first, Placed | PlacedRun)
    return first.node if isinstance(first, Placed) else next(iter(first)).node


def test_a_node_that_is_worse_by_a_hair_is_not_taken_for_as_good() -> None:
    # what would be left of memory is 66.99997 % and 67 %, which makes a point
    nodes = [a_node("a-hair-less", 99_999_900), a_node("whole", 100_000_000)]
    for shortcuts in (NO_SHORTCUTS, Shortcuts()):
        assert home(nodes, 33_000_000, "465m", Affinity(), shortcuts) == "whole"


def test_what_would_be_best_and_is_full_is_not_taken() -> None:
    nodes = [a_node(f"full-{number}", 2**32, places=0) for number in range(20)]
    nodes += [a_node("small", 2**31), a_node("large", 2**32 - 2**30)]
    for shortcuts in (NO_SHORTCUTS, Shortcuts()):
        assert home(nodes, 2**30, "100m", Affinity(), shortcuts) == "large"


def test_what_a_full_node_prefers_counts_for_nothing() -> None:
    """Nodes are compared with the best disk that is feasible, which a full node has until another one does."""
    wishes = [
        PreferredSchedulingTerm(weight, NodeSelectorTerm((NodeSelectorRequirement("disk", "In", disks),)))
        for weight, disks in ((50, ("good", "best")), (50, ("best",)))
    ]
    wish = Affinity(NodeAffinity(preferred=tuple(wishes)))
    nodes = [
        a_node("full", 2**31, "best", places=0),
        a_node("plain", 2**31, "none"),
        a_node("better", 2**31, "good", taints=1),
        a_node("tainted", 2**31, "none", taints=2),
    ]
    best = a_node("best", 2**31, "best", taints=1)
    for shortcuts in (NO_SHORTCUTS, Shortcuts()):
        assert home(nodes, 2**30, "100m", wish, shortcuts) == "better"
        assert home([*nodes, best], 2**30, "100m", wish, shortcuts) == "best"


def test_what_a_node_that_is_too_small_by_a_hair_prefers_counts_for_nothing() -> None:
    """Nodes are compared with the best disk that is feasible, and the best of all lacks a byte."""
    wishes = [
        PreferredSchedulingTerm(weight, NodeSelectorTerm((NodeSelectorRequirement("disk", "In", disks),)))
        for weight, disks in ((50, ("good", "best")), (50, ("best",)))
    ]
    wish = Affinity(NodeAffinity(preferred=tuple(wishes)))
    nodes = [
        a_node("small", 2**30, "best"),
        a_node("plain", 2**31, "none"),
        a_node("better", 2**31, "good", taints=1),
        a_node("tainted", 2**31, "none", taints=2),
    ]
    for shortcuts in (NO_SHORTCUTS, Shortcuts()):
        assert home(nodes, 2**30 + 1, "100m", wish, shortcuts) == "better"
