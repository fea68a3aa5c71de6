from __future__ import annotations

from collections.abc import Callable

import pytest

from situate.testing.vpod.builders import make_placements, options, pod, schedule, state, vpod
from situate.vpod.model.options import PolicyName, Profile
from situate.vpod.model.pod_classes import NodeFacts
from situate.vpod.model.records import DrainGoal
from situate.vpod.model.vpod import Key, Placement
from situate.vpod.placement.decide import commit, decide
from situate.vpod.state.knative_json import (
    differences,
    free_capacity,
    last_ordinal,
    pod_spread,
    schedulable_pods,
    to_json,
    total_expected_vreplicas,
    total_pending,
)
from situate.vpod.state.state import State

B = Key("a", "b")


@pytest.mark.rule("vpod:V11", "vpod:V12", "vpod:V13", "vpod:V14", "vpod:V6")
def test_what_it_holds() -> None:
    kept = state(3, 10, [vpod("a/b", 6, make_placements(1, 0, 5)), vpod("c/d", 4, make_placements(0, 3))])
    kept.observe_pod(pod(2, annotation="true"), 0.0)
    assert schedulable_pods(kept) == [0, 1]
    assert free_capacity(kept) == 16
    assert last_ordinal(kept) == 2
    assert pod_spread(kept) == {"a/b": {"set-0": 1}, "c/d": {"set-1": 3}}
    assert (total_pending(kept), total_expected_vreplicas(kept)) == (1, 10)


@pytest.mark.rule("vpod:V11")
def test_the_keys_of_its_json() -> None:
    document = to_json(state(2, 10, [vpod("a/b", 6, make_placements(1, 5))], zones=["x", "y"]))
    assert document["freeCap"] == [9, 5]
    assert document["expectedVReplicaByVPod"] == {"a/b": 6}
    assert document["lastOrdinal"] == 1
    assert document["zoneSpread"] == {"a/b": {"x": 1, "y": 5}}
    assert document["nodeSpread"] == {"a/b": {"node-0": 1, "node-1": 5}}
    assert document["numZones"] == 2
    assert {"schedulablePods", "capacity", "replicas", "statefulSetName", "podSpread", "pending"} <= document.keys()


@pytest.mark.rule("vpod:D11")
def test_the_dense_list_ends_before_absurd_ordinals() -> None:
    absurd = (Placement("set-500000", 3), *make_placements(0, 1))
    kept = state(2, 10, [vpod("a/b", 4, absurd)])
    document = to_json(kept)
    assert document["freeCap"] == [10, 9]
    assert document["freeCapBeyond"] == {"500000": 7}
    kept.observe_vpod(vpod("a/b", 4, make_placements(2, 2)), 0.0)
    kept.reserve_from_status()
    assert set(kept.slots) == {0, 1}


@pytest.mark.rule("vpod:D1", "vpod:B2", "vpod:S6")
def test_promotion_reserves_what_statuses_say_and_nothing_else() -> None:
    going = vpod("a/going", 2, make_placements(2), deletion_timestamp="2026-01-01T00:00:00Z")
    kept = state(2, 10, [vpod("a/b", 6, (*make_placements(1, 5), Placement("set-1", 2))), going])
    kept.reserve(Key("a", "ghost"), {0: 3})
    kept.reserve_from_status()
    assert kept.reservations() == {B: {0: 1, 1: 7}}
    before = kept.reservations()
    kept.reserve_from_status()
    assert kept.reservations() == before


@pytest.mark.rule("vpod:B2", "vpod:S5")
def test_after_a_fail_over_nothing_satisfied_is_written() -> None:
    vpods = [vpod("a/b", 6, make_placements(1, 5)), vpod("a/c", 3, make_placements(3)), vpod("a/empty", 0)]
    kept = state(2, 10, vpods)
    assert not any(decide(kept, subject, 0.0).changed for subject in vpods)


@pytest.mark.rule("vpod:D24", "vpod:S6")
def test_what_is_gone_reserves_nothing() -> None:
    kept = state(2, 10, [vpod("a/b", 6, make_placements(1, 5)), vpod("a/c", 3, make_placements(3))])
    kept.remove_vpod(B, 0.0)
    assert (kept.free_units(0), kept.free_units(1)) == (7, 10)
    assert kept.drop_unlisted([], 0.0) == [Key("a", "c")]
    assert (kept.reservations(), kept.free_units(0)) == ({}, 10)


@pytest.mark.rule("vpod:D2")
def test_one_value_of_replicas_decides() -> None:
    kept = state(3, 10)
    kept.observe_pod(pod(0, node=""), 0.0)
    assert schedule(kept, vpod("a/b", 4)).placements == make_placements(0, 2, 2)


@pytest.mark.rule("vpod:D22")
def test_an_unknown_node_concerns_its_own_pods_only() -> None:
    kept = state(3, 10, policy=PolicyName.POLICY)
    kept.observe_pod(pod(1, node="nowhere"), 0.0)
    decision = schedule(kept, vpod("a/b", 20))
    assert (decision.placements, decision.left) == (make_placements(10, 0, 10), 0)


@pytest.mark.rule("vpod:D17")
def test_capacity_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="podCapacity is 0, allowed: 1 or more"):
        options(0)


