"""Make before break: section 7."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.testing.vpod.builders import amounts, make_placements, pod, schedule, state, vpod, with_placements
from situate.vpod.model.options import DrainOptions, PolicyName, Rescale
from situate.vpod.model.pod_classes import Cause
from situate.vpod.model.records import DrainGoal
from situate.vpod.model.vpod import Key
from situate.vpod.placement.decide import MoveCause, commit
from situate.vpod.scaling.autoscaler import AutoscalerMemory, apply_drain, decide_round
from situate.vpod.scaling.drain import (
    drain_evictions,
    drain_fits,
    may_lower_scale,
    next_retry_time,
    record_eviction,
    schedule_during_drain,
    vpods_on_drained_pods,
)
from situate.vpod.state.knative_json import differences
from situate.vpod.state.state import State

AT_ONCE: dict[str, Any] = {"scale_down_stabilization": 0.0, "drain": DrainOptions(settle=0.0)}
B = Key("a", "b")


def move(on: State, name: str, now: float) -> list[int]:
    """One schedule under the drain, written."""
    subject = on.vpods[Key.parse(name)].as_vpod()
    decision = schedule_during_drain(on, subject, now)
    commit(on, decision)
    on.observe_vpod(with_placements(subject, decision.placements), now)
    return amounts(decision.placements, 4)


@pytest.mark.rule("vpod:D8", "vpod:B4", "vpod:S8", "vpod:V15")
def test_first_everything_moves_and_then_the_scale_is_written() -> None:
    kept = state(4, 10, [vpod("a/b", 20, make_placements(5, 5, 5, 5))], **AT_ONCE)
    first = decide_round(kept, AutoscalerMemory(), 100.0, True)
    assert (first.replicas, first.drain) == (4, DrainGoal(2, 100.0))
    memory = apply_drain(kept, first)
    assert kept.verdict(3).cause is Cause.DRAINING
    assert vpods_on_drained_pods(kept) == [B]
    assert decide_round(kept, memory, 150.0, True).replicas == 4, "phase 2 before the pods are empty"
    assert move(kept, "a/b", 160.0) == [10, 10, 0, 0]
    assert decide_round(kept, memory, 200.0, True).replicas == 2


@pytest.mark.rule("vpod:B4")
@pytest.mark.parametrize(
    ("wanted", "want"),
    [
        pytest.param(7, [2, 2, 2, 1], id="from the highest that is drained"),
        pytest.param(4, [2, 2, 0, 0], id="all that is drained"),
        pytest.param(3, [2, 1, 0, 0], id="and then as usual"),
    ],
)
def test_who_wants_less_during_a_drain_gives_up_what_has_to_leave_anyway(wanted: int, want: list[int]) -> None:
    kept = state(4, 4, [vpod("a/b", 8, make_placements(2, 2, 2, 2)), vpod("a/c", 4, make_placements(2, 2))], **AT_ONCE)
    kept.set_drain(DrainGoal(2, 0.0))
    decision = schedule(kept, vpod("a/b", wanted, make_placements(2, 2, 2, 2)))
    assert amounts(decision.placements, 4) == want
    assert sum(decision.moves.values()) == 0


def test_with_nothing_to_move_the_scale_is_written_at_once() -> None:
    kept = state(4, 10, [vpod("a/b", 4, make_placements(4))], **AT_ONCE)
    assert decide_round(kept, AutoscalerMemory(), 0.0, True).replicas == 1


@pytest.mark.rule("vpod:S8")
def test_the_last_move_settles_first() -> None:
    kept = state(2, 10, [vpod("a/b", 4, make_placements(2, 2))], scale_down_stabilization=0.0)
    memory = apply_drain(kept, decide_round(kept, AutoscalerMemory(), 0.0, True))
    assert move(kept, "a/b", 50.0)[:2] == [4, 0]
    waiting = decide_round(kept, memory, 55.0, True)
    assert (waiting.replicas, waiting.wake_at) == (2, 60.0)
    assert decide_round(kept, memory, 60.0, True).replicas == 1


@pytest.mark.rule("vpod:S8")
def test_a_status_that_was_not_written_keeps_the_pods() -> None:
    kept = state(2, 10, [vpod("a/b", 4, make_placements(2, 2))], **AT_ONCE)
    apply_drain(kept, decide_round(kept, AutoscalerMemory(), 0.0, True))
    decision = schedule_during_drain(kept, kept.vpods[B].as_vpod(), 1.0)
    commit(kept, decision)
    assert decision.placements == make_placements(4)
    assert not may_lower_scale(kept, 1, 1000.0)
    kept.observe_vpod(vpod("a/b", 4, make_placements(4)), 2.0)
    assert may_lower_scale(kept, 1, 1000.0)


@pytest.mark.rule("vpod:B4")
def test_a_drain_that_the_rest_has_no_room_for_is_cancelled_before_the_first_move() -> None:
    kept = state(3, 10, [vpod("a/b", 18, make_placements(6, 6, 6))], **AT_ONCE)
    kept.observe_pod(pod(0, node=""), 0.0)  # counts as coming, and accepts nothing
    before = kept.reservations()
    decided = decide_round(kept, AutoscalerMemory(), 10.0, True)
    assert (decided.replicas, decided.drain) == (3, None)
    assert [notice.reason for notice in decided.notices] == ["DrainCancelled"]
    assert kept.reservations() == before
    assert kept.drain is None


@pytest.mark.rule("vpod:B4", "vpod:L4")
def test_new_demand_cancels_and_the_pods_accept_again() -> None:
    kept = state(4, 10, [vpod("a/b", 20, make_placements(5, 5, 5, 5))], **AT_ONCE)
    memory = apply_drain(kept, decide_round(kept, AutoscalerMemory(), 0.0, True))
    kept.observe_vpod(vpod("a/new", 20), 1.0)
    decided = decide_round(kept, memory, 2.0, False)
    assert (decided.replicas, decided.drain) == (4, None)
    apply_drain(kept, decided)
    assert schedule(kept, vpod("a/new", 20), 3.0).placements == make_placements(5, 5, 5, 5)
    assert amounts(schedule_during_drain(kept, kept.vpods[B].as_vpod(), 3.0).placements, 4) == [5, 5, 5, 5]


def test_less_new_demand_moves_the_goal() -> None:
    kept = state(4, 10, [vpod("a/b", 8, make_placements(2, 2, 2, 2))], **AT_ONCE)
    memory = apply_drain(kept, decide_round(kept, AutoscalerMemory(), 0.0, True))
    assert kept.drain == DrainGoal(1, 0.0)
    kept.observe_vpod(vpod("a/new", 10), 1.0)
    apply_drain(kept, decide_round(kept, memory, 2.0, False))
    assert kept.drain == DrainGoal(2, 2.0)


def test_a_drain_that_never_ends_is_given_up_and_said_so() -> None:
    kept = state(2, 10, [vpod("a/b", 4, make_placements(2, 2))], scale_down_stabilization=300.0)
    memory = apply_drain(kept, decide_round(kept, AutoscalerMemory(), 0.0, True))
    memory = apply_drain(kept, decide_round(kept, memory, 300.0, True))
    assert kept.drain == DrainGoal(1, 300.0)
    assert kept.drain == decide_round(kept, memory, 899.0, True).drain
    decided = decide_round(kept, memory, 900.0, True)
    assert (decided.replicas, decided.drain) == (2, None)
    assert [notice.reason for notice in decided.notices] == ["DrainTimedOut"]
    memory = apply_drain(kept, decided)
    assert decide_round(kept, memory, 1000.0, True).drain is None, "it begins again only after another stabilization"


@pytest.mark.rule("vpod:B4", "vpod:L4")
def test_what_finds_no_other_place_meanwhile_stays_where_it_is() -> None:
    kept = state(3, 4, [vpod("a/b", 6, make_placements(2, 2, 2))], **AT_ONCE)
    apply_drain(kept, decide_round(kept, AutoscalerMemory(), 0.0, True))
    assert kept.drain == DrainGoal(2, 0.0)
    schedule(kept, vpod("a/greedy", 3), 1.0)  # took room that the drain had counted on
    decision = schedule_during_drain(kept, kept.vpods[B].as_vpod(), 2.0)
    assert amounts(decision.placements, 3) == [2, 3, 1]
    assert (decision.left, decision.moves) == (0, {MoveCause.DRAIN: 1})
    commit(kept, decision)
    assert next_retry_time(kept, B) == 7.0, "nobody tells it when there is room"
    schedule(kept, vpod("a/greedy", 0), 5.0)
    assert move(kept, "a/b", 7.0) == [3, 3, 0, 0]
    assert next_retry_time(kept, B) is None


@pytest.mark.rule("vpod:L4", "vpod:B10", "vpod:S8")
def test_a_drain_that_stands_still_ends_where_it_still_can() -> None:
    heavy, light = vpod("a/heavy", 1, make_placements(0, 0, 1), weight=2), vpod("a/light", 2, make_placements(1, 1))
    kept = state(9, 3, [heavy, light], scale_down_stabilization=0.0)
    first = decide_round(kept, AutoscalerMemory(), 0.0, True)
    assert (first.drain, first.wake_at) == (DrainGoal(2, 0.0), 10.0)
    memory = apply_drain(kept, first)
    schedule(
        kept, vpod("a/light", 4, make_placements(1, 1)), 1.0
    )  # no more pods are needed, and nothing heavy fits below now
    assert move(kept, "a/heavy", 2.0)[:3] == [0, 0, 1]
    assert (decide_round(kept, memory, 9.0, True).replicas, decide_round(kept, memory, 9.0, True).drain) == (
        9,
        first.drain,
    )

    ended = decide_round(kept, memory, 10.0, True)

    assert (ended.needed, ended.replicas, ended.drain, ended.notices) == (2, 3, None, ())
    memory = apply_drain(kept, ended)
    kept.observe_replicas(3, 10.0, ours=True)
    refused = decide_round(kept, memory, 10.0, True)
    assert (refused.replicas, refused.drain) == (3, None)
    assert [notice.reason for notice in refused.notices] == ["DrainCancelled"]
    assert kept.verdict(2).cause is Cause.NONE, "the last pod accepts again"
    version = kept.version
    again = decide_round(kept, refused.memory, 20.0, True)
    assert (again.replicas, again.drain, again.notices) == (3, None, ())
    assert kept.version == version, "nothing has changed, so nothing is tried"


@pytest.mark.rule("vpod:L4")
def test_a_drain_is_ended_before_a_lower_one_begins() -> None:
    vpods = [vpod("a/b", 30, make_placements(8, 8, 7, 7))]
    kept = state(4, 10, vpods, scale_down_stabilization=100.0)
    memory = apply_drain(kept, decide_round(kept, AutoscalerMemory(), 0.0, True))
    kept.observe_vpod(vpod("a/b", 10, make_placements(3, 3, 2, 2)), 50.0)
    assert move(kept, "a/b", 50.0) == [8, 2, 0, 0]
    kept.observe_vpod(vpod("a/c", 1, make_placements(0, 0, 0, 1)), 50.0)
    kept.reserve(Key("a", "c"), {3: 1})
    memory = apply_drain(kept, decide_round(kept, memory, 50.0, False))
    memory = apply_drain(kept, decide_round(kept, memory, 100.0, True))
    assert kept.drain == DrainGoal(3, 100.0), "three pods were needed until half of the time ago"
    assert move(kept, "a/c", 141.0)[3] == 0

    cut = decide_round(kept, memory, 151.0, True)

    assert (cut.needed, cut.replicas, cut.drain, cut.wake_at) == (2, 3, None, 151.0), "and the next one begins at once"
    memory = apply_drain(kept, cut)
    kept.observe_replicas(3, 151.0, ours=True)
    assert decide_round(kept, memory, 151.0, True).replicas == 2


@pytest.mark.rule("vpod:L4", "vpod:B4")
def test_what_runs_twice_for_a_while_needs_no_room_in_the_end() -> None:
    kept = state(
        2, 4, [vpod("a/b", 4, make_placements(2, 2))], drain=DrainOptions(surge=2), scale_down_stabilization=0.0
    )
    apply_drain(kept, decide_round(kept, AutoscalerMemory(), 0.0, True))
    assert move(kept, "a/b", 1.0)[:2] == [4, 2]
    goal = kept.drain
    assert goal == DrainGoal(1, 0.0)
    assert drain_fits(kept, goal, 2.0)
    assert kept.vpods[B].surge == 2


@pytest.mark.rule("vpod:L4", "vpod:B4")
def test_what_a_vpod_leaves_on_its_way_is_room_for_the_next_one() -> None:
    """With `rescale: replace` it also leaves pods that are not drained."""
    vpods = [vpod("a/b", 3, make_placements(0, 2, 1)), vpod("a/c", 1, make_placements(0, 0, 1))]
    kept = state(3, 2, vpods, policy=PolicyName.POLICY, rescale=Rescale.REPLACE, **AT_ONCE)
    memory = apply_drain(kept, decide_round(kept, AutoscalerMemory(), 0.0, True))
    assert kept.drain == DrainGoal(2, 0.0)
    assert move(kept, "a/b", 1.0)[:3] == [2, 1, 0]
    assert move(kept, "a/c", 2.0)[:3] == [0, 1, 0]
    assert decide_round(kept, memory, 3.0, True).replicas == 2


def test_surge_adds_first_and_takes_away_later() -> None:
    changes: dict[str, Any] = {"scale_down_stabilization": 0.0, "drain": DrainOptions(settle=10.0, surge=2)}
    kept = state(2, 10, [vpod("a/b", 6, make_placements(3, 3))], **changes)
    apply_drain(kept, decide_round(kept, AutoscalerMemory(), 0.0, True))
    assert move(kept, "a/b", 1.0)[:2] == [5, 3]
    assert next_retry_time(kept, B) == 11.0
    assert move(kept, "a/b", 5.0)[:2] == [5, 3]
    assert move(kept, "a/b", 11.0)[:2] == [5, 1]
    assert move(kept, "a/b", 12.0)[:2] == [6, 1]
    assert not may_lower_scale(kept, 1, 1000.0)
    assert move(kept, "a/b", 22.0)[:2] == [6, 0]
    assert next_retry_time(kept, B) is None


def test_surge_goes_on_as_soon_as_the_new_ones_are_ready() -> None:
    changes: dict[str, Any] = {"scale_down_stabilization": 0.0, "drain": DrainOptions(settle=10.0, surge=5)}
    kept = state(2, 10, [vpod("a/b", 6, make_placements(3, 3))], **changes)
    apply_drain(kept, decide_round(kept, AutoscalerMemory(), 0.0, True))
    assert move(kept, "a/b", 1.0)[:2] == [6, 3]
    subject = kept.vpods[B].as_vpod()
    assert schedule_during_drain(
        kept, subject, 2.0, ready=lambda _key, pod: pod != "set-0"
    ).placements == make_placements(6, 3)
    assert schedule_during_drain(kept, subject, 2.0, ready=lambda _key, _pod: True).placements == make_placements(6)


@pytest.mark.rule("vpod:S2", "vpod:B5")
def test_what_ran_twice_is_too_much_once_the_drain_is_over_however_it_ended() -> None:
    changes: dict[str, Any] = {"scale_down_stabilization": 0.0, "drain": DrainOptions(settle=10.0, surge=2)}
    kept = state(2, 10, [vpod("a/b", 6, make_placements(3, 3))], **changes)
    apply_drain(kept, decide_round(kept, AutoscalerMemory(), 0.0, True))
    assert move(kept, "a/b", 1.0)[:2] == [5, 3]

    kept.observe_replicas(1, 2.0, ours=True)  # as when what was left has been lost with its pod

    assert move(kept, "a/b", 2.0)[:2] == [6, 0]


@pytest.mark.rule("vpod:L4", "vpod:B11")
def test_with_its_quota_used_up_a_vpod_leaves_without_surge() -> None:
    changes: dict[str, Any] = {"scale_down_stabilization": 0.0, "drain": DrainOptions(settle=10.0, surge=2)}
    kept = state(3, 10, [vpod("a/b", 13, make_placements(5, 5, 3))], namespace_max_share=0.45, **changes)
    apply_drain(kept, decide_round(kept, AutoscalerMemory(), 0.0, True))
    assert kept.drain == DrainGoal(2, 0.0)

    assert move(kept, "a/b", 1.0) == [7, 6, 0, 0]

    assert next_retry_time(kept, B) is None
    assert may_lower_scale(kept, 2, 11.0)


@pytest.mark.rule("vpod:L3")
def test_a_vpod_that_is_scaled_to_zero_in_the_middle_of_a_surge_is_empty_at_once() -> None:
    changes: dict[str, Any] = {"scale_down_stabilization": 0.0, "drain": DrainOptions(settle=10.0, surge=2)}
    kept = state(2, 10, [vpod("a/b", 6, make_placements(3, 3))], **changes)
    apply_drain(kept, decide_round(kept, AutoscalerMemory(), 0.0, True))
    assert move(kept, "a/b", 1.0)[:2] == [5, 3]

    kept.observe_vpod(vpod("a/b", 0, make_placements(5, 3)), 2.0)

    assert move(kept, "a/b", 2.0)[:2] == [0, 0]
    assert next_retry_time(kept, B) is None


@pytest.mark.rule("vpod:V15", "vpod:V16")
def test_an_evictor_gets_the_placements_and_they_are_placed_anew() -> None:
    kept = state(3, 10, [vpod("a/b", 6, make_placements(2, 2, 2)), vpod("a/c", 1, make_placements(0, 1))], **AT_ONCE)
    apply_drain(kept, decide_round(kept, AutoscalerMemory(), 0.0, True))
    found = drain_evictions(kept)
    assert [(e.key.name, e.ordinal) for e in found] == [("b", 2), ("b", 1), ("c", 1)]
    for eviction in found[:2]:
        record_eviction(kept, eviction)
    kept.observe_vpod(vpod("a/b", 6, make_placements(2)), 1.0)
    assert schedule(kept, vpod("a/b", 6, make_placements(2)), 1.0).placements == make_placements(6)


@settings(max_examples=80)
@given(
    st.lists(st.lists(st.integers(0, 4), min_size=5, max_size=5), min_size=1, max_size=5),
    st.integers(1, 4),
    st.sampled_from([0, 1, 3]),
)
@pytest.mark.rule("vpod:B4", "vpod:S8", "vpod:S10")
def test_trying_a_drain_leaves_no_trace_and_tells_the_truth(held: list[list[int]], target: int, least: int) -> None:
    vpods = [vpod(f"a/{number}", sum(row), make_placements(*row)) for number, row in enumerate(held)]
    kept = state(5, 20, vpods, min_replicas=least, **AT_ONCE)
    untouched = state(5, 20, vpods, min_replicas=least, **AT_ONCE)
    goal = DrainGoal(target, 0.0)
    possible = drain_fits(kept, goal, 0.0)
    assert differences(kept, untouched) == []
    assert (kept.drain, kept.drain_moved_at) == (None, None)
    kept.set_drain(goal)
    had_to_leave = sum(sum(row[target:]) for row in held)
    moved = 0
    for key in vpods_on_drained_pods(kept):
        subject = kept.vpods[key].as_vpod()
        decision = schedule_during_drain(kept, subject, 1.0)
        commit(kept, decision)
        assert sum(p.vreplicas for p in decision.placements) >= subject.vreplicas, "something runs nowhere"
        moved += decision.moves.get(MoveCause.DRAIN, 0)
        kept.observe_vpod(with_placements(subject, decision.placements), 1.0)
    assert may_lower_scale(kept, target, 100.0) is possible
    if possible:
        assert moved == had_to_leave
