from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from situate.framework.engine.engine import Engine
from situate.framework.pod.pods import PodInfo
from situate.framework.results.status import Code
from situate.framework.snapshot.derived_columns import SKIPPED_EVALUATOR
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node, NodeStatus
from situate.objects.kinds.pods import Container, Pod, PodSpec, ResourceRequirements
from situate.objects.values.quantity import Quantity, parse_quantity
from situate.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from situate.plugins.node_resources_fit import NodeResourcesFit, NodeResourcesFitArgs, ResourceWeight, ScoringStrategy
from tests.framework.engine.test_choose_node import profile

FIT, BALANCED = NodeResourcesFit(), NodeResourcesBalancedAllocation()
WEIGHTED = NodeResourcesFit(
    NodeResourcesFitArgs(
        scoring_strategy=ScoringStrategy(
            resources=(ResourceWeight("memory", 3), ResourceWeight("cpu", 2), ResourceWeight("ephemeral-storage", 7))
        )
    )
)


def quantities(rng: random.Random, **most: int) -> dict[str, Quantity]:
    """Round numbers, at whose edges answers change, and any others."""
    found = {}
    for name, unit in most.items():
        value = rng.choice((rng.randrange(unit), unit // 10 * rng.randrange(10), unit // 3))
        suffix = "m" if name == "cpu" else ""
        found[name.replace("_", "-")] = parse_quantity(f"{value}{suffix}")
    return found


def a_cluster(seed: int) -> tuple[Engine, random.Random]:
    rng = random.Random(seed)
    engine = Engine([profile()])
    kinds = rng.choice((1, 3))  # nodes that are all the same, or not
    for number in range(rng.randrange(1, 40)):
        cpu, memory = rng.choice(((4000, 32 * 2**30), (999, 7 * 10**9), (64_000, 2**41 + 1))[-kinds:])
        room = {"cpu": f"{cpu}m", "memory": str(memory), "ephemeral-storage": "100Gi", "pods": str(rng.choice((2, 9)))}
        status = NodeStatus(allocatable={name: parse_quantity(value) for name, value in room.items()})
        engine.cache.set_node(Node(ObjectMeta(name=f"node-{number}"), status=status))
    return engine, rng


def a_pod(engine: Engine, number: int, rng: random.Random) -> PodInfo:
    requests = {
        name: value
        for name, value in quantities(rng, cpu=2000, memory=8 * 2**30, ephemeral_storage=2**30).items()
        if rng.random() < 0.8
    }
    spec = PodSpec(containers=(Container(resources=ResourceRequirements(requests=requests)),))
    return engine.cache.reader.read(Pod(ObjectMeta(name=f"pod-{number}", uid=str(number)), spec))


def scores(plugin: Any, pod: PodInfo, snapshot: Snapshot) -> list[int] | None:
    prepared = plugin.pre_score(None, pod, snapshot)
    return None if prepared.code is Code.SKIP else plugin.score(prepared.state, pod, snapshot).tolist()


@pytest.mark.parametrize("seed", range(30))
def test_columns_that_follow_pods_say_what_the_plugins_say(seed: int) -> None:
    engine, rng = a_cluster(seed)
    cache = engine.cache
    placed: list[str] = []
    others = iter(range(1000, 10_000))
    read = 0
    for number in range(60):
        snapshot = cache.snapshot()
        pod = a_pod(engine, number, rng)
        passes = FIT.filter(None, pod, snapshot).passes
        columns = [column for column, _ in pod.template.columns]
        evaluator = FIT.filter_evaluator(pod.template, snapshot.nodes)
        assert (evaluator is None) == (max(columns, default=0) > 1)
        if evaluator is not None:
            assert evaluator.read(snapshot.derived_columns(evaluator.derived)).tolist() == passes.tolist()
        where = np.flatnonzero(passes)
        for plugin in (FIT, WEIGHTED, BALANCED):
            evaluator = plugin.score_evaluator(pod.template, snapshot.nodes)
            assert evaluator is not None
            expected = scores(plugin, pod, snapshot.select_nodes(where))
            if evaluator is SKIPPED_EVALUATOR:
                assert expected is None
                continue
            known = snapshot.derived_columns(evaluator.derived)
            assert evaluator.read(known).take(where).tolist() == expected
            assert evaluator.read(known.take(where, axis=1)).tolist() == expected
            afresh = snapshot.branch().derived_columns(evaluator.derived)
            assert known.tolist() == afresh.tolist()
            read += len(where)
        for _ in range(rng.choice((1, 1, 30))):  # few are followed one by one, many together
            if placed and rng.random() < 0.4:
                cache.remove_pod(placed.pop(rng.randrange(len(placed))))
            else:
                other = a_pod(engine, next(others), rng)
                cache.assume(other, rng.choice(cache.nodes))  # whether it fits there or not
                placed.append(other.uid)
    assert read or not len(where)


def test_what_floats_or_small_numbers_cannot_tell_is_left_to_the_plugins() -> None:
    engine, rng = a_cluster(1)
    pod = a_pod(engine, 1, rng)
    nodes = engine.cache.snapshot().nodes
    assert FIT.score_evaluator(pod.template, nodes) is not None
    for room in ({"cpu": "1m", "memory": "1Gi"}, {"cpu": "1"}, {"cpu": "1", "memory": "1Pi"}):
        status = NodeStatus(allocatable={name: parse_quantity(value) for name, value in room.items()})
        engine.cache.set_node(Node(ObjectMeta(name="odd"), status=status))
        nodes = engine.cache.snapshot().nodes
        assert FIT.score_evaluator(pod.template, nodes) is None
        assert BALANCED.score_evaluator(pod.template, nodes) is None
