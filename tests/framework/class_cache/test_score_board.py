from __future__ import annotations

import random

import msgspec
import pytest

from situate.framework.class_cache.switches import NO_SHORTCUTS, Shortcuts
from situate.framework.engine.decisions import Placed, PlacedRun
from situate.framework.engine.engine import Engine
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node, NodeSpec, NodeStatus
from situate.objects.kinds.pods import Container, ContainerPort, PodSpec, ResourceRequirements
from situate.objects.values.quantity import parse_quantity
from tests.framework.engine.test_choose_node import a_node, a_pod, a_spec, profile


def by_turns(seed: int, shortcuts: Shortcuts, *, nodes: int, kinds: int, pods: int, idle: int = 0) -> list[str]:
    """Where pods of a few kinds go that come in any order, while some go and, now and then, a node changes.

    `idle`: behind each node come so many more that take no pods.
    """
    rng = random.Random(seed)
    engine = Engine([profile()], shortcuts=shortcuts)
    for number in range(nodes):
        engine.set_node(a_node(number, rng), 0.0)
        for other in range(idle):
            metadata = ObjectMeta(name=f"idle-{number}-{other}")
            engine.set_node(msgspec.structs.replace(IDLE, metadata=metadata), 0.0)
    specs = [a_spec(rng) if rng.random() < 0.3 else modest(rng) for _ in range(kinds)]
    told: list[str] = []
    placed: list[str] = []
    number = 0
    while number < pods:
        for _ in range(rng.choice((1, 5, 20))):
            number += 1
            kind = rng.randrange(kinds)
            engine.set_pod(a_pod(number, specs[kind], "xyz"[kind % 3]), float(number))
        while decisions := engine.schedule_run(float(number), 1000 if shortcuts.classes else 1):
            for decision in decisions:
                if isinstance(decision, Placed | PlacedRun):
                    for each in decision if isinstance(decision, PlacedRun) else (decision,):
                        told.append(f"{each.pod.info} {each.node}")
                        placed.append(each.pod.info.uid)
                else:
                    told.append(f"{decision.pod.info} nowhere")
        for _ in range(rng.choice((0, 1, 2, 15))):
            if placed:
                engine.remove_pod(placed.pop(rng.randrange(len(placed))), float(number))
        if rng.random() < 0.05:
            engine.set_node(a_node(rng.randrange(nodes), rng), float(number))
        if rng.random() < 0.1:
            engine.queue.activate([waiting.info.uid for waiting in list(engine.queue)], float(number))
    return told


IDLE = Node(
    spec=NodeSpec(unschedulable=True),
    status=NodeStatus(allocatable={name: parse_quantity("4Gi") for name in ("cpu", "memory", "pods")}),
)


def modest(rng: random.Random) -> PodSpec:
    """Of which a node holds some; now and then it asks for nothing, or has a port."""
    asked = {"cpu": f"{rng.randrange(50, 400)}m", "memory": f"{rng.randrange(50, 500)}Mi"}
    requests = {name: parse_quantity(value) for name, value in asked.items() if rng.random() < 0.9}
    ports = (ContainerPort(host_port=80),) if rng.random() < 0.1 else ()
    container = Container(resources=ResourceRequirements(requests=requests), ports=ports)
    return PodSpec(scheduler_name="here", containers=(container,))


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 25), marks=pytest.mark.verify)], ids=str)
def test_to_look_at_a_node_for_all_kinds_changes_no_placement(seeds: range) -> None:
    outcomes = []
    for seed in seeds:
        size = random.Random(seed).choice((12, 40, 80))
        told = by_turns(seed, Shortcuts(), nodes=size, kinds=7, pods=200)
        assert told == by_turns(seed, NO_SHORTCUTS, nodes=size, kinds=7, pods=200), f"seed {seed}"
        outcomes += told
    assert 0.02 < sum(each.endswith("nowhere") for each in outcomes) / len(outcomes) < 0.7


def test_more_kinds_than_a_board_has_room_for_change_no_placement() -> None:
    told = by_turns(3, Shortcuts(), nodes=120, kinds=300, pods=900)
    assert told == by_turns(3, NO_SHORTCUTS, nodes=120, kinds=300, pods=900)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.verify)])
def test_boards_of_very_many_nodes_know_the_best_of_them(seed: int) -> None:
    told = by_turns(seed, Shortcuts(), nodes=40, kinds=4, pods=150, idle=900)
    assert told == by_turns(seed, Shortcuts(evaluators=False), nodes=40, kinds=4, pods=150, idle=900)
