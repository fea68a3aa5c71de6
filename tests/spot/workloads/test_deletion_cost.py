"""Deletion costs and the order in which pods are given up (P31, P32)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.spot.model.misplaced_pods import Workload
from situate.spot.workloads.deletion_cost import (
    Subset,
    admission_cost,
    cost_changes,
    deletion_costs,
    removal_candidates,
    removal_order,
    subset_costs,
)
from tests.spot.builders import NODES, NOW, OD, SPOT, owner, pod, pods, workload


@pytest.mark.rule("spot:P31", "spot:S34")
def test_what_each_pod_costs() -> None:
    given = [
        pod("od", "od", OD),
        pod("spot", "spot", SPOT),
        pod("bare", "bare"),
        pod("risky", "risky", SPOT),
        pod("doomed", "doomed", SPOT),
        pod("going", "spot", SPOT, terminating=True),
    ]
    costs = deletion_costs(Workload(owner(5), 1, given), NODES, NOW)
    assert {uid.removeprefix("uid-"): cost for uid, cost in costs.items()} == {
        "od": 200, "spot": 100, "bare": 100, "risky": 90, "doomed": 50,
    }  # fmt: skip
    assert (admission_cost(OD), admission_cost(SPOT)) == (200, 100)
    assert deletion_costs(workload(1, "od:2", kind="StatefulSet"), NODES, NOW) == {}


@pytest.mark.rule("spot:P31", "spot:B12")
def test_a_surplus_on_demand_goes_first_and_of_it_what_overflowed() -> None:
    given = [pod("meant-0", "od", OD), pod("meant-1", "od", OD), pod("over", "od", SPOT), pod("s", "spot", SPOT)]
    shrinking = Workload(owner(3), 1, given)
    costs = deletion_costs(shrinking, NODES, NOW)
    assert costs["uid-over"] == -100
    assert sorted(costs.values()) == [-100, -100, 100, 200]
    assert removal_candidates(shrinking, 1, NODES, NOW)[0].pod_class in (OD, SPOT)
    assert {each.key.name for each in removal_candidates(shrinking, 2, NODES, NOW)} & {"s"} == set()


@pytest.mark.rule("spot:P31", "spot:B15", "spot:D13")
@pytest.mark.parametrize("serving", [0, 1, 2])
def test_an_old_on_demand_pod_yields_for_each_new_one_that_serves(serving: int) -> None:
    old = [pod(f"old-{n}", "od", OD, revision="r0") for n in range(3)] + [pod("old-s", "spot", SPOT, revision="r0")]
    new = [pod(f"new-{n}", "od", OD, ready=n < serving) for n in range(2)]
    costs = deletion_costs(Workload(owner(4, rolling=True), 3, [*old, *new]), NODES, NOW)
    assert [costs[f"uid-old-{n}"] for n in range(3)].count(80) == serving
    assert costs["uid-old-s"] == 100
    assert all(costs[f"uid-new-{n}"] == 200 for n in range(2)), "counted for each revision, there is no surplus"
    forced = deletion_costs(Workload(owner(4, rolling=True), 3, [*old, *new]), NODES, NOW, yielding=["uid-old-2"])
    assert forced["uid-old-2"] == 80
    fewer = deletion_costs(Workload(owner(4, rolling=True), 3, [*old[serving:], *new]), NODES, NOW)
    assert [fewer[each.uid] for each in old[serving:3]] == [200] * (3 - serving), "those have left that had successors"


@pytest.mark.rule("spot:P31")
def test_costs_are_written_only_where_they_change_and_are_ours() -> None:
    given = [
        pod("right", "od", OD, cost=200),
        pod("wrong", "spot", SPOT, cost=200),
        pod("theirs", "spot", SPOT, cost=7),
        pod("foreign", "spot", cost=None),
        pod("new", "spot", SPOT, cost=None),
    ]
    assert cost_changes(Workload(owner(5), 1, given), NODES, NOW) == {"uid-wrong": 100, "uid-new": 100}


@pytest.mark.rule("spot:P32", "spot:S34")
def test_the_order_of_replicasets() -> None:
    ladder = [
        pod("unassigned", ""),
        pod("pending", "od", phase="Pending", ready=False),
        pod("unknown", "od", phase="Unknown", ready=False),
        pod("unready", "od", ready=False),
        pod("cheap", "od", cost=-100),
        pod("beside", "spot"),
        pod("beside2", "spot", ready_since=NOW - 100_000),
        pod("young", "od", ready_since=NOW - 10),
        pod("restarted", "od", restarts=3),
        pod("newer", "od", created=NOW - 100),
        pod("a", "od"),
        pod("b", "od"),
    ]
    spot_is_fuller = [*ladder, *(pod(f"x{n}", "spot") for n in range(20))]
    order = [each.key.name for each in removal_order(reversed(ladder), spot_is_fuller, NOW)]
    assert order == [each.key.name for each in ladder]


@pytest.mark.rule("spot:P32", "spot:B40")
def test_a_statefulset_gives_up_its_highest_ordinals() -> None:
    given = [pod(f"db-{n}", "od") for n in range(12)]
    found = Workload(owner(10, "StatefulSet", name="db"), 6, given)
    assert [each.key.name for each in removal_candidates(found, 2, NODES, NOW)] == ["db-11", "db-10"]


@pytest.mark.rule("spot:S22", "spot:P31", "spot:P32", "spot:S34")
@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6), st.integers(0, 12))
def test_shrinking_keeps_as_many_on_demand_as_the_target_asks_for(
    on_demand: int, spot: int, target: int, less: int
) -> None:
    given = pods(f"od:{on_demand} spot:{spot}")
    left = max(0, len(given) - less)
    goal = min(target, left)
    shrinking = Workload(owner(left), goal, given)
    gone = {each.uid for each in removal_candidates(shrinking, len(given) - left, NODES, NOW)}
    kept = sum(each.pod_class is OD for each in given if each.uid not in gone)
    assert kept >= min(goal, on_demand)
    surplus = max(0, on_demand - goal)
    assert kept == on_demand - min(len(gone), surplus) - max(0, len(gone) - surplus - spot)


@pytest.mark.rule("spot:P31")
def test_the_costs_of_workloadspread() -> None:
    three = tuple(pods("od:3"))
    assert subset_costs([Subset(three, 2), Subset((), None)]) == [[-100, 200, 200], []]
    assert subset_costs([Subset((), 2), Subset(three, 1)]) == [[], [-200, -200, 100]]
    assert subset_costs([Subset(three, None), Subset(three, None)], old_revision=True) == [[100] * 3, [200] * 3]
    assert subset_costs([Subset((replace(three[0], terminating=True), three[1]), 0)]) == [[None, -100]]
