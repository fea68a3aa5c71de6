"""Whose turn it is when no executor has room: priority, then namespaces by their shares, then who waits longest."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.sharding.assignment.fair_queue import FairQueue
from situate.sharding.strategies import ObjectFacts


def obj(uid: str, namespace: str = "shop", priority: int = 0, weight: int = 1) -> ObjectFacts:
    return ObjectFacts(uid, namespace, uid, priority=priority, weight=weight)


def assigned(each: ObjectFacts) -> ObjectFacts:
    return ObjectFacts(each.uid, each.namespace, each.name, "executor", priority=each.priority, weight=each.weight)


def served(waiting: FairQueue, times: int) -> list[str]:
    """Who gets room, one after the other."""
    found = []
    for _ in range(times):
        each = waiting.next()
        assert each is not None
        waiting.observe_scheduled(assigned(each))
        found.append(each.uid)
    return found


@pytest.mark.rule("sharding:B16")
def test_the_highest_priority_first_then_whoever_waits_longest() -> None:
    waiting = FairQueue()
    for uid, priority in (("a", 0), ("b", 5), ("c", -1), ("d", 5)):
        waiting.add(obj(uid, priority=priority))
    assert served(waiting, 4) == ["b", "d", "a", "c"]
    assert waiting.next() is None


@pytest.mark.rule("sharding:B16")
def test_a_namespace_that_asks_for_much_does_not_starve_another() -> None:
    waiting = FairQueue()
    for number in range(100):
        waiting.add(obj(f"big-{number}", "big"))
    for number in range(3):
        waiting.add(obj(f"small-{number}", "small"))
    assert Counter(uid.split("-")[0] for uid in served(waiting, 6)) == {"big": 3, "small": 3}


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from("abc"), st.sampled_from([0.5, 1.0, 2.0, 4.0]), min_size=1), st.integers(1, 80))
@pytest.mark.rule("sharding:B16")
def test_namespaces_get_room_in_proportion_to_their_shares(shares: dict[str, float], places: int) -> None:
    waiting = FairQueue(shares)
    for namespace in shares:
        for number in range(places):
            waiting.add(obj(f"{namespace}{number}", namespace))
    got = Counter(uid[0] for uid in served(waiting, places))
    for first in shares:
        for second in shares:  # nobody is a whole object ahead of its share
            assert (got[first] - 1) / shares[first] <= got[second] / shares[second] + 1e-9


def test_what_a_namespace_has_already_counts_by_weight_until_it_is_done() -> None:
    waiting = FairQueue()
    old = ObjectFacts("old", "shop", executor="e", weight=5)
    waiting.observe_scheduled(old)
    waiting.add(obj("s", "shop"))
    for number in range(7):
        waiting.add(obj(f"f{number}", "forum"))
    assert served(waiting, 3) == ["f0", "f1", "f2"]
    waiting.observe_completed(old)
    assert served(waiting, 1) == ["s"]


def test_objects_of_no_namespace_are_one_group() -> None:
    waiting = FairQueue()
    for uid in ("n1", "n2"):
        waiting.add(obj(uid, ""))
    waiting.add(obj("s1"))
    assert served(waiting, 3) == ["n1", "s1", "n2"]


def test_one_that_waits_already_keeps_its_place_and_a_new_priority_is_a_new_one() -> None:
    waiting = FairQueue()
    for uid in ("a", "b", "c"):
        waiting.add(obj(uid))
    waiting.add(obj("a"))
    waiting.add(obj("b", priority=1))
    assert [each.uid for each in waiting.objects_in_order()] == ["b", "a", "c"]
    assert len(waiting) == 3


def test_whoever_no_executor_suits_does_not_keep_others_of_its_namespace_waiting() -> None:
    waiting = FairQueue()
    for uid, namespace in (("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b")):
        waiting.add(obj(uid, namespace))
    waiting.add(obj("urgent", "c", priority=9))
    assert [each.uid for each in waiting.objects_in_order()] == ["urgent", "a1", "b1", "a2", "a3"]


@given(
    st.dictionaries(st.sampled_from("xyz"), st.sampled_from([0.5, 1.0, 2.0])),
    st.lists(st.tuples(st.sampled_from("xyz"), st.integers(0, 1), st.booleans()), max_size=20),
)
def test_room_for_several_is_shared_as_room_for_one_after_the_other(
    shares: dict[str, float], objects: list[tuple[str, int, bool]]
) -> None:
    waiting = FairQueue(shares)
    for number, (namespace, priority, has_room) in enumerate(objects):
        each = obj(f"o{number}", namespace, priority)
        waiting.observe_scheduled(assigned(each)) if has_room else waiting.add(each)
    order = [each.uid for each in waiting.objects_in_order()]
    assert order == served(waiting, len(order))


@given(st.lists(st.tuples(st.sampled_from(["add", "remove", "scheduled", "deleted"]), st.sampled_from("abcd"),
                          st.sampled_from(["x", "y"]), st.integers(0, 1))))  # fmt: skip
def test_whatever_happens_exactly_those_wait_that_were_added_and_not_taken(
    events: list[tuple[str, str, str, int]],
) -> None:
    waiting, expected = FairQueue(), set[str]()
    for event, uid, namespace, priority in events:
        each = obj(uid, namespace, priority)
        if event == "add":
            waiting.add(each)
            expected.add(uid)
            continue
        expected.discard(uid)
        if event == "remove":
            waiting.remove(uid)
        elif event == "scheduled":
            waiting.observe_scheduled(assigned(each))
        else:
            waiting.observe_deleted(each)
    order = [each.uid for each in waiting.objects_in_order()]
    assert sorted(order) == sorted(expected)
    assert all((uid in waiting) is (uid in expected) for uid in "abcd")


@pytest.mark.parametrize("share", [0, -1, float("nan"), float("inf")])
def test_what_is_no_share_is_named(share: float) -> None:
    with pytest.raises(ValueError, match=r"shares\.shop is .*, allowed: a number above 0"):
        FairQueue({"shop": share})