@pytest.mark.rule("vpod:S10")
def test_a_difference_is_named() -> None:
    kept = state(2, 10, [vpod("a/b", 6, make_placements(1, 5))])
    listed = state(2, 10, [vpod("a/b", 6, make_placements(5, 1))])
    listed.observe_node(NodeFacts("node-0", "zone", unschedulable=True), 0.0)
    found = differences(kept, listed)
    assert [each.partition(":")[0] for each in found] == ["ordinal 0", "ordinal 1", "vpod a/b", "open", "causes"]


@pytest.mark.rule("vpod:S10", "vpod:B15")
def test_changing_the_profile_counts_anew() -> None:
    subjects = [vpod("a/b", 6, make_placements(1, 5)), vpod("a/c", 9, make_placements(0, 0, 4))]
    kept = state(3, 10, subjects)
    kept.reserve(B, {0: 6})
    kept.reconfigure(options(10, profile=Profile.REFERENCE), 0.0)
    rebuilt = State.rebuild(
        kept.options, 3, map(pod, range(3)), subjects, 0.0, kept.nodes.values(), kept.reservations()
    )
    assert differences(kept, rebuilt) == []
    kept.reconfigure(options(10), 0.0)
    again = state(3, 10, subjects)
    again.reserve(B, {0: 6})
    assert differences(kept, again) == []


@pytest.mark.rule("vpod:B1")
def test_one_schedule_touches_what_it_places_and_nothing_else() -> None:
    """The work is counted, not timed: slots whose counts a schedule changes."""
    kept = state(400, 50, [vpod(f"a/{number}", 40) for number in range(30)])
    for number in range(30):
        before = {o: (s.adding, s.trimming, s.committed) for o, s in kept.slots.items()}
        decision = schedule(kept, vpod(f"a/{number}", 40))
        changed = [o for o, s in kept.slots.items() if before[o] != (s.adding, s.trimming, s.committed)]
        assert sorted(changed) == sorted(decision.delta)
        assert len(changed) == 40
    subject = kept.vpods[Key("a", "7")].as_vpod()
    again = decide(kept, subject, 0.0)
    assert again.placements is kept.vpods[Key("a", "7")].result, "a call without work makes nothing anew"


def test_time_that_stands_still_or_turns_back_is_ignored() -> None:
    kept = state(1, 10)
    kept.observe_pod(pod(0, node=""), 100.0)
    kept.advance(50.0)
    assert kept.now == 100.0
    assert kept.next_deadline() == 160.0
    kept.advance(160.0)
    assert kept.next_deadline() is None


def test_rebuilding_keeps_what_no_listing_shows() -> None:
    kept = state(2, 10, [vpod("a/b", 2, make_placements(1, 1))])
    kept.observe_pod(pod(1, deleting=True), 10.0)
    rebuilt = State.rebuild(
        kept.options, 2, [pod(0), pod(1, deleting=True)], [vpod("a/b", 2, make_placements(1, 1))], 60.0,
        kept.nodes.values(), previous=kept,
    )  # fmt: skip
    assert rebuilt.next_deadline() == 70.0


def test_every_change_makes_another_version_and_seeing_the_same_again_makes_none() -> None:
    kept = state(2, 10, [vpod("a/b", 4, make_placements(2, 2))], zones=["z"])
    same = kept.vpods[B].as_vpod()
    more = vpod("a/b", 5, make_placements(2, 1))

    def is_changed(change: Callable[[], object]) -> bool:
        before = kept.version
        change()
        return kept.version != before

    for nothing_new in (
        lambda: kept.observe_vpod(same, 0.0),
        lambda: commit(kept, decide(kept, same, 0.0)),
        lambda: kept.observe_pod(pod(0), 0.0),
        lambda: kept.observe_node(NodeFacts("node-0", "z"), 0.0),
        lambda: kept.observe_replicas(2, 0.0),
        lambda: kept.advance(1.0),
        lambda: kept.remove_pod("set-7", 1.0),
        lambda: kept.remove_node("another", 1.0),
        lambda: kept.remove_vpod(Key("a", "another"), 1.0),
    ):
        assert not is_changed(nothing_new)
    for change in (
        lambda: kept.observe_vpod(more, 1.0),
        lambda: commit(kept, decide(kept, more, 1.0)),
        lambda: kept.observe_pod(pod(1, node=""), 1.0),
        lambda: kept.observe_node(NodeFacts("another", "y"), 1.0),  # its zone is a place to spread to
        lambda: kept.remove_node("another", 1.0),
        lambda: kept.observe_replicas(3, 1.0),
        lambda: kept.reserve(B, {0: 1}),
        lambda: kept.set_surge(B, 1),
        lambda: kept.set_drain(DrainGoal(1, 1.0)),
        lambda: kept.set_drain(None),
        lambda: kept.reconfigure(kept.options, 1.0),
        lambda: kept.advance(1000.0),  # a pod without a node has been held for long enough
        lambda: kept.remove_pod("set-1", 1000.0),
        lambda: kept.remove_vpod(B, 1000.0),
    ):
        assert is_changed(change)


@pytest.mark.rule("vpod:S10")
def test_what_was_answered_about_a_state_is_not_taken_for_an_answer_about_the_one_that_replaces_it() -> None:
    kept = state(3, 10, [vpod("a/b", 6, make_placements(1, 0, 5))])
    for _ in range(9):
        kept.set_drain(None)
    replaced = State.rebuild(kept.options, 3, [pod(0)], [], 0.0, previous=kept)
    assert replaced.version > kept.version
