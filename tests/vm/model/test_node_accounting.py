"""Booking pods on nodes: whatever is done, the sums are those of the pods."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.vm.model.node_accounting import has_changed, recount, with_observed, with_pod, with_pods, without_pod
from situate.vm.model.pods_and_nodes import Machine, Node, Pod, Ref, Role
from situate.vm.model.resource_amounts import Amounts
from tests.vm.entries import amounts, node, pod

ODD = st.builds(Amounts.from_values, st.integers(0, 99_999), st.integers(0, 2**40))
PODS = st.builds(
    lambda uid, reserved, overcommit, role: replace(
        pod(uid, overcommit=overcommit),
        reserved=reserved,
        machine=None if role is None else Machine(Ref("default", uid), role=role),
    ),
    st.sampled_from("abcde"),
    ODD,
    st.builds(Amounts.from_values, st.integers(1, 5000), st.integers(1, 5000)),
    st.sampled_from([None, *Role]),
)
STEPS = st.lists(PODS | st.sampled_from("abcde") | st.lists(PODS, max_size=3), max_size=12)


def done(entry: Node, step: Pod | str | list[Pod]) -> Node:
    if isinstance(step, Pod):
        return with_pod(entry, step)
    return without_pod(entry, step) if isinstance(step, str) else with_pods(entry, step)


@pytest.mark.rule("vm:C7")
@given(STEPS)
def test_sums_are_those_of_the_pods_after_any_steps(steps: list[Pod | str | list[Pod]]) -> None:
    entry = node()
    for step in steps:
        entry = done(entry, step)
        assert entry == recount(entry)


@pytest.mark.rule("vm:C10")
@given(STEPS, STEPS)
def test_what_is_tried_on_a_node_leaves_no_trace(
    before: list[Pod | str | list[Pod]], tried: list[Pod | str | list[Pod]]
) -> None:
    entry = node()
    for step in before:
        entry = done(entry, step)
    was = recount(replace(entry, pods=dict(entry.pods)))
    what_if = entry
    for step in tried:
        what_if = done(what_if, step)
    assert entry == was


@pytest.mark.rule("vm:C7")
def test_each_pod_is_divided_by_itself() -> None:
    """Two halves of three are one and one, not three."""
    halves = [
        replace(pod(uid, overcommit=Amounts.from_values(2000, 1000)), reserved=Amounts.from_values(3, 3))
        for uid in "ab"
    ]
    entry = with_pods(node(), halves)
    assert entry.reserved == Amounts.from_values(2, 6)
    assert entry.committed == Amounts.from_values(6, 6)


@pytest.mark.rule("vm:C7")
def test_only_sources_are_migrating_and_reserved_may_exceed_total() -> None:
    entry = with_pods(node(10), [pod("a", 4, role=Role.SOURCE), pod("b", 4, role=Role.TARGET), pod("c", 4)])
    assert (entry.reserved, entry.migrating) == (amounts(12), amounts(4))
    assert entry.over_budget


@pytest.mark.rule("vm:C7")
def test_over_budget_is_more_than_the_total_of_any_resource() -> None:
    full = with_pod(node(10), pod("a", 10))
    assert not full.over_budget
    assert with_pod(full, replace(pod("b"), reserved=Amounts.from_values(0, 1))).over_budget


@pytest.mark.rule("vm:C27")
def test_a_node_that_changed_keeps_what_is_booked_on_it() -> None:
    entry = node(10, [pod("a", 4)])
    seen = node(5, labels={"zone": "b"}, draining=True)
    after = with_observed(entry, seen)
    assert (after.total, after.watermark, after.labels, after.draining) == (amounts(5), amounts(4), {"zone": "b"}, True)
    assert (after.pods, after.reserved) == (entry.pods, entry.reserved)
    assert has_changed(entry, seen)
    assert not has_changed(after, seen)


def test_what_is_not_there_cannot_be_removed() -> None:
    entry = node(10, [pod("a", 4)])
    assert without_pod(entry, "b") is entry
