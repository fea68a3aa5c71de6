"""The reference profile: what v0.43.0 answers, with D14 and D15 put right."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.vpod.knative_era.schedule import (
    EraDecision,
    MaxFillUp,
    PredicatesAndPriorities,
    era_decision,
    updated_reservations,
)
from situate.vpod.knative_era.state import EraCluster, Reservations
from situate.vpod.model.vpod import Key, total_vreplicas
from situate.vpod.policy.registry import DEFAULT_PLACING, DEFAULT_REMOVING, Policy, Predicate, Priority
from tests.vpod.policy.clusters import cluster, placements, vpod

KEY = Key("ns", "v")
FITS = Predicate("PodFitsResources")
LOWEST = Priority("LowestOrdinalPriority", 1)
SHIPPED = PredicatesAndPriorities(DEFAULT_PLACING, DEFAULT_REMOVING)
REMOVE_EVENLY = PredicatesAndPriorities(
    removing=Policy(
        priorities=(
            Priority("RemoveWithEvenPodSpreadPriority", 10, '{"MaxSkew": 2}'),
            Priority("RemoveWithHighestOrdinalPriority", 2),
        )
    )
)


def decide(
    over: EraCluster,
    wanted: int,
    placed: dict[int, int],
    mode: MaxFillUp | PredicatesAndPriorities,
    reserved: Reservations | None = None,
) -> EraDecision:
    subject = vpod(wanted, placed)
    return era_decision(over, [subject], reserved or {}, subject, mode)


@pytest.mark.parametrize(
    ("ordinals", "loser"),
    [
        pytest.param((1, 2), 2, id="both below the wrap"),
        pytest.param((9, 10), 9, id="only the higher one wraps, so the lower ordinal loses"),
        pytest.param((20, 21), 21, id="both wrap"),
    ],
)
@pytest.mark.rule("vpod:D13")
def test_sums_wrap_as_upstream_lets_them(ordinals: tuple[int, int], loser: int) -> None:
    decision = decide(cluster("a" * 30), 3, dict.fromkeys(ordinals, 2), REMOVE_EVENLY)
    assert decision.placements == placements({o: 1 if o == loser else 2 for o in ordinals})


def test_a_rescale_places_everything_anew() -> None:
    decision = decide(cluster("abc"), 15, {0: 10}, PredicatesAndPriorities(DEFAULT_PLACING))
    assert decision.placements == placements({0: 5, 1: 5, 2: 5})


def test_a_shortage_gives_the_old_placements_back_and_keeps_what_was_tried_reserved() -> None:
    decision = decide(cluster("ab", capacity=3), 9, {0: 2}, PredicatesAndPriorities(DEFAULT_PLACING))
    assert (decision.placements, decision.left) == (placements({0: 2}), 3)
    assert decision.reserved == {KEY: {"s-0": 2, "s-1": 3}}


def test_a_score_error_leaves_the_rest() -> None:
    unreadable = Policy((FITS,), (Priority("EvenPodSpread", 1, "{"),))
    decision = decide(cluster("ab"), 2, {}, PredicatesAndPriorities(unreadable))
    assert (decision.placements, decision.left) == ((), 2)


def test_without_a_removing_policy_a_surplus_is_placed_anew() -> None:
    packing = PredicatesAndPriorities(Policy((FITS,), (LOWEST,)))
    assert decide(cluster("ab"), 3, {0: 2, 1: 4}, packing).placements == placements({0: 3})


def test_without_any_policy_only_the_trimming_is_done() -> None:
    decision = decide(cluster("ab", annotated=(1,)), 9, {0: 2, 1: 4}, PredicatesAndPriorities())
    assert (decision.placements, decision.left) == (placements({0: 2}), 0)


def test_overcommit_is_cut_from_the_vpod_that_is_scheduled() -> None:
    other = vpod(8, {0: 8}, name="w")
    subject = vpod(5, {0: 5})
    decision = era_decision(cluster("a"), [other, subject], {}, subject, PredicatesAndPriorities())
    assert decision.placements == placements({0: 2})


def test_max_fill_up_fills_own_pods_then_the_lowest_even_unschedulable_ones() -> None:
    decision = decide(cluster("abc", capacity=6, annotated=(0,)), 10, {2: 1}, MaxFillUp())
    assert (decision.placements, decision.left) == (placements({0: 4, 2: 6}), 0)


def test_max_fill_up_publishes_what_fits() -> None:
    decision = decide(cluster("ab", capacity=6), 15, {}, MaxFillUp())
    assert (decision.placements, decision.left) == (placements({0: 6, 1: 6}), 3)


def test_max_fill_up_takes_from_the_highest_ordinal() -> None:
    assert decide(cluster("abc"), 4, {0: 3, 1: 2, 2: 2}, MaxFillUp()).placements == placements({0: 3, 1: 1})


def test_reservations_of_unlisted_vpods_go_and_those_of_satisfied_ones_are_emptied() -> None:
    other = vpod(1, {0: 1}, name="w")
    reserved = {Key("ns", "gone"): {"s-0": 1}, other.key: {"s-0": 3}}
    decision = era_decision(cluster("a"), [other, vpod(0)], reserved, vpod(0), SHIPPED)
    assert decision.reserved == {other.key: {}, KEY: {}}


def test_reserving_merges_and_nothing_empties() -> None:
    assert updated_reservations({"s-0": 8, "s-1": 7}, placements({0: 1})) == {"s-0": 1, "s-1": 7}
    assert updated_reservations({"s-0": 8}, ()) == {}


SPREADS = st.dictionaries(st.integers(0, 7), st.integers(1, 4), min_size=1)
REMOVERS = st.lists(
    st.sampled_from(
        [
            Priority("RemoveWithEvenPodSpreadPriority", 10, '{"MaxSkew": 2}'),
            Priority("RemoveWithAvailabilityZonePriority", 7, '{"MaxSkew": 2}'),
            Priority("RemoveWithAvailabilityNodePriority", 3, '{"MaxSkew": 2}'),
            Priority("RemoveWithHighestOrdinalPriority", 2),
        ]
    ),
    unique=True,
    max_size=4,
)


@pytest.mark.rule("vpod:D14")
@given(SPREADS, st.integers(0, 20), REMOVERS)
def test_exactly_the_surplus_goes_and_only_from_what_was_there(
    placed: dict[int, int], wanted: int, priorities: list[Priority]
) -> None:
    total = sum(placed.values())
    mode = PredicatesAndPriorities(removing=Policy(priorities=tuple(priorities)))
    decision = decide(cluster("abcabcab"), wanted, placed, mode)
    assert total_vreplicas(decision.placements) == min(wanted, total)
    assert all(0 < p.vreplicas <= placed[int(p.pod_name[2:])] for p in decision.placements)


@pytest.mark.rule("vpod:D15")
def test_equal_scores_place_low_and_remove_high() -> None:
    indifferent = PredicatesAndPriorities(Policy((FITS,)), Policy())
    assert decide(cluster("abc", capacity=2), 3, {}, indifferent).placements == placements({0: 2, 1: 1})
    assert decide(cluster("abc"), 3, {0: 2, 1: 2, 2: 2}, indifferent).placements == placements({0: 2, 1: 1})


@pytest.mark.rule("vpod:D22")
def test_a_pod_on_an_unknown_node_is_not_schedulable_and_the_others_go_on() -> None:
    known = cluster("abc")
    over = EraCluster(known.statefulset, 3, 10, known.pods, known.nodes[1:])
    assert decide(over, 4, {0: 2}, SHIPPED).placements == placements({1: 2, 2: 2})


@pytest.mark.rule("vpod:D10", "vpod:D12")
def test_names_without_ordinal_and_other_statefulsets_pods_are_not_charged() -> None:
    subject = vpod(2)
    strange = vpod(3, name="w")
    for name in ("s-x", "t-0", "s-00", "", "s-" + "9" * 5000):
        other = type(strange)(strange.key, 3, (type(placements({0: 1})[0])(name, 9),))
        decision = era_decision(cluster("a"), [other, subject], {}, subject, SHIPPED)
        assert decision.placements == placements({0: 2})


@pytest.mark.rule("vpod:B12")
def test_a_negative_status_entry_is_dropped_and_takes_no_room_from_its_pod() -> None:
    subject = vpod(12, {0: -3})
    decision = era_decision(cluster("a"), [subject], {}, subject, MaxFillUp())
    assert (decision.placements, decision.left) == (placements({0: 12}), 0)
