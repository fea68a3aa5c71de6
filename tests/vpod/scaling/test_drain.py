"""Make before break: section 7."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.testing.vpod.builders import amounts, placed, pod, schedule, state, vpod, with_placements
from situate.vpod.model.options import DrainOptions, PolicyName, Rescale
from situate.vpod.model.pod_classes import Cause
from situate.vpod.model.records import DrainGoal
from situate.vpod.model.vpod import Key
from situate.vpod.placement.decide import MoveCause, commit
from situate.vpod.scaling.autoscaler import Memory, apply, beat
from situate.vpod.scaling.drain import evicted, evictions, fits, leaving, may_cut, place, retry_at
from situate.vpod.state.knative_json import differences
from situate.vpod.state.state import State

AT_ONCE: dict[str, Any] = {"scale_down_stabilization": 0.0, "drain": DrainOptions(settle=0.0)}
B = Key("a", "b")


def move(on: State, name: str, now: float) -> list[int]:
    """One schedule under the drain, written."""
    subject = on.vpods[Key.parse(name)].as_vpod()
    decision = place(on, subject, now)
    commit(on, decision)
    on.observe_vpod(with_placements(subject, decision.placements), now)
    return amounts(decision.placements, 4)


@pytest.mark.rule("vpod:D8", "vpod:B4", "vpod:S8", "vpod:V15")
def test_first_everything_moves_and_then_the_scale_is_written() -> None:
    kept = state(4, 10, [vpod("a/b", 20, placed(5, 5, 5, 5))], **AT_ONCE)
    first = beat(kept, Memory(), 100.0, True)
    assert (first.replicas, first.drain) == (4, DrainGoal(2, 100.0))
    memory = apply(kept, first)
    assert kept.verdict(3).cause is Cause.DRAINING
    assert leaving(kept) == [B]
    assert beat(kept, memory, 150.0, True).replicas == 4, "phase 2 before the pods are empty"
    assert move(kept, "a/b", 160.0) == [10, 10, 0, 0]
    assert beat(kept, memory, 200.0, True).replicas == 2


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
    kept = state(4, 4, [vpod("a/b", 8, placed(2, 2, 2, 2)), vpod("a/c", 4, placed(2, 2))], **AT_ONCE)
    kept.set_drain(DrainGoal(2, 0.0))
    decision = schedule(kept, vpod("a/b", wanted, placed(2, 2, 2, 2)))
    assert amounts(decision.placements, 4) == want
    assert sum(decision.moves.values()) == 0


def test_with_nothing_to_move_the_scale_is_written_at_once() -> None:
    kept = state(4, 10, [vpod("a/b", 4, placed(4))], **AT_ONCE)
    assert beat(kept, Memory(), 0.0, True).replicas == 1


@pytest.mark.rule("vpod:S8")
def test_the_last_move_settles_first() -> None:
    kept = state(2, 10, [vpod("a/b", 4, placed(2, 2))], scale_down_stabilization=0.0)
    memory = apply(kept, beat(kept, Memory(), 0.0, True))
    assert move(kept, "a/b", 50.0)[:2] == [4, 0]
    waiting = beat(kept, memory, 55.0, True)
    assert (waiting.replicas, waiting.wake_at) == (2, 60.0)
    assert beat(kept, memory, 60.0, True).replicas == 1


@pytest.mark.rule("vpod:S8")
def test_a_status_that_was_not_written_keeps_the_pods() -> None:
    kept = state(2, 10, [vpod("a/b", 4, placed(2, 2))], **AT_ONCE)
    apply(kept, beat(kept, Memory(), 0.0, True))
    decision = place(kept, kept.vpods[B].as_vpod(), 1.0)
    commit(kept, decision)
    assert decision.placements == placed(4)
    assert not may_cut(kept, 1, 1000.0)
    kept.observe_vpod(vpod("a/b", 4, placed(4)), 2.0)
    assert may_cut(kept, 1, 1000.0)


@pytest.mark.rule("vpod:B4")
def test_a_drain_that_the_rest_has_no_room_for_is_cancelled_before_the_first_move() -> None:
    kept = state(3, 10, [vpod("a/b", 18, placed(6, 6, 6))], **AT_ONCE)
    kept.observe_pod(pod(0, node=""), 0.0)  # counts as coming, and accepts nothing
    before = kept.reservations()
    decided = beat(kept, Memory(), 10.0, True)
    assert (decided.replicas, decided.drain) == (3, None)
    assert [notice.reason for notice in decided.notices] == ["DrainCancelled"]
    assert kept.reservations() == before
    assert kept.drain is None


@pytest.mark.rule("vpod:B4", "vpod:L4")
def test_new_demand_cancels_and_the_pods_accept_again() -> None:
    kept = state(4, 10, [vpod("a/b", 20, placed(5, 5, 5, 5))], **AT_ONCE)
    memory = apply(kept, beat(kept, Memory(), 0.0, True))
    kept.observe_vpod(vpod("a/new", 20), 1.0)
    decided = beat(kept, memory, 2.0, False)
    assert (decided.replicas, decided.drain) == (4, None)
    apply(kept, decided)
    assert schedule(kept, vpod("a/new", 20), 3.0).placements == placed(5, 5, 5, 5)
    assert amounts(place(kept, kept.vpods[B].as_vpod(), 3.0).placements, 4) == [5, 5, 5, 5]


def test_less_new_demand_moves_the_goal() -> None:
    kept = state(4, 10, [vpod("a/b", 8, placed(2, 2, 2, 2))], **AT_ONCE)
    memory = apply(kept, beat(kept, Memory(), 0.0, True))
    assert kept.drain == DrainGoal(1, 0.0)
    kept.observe_vpod(vpod("a/new", 10), 1.0)
    apply(kept, beat(kept, memory, 2.0, False))
    assert kept.drain == DrainGoal(2, 2.0)


def test_a_drain_that_never_ends_is_given_up_and_said_so() -> None:
    kept = state(2, 10, [vpod("a/b", 4, placed(2, 2))], scale_down_stabilization=300.0)
    memory = apply(kept, beat(kept, Memory(), 0.0, True))
    memory = apply(kept, beat(kept, memory, 300.0, True))
    assert kept.drain == DrainGoal(1, 300.0)
    assert kept.drain == beat(kept, memory, 899.0, True).drain
    decided = beat(kept, memory, 900.0, True)
    assert (decided.replicas, decided.drain) == (2, None)
    assert [notice.reason for notice in decided.notices] == ["DrainTimedOut"]
    memory = apply(kept, decided)
    assert beat(kept, memory, 1000.0, True).drain is None, "it begins again only after another stabilization"


@pytest.mark.rule("vpod:B4", "vpod:L4")
def test_what_finds_no_other_place_meanwhile_stays_where_it_is() -> None:
    kept = state(3, 4, [vpod("a/b", 6, placed(2, 2, 2))], **AT_ONCE)
    apply(kept, beat(kept, Memory(), 0.0, True))
    assert kept.drain == DrainGoal(2, 0.0)
    schedule(kept, vpod("a/greedy", 3), 1.0)  # took room that the drain had counted on
    decision = place(kept, kept.vpods[B].as_vpod(), 2.0)
    assert amounts(decision.placements, 3) == [2, 3, 1]
    assert (decision.left, decision.moves) == (0, {MoveCause.DRAIN: 1})
    commit(kept, decision)
    assert retry_at(kept, B) == 7.0, "nobody tells it when there is room"
    schedule(kept, vpod("a/greedy", 0), 5.0)
    assert move(kept, "a/b", 7.0) == [3, 3, 0, 0]
    assert retry_at(kept, B) is None


@pytest.mark.rule("vpod:L4", "vpod:B10", "vpod:S8")
def test_a_drain_that_stands_still_ends_where_it_still_can() -> None:
    heavy, light = vpod("a/heavy", 1, placed(0, 0, 1), weight=2), vpod("a/light", 2, placed(1, 1))
    kept = state(9, 3, [heavy, light], scale_down_stabilization=0.0)
    first = beat(kept, Memory(), 0.0, True)
    assert (first.drain, first.wake_at) == (DrainGoal(2, 0.0), 10.0)
    memory = apply(kept, first)
    schedule(kept, vpod("a/light", 4, placed(1, 1)), 1.0)  # no more pods are needed, and nothing heavy fits below now
    assert move(kept, "a/heavy", 2.0)[:3] == [0, 0, 1]
    assert (beat(kept, memory, 9.0, True).replicas, beat(kept, memory, 9.0, True).drain) == (9, first.drain)

    ended = beat(kept, memory, 10.0, True)

    assert (ended.needed, ended.replicas, ended.drain, ended.notices) == (2, 3, None, ())
    memory = apply(kept, ended)
    kept.observe_replicas(3, 10.0, ours=True)
    refused = beat(kept, memory, 10.0, True)
    assert (refused.replicas, refused.drain) == (3, None)
    assert [notice.reason for notice in refused.notices] == ["DrainCancelled"]
    assert kept.verdict(2).cause is Cause.NONE, "the last pod accepts again"
    version = kept.version
    again = beat(kept, refused.memory, 20.0, True)
    assert (again.replicas, again.drain, again.notices) == (3, None, ())
    assert kept.version == version, "nothing has changed, so nothing is tried"


@pytest.mark.rule("vpod:L4")
def test_a_drain_is_ended_before_a_lower_one_begins() -> None:
    vpods = [vpod("a/b", 30, placed(8, 8, 7, 7))]
    kept = state(4, 10, vpods, scale_down_stabilization=100.0)
    memory = apply(kept, beat(kept, Memory(), 0.0, True))
    kept.observe_vpod(vpod("a/b", 10, placed(3, 3, 2, 2)), 50.0)
    assert move(kept, "a/b", 50.0) == [8, 2, 0, 0]
    kept.observe_vpod(vpod("a/c", 1, placed(0, 0, 0, 1)), 50.0)
    kept.reserve(Key("a", "c"), {3: 1})
    memory = apply(kept, beat(kept, memory, 50.0, False))
    memory = apply(kept, beat(kept, memory, 100.0, True))
    assert kept.drain == DrainGoal(3, 100.0), "three pods were needed until half of the time ago"
    assert move(kept, "a/c", 141.0)[3] == 0

    cut = beat(kept, memory, 151.0, True)

    assert (cut.needed, cut.replicas, cut.drain, cut.wake_at) == (2, 3, None, 151.0), "and the next one begins at once"
    memory = apply(kept, cut)
    kept.observe_replicas(3, 151.0, ours=True)
    assert beat(kept, memory, 151.0, True).replicas == 2


@pytest.mark.rule("vpod:L4", "vpod:B4")
def test_what_runs_twice_for_a_while_needs_no_room_in_the_end() -> None:
    kept = state(2, 4, [vpod("a/b", 4, placed(2, 2))], drain=DrainOptions(surge=2), scale_down_stabilization=0.0)
    apply(kept, beat(kept, Memory(), 0.0, True))
    assert move(kept, "a/b", 1.0)[:2] == [4, 2]
    goal = kept.drain
    assert goal == DrainGoal(1, 0.0)
    assert fits(kept, goal, 2.0)
    assert kept.vpods[B].surge == 2


@pytest.mark.rule("vpod:L4", "vpod:B4")
def test_what_a_vpod_leaves_on_its_way_is_room_for_the_next_one() -> None:
    """With `rescale: replace` it also leaves pods that are not drained."""
    vpods = [vpod("a/b", 3, placed(0, 2, 1)), vpod("a/c", 1, placed(0, 0, 1))]
    kept = state(3, 2, vpods, policy=PolicyName.POLICY, rescale=Rescale.REPLACE, **AT_ONCE)
    memory = apply(kept, beat(kept, Memory(), 0.0, True))
    assert kept.drain == DrainGoal(2, 0.0)
    assert move(kept, "a/b", 1.0)[:3] == [2, 1, 0]
    assert move(kept, "a/c", 2.0)[:3] == [0, 1, 0]
    assert beat(kept, memory, 3.0, True).replicas == 2


def test_surge_adds_first_and_takes_away_later() -> None:
    changes: dict[str, Any] = {"scale_down_stabilization": 0.0, "drain": DrainOptions(settle=10.0, surge=2)}
    kept = state(2, 10, [vpod("a/b", 6, placed(3, 3))], **changes)
    apply(kept, beat(kept, Memory(), 0.0, True))
    assert move(kept, "a/b", 1.0)[:2] == [5, 3]
    assert retry_at(kept, B) == 11.0
    assert move(kept, "a/b", 5.0)[:2] == [5, 3]
    assert move(kept, "a/b", 11.0)[:2] == [5, 1]
    assert move(kept, "a/b", 12.0)[:2] == [6, 1]
    assert not may_cut(kept, 1, 1000.0)
    assert move(kept, "a/b", 22.0)[:2] == [6, 0]
    assert retry_at(kept, B) is None


def test_surge_goes_on_as_soon_as_the_new_ones_are_ready() -> None:
    changes: dict[str, Any] = {"scale_down_stabilization": 0.0, "drain": DrainOptions(settle=10.0, surge=5)}
    kept = state(2, 10, [vpod("a/b", 6, placed(3, 3))], **changes)
    apply(kept, beat(kept, Memory(), 0.0, True))
    assert move(kept, "a/b", 1.0)[:2] == [6, 3]
    subject = kept.vpods[B].as_vpod()
    assert place(kept, subject, 2.0, ready=lambda _key, pod: pod != "set-0").placements == placed(6, 3)
    assert place(kept, subject, 2.0, ready=lambda _key, _pod: True).placements == placed(6)


@pytest.mark.rule("vpod:S2", "vpod:B5")
def test_what_ran_twice_is_too_much_once_the_drain_is_over_however_it_ended() -> None:
    changes: dict[str, Any] = {"scale_down_stabilization": 0.0, "drain": DrainOptions(settle=10.0, surge=2)}
    kept = state(2, 10, [vpod("a/b", 6, placed(3, 3))], **changes)
    apply(kept, beat(kept, Memory(), 0.0, True))
    assert move(kept, "a/b", 1.0)[:2] == [5, 3]

    kept.observe_replicas(1, 2.0, ours=True)  # as when what was left has been lost with its pod

    assert move(kept, "a/b", 2.0)[:2] == [6, 0]


@pytest.mark.rule("vpod:L4", "vpod:B11")
def test_with_its_quota_used_up_a_vpod_leaves_without_surge() -> None:
    changes: dict[str, Any] = {"scale_down_stabilization": 0.0, "drain": DrainOptions(settle=10.0, surge=2)}
    kept = state(3, 10, [vpod("a/b", 13, placed(5, 5, 3))], namespace_max_share=0.45, **changes)
    apply(kept, beat(kept, Memory(), 0.0, True))
    assert kept.drain == DrainGoal(2, 0.0)

    assert move(kept, "a/b", 1.0) == [7, 6, 0, 0]

    assert retry_at(kept, B) is None
    assert may_cut(kept, 2, 11.0)


@pytest.mark.rule("vpod:L3")
def test_a_vpod_that_is_scaled_to_zero_in_the_middle_of_a_surge_is_empty_at_once() -> None:
    changes: dict[str, Any] = {"scale_down_stabilization": 0.0, "drain": DrainOptions(settle=10.0, surge=2)}
    kept = state(2, 10, [vpod("a/b", 6, placed(3, 3))], **changes)
    apply(kept, beat(kept, Memory(), 0.0, True))
    assert move(kept, "a/b", 1.0)[:2] == [5, 3]

    kept.observe_vpod(vpod("a/b", 0, placed(5, 3)), 2.0)

    assert move(kept, "a/b", 2.0)[:2] == [0, 0]
    assert retry_at(kept, B) is None


@pytest.mark.rule("vpod:V15", "vpod:V16")
def test_an_evictor_gets_the_placements_and_they_are_placed_anew() -> None:
    kept = state(3, 10, [vpod("a/b", 6, placed(2, 2, 2)), vpod("a/c", 1, placed(0, 1))], **AT_ONCE)
    apply(kept, beat(kept, Memory(), 0.0, True))
    found = evictions(kept)
    assert [(e.key.name, e.ordinal) for e in found] == [("b", 2), ("b", 1), ("c", 1)]
    for eviction in found[:2]:
        evicted(kept, eviction)
    kept.observe_vpod(vpod("a/b", 6, placed(2)), 1.0)
    assert schedule(kept, vpod("a/b", 6, placed(2)), 1.0).placements == placed(6)


@settings(max_examples=80)
@given(
    st.lists(st.lists(st.integers(0, 4), min_size=5, max_size=5), min_size=1, max_size=5),
    st.integers(1, 4),
    st.sampled_from([0, 1, 3]),
)
@pytest.mark.rule("vpod:B4", "vpod:S8", "vpod:S10")
def test_trying_a_drain_leaves_no_trace_and_tells_the_truth(held: list[list[int]], target: int, least: int) -> None:
    vpods = [vpod(f"a/{number}", sum(row), placed(*row)) for number, row in enumerate(held)]
    kept = state(5, 20, vpods, min_replicas=least, **AT_ONCE)
    untouched = state(5, 20, vpods, min_replicas=least, **AT_ONCE)
    goal = DrainGoal(target, 0.0)
    possible = fits(kept, goal, 0.0)
    assert differences(kept, untouched) == []
    assert (kept.drain, kept.drain_moved_at) == (None, None)
    kept.set_drain(goal)
    had_to_leave = sum(sum(row[target:]) for row in held)
    moved = 0
    for key in leaving(kept):
        subject = kept.vpods[key].as_vpod()
        decision = place(kept, subject, 1.0)
        commit(kept, decision)
        assert sum(p.vreplicas for p in decision.placements) >= subject.vreplicas, "something runs nowhere"
        moved += decision.moves.get(MoveCause.DRAIN, 0)
        kept.observe_vpod(with_placements(subject, decision.placements), 1.0)
    assert may_cut(kept, target, 100.0) is possible
    if possible:
        assert moved == had_to_leave
