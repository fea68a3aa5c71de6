from __future__ import annotations

import pytest

from situate.vpod.knative_era.scale import era_compaction, era_replicas, scale_factor
from situate.vpod.knative_era.schedule import MaxFillUp, PredicatesAndPriorities
from situate.vpod.knative_era.state import EraCluster, era_state
from situate.vpod.model.vpod import Placement
from situate.vpod.policy.registry import Policy, Predicate, Priority
from tests.vpod.policy.clusters import cluster, vpod

ZONES = Priority("AvailabilityZonePriority", 10, '{"MaxSkew": 1}')
NODES = Priority("AvailabilityNodePriority", 10, '{"MaxSkew": 1}')
EVEN = Predicate("EvenPodSpread", '{"MaxSkew": 1}')
PLAIN = PredicatesAndPriorities(Policy())


@pytest.mark.parametrize(
    ("priorities", "factor"),
    [((), 1), ((ZONES,), 2), ((NODES,), 4), ((ZONES, NODES), 4)],
    ids=["plain", "zones", "nodes", "nodes win"],
)
def test_the_factor_is_what_spreading_goes_over(priorities: tuple[Priority, ...], factor: int) -> None:
    state, _ = era_state(cluster("aabb"), [], {})
    assert scale_factor(state, Policy(priorities=priorities)) == factor


def test_without_any_node_the_factor_is_one() -> None:
    state, _ = era_state(EraCluster("s", 0, 10), [], {})
    assert scale_factor(state, Policy(priorities=(ZONES,))) == 1


@pytest.mark.parametrize(
    ("wanted", "placed", "mode", "shrink", "replicas"),
    [
        pytest.param(18, {0: 8, 1: 7}, PLAIN, False, 5, id="one more than exist for 3 pending"),
        pytest.param(45, {0: 8, 1: 7}, PLAIN, False, 7, id="30 pending need 3 more"),
        pytest.param(45, {0: 8, 1: 7}, PredicatesAndPriorities(Policy(priorities=(ZONES,))), False, 8, id="in twos"),
        pytest.param(
            18, {0: 8, 1: 7}, PredicatesAndPriorities(Policy((EVEN,))), False, 6, id="even: by the fullest pod"
        ),
        pytest.param(18, {0: 8, 1: 7}, MaxFillUp(), True, 2, id="max fill up counts what is wanted"),
        pytest.param(18, {0: 8, 1: 7}, MaxFillUp(), False, 4, id="max fill up may not shrink"),
        pytest.param(0, {}, MaxFillUp(), True, 0, id="to zero"),
    ],
)
def test_replicas(
    wanted: int, placed: dict[int, int], mode: MaxFillUp | PredicatesAndPriorities, shrink: bool, replicas: int
) -> None:
    state, _ = era_state(cluster("aabb"), [vpod(wanted, placed)], {})
    assert era_replicas(state, mode, shrink) == replicas


def test_replicas_never_go_below_the_last_ordinal_in_use() -> None:
    state, _ = era_state(cluster("a", replicas=1), [vpod(3, {5: 3})], {})
    assert era_replicas(state, PLAIN, may_shrink=True) == 6


@pytest.mark.parametrize(
    ("placed", "mode", "evicted"),
    [
        pytest.param({0: 8, 3: 2}, MaxFillUp(), [3], id="the last pod's load fits elsewhere"),
        pytest.param({0: 9, 1: 9, 2: 9, 3: 9}, MaxFillUp(), [], id="no room"),
        pytest.param({0: 8, 2: 1, 3: 2}, PLAIN, [3], id="factor 1"),
        pytest.param({0: 8, 2: 1, 3: 2}, PredicatesAndPriorities(Policy(priorities=(ZONES,))), [3, 2], id="factor 2"),
        pytest.param({0: 8, 3: 2}, PredicatesAndPriorities(Policy(priorities=(NODES,))), [], id="too few would stay"),
        pytest.param({0: 8, 3: 2}, PredicatesAndPriorities(), [], id="no policy, no compaction"),
    ],
)
def test_compaction_empties_the_last_ordinals_if_the_rest_has_room(
    placed: dict[int, int], mode: MaxFillUp | PredicatesAndPriorities, evicted: list[int]
) -> None:
    subject = vpod(10, placed)
    state, _ = era_state(cluster("aabb"), [subject], {})
    assert era_compaction(state, [subject], mode) == [
        (subject.key, Placement(f"s-{ordinal}", placed[ordinal])) for ordinal in evicted
    ]


def test_a_single_pod_is_never_compacted() -> None:
    subject = vpod(1, {0: 1})
    state, _ = era_state(cluster("a"), [subject], {})
    assert era_compaction(state, [subject], MaxFillUp()) == []
