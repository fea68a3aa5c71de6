from __future__ import annotations

import random

import pytest

from situate.framework.decisions import Placed, PlacedRun
from situate.framework.engine import Engine, Shortcuts
from situate.framework.profile import Profile, profile_of
from situate.objects.meta import ObjectMeta
from situate.objects.nodes import Node, NodeSpec, NodeStatus, Taint
from situate.objects.pods import (
    Affinity,
    Container,
    ContainerPort,
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    PreferredSchedulingTerm,
    ResourceRequirements,
    Toleration,
)
from situate.objects.quantity import parse_quantity
from situate.plugins import node_affinity
from situate.plugins.image_locality import ImageLocality
from situate.plugins.node_name import NodeName
from situate.plugins.node_ports import NodePorts
from situate.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from situate.plugins.node_resources_fit import NodeResourcesFit
from situate.plugins.node_unschedulable import NodeUnschedulable
from situate.plugins.priority_sort import PrioritySort
from situate.plugins.scheduling_gates import SchedulingGates
from situate.plugins.taint_toleration import TaintToleration


def profile() -> Profile:
    return profile_of(
        "here",
        [
            (SchedulingGates(), 0),
            (PrioritySort(), 0),
            (NodeUnschedulable(), 0),
            (NodeName(), 0),
            (TaintToleration(), 3),
            (node_affinity.NodeAffinity(), 2),
            (NodePorts(), 0),
            (NodeResourcesFit(), 1),
            (NodeResourcesBalancedAllocation(), 1),
            (ImageLocality(), 1),
        ],
    )


def a_node(number: int, rng: random.Random) -> Node:
    taints = [Taint("team", "a", effect) for effect in ("NoSchedule", "PreferNoSchedule") if rng.random() < 0.3]
    room = {"cpu": f"{rng.choice((1, 2, 4))}", "memory": f"{rng.choice((1, 2, 8))}Gi", "pods": f"{rng.choice((3, 8))}"}
    return Node(
        ObjectMeta(name=f"node-{number}", labels={"disk": rng.choice(("ssd", "hdd")), "zone": rng.choice("abc")}),
        NodeSpec(unschedulable=rng.random() < 0.1, taints=tuple(taints)),
        NodeStatus(allocatable={name: parse_quantity(value) for name, value in room.items()}),
    )


def a_spec(rng: random.Random) -> PodSpec:
    requests = {
        name: parse_quantity(value)
        for name, value in (("cpu", f"{rng.randrange(600)}m"), ("memory", f"{rng.randrange(900)}Mi"))
        if rng.random() < 0.8
    }
    wish = PreferredSchedulingTerm(
        rng.randrange(1, 100), NodeSelectorTerm((NodeSelectorRequirement("disk", "In", ("ssd",)),))
    )
    return PodSpec(
        scheduler_name="here",
        containers=(
            Container(
                resources=ResourceRequirements(requests=requests),
                ports=(ContainerPort(host_port=80),) if rng.random() < 0.1 else (),
            ),
        ),
        node_selector={"zone": rng.choice("abc")} if rng.random() < 0.3 else {},
        affinity=Affinity(NodeAffinity(preferred=(wish,))) if rng.random() < 0.4 else Affinity(),
        tolerations=(Toleration(operator="Exists"),) if rng.random() < 0.3 else (),
    )


def story(seed: int, shortcuts: Shortcuts, ties: int | None) -> list[tuple[str, str]]:
    """What a scheduler decides in a small cluster in which nodes and pods come and go."""
    rng = random.Random(seed)
    engine = Engine([profile()], shortcuts=shortcuts, seed=ties)
    for number in range(rng.randrange(1, 12)):
        engine.cache.set_node(a_node(number, rng))
    specs = [a_spec(rng) for _ in range(4)]
    told: list[tuple[str, str]] = []
    placed: list[str] = []
    for number in range(60):
        pod = Pod(ObjectMeta(name=f"pod-{number}", namespace="default", uid=str(number)), rng.choice(specs))
        engine.queue.add(engine.cache.reader.read(pod), float(number))
        decision = engine.schedule(float(number))
        assert decision is not None
        if isinstance(decision, Placed):
            told.append((pod.metadata.name, decision.node))
            placed.append(pod.metadata.uid)
        else:
            told.append((pod.metadata.name, type(decision).__name__))
        if placed and rng.random() < 0.2:
            engine.cache.remove_pod(placed.pop(rng.randrange(len(placed))))
        if rng.random() < 0.05:
            engine.cache.set_node(a_node(rng.randrange(15), rng))
        if rng.random() < 0.02 and len(engine.cache.nodes) > 1:
            engine.cache.remove_node(rng.choice(engine.cache.nodes))
    return told


@pytest.mark.parametrize("ties", [None, 7])
def test_what_is_known_per_class_changes_no_placement(ties: int | None) -> None:
    stories = []
    for seed in range(60):
        plain = story(seed, Shortcuts(classes=False), ties)
        assert story(seed, Shortcuts(classes=True), ties) == plain, f"seed {seed}"
        stories.append(plain)
    decided = [outcome for each in stories for _, outcome in each]
    assert 0.1 < decided.count("Refused") / len(decided) < 0.6  # both kinds of answer were compared


def run_story(seed: int, shortcuts: Shortcuts, most: int) -> tuple[list[tuple[str, str]], int]:
    """What a scheduler decides about many pods that wait at once; and the length of the longest run."""
    rng = random.Random(seed)
    engine = Engine([profile()], shortcuts=shortcuts)
    for number in range(rng.randrange(1, 20)):
        engine.cache.set_node(a_node(number, rng))
    specs = [a_spec(rng) for _ in range(3)]
    together = rng.choice((1, 10, 40))
    for number in range(80):
        spec = specs[number // together % 3]
        pod = Pod(ObjectMeta(name=f"pod-{number}", namespace="default", uid=str(number)), spec)
        engine.queue.add(engine.cache.reader.read(pod), 0.0)
    told: dict[str, str] = {}
    longest = 0
    while decisions := engine.schedule_run(0.0, most):
        for decision in decisions:
            if isinstance(decision, PlacedRun):
                longest = max(longest, len(decision))
                told |= {each.pod.info.name: each.node for each in decision}
            else:
                told[decision.pod.info.name] = decision.node if isinstance(decision, Placed) else "Refused"
    return sorted(told.items()), longest


def test_placing_a_run_at_once_changes_no_placement() -> None:
    lengths = []
    outcomes = []
    for seed in range(60):
        plain, alone = run_story(seed, Shortcuts(classes=False, batches=False), 1)
        at_once, longest = run_story(seed, Shortcuts(), 1000)
        assert at_once == plain, f"seed {seed}"
        assert alone == 0
        lengths.append(longest)
        outcomes += [outcome for _, outcome in plain]
    assert sum(length >= 10 for length in lengths) > 15
    assert 0.1 < outcomes.count("Refused") / len(outcomes) < 0.9
