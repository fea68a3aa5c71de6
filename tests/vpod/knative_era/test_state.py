from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.vpod.knative_era.state import EraCluster, era_state, merge_reservations
from situate.vpod.model.pod_classes import NodeFacts, PodFacts
from situate.vpod.model.vpod import Key, Placement
from tests.vpod.policy.clusters import cluster, vpod

KEY = Key("ns", "v")


def test_an_equal_reservation_has_been_committed_and_another_one_counts_instead() -> None:
    state, waiting = era_state(cluster("ab"), [vpod(9, {0: 2, 1: 3})], {KEY: {"s-0": 2, "s-1": 1}})
    assert (state.free, state.pod_spread[KEY]) == ({0: 8, 1: 9}, {0: 2, 1: 1})
    assert waiting == {KEY: {"s-1": 1}}


def test_a_reservation_without_status_counts_and_an_unlisted_vpods_takes_room_only() -> None:
    reserved = {KEY: {"s-1": 4}, Key("ns", "gone"): {"s-0": 5}}
    state, waiting = era_state(cluster("ab"), [vpod(9)], reserved)
    assert (state.free, state.pod_spread) == ({0: 5, 1: 6}, {KEY: {1: 4}})
    assert waiting == reserved


def test_spreads_are_of_schedulable_pods_only_while_room_is_taken_everywhere() -> None:
    state, _ = era_state(cluster("aab", annotated=(1,)), [vpod(9, {0: 1, 1: 2, 2: 3, 7: 4})], {})
    assert state.free == {0: 9, 1: 8, 2: 7, 7: 6}
    assert (state.node_spread(KEY), state.zone_spread(KEY)) == ({"n0": 1, "n2": 3}, {"a": 1, "b": 3})
    assert (state.schedulable_pods, state.last_ordinal, state.free_capacity()) == ((0, 2), 7, 16)


@pytest.mark.parametrize(
    "node",
    [
        pytest.param(NodeFacts("n", "a", unschedulable=True), id="cordoned"),
        pytest.param(NodeFacts("n", "a", unreachable=True), id="unreachable"),
    ],
)
def test_an_excluded_node_does_not_exist_and_its_pods_are_not_schedulable(node: NodeFacts) -> None:
    over = EraCluster("s", 2, 10, (PodFacts("s-0", "n"), PodFacts("s-1", "m")), (node, NodeFacts("m")))
    state, _ = era_state(over, [], {})
    assert (state.zone_of_node, state.schedulable_pods) == ({"m": "unknown"}, (1,))


@pytest.mark.rule("vpod:D11")
def test_an_absurd_ordinal_costs_one_entry() -> None:
    state, _ = era_state(cluster("a"), [vpod(1, {10**15: 3})], {})
    assert state.free == {0: 10, 10**15: 7}


PODS = st.sampled_from(["s-0", "s-1", "s-2", "s-9", "odd"])


@given(st.lists(st.builds(Placement, PODS, st.integers(0, 4)), max_size=4), st.dictionaries(PODS, st.integers(0, 4)))
def test_merging_twice_changes_no_more(status: list[Placement], reserved: dict[str, int]) -> None:
    once = merge_reservations(status, reserved)
    if len({placement.pod_name for placement in status}) == len(status):
        assert merge_reservations(status, once.reserved) == once
    assert once.reserved.items() <= reserved.items()
