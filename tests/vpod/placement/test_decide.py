"""Where one vpod's vreplicas go: sections 5.1 and 5.2 in the safe profile, by example."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.testing.vpod.builders import amounts, make_placements, options, pod, schedule, state, vpod, with_placements
from situate.vpod.model.options import PackOrder, PolicyName
from situate.vpod.model.vpod import Key, NotEnoughReplicas, Placement
from situate.vpod.placement.decide import MoveCause, commit, decide, retry_order, schedule_all
from situate.vpod.state.fairness_limits import Rule


@pytest.mark.rule("vpod:V2", "vpod:V3", "vpod:D23")
def test_spread_goes_round_and_shrinks_from_the_highest_ordinal() -> None:
    kept = state(3, 6)
    assert schedule(kept, vpod("a/b", 7)).placements == make_placements(3, 2, 2)
    assert schedule(kept, vpod("a/b", 4, make_placements(3, 2, 2))).placements == make_placements(3, 1)


@pytest.mark.rule("vpod:V7", "vpod:D23")
def test_pack_fills_the_lowest_ordinals() -> None:
    kept = state(3, 6, policy=PolicyName.PACK)
    assert schedule(kept, vpod("a/b", 7)).placements == make_placements(6, 1)


@pytest.mark.rule("vpod:V7")
@pytest.mark.parametrize(
    ("order", "want"),
    [
        pytest.param(PackOrder.OWN, make_placements(0, 6, 0), id="own pods first"),
        pytest.param(PackOrder.LOWEST, make_placements(4, 2, 0), id="strictly from ordinal 0"),
    ],
)
def test_pack_orders(order: PackOrder, want: tuple[Placement, ...]) -> None:
    kept = state(3, 6, [vpod("a/b", 2, make_placements(0, 2))], policy=PolicyName.PACK, pack_order=order)
    assert schedule(kept, vpod("a/b", 6, make_placements(0, 2))).placements == want


@given(st.lists(st.integers(1, 12), max_size=8), st.integers(1, 5))
@pytest.mark.rule("vpod:V7")
def test_packing_from_nothing_leaves_no_hole(wants: list[int], capacity: int) -> None:
    kept = state(8, capacity, policy=PolicyName.PACK, pack_order=PackOrder.LOWEST)
    for number, wanted in enumerate(wants):
        schedule(kept, vpod(f"a/{number}", wanted))
    free = [kept.free_units(ordinal) for ordinal in range(8)]
    used = [ordinal for ordinal in range(8) if free[ordinal] < capacity]
    assert not any(free[ordinal] for ordinal in range(max(used, default=0)))


@pytest.mark.rule("vpod:S3", "vpod:D18")
def test_a_shortage_is_an_answer_that_keeps_what_fits_and_says_why() -> None:
    kept = state(4, 2)
    kept.observe_pod(pod(1, annotation="true"), 0.0)
    kept.observe_pod(pod(2, node=""), 0.0)
    decision = schedule(kept, vpod("a/b", 7))
    assert (decision.placements, decision.left) == (make_placements(2, 0, 0, 2), 3)
    assert str(decision.shortage) == "0/4 pods can take 3 more: 2 full, 1 pending, 1 unschedulable"
    assert decision.wakes_autoscaler
    assert kept.reservations() == {Key("a", "b"): {0: 2, 3: 2}}
    with pytest.raises(NotEnoughReplicas) as raised:
        decision.result("ns/set")
    assert raised.value.placements == list(make_placements(2, 0, 0, 2))


@pytest.mark.rule("vpod:B13")
def test_the_sentence_of_a_shortage() -> None:
    kept = state(12, 2)
    kept.observe_pod(pod(0, annotation="true"), 0.0)
    kept.observe_pod(pod(1, annotation="true"), 0.0)
    kept.observe_pod(pod(2, node=""), 0.0)
    schedule(kept, vpod("a/full", 18))
    decision = schedule(kept, vpod("a/b", 3))
    assert str(decision.shortage) == "0/12 pods can take 3 more: 9 full, 2 unschedulable, 1 pending"


@pytest.mark.rule("vpod:S5", "vpod:V24")
def test_what_is_satisfied_stays_when_pods_are_added() -> None:
    kept = state(1, 10)
    first = schedule(kept, vpod("a/b", 6))
    kept.observe_replicas(3, 1.0, ours=True)
    for ordinal in (1, 2):
        kept.observe_pod(pod(ordinal), 1.0)
    again = decide(kept, vpod("a/b", 6, first.placements), 2.0)
    assert (again.placements, again.changed, again.delta) == (make_placements(6), False, {})


@pytest.mark.rule("vpod:D9")
def test_room_is_what_statuses_and_reservations_leave() -> None:
    kept = state(1, 10, [vpod("a/a", 8, make_placements(8))])
    kept.reserve(Key("a", "a"), None)  # another process placed it: only its status is known here
    decision = schedule(kept, vpod("a/b", 8))
    assert (decision.placements, decision.left) == (make_placements(2), 6)


@pytest.mark.rule("vpod:D9")
def test_room_is_not_given_away_before_the_status_lets_go_of_it() -> None:
    kept = state(2, 4, [vpod("a/a", 4, make_placements(4))])
    shrunk = schedule(kept, vpod("a/a", 1, make_placements(4)), written=False)
    assert shrunk.placements == make_placements(1)
    assert schedule(kept, vpod("a/b", 8)).placements == make_placements(0, 4)
    kept.observe_vpod(vpod("a/a", 1, make_placements(1)), 0.0)
    assert schedule(kept, vpod("a/b", 8, make_placements(0, 4))).placements == make_placements(3, 4)


@pytest.mark.rule("vpod:D9")
def test_room_of_a_vpod_that_had_no_reservation_is_not_given_away_before_its_status_lets_go_of_it() -> None:
    kept = state(2, 4)
    kept.observe_vpod(vpod("a/a", 4, make_placements(4)), 0.0)
    assert kept.reservations() == {}
    assert schedule(kept, vpod("a/a", 1, make_placements(4)), written=False).placements == make_placements(1)
    assert schedule(kept, vpod("a/b", 8)).placements == make_placements(0, 4)


@pytest.mark.rule("vpod:D3", "vpod:S6")
def test_a_decision_that_is_not_committed_changes_nothing() -> None:
    kept = state(2, 10, [vpod("a/b", 12, make_placements(10, 2))])
    before = kept.reservations()
    decide(kept, vpod("a/b", 20, make_placements(10, 2)), 0.0)
    assert kept.reservations() == before


@pytest.mark.rule("vpod:S6", "vpod:V10")
def test_partial_results_are_reserved() -> None:
    kept = state(1, 10)
    schedule(kept, vpod("a/a", 15), written=False)
    assert kept.reservations() == {Key("a", "a"): {0: 10}}
    assert schedule(kept, vpod("a/b", 1)).left == 1


@pytest.mark.rule("vpod:S1", "vpod:B15")
def test_a_smaller_capacity_moves_only_the_overcommit() -> None:
    kept = state(3, 6, [vpod("a/a", 6, make_placements(6)), vpod("a/b", 4, make_placements(0, 4))])
    kept.reconfigure(options(4), 1.0)
    decision = schedule(kept, vpod("a/a", 6, make_placements(6)), 1.0)
    assert decision.placements == make_placements(4, 0, 2)
    assert decision.moves == {MoveCause.OVERCOMMIT: 2}
    assert not decide(kept, vpod("a/b", 4, make_placements(0, 4)), 1.0).changed


@pytest.mark.rule("vpod:B3", "vpod:S4")
def test_a_lost_pod_moves_exactly_its_own() -> None:
    kept = state(4, 10, [vpod("a/b", 8, make_placements(2, 2, 2, 2))])
    kept.remove_pod("set-2", 0.0)
    assert not decide(kept, vpod("a/b", 8, make_placements(2, 2, 2, 2)), 59.0).changed
    decision = schedule(kept, vpod("a/b", 8, make_placements(2, 2, 2, 2)), 60.0)
    assert decision.placements == make_placements(3, 3, 0, 2)
    assert decision.moves == {MoveCause.LOSS: 2}


@pytest.mark.rule("vpod:D7", "vpod:L3")
@pytest.mark.parametrize("gone", [{"vreplicas": 0}, {"vreplicas": 9, "deletion_timestamp": "2026-01-01T00:00:00Z"}])
def test_nothing_stays_of_a_vpod_that_wants_nothing(gone: dict[str, object]) -> None:
    kept = state(3, 10, [vpod("a/b", 9, make_placements(3, 3, 3))], min_replicas=3)
    subject = vpod("a/b", placements=make_placements(3, 3, 3), **gone)  # type: ignore[arg-type]  # a table of two shapes
    decision = schedule(kept, subject)
    assert (decision.placements, decision.left, decision.target) == ((), 0, 0)
    assert kept.reservations() == {}


@pytest.mark.rule("vpod:D7")
def test_shrinking_leaves_enough_pods_covered() -> None:
    kept = state(3, 10, [vpod("a/b", 9, make_placements(3, 3, 3))], min_replicas=3)
    assert schedule(kept, vpod("a/b", 3, make_placements(3, 3, 3))).placements == make_placements(1, 1, 1)


@pytest.mark.rule("vpod:D7")
def test_a_vpod_on_too_few_pods_is_spread_when_others_have_room() -> None:
    kept = state(3, 10, [vpod("a/b", 6, make_placements(6))], min_replicas=3)
    decision = schedule(kept, vpod("a/b", 6, make_placements(6)))
    assert decision.placements == make_placements(4, 1, 1)
    assert decision.moves == {MoveCause.REBALANCE: 2}


@pytest.mark.rule("vpod:B3", "vpod:V23", "vpod:S5")
def test_a_short_absence_takes_nothing_away_from_what_min_replicas_added() -> None:
    everywhere = vpod("a/b", 2, make_placements(1, 1, 1, 1))
    kept = state(4, 10, [everywhere], min_replicas=4)
    kept.remove_pod("set-1", 0.0)
    decision = schedule(kept, everywhere, 1.0)
    assert (decision.target, decision.placements) == (4, make_placements(1, 1, 1, 1))
    assert schedule(kept, vpod("a/new", 2), 2.0).placements == make_placements(1, 0, 1, 1), "there it does not run"
    decision = schedule(kept, everywhere, 61.0)
    assert (decision.target, decision.placements) == (3, make_placements(1, 0, 1, 1))


@pytest.mark.rule("vpod:D6", "vpod:S2")
def test_what_min_replicas_adds_is_best_effort() -> None:
    kept = state(3, 1, min_replicas=3)
    kept.observe_vpod(vpod("a/other", 2, make_placements(1, 1)), 0.0)
    kept.reserve_from_status()
    decision = schedule(kept, vpod("a/b", 1))
    assert (decision.placements, decision.target, decision.left) == (make_placements(0, 0, 1), 3, 0)


@pytest.mark.rule("vpod:D10", "vpod:D12", "vpod:B12")
def test_what_is_no_pod_of_ours_is_ignored_named_and_written_away() -> None:
    strange = (Placement("nodash", 3), Placement("other-0", 9), Placement("set-0", -4), *make_placements(0, 2))
    kept = state(2, 10, [vpod("a/b", 2, strange)])
    decision = schedule(kept, vpod("a/b", 2, strange))
    assert (decision.placements, decision.changed) == (make_placements(0, 2), True)
    assert [notice.reason for notice in decision.notices] == ["InvalidPlacement"]
    assert "'nodash' with 3" in decision.notices[0].message
    assert kept.free_units(0) == 10


@pytest.mark.rule("vpod:B12", "vpod:S1")
def test_a_negative_entry_gives_nobody_more_room() -> None:
    kept = state(1, 10)
    kept.observe_vpod(vpod("a/strange", 2, (Placement("set-0", -4),)), 0.0)
    assert schedule(kept, vpod("a/b", 14)).left == 4


@pytest.mark.rule("vpod:D11")
def test_absurd_ordinals_take_no_memory() -> None:
    strange = (Placement("set-999999999999", 3), *make_placements(1))
    kept = state(2, 10, [vpod("a/b", 4, strange)])
    assert len(kept.slots) == 3
    assert schedule(kept, vpod("a/b", 4, strange)).placements == make_placements(2, 2)
    assert len(kept.slots) == 2


@pytest.mark.rule("vpod:B10", "vpod:S1")
def test_heavy_vreplicas_take_their_weight() -> None:
    kept = state(2, 10)
    assert schedule(kept, vpod("a/heavy", 3, weight=4)).placements == make_placements(2, 1)
    decision = schedule(kept, vpod("a/heavier", 2, weight=6))
    assert (decision.placements, decision.left) == (make_placements(0, 1), 1)
    assert str(decision.shortage) == "0/2 pods can take 1 more: 2 full"


@pytest.mark.finding("N4")
@pytest.mark.rule("vpod:B10")
def test_a_weight_above_the_capacity_is_said_so() -> None:
    kept = state(2, 10)
    decision = schedule(kept, vpod("a/b", 1, weight=11))
    assert (decision.left, decision.shortage is not None) == (1, True)
    assert decision.shortage is not None
    assert decision.shortage.limit is not None
    assert decision.shortage.limit.rule is Rule.WEIGHT
    assert str(decision.shortage) == (
        "0/2 pods can take 1 more; "
        "WeightExceedsCapacity: a vreplica of weight 11 is larger than any pod, because podCapacity is 10"
    )
    assert decision.shortage.counts == {"too small": 2}
    assert (decision.shortage.reason, decision.notices) == ("WeightExceedsCapacity", ())


@pytest.mark.rule("vpod:V4", "vpod:V17")
@given(st.lists(st.integers(0, 15), max_size=6))
def test_a_list_is_scheduled_like_one_after_the_other(wants: list[int]) -> None:
    vpods = [vpod(f"a/{number}", 0) for number in range(len(wants))]
    together, singly = state(3, 10, vpods), state(3, 10, vpods)
    decisions = schedule_all(together, zip(vpods, wants, strict=True), 0.0)
    for subject, wanted in zip(vpods, wants, strict=True):
        decision = decide(singly, vpod(str(subject.key), wanted), 0.0)
        commit(singly, decision)
        assert decisions[subject.key].placements == decision.placements
    assert together.reservations() == singly.reservations()


@pytest.mark.rule("vpod:S9", "vpod:D15")
@given(st.permutations(range(4)), st.integers(0, 24), st.booleans())
def test_the_order_in_which_a_status_names_its_pods_decides_nothing(
    order: list[int], wanted: int, overcommitted: bool
) -> None:
    held = (3, 1, 4, 2) if not overcommitted else (9, 1, 8, 2)
    asked = [Placement(f"set-{ordinal}", held[ordinal]) for ordinal in order]
    decisions = []
    for placements in (make_placements(*held), tuple(asked)):
        kept = state(4, 6, [vpod("a/b", sum(held), placements), vpod("a/c", 3, make_placements(0, 3))])
        kept.observe_pod(pod(2, annotation="true"), 0.0)
        decisions.append(schedule(kept, vpod("a/b", wanted, placements)))
    assert decisions[0].placements == decisions[1].placements
    assert (decisions[0].left, decisions[0].moves) == (decisions[1].left, decisions[1].moves)


@pytest.mark.rule("vpod:L5")
def test_shortages_are_tried_again_by_priority_and_age() -> None:
    kept = state(1, 1)
    schedule(kept, vpod("a/first", 1))
    schedule(kept, vpod("a/z-old", 1), now=1.0)
    schedule(kept, vpod("a/b-young", 1), now=2.0)
    schedule(kept, vpod("a/z-old", 1), now=3.0)
    schedule(kept, vpod("a/urgent", 1, priority=5), now=4.0)
    assert [key.name for key in retry_order(kept)] == ["urgent", "z-old", "b-young"]
    kept.observe_replicas(3, 5.0, ours=True)
    for ordinal in (1, 2):
        kept.observe_pod(pod(ordinal), 5.0)
    for key in retry_order(kept):
        schedule(kept, kept.vpods[key].as_vpod(), now=6.0)
    assert [key.name for key in retry_order(kept)] == ["b-young"]


def plain_spread(capacity: int, others: list[int], own: list[int], missing: int) -> list[int]:
    """Step 7 as it is written: passes over pods without own vreplicas, then pods with, one each while there is room."""
    own = list(own)
    order = [o for o in range(len(own)) if not own[o]] + [o for o in range(len(own)) if own[o]]
    progress = True
    while missing and progress:
        progress = False
        for ordinal in order:
            if missing and others[ordinal] + own[ordinal] < capacity:
                own[ordinal] += 1
                missing -= 1
                progress = True
    return own


@given(
    st.integers(1, 9),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=7),
    st.integers(0, 40),
)
@pytest.mark.rule("vpod:V3", "vpod:B1")
def test_spread_is_what_its_plain_twin_says(capacity: int, loads: list[tuple[int, int]], more: int) -> None:
    own = [min(held, capacity) for held, _ in loads]
    others = [min(other, capacity - held) for held, (_, other) in zip(own, loads, strict=True)]
    kept = state(len(loads), capacity, [vpod("a/others", sum(others), make_placements(*others))])
    subject = vpod("a/b", sum(own) + more, make_placements(*own))
    kept.observe_vpod(subject, 0.0)
    kept.reserve_from_status()
    decision = decide(kept, subject, 0.0)
    assert amounts(decision.placements, len(loads)) == plain_spread(capacity, others, own, more)


@pytest.mark.rule("vpod:V1")
def test_namespaces_share_the_pods() -> None:
    kept = state(2, 3)
    for number in range(3):
        schedule(kept, vpod(f"ns-{number}/same-name", 2))
    assert [kept.free_units(ordinal) for ordinal in range(2)] == [0, 0]
    assert len(kept.reservations()) == 3


@pytest.mark.rule("vpod:V16")
def test_evicted_vreplicas_are_placed_by_the_same_policy() -> None:
    kept = state(3, 10, [vpod("a/b", 6, make_placements(2, 2, 2))])
    kept.reserve(Key("a", "b"), {0: 2, 1: 2})
    evicted = with_placements(vpod("a/b", 6), make_placements(2, 2))
    assert schedule(kept, evicted).placements == make_placements(3, 2, 1)
