"""`policy: policy` through the shipped `decide`, in the safe profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.vpod.model.options import Options, PolicyName, Rescale
from situate.vpod.model.pod_classes import NodeFacts, PodFacts
from situate.vpod.model.records import DrainGoal
from situate.vpod.model.vpod import Key, Placement, PlainVPod, total_vreplicas
from situate.vpod.placement.decide import Decision, MoveCause, commit, decide
from situate.vpod.placement.resize_by_policy import refusals_by_ordinal
from situate.vpod.policy.registry import DEFAULT_PLACING, Policy, Predicate, Priority
from situate.vpod.scaling.autoscaler import AutoscalerMemory, decide_round
from situate.vpod.scaling.demand import pods_needed
from situate.vpod.state.state import State
from situate.vpod.state.vpod_view import VPodView

OPTIONS = Options("ns", "s", 10, policy=PolicyName.POLICY)
EVEN = Policy((Predicate("EvenPodSpread", '{"MaxSkew": 1}'),), DEFAULT_PLACING.priorities)


def cluster(zones: str, options: Options = OPTIONS) -> State:
    """One pod a letter of `zones`, each on its own node in the zone of that name."""
    pods = [PodFacts(f"s-{i}", f"n{i}") for i in range(len(zones))]
    nodes = [NodeFacts(f"n{i}", zone) for i, zone in enumerate(zones)]
    return State.rebuild(options, len(zones), pods, [], 0.0, nodes)


def placements(placed: Mapping[int, int]) -> tuple[Placement, ...]:
    return tuple(Placement(f"s-{ordinal}", vreplicas) for ordinal, vreplicas in placed.items())


def schedule(
    state: State, wanted: int, placed: Mapping[int, int] | None = None, name: str = "v", weight: int = 1
) -> Decision:
    """Observe the vpod, decide, commit, and see the status written."""
    vpod = PlainVPod(Key("ns", name), wanted, placements(placed or {}), weight=weight)
    state.observe_vpod(vpod, state.now)
    decision = decide(state, vpod, state.now)
    commit(state, decision)
    state.observe_vpod(replace(vpod, placements=decision.placements), state.now)
    return decision


def test_the_shipped_policy_spreads_over_zones() -> None:
    assert schedule(cluster("aabc"), 6).reservation == {0: 1, 1: 1, 2: 2, 3: 2}


def test_growing_keeps_what_is_there() -> None:
    assert schedule(cluster("abc"), 12, {0: 8}).reservation == {0: 8, 1: 2, 2: 2}


def test_replace_places_everything_anew_unless_that_leaves_some_over() -> None:
    options = replace(OPTIONS, rescale=Rescale.REPLACE)
    assert schedule(cluster("abc", options), 12, {0: 8}).reservation == {0: 4, 1: 4, 2: 4}
    short = schedule(cluster("abc", options), 31, {0: 8})
    assert (short.reservation, short.left) == ({0: 10, 1: 10, 2: 10}, 1)


def test_a_shortage_keeps_what_was_placed_and_says_which_predicate_refuses() -> None:
    state = cluster("ab", replace(OPTIONS, placing=EVEN, capacity=3))
    schedule(state, 3, name="other")
    decision = schedule(state, 9)
    assert (decision.reservation, decision.left) == ({0: 1, 1: 2}, 6)
    assert "PredicatesRefuse" not in str(decision.shortage)
    state = cluster("ab", replace(OPTIONS, placing=EVEN))
    schedule(state, 8, {0: 8}, name="other")
    uneven = schedule(state, 9)
    assert (uneven.reservation, uneven.left) == ({0: 2, 1: 3}, 4)
    assert "PredicatesRefuse: 1 pod will cause an uneven spread" in str(uneven.shortage)


def test_what_is_there_moves_only_where_the_predicates_leave_no_other_way() -> None:
    moved = schedule(cluster("ab", replace(OPTIONS, placing=EVEN)), 9, {0: 8})
    assert (moved.reservation, moved.left) == ({0: 5, 1: 4}, 0)
    assert moved.moves == {MoveCause.REBALANCE: 3}


@pytest.mark.rule("vpod:D14")
def test_removing_takes_exactly_the_surplus_from_the_fullest() -> None:
    assert schedule(cluster("abc"), 5, {0: 4, 1: 3, 2: 1}).reservation == {0: 2, 1: 2, 2: 1}


@pytest.mark.rule("vpod:D13")
def test_div_13() -> None:
    removing = Policy(
        priorities=(
            Priority("RemoveWithEvenPodSpreadPriority", 10, '{"MaxSkew": 2}'),
            Priority("RemoveWithHighestOrdinalPriority", 2),
        )
    )
    for low in (1, 8, 9, 20):
        state = cluster("a" * 30, replace(OPTIONS, removing=removing))
        assert schedule(state, 3, {low: 2, low + 1: 2}).reservation == {low: 2, low + 1: 1}


def test_what_lies_on_a_draining_pod_stays_counts_for_its_zone_and_gives_first() -> None:
    state = cluster("abb")
    schedule(state, 3, {0: 1, 2: 2})
    state.set_drain(DrainGoal(2, 0.0))
    assert schedule(state, 4, {0: 1, 2: 2}).reservation == {0: 2, 2: 2}
    assert schedule(state, 2, {0: 2, 2: 2}).reservation == {0: 2}


@pytest.mark.rule("vpod:B15")
def test_another_policy_takes_effect_at_the_next_decision() -> None:
    state = cluster("abc")
    assert schedule(state, 3).reservation == {0: 1, 1: 1, 2: 1}
    packing = Policy(DEFAULT_PLACING.predicates, (Priority("LowestOrdinalPriority", 1),))
    state.reconfigure(replace(OPTIONS, placing=packing), 0.0)
    assert schedule(state, 6, {0: 1, 1: 1, 2: 1}).reservation == {0: 4, 1: 1, 2: 1}


@pytest.mark.rule("vpod:B13")
def test_every_accepting_pod_that_refuses_has_its_reason() -> None:
    state = cluster("abc", replace(OPTIONS, placing=EVEN))
    schedule(state, 10, {0: 10}, name="other")
    vpod = PlainVPod(Key("ns", "v"), 5, placements({1: 3}))
    state.observe_vpod(vpod, 0.0)
    found = refusals_by_ordinal(VPodView.from_state(state, vpod), {1: 3})
    assert found == {
        0: "pod at full capacity",
        1: "pod will cause an uneven spread",
        2: "pod will cause an uneven spread",
    }


def test_where_nodes_cannot_be_listed_all_pods_are_in_one_zone() -> None:
    state = State.rebuild(OPTIONS, 2, [PodFacts(f"s-{i}", f"n{i}") for i in range(2)], [], 0.0)
    assert schedule(state, 4).reservation == {0: 2, 1: 2}


ZONES = st.text("abc", min_size=1, max_size=6)
POLICIES = st.sampled_from([DEFAULT_PLACING, EVEN, Policy(), Policy((), DEFAULT_PLACING.priorities)])


@pytest.mark.rule("vpod:S1", "vpod:S2", "vpod:S3", "vpod:S4", "vpod:S5", "vpod:S6", "vpod:B10")
@given(
    ZONES,
    POLICIES,
    st.sampled_from(list(Rescale)),
    st.lists(st.tuples(st.sampled_from("uvw"), st.integers(0, 30)), min_size=1, max_size=8),
    st.integers(1, 3),
)
def test_promises_hold_after_every_decision(
    zones: str, placing: Policy, rescale: Rescale, calls: list[tuple[str, int]], weight: int
) -> None:
    state = cluster(zones, replace(OPTIONS, placing=placing, rescale=rescale))
    status: dict[str, dict[int, int]] = {}
    weights = {"u": 1, "v": 1, "w": weight}
    for name, wanted in calls:
        before = dict(status.get(name, {}))
        decision = schedule(state, wanted, before, name, weights[name])
        after = dict(decision.reservation)
        status[name] = after
        total = sum(after.values())
        assert total == wanted - decision.left
        assert total_vreplicas(decision.placements) == total
        assert all(n > 0 for n in after.values())
        used = {o: sum(status[v].get(o, 0) * weights[v] for v in status) for o in range(len(zones))}
        assert all(units <= OPTIONS.capacity for units in used.values())
        assert set(after) <= set(range(len(zones)))
        if sum(before.values()) == wanted:
            assert after == before
        if rescale is Rescale.KEEP and wanted >= sum(before.values()) and not placing.predicates:
            assert all(after[o] >= n for o, n in before.items())
        if decision.left and not placing.predicates:
            assert all(OPTIONS.capacity - units < weights[name] for units in used.values())
        if decision.left:
            assert decision.shortage is not None
        assert state.reservations() == {Key("ns", v): places for v, places in status.items() if places}


def grown_until_calm(state: State, wanted: int) -> tuple[list[int], Decision]:
    """Beats and schedules in turn until the replicas stay; every pod comes up at once."""
    seen = [state.replicas]
    placed: Mapping[int, int] = {}
    while True:
        decision = schedule(state, wanted, placed)
        placed = decision.reservation
        replicas = decide_round(state, AutoscalerMemory(), state.now, may_shrink=False).replicas
        if replicas == state.replicas:
            return seen, decision
        state.observe_replicas(replicas, state.now, ours=True)
        for ordinal in range(seen[-1], replicas):
            state.observe_node(NodeFacts(f"n{ordinal}", "a"), state.now)
            state.observe_pod(PodFacts(f"s-{ordinal}", f"n{ordinal}"), state.now)
        seen.append(replicas)
        assert len(seen) < 50


@pytest.mark.rule("vpod:B5")
def test_a_spread_that_needs_more_pods_gets_them_one_at_a_time_and_no_more_than_help() -> None:
    state = cluster("aa", replace(OPTIONS, placing=EVEN))
    schedule(state, 8, {0: 8}, name="other")
    seen, decision = grown_until_calm(state, 8)
    assert (seen, decision.left) == ([2, 3], 0)
    assert decision.reservation == {0: 2, 1: 3, 2: 3}


@pytest.mark.rule("vpod:B5")
def test_where_another_pod_would_refuse_too_none_is_asked_for() -> None:
    few = Policy(
        (Predicate("NoMaxResourceCount", '{"NumPartitions": 1}'), Predicate("EvenPodSpread", '{"MaxSkew": 9}'))
    )
    seen, decision = grown_until_calm(cluster("aa", replace(OPTIONS, placing=few)), 15)
    assert (seen, decision.left) == ([2], 6)


@pytest.mark.parametrize("zones", ["a", "ab"])
@pytest.mark.rule("vpod:B5", "vpod:B13")
def test_what_no_pod_may_take_brings_none_that_would_go_again(zones: str) -> None:
    """Whether a pod has room for it or all are full: it is the predicate that keeps it short."""
    few = Policy((Predicate("NoMaxResourceCount", '{"NumPartitions": 1}'),), DEFAULT_PLACING.priorities)
    state = cluster(zones, replace(OPTIONS, placing=few))
    decision = schedule(state, 3, {0: 2}, weight=5)
    assert (decision.reservation, decision.left) == ({0: 2}, 1)
    assert "PredicatesRefuse" in str(decision.shortage)
    assert state.vpods[decision.key].is_limited_by_rule
    assert pods_needed(state) == 2


@pytest.mark.rule("vpod:B5", "vpod:B11")
def test_a_pod_helps_nobody_whose_quota_is_used_up() -> None:
    state = cluster("aa", replace(OPTIONS, placing=EVEN, namespace_max_share=0.5, max_replicas=None))
    schedule(state, 8, {0: 8}, name="other")
    seen, decision = grown_until_calm(state, 8)
    assert (seen, decision.left) == ([2], 6)
    assert "QuotaExceeded" in str(decision.shortage)


@pytest.mark.rule("vpod:B5", "vpod:B6")
def test_no_pod_is_asked_for_while_one_that_may_help_comes_back() -> None:
    state = cluster("aaa", replace(OPTIONS, placing=EVEN))
    schedule(state, 8, {0: 8}, name="other")
    state.observe_pod(PodFacts("s-2", "n2", deleting=True), 0.0)
    assert schedule(state, 8).left
    assert pods_needed(state) <= 3
    state.advance(60.0)  # it is given up
    assert pods_needed(state) == 4
