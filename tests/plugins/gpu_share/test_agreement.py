"""Each policy says the same as its plain twin, on random clusters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.framework.pod.pods import PodInfo
from situate.framework.results.status import Code
from situate.framework.snapshot.snapshot import Snapshot
from situate.plugins.gpu_share.best_fit_score import BestFitScore
from situate.plugins.gpu_share.dot_product_score import DotProductScore
from situate.plugins.gpu_share.fgd_score import FGDScore, FGDScoreArgs
from situate.plugins.gpu_share.fragmentation import Fragmentation
from situate.plugins.gpu_share.gpu_clustering_score import GpuClusteringScore
from situate.plugins.gpu_share.gpu_packing_score import GpuPackingScore
from situate.plugins.gpu_share.gpu_share import GpuShare
from situate.plugins.gpu_share.random_score import RandomScore
from situate.plugins.gpu_share.requests import INDEX
from tests.plugins.gpu_share.gpus import as_twin, columns, placed, random_kinds, random_world
from tests.plugins.twins import gpu_share as twin
from tests.plugins.twins.requests import request
from tests.plugins.twins.world import PASS, World
from tests.plugins.vector import answers

CASES = st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(0, 24))
BY_NODE: tuple[Any, ...] = (DotProductScore(), GpuClusteringScore(), GpuPackingScore())


def prepared(plugin: GpuShare, info: PodInfo, snapshot: Snapshot) -> tuple[Any, list[int]]:
    """The plugin's state, and the nodes that it lets pass."""
    found = plugin.pre_filter(info, snapshot)
    if found.status.code is Code.SKIP:
        return None, list(range(snapshot.count))
    return found.state, np.flatnonzero(plugin.filter(found.state, info, snapshot).passes).tolist()


@given(CASES)
@settings(max_examples=200, deadline=None)
def test_filter(case: tuple[int, int, int]) -> None:
    world, pod = random_world(*case)
    snapshot, info = columns(world, pod)
    wanted = {node.metadata.name: twin.filter_node(pod, node, world) for node in world.nodes}
    state = GpuShare().pre_filter(info, snapshot).state
    if state is None:
        assert set(wanted.values()) == {PASS}
    else:
        assert answers(GpuShare(), state, info, snapshot) == wanted


@pytest.mark.parametrize("plugin", BY_NODE, ids=lambda plugin: plugin.name)
@given(CASES)
@settings(max_examples=150, deadline=None)
def test_scores_of_each_node(plugin: Any, case: tuple[int, int, int]) -> None:
    world, pod = random_world(*case)
    snapshot, info = columns(world, pod)
    state, feasible = prepared(plugin, info, snapshot)
    found = plugin.score(state, info, snapshot.select_nodes(np.array(feasible, dtype=np.intp)))
    assert found.tolist() == [twin.SCORES[plugin.name](pod, world.nodes[node], world) for node in feasible]


@pytest.mark.parametrize("plugin", [*BY_NODE, FGDScore(FGDScoreArgs(random_kinds(1)))], ids=lambda plugin: plugin.name)
@given(CASES)
@settings(max_examples=100, deadline=None)
def test_scores_are_in_range_even_where_the_pod_cannot_go(plugin: Any, case: tuple[int, int, int]) -> None:
    """Classes ask about every node; here all pods are on the first one, whatever room it has."""
    world, new = random_world(*case)
    crowd = tuple(
        placed(each, world.nodes[0].metadata.name, each.metadata.annotations.get(INDEX, "")) for each in world.pods
    )
    snapshot, info = columns(World(world.nodes, crowd), new)
    state, _ = prepared(plugin, info, snapshot)
    scores = plugin.score(state, info, snapshot)
    assert len(scores) == snapshot.count
    assert scores.min() >= 0
    assert scores.max() <= 100


@given(CASES)
@settings(max_examples=150, deadline=None)
def test_best_fit_is_stretched_over_the_feasible_nodes(case: tuple[int, int, int]) -> None:
    world, pod = random_world(*case)
    snapshot, info = columns(world, pod)
    plugin = BestFitScore()
    state, feasible = prepared(plugin, info, snapshot)
    raw = plugin.score(state, info, snapshot.select_nodes(np.array(feasible, dtype=np.intp)))
    wanted = [twin.best_fit(pod, world.nodes[node], world) for node in feasible]
    assert raw.tolist() == wanted
    assert plugin.normalize(state, info, raw).tolist() == (twin.stretched(wanted) if wanted else [])


@given(CASES, st.integers(0, 2**16))
@settings(max_examples=300, deadline=None)
def test_fragmentation_gradient_descent(case: tuple[int, int, int], kinds: int) -> None:
    """The scores, and the devices on each node."""
    world, pod = random_world(*case)
    typical = random_kinds(kinds)
    snapshot, info = columns(world, pod)
    plugin = FGDScore(FGDScoreArgs(typical))
    state, feasible = prepared(plugin, info, snapshot)
    feasible = [node for node in feasible if twin.cpu_left(world.nodes[node], world) >= request(pod, "cpu")]
    scores = plugin.score(state, info, snapshot.select_nodes(np.array(feasible, dtype=np.intp))).tolist()
    for node, score in zip(feasible, scores, strict=True):
        wanted, devices = twin.descent(pod, world.nodes[node], world, as_twin(typical))
        assert score == wanted
        given = plugin.allot(info, snapshot.select_nodes(np.array([node])))
        assert given == ({INDEX: "-".join(map(str, devices))} if devices else {})


@given(CASES, st.integers(0, 2**16))
@settings(max_examples=150, deadline=None)
def test_fragmentation(case: tuple[int, int, int], kinds: int) -> None:
    world, pod = random_world(*case)
    typical = random_kinds(kinds)
    snapshot, _ = columns(world, pod)
    found = Fragmentation.from_nodes(snapshot.nodes, typical).fragmented_amount(snapshot)
    for amount, node in zip(found.tolist(), world.nodes, strict=True):
        idle, cpu = twin.left(node, world), twin.cpu_left(node, world)
        assert amount == pytest.approx(float(twin.fragmentation(cpu, idle, twin.model(node), as_twin(typical))))


@given(CASES)
@settings(max_examples=150, deadline=None)
def test_random_takes_any_node_and_any_device(case: tuple[int, int, int]) -> None:
    world, pod = random_world(*case)
    snapshot, info = columns(world, pod)
    plugin = RandomScore()
    state, feasible = prepared(plugin, info, snapshot)
    if not feasible:
        return
    view = snapshot.select_nodes(np.array(feasible, dtype=np.intp))
    scores = plugin.score(plugin.pre_score(state, info, view).state, info, view)
    assert sorted(scores.tolist()) == [0] * (len(feasible) - 1) + [100]
    count, milli, _ = twin.wants(pod)
    for node in feasible:
        given = plugin.allot(info, snapshot.select_nodes(np.array([node]))).get(INDEX, "")
        devices = [int(device) for device in given.split("-")] if given else []
        idle = twin.left(world.nodes[node], world)
        assert len(set(devices)) == count
        assert all(idle[device] >= milli for device in devices)
