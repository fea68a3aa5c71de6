"""Copies that `minReplicas` adds: they go to nobody's cost, and come back to the vpods that lack what they want."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.testing.vpod.builders import make_placements, schedule, state, vpod
from situate.vpod.model.records import DrainGoal
from situate.vpod.model.vpod import Key, PlainVPod
from situate.vpod.placement.decide import retry_order, vpods_lacking_spare_copies
from situate.vpod.placement.spare_copies import spare_copy_givers
from situate.vpod.state.state import State

pytestmark = pytest.mark.finding("V1")


def rounds(on: State, subjects: Iterable[PlainVPod], most: int = 10) -> list[Key]:
    """Decides as the controller does until nothing changes; the vpods that returned copies, in order."""
    gave: list[Key] = []
    due = list(subjects)
    for _ in range(most):
        before = held(on)
        for each in due:
            schedule(on, each)
        returning = spare_copy_givers(on)
        for key in returning:
            schedule(on, on.vpods[key].as_vpod())
        gave += returning
        due = [on.vpods[key].as_vpod() for key in (*retry_order(on), *vpods_lacking_spare_copies(on))]
        if held(on) == before and not returning:
            return gave
    raise AssertionError(f"no end after {most} rounds: {held(on)}")


def held(on: State) -> dict[str, int]:
    return {str(entry.key): entry.reserved_total for entry in on.vpods.values()}


def observed(on: State, subjects: Sequence[PlainVPod]) -> State:
    for each in subjects:
        on.observe_vpod(each, 0.0)
    return on


@pytest.mark.rule("vpod:D6", "vpod:L5")
def test_every_source_gets_what_it_wants_where_the_wishes_fit_exactly() -> None:
    sources = [vpod(f"ns/v{number:03}", 1) for number in range(100)]
    on = state(5, 20, min_replicas=3, max_replicas=5)
    rounds(on, sources)  # one after the other: the first ones know of no others
    assert set(held(on).values()) == {1}


def test_no_copy_is_added_where_others_wait_for_the_room() -> None:
    sources = [vpod(f"ns/v{number}", 1) for number in range(10)]
    on = observed(state(2, 5, min_replicas=2, max_replicas=2), sources)
    assert rounds(on, sources) == []
    assert set(held(on).values()) == {1}


def test_as_few_copies_are_returned_as_are_enough() -> None:
    rich = [
        vpod("ns/a", 1, make_placements(1, 1, 1)),
        vpod("ns/b", 1, make_placements(1, 1, 1)),
        vpod("ns/c", 1, make_placements(1, 1, 1)),
    ]
    on = state(3, 3, rich, min_replicas=3, max_replicas=3)
    late = [vpod("ns/d", 1), vpod("ns/e", 1)]
    assert rounds(on, late) == [Key("ns", "a")]
    assert held(on) == {"ns/a": 1, "ns/b": 3, "ns/c": 3, "ns/d": 1, "ns/e": 1}


def test_the_copies_come_back_with_room() -> None:
    rich = [vpod("ns/a", 1, make_placements(1, 1)), vpod("ns/b", 2, make_placements(1, 1))]
    on = state(2, 2, rich, min_replicas=2, max_replicas=2)
    rounds(on, [vpod("ns/c", 1)])
    assert held(on) == {"ns/a": 1, "ns/b": 2, "ns/c": 1}
    assert vpods_lacking_spare_copies(on) == []
    on.remove_vpod(Key("ns", "b"), 1.0)
    assert vpods_lacking_spare_copies(on) == [Key("ns", "a"), Key("ns", "c")]
    rounds(on, [vpod("ns/a", 1), vpod("ns/c", 1)])
    assert held(on) == {"ns/a": 2, "ns/c": 2}


def test_a_heavy_vreplica_gets_a_whole_pod_if_copies_have_to_go_for_it() -> None:
    rich = [vpod("ns/a", 1, make_placements(1, 1)), vpod("ns/b", 1, make_placements(1, 1))]
    on = state(2, 4, rich, min_replicas=2, max_replicas=2)
    rounds(on, [vpod("ns/heavy", 1, weight=4)])
    assert held(on) == {"ns/a": 2, "ns/b": 2, "ns/heavy": 1}  # and the copies are back where it is not


def test_copies_of_a_namespace_make_room_in_its_quota() -> None:
    rich = [vpod("a/rich", 1, make_placements(1, 1, 1)), vpod("b/rich", 1, make_placements(1, 1, 1))]
    on = state(3, 10, rich, min_replicas=3, max_replicas=3, namespace_max_share=0.1)
    assert rounds(on, [vpod("a/late", 2)]) == [Key("a", "rich")]
    assert held(on) == {"a/rich": 1, "b/rich": 3, "a/late": 2}


def test_what_is_wanted_stays_off_pods_that_may_not_come_back() -> None:
    on = state(3, 1, [vpod("ns/a", 1, make_placements(1, 1, 1))], min_replicas=3, max_replicas=3)
    on.remove_pod("set-1", 1.0)
    on.remove_pod("set-2", 1.0)
    rounds(on, [vpod("ns/late", 1)])
    assert held(on) == {"ns/a": 3, "ns/late": 0}  # what it has on pods on hold may go with them
    on.advance(120.0)
    rounds(on, [vpod("ns/a", 1, make_placements(1, 1, 1)), vpod("ns/late", 1)])
    assert held(on)["ns/a"] == 1


def test_copies_on_pods_that_are_emptied_are_no_room() -> None:
    on = state(
        3,
        2,
        [vpod("ns/a", 1, make_placements(1, 1, 1)), vpod("ns/b", 1, make_placements(1, 1))],
        min_replicas=3,
        max_replicas=3,
    )
    on.set_drain(DrainGoal(2, 0.0))
    assert rounds(on, [vpod("ns/late", 2)])
    assert held(on)["ns/late"] == 2


@pytest.mark.rule("vpod:D6", "vpod:L5")
@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from([1, 1, 1, 2, 3]), st.sampled_from("ab")), max_size=12),
    st.integers(1, 5),
    st.integers(1, 5),
    st.integers(0, 6),
    st.sampled_from([{}, {"namespace_max_share": 0.5}, {"topology": "zone"}]),
)
def test_no_vpod_is_short_while_another_holds_more_than_it_wants(
    drawn: list[tuple[int, int, str]], pods: int, capacity: int, least: int, more: dict[str, Any]
) -> None:
    sources = [vpod(f"{ns}/v{n}", wanted, weight=weight) for n, (wanted, weight, ns) in enumerate(drawn)]
    on = state(pods, capacity, min_replicas=least, max_replicas=max(pods, least), **more)
    rounds(on, sources, most=40)
    short = [e for e in on.vpods.values() if e.reserved_total < e.wanted and e.weight <= capacity]
    spare = [e.key for e in on.vpods.values() if e.reserved_total > e.wanted]
    assert not spare or all(entry.is_limited_by_rule for entry in short)
    namespaces = {entry.key.namespace for entry in short}
    assert not [key for key in spare if key.namespace in namespaces and "namespace_max_share" in more]
