from __future__ import annotations

import numpy as np
import pytest

from situate.framework.class_cache.resource_scorers import NO_ROOM
from situate.framework.pod.pods import PodInfo
from situate.framework.profile.profile import Weighted
from situate.framework.snapshot.snapshot import Snapshot
from situate.plugins.node_ports import NodePorts
from situate.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from situate.plugins.node_resources_fit import NodeResourcesFit, NodeResourcesFitArgs, ResourceWeight, ScoringStrategy
from situate.plugins.resource_meter import ResourceMeter
from tests.plugins.test_resource_gauges import a_cluster, a_pod, scores

FIT, BALANCED = NodeResourcesFit(), NodeResourcesBalancedAllocation()


def a_meter(snapshot: Snapshot, weights: tuple[int, int]) -> ResourceMeter:
    weighted = [Weighted.of(FIT, weights[0]), Weighted.of(BALANCED, weights[1])]
    meter = BALANCED.meter([FIT], weighted, snapshot.nodes)
    assert isinstance(meter, ResourceMeter)
    return meter


def what_plugins_say(pod: PodInfo, snapshot: Snapshot, weights: tuple[int, int]) -> list[int]:
    """Of each node: the weighted scores, or that there is no room."""
    said = np.full(snapshot.count, NO_ROOM)
    where = np.flatnonzero(FIT.filter(None, pod, snapshot).passes)
    said[where] = 0
    for plugin, weight in zip((FIT, BALANCED), weights, strict=True):
        said[where] += weight * np.array(scores(plugin, pod, snapshot.at(where)) or np.zeros(len(where)), np.int64)
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
        meter = a_meter(snapshot, weights)
        pods = [a_pod(engine, 100 * number + each, rng) for each in range(5)]
        asked = [meter.asked(pod.template) for pod in pods]
        for pod, each in zip(pods, asked, strict=True):
            assert (each is None) == any(column > 1 for column, _ in pod.template.columns)
        known = [(pod, each) for pod, each in zip(pods, asked, strict=True) if each is not None]
        rows = [rng.randrange(snapshot.count) for _ in range(rng.choice((1, 3)))]
        expected = [what_plugins_say(pod, snapshot, weights) for pod, _ in known]
        settled = np.array([rng.randrange(500) for _ in range(snapshot.count)], np.int16)
        for (_, each), said in zip(known, expected, strict=True):
            assert each is not None
            assert [meter.total(snapshot.load, row, each) for row in range(snapshot.count)] == said
            assert [meter.has_room(snapshot.load, row, each) for row in range(snapshot.count)] == [
                total != NO_ROOM for total in said
            ]
            numbers = snapshot.derived(meter.derived)
            bounds = meter.bounds(numbers, each, settled)
            at_first = bounds.tolist()
            meter.refuse(numbers, each, bounds)
            for before, bound, total, more in zip(at_first, bounds.tolist(), said, settled.tolist(), strict=True):
                if total == NO_ROOM:
                    assert bound < 0
                    continue
                assert bound == before
                assert more + total <= bound <= more + total + sum(weights)
                read += 1
                exact += bound == more + total
        if known:
            totals, passes = meter.readings([each for _, each in known]).at(snapshot.load, rows)
            totals = totals if passes is None else np.where(passes, totals, NO_ROOM)
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
    both = [Weighted.of(FIT, 1), Weighted.of(BALANCED, 1)]
    uneven = NodeResourcesFit(
        NodeResourcesFitArgs(
            scoring_strategy=ScoringStrategy(resources=(ResourceWeight("cpu", 2), ResourceWeight("memory", 1)))
        )
    )
    assert BALANCED.meter([FIT], both, nodes) is not None
    assert BALANCED.meter([FIT, NodePorts()], both, nodes) is None
    assert BALANCED.meter([], both, nodes) is None
    assert BALANCED.meter([FIT], both[1:], nodes) is None
    assert BALANCED.meter([FIT], [*both, Weighted.of(uneven, 1)], nodes) is None
    assert BALANCED.meter([uneven], [Weighted.of(uneven, 1), both[1]], nodes) is None
    assert NodeResourcesBalancedAllocation().meter([FIT], both, nodes) is None
