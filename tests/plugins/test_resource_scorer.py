from __future__ import annotations

import numpy as np
import pytest

from situate.framework.class_cache.resource_scorers import NO_CAPACITY
from situate.framework.pod.pods import PodInfo
from situate.framework.profile.profile import WeightedPlugin
from situate.framework.snapshot.snapshot import Snapshot
from situate.plugins.node_ports import NodePorts
from situate.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from situate.plugins.node_resources_fit import NodeResourcesFit, NodeResourcesFitArgs, ResourceWeight, ScoringStrategy
from situate.plugins.resource_scorer import CpuMemoryScorer
from tests.plugins.test_resource_evaluators import a_cluster, a_pod, scores

FIT, BALANCED = NodeResourcesFit(), NodeResourcesBalancedAllocation()


def make_scorer(snapshot: Snapshot, weights: tuple[int, int]) -> CpuMemoryScorer:
    weighted = [WeightedPlugin.from_plugin(FIT, weights[0]), WeightedPlugin.from_plugin(BALANCED, weights[1])]
    scorer = BALANCED.resource_scorer([FIT], weighted, snapshot.nodes)
    assert isinstance(scorer, CpuMemoryScorer)
    return scorer


def what_plugins_say(pod: PodInfo, snapshot: Snapshot, weights: tuple[int, int]) -> list[int]:
    """Of each node: the weighted scores, or that there is no room."""
    said = np.full(snapshot.count, NO_CAPACITY)
    where = np.flatnonzero(FIT.filter(None, pod, snapshot).passes)
    said[where] = 0
    for plugin, weight in zip((FIT, BALANCED), weights, strict=True):
        said[where] += weight * np.array(
            scores(plugin, pod, snapshot.select_nodes(where)) or np.zeros(len(where)), np.int64
        )
    return said.tolist()


@pytest.mark.parametrize("seed", range(20))
def test_a_meter_says_what_the_plugins_say_together(seed: int) -> None:
    engine, rng = a_cluster(seed)
    cache = engine.cache
    placed: list[str] = []
    others = iter(range(1000, 10_000))
    weights = rng.choice(((1, 1), (1, 1), (3, 2)))
    read = exact = 0
    for number in range(40):
        snapshot = cache.snapshot()
        scorer = make_scorer(snapshot, weights)
        pods = [a_pod(engine, 100 * number + each, rng) for each in range(5)]
        asked = [scorer.requests_of(pod.template) for pod in pods]
        for pod, each in zip(pods, asked, strict=True):
            assert (each is None) == any(column > 1 for column, _ in pod.template.columns)
        known = [(pod, each) for pod, each in zip(pods, asked, strict=True) if each is not None]
        rows = [rng.randrange(snapshot.count) for _ in range(rng.choice((1, 3)))]
        expected = [what_plugins_say(pod, snapshot, weights) for pod, _ in known]
        settled = np.array([rng.randrange(500) for _ in range(snapshot.count)], np.int16)
        for (_, each), said in zip(known, expected, strict=True):
            assert each is not None
            assert [scorer.total(snapshot.load, row, each) for row in range(snapshot.count)] == said
            assert [scorer.has_capacity(snapshot.load, row, each) for row in range(snapshot.count)] == [
                total != NO_CAPACITY for total in said
            ]
            numbers = snapshot.derived_columns(scorer.derived)
            bounds = scorer.upper_bounds(numbers, each, settled)
            at_first = bounds.tolist()
            scorer.lower_refused_bounds(numbers, each, bounds)
            for before, bound, total, more in zip(at_first, bounds.tolist(), said, settled.tolist(), strict=True):
                if total == NO_CAPACITY:
                    assert bound < 0
                    continue
                assert bound == before
                assert more + total <= bound <= more + total + sum(weights)
                read += 1
                exact += bound == more + total
        if known:
            totals, passes = scorer.scorer_for_templates([each for _, each in known]).scores_at(snapshot.load, rows)
            totals = totals if passes is None else np.where(passes, totals, NO_CAPACITY)
            assert totals.tolist() == [[said[row] for row in rows] for said in expected]
        for _ in range(rng.choice((1, 1, 20))):  # few are followed one by one, many together
            if placed and rng.random() < 0.4:
                cache.remove_pod(placed.pop(rng.randrange(len(placed))))
            else:
                other = a_pod(engine, next(others), rng)
                cache.assume(other, rng.choice(cache.nodes))  # whether it fits there or not
                placed.append(other.uid)
    assert exact > 0.99 * read  # which is what makes bounds worth their while


def test_a_meter_speaks_for_nobody_whom_it_does_not_know() -> None:
    engine, _ = a_cluster(1)
    nodes = engine.cache.snapshot().nodes
    both = [WeightedPlugin.from_plugin(FIT, 1), WeightedPlugin.from_plugin(BALANCED, 1)]
    uneven = NodeResourcesFit(
        NodeResourcesFitArgs(
            scoring_strategy=ScoringStrategy(resources=(ResourceWeight("cpu", 2), ResourceWeight("memory", 1)))
        )
    )
    assert BALANCED.resource_scorer([FIT], both, nodes) is not None
    assert BALANCED.resource_scorer([FIT, NodePorts()], both, nodes) is None
    assert BALANCED.resource_scorer([], both, nodes) is None
    assert BALANCED.resource_scorer([FIT], both[1:], nodes) is None
    assert BALANCED.resource_scorer([FIT], [*both, WeightedPlugin.from_plugin(uneven, 1)], nodes) is None
    assert BALANCED.resource_scorer([uneven], [WeightedPlugin.from_plugin(uneven, 1), both[1]], nodes) is None
    assert NodeResourcesBalancedAllocation().resource_scorer([FIT], both, nodes) is None
