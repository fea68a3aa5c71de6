"""Exact counts: bursts, scalings, refused creates and rollouts, with watches that lag and leaders that change."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.spot.admission.ledger import Ledger
from situate.spot.model.pods_nodes_workloads import Capacity
from tests.spot.world import Times, World, placement


def world(watch: int, slots: int = 100) -> World:
    made = World(times=Times(start=3, grace=1, watch=watch))
    made.add_nodes("spot", 6, Capacity.SPOT, slots)
    made.add_nodes("od", 6, Capacity.ON_DEMAND, slots)
    return made


@pytest.mark.rule("spot:B1", "spot:D1", "spot:D7", "spot:F1")
@pytest.mark.parametrize("watch", [0, 1, 2])
@pytest.mark.parametrize(("replicas", "floor"), [(50, 0), (50, 5), (50, 25), (50, 26), (50, 50), (300, 150)])
def test_a_burst_is_exact_by_class(replicas: int, floor: int, watch: int) -> None:
    made = world(watch)
    uid = made.add("Deployment", "web", replicas, str(floor)).uid
    made.run(3)
    classes = [pod.pod_class for pod in made.live(uid)]
    assert (classes.count(Capacity.ON_DEMAND), len(classes)) == (floor, replicas)


@pytest.mark.rule("spot:B1", "spot:P5", "spot:F13")
@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 2), st.sampled_from(["50%", "7", "30%"]))
@settings(max_examples=40)
def test_two_scalings_within_a_second_leave_no_deficit(first: int, second: int, watch: int, policy: str) -> None:
    made = world(watch)
    uid = made.add("Deployment", "web", first, policy).uid
    made.run(1)
    made.scale(uid, second)
    made.run(1)
    made.settle(quiet=100)
    assert made.decision is not None
    target = made.decision.reports[uid].target.on_demand
    assert made.on_demand(uid) >= target
    if second >= first:
        assert made.on_demand(uid) == target
        assert made.by_policy() == [], "the burst needed no repair"


@pytest.mark.rule("spot:B2", "spot:P20", "spot:P21", "spot:D2")
@pytest.mark.parametrize("every", [2, 3, 5])
@pytest.mark.parametrize("floor", [5, 20])
@pytest.mark.parametrize("watch", [0, 2])
def test_refused_creates_leave_the_floor_exact(every: int, floor: int, watch: int) -> None:
    made = world(watch)
    made.refuse = lambda number: number % every == 0
    uid = made.add("Deployment", "web", 40, str(floor)).uid
    made.settle()
    assert placement(made, uid)["on-demand"] == floor
    assert len(made.by_policy()) <= 1


@pytest.mark.finding("S1")
@pytest.mark.rule("spot:B17", "spot:F1", "spot:F11")
@pytest.mark.parametrize("decide_every", [1.0, 5.0])
@pytest.mark.parametrize("watch", [0, 1, 2])
def test_a_rollout_on_full_on_demand_nodes_loses_one_pod_however_late_the_watch(
    watch: int, decide_every: float
) -> None:
    made = World(times=Times(start=3, grace=1, watch=watch, decide_every=decide_every))
    made.add_nodes("spot", 4, Capacity.SPOT, 10)
    made.add_nodes("od", 1, Capacity.ON_DEMAND, 3)
    uid = made.add("Deployment", "web", 5, "3").uid
    made.settle()
    least: list[int] = []

    def on_demand_and_ready(world: World) -> None:
        on = [world.nodes[pod.node].facts.capacity for pod in world.live(uid) if pod.ready]
        least.append(on.count(Capacity.ON_DEMAND))

    made.checks.append(on_demand_and_ready)
    made.roll_out(uid, "r2")
    made.settle(quiet=200)
    assert placement(made, uid) == {"on-demand": 3, "spot": 2}
    assert (min(least), len(made.by_policy())) == (2, 1)


@pytest.mark.rule("spot:B4", "spot:P22", "spot:F3")
@given(st.integers(1, 12), st.integers(0, 2), st.integers(1, 4))
@settings(max_examples=25)
def test_a_new_leader_in_the_middle_of_a_burst_leaves_the_floor(floor: int, watch: int, wave: int) -> None:
    made = world(watch)
    made.refuse = lambda number: number > wave * 3 and number <= wave * 3 + 6  # the burst is cut in two
    uid = made.add("Deployment", "web", 15, str(floor)).uid
    made.run(1)
    made.ledger = Ledger.empty()
    made.settle(limit=5000, quiet=100)
    assert made.on_demand(uid) >= floor
    made.settle(limit=5000, quiet=200)
    assert made.on_demand(uid) == floor, "a surplus is corrected"


@pytest.mark.rule("spot:B4", "spot:P2", "spot:F4", "spot:I15", "spot:D9")
def test_pods_that_came_while_nobody_answered_are_put_right() -> None:
    made = world(0)
    made.installed = False
    uid = made.add("Deployment", "web", 6, "2").uid
    made.settle(quiet=20)
    assert made.ready(uid) == 6, "without the system pods start"
    made.installed = True
    off = made.on_demand(uid) - 2
    made.settle(quiet=700, limit=9000)  # what overflowed goes back one by one
    assert made.on_demand(uid) == 2
    assert len(made.by_policy()) == abs(off)


@pytest.mark.rule("spot:B15", "spot:B16", "spot:D13", "spot:I1")
@pytest.mark.parametrize("surge", [0, 1, 3])
@pytest.mark.parametrize("floor", [0, 2, 5])
def test_a_rollout_keeps_the_floor_at_every_moment_and_ends_exact(surge: int, floor: int) -> None:
    made = world(0)
    uid = made.add("Deployment", "web", 6, str(floor), surge=surge).uid
    made.settle()
    ready: list[int] = []

    def watch(world: World) -> None:
        nodes = world.nodes
        on = [nodes[pod.node].facts.capacity for pod in world.live(uid) if pod.ready]
        ready.append(on.count(Capacity.ON_DEMAND))

    made.checks.append(watch)
    made.roll_out(uid, "r2")
    made.settle()
    assert not made.owners[uid].rolling
    assert placement(made, uid)["on-demand"] == floor
    least = floor if surge else max(0, floor - 1)
    assert min(ready) >= least, f"ready on demand fell to {min(ready)}"
    made.roll_out(uid, "r1")
    made.settle()
    assert placement(made, uid)["on-demand"] == floor, "a rollback"
    assert made.by_policy() == []


@pytest.mark.rule("spot:B17", "spot:B16", "spot:F11", "spot:D13")
def test_a_rollout_onto_full_on_demand_nodes_ends() -> None:
    made = World(times=Times(start=3, grace=1))
    made.add_nodes("spot", 4, Capacity.SPOT, 10)
    made.add_nodes("od", 1, Capacity.ON_DEMAND, 3)
    uid = made.add("Deployment", "web", 5, "3").uid
    made.settle()
    least: list[int] = []

    def watch(world: World) -> None:
        on = [world.nodes[pod.node].facts.capacity for pod in world.live(uid) if pod.ready]
        least.append(on.count(Capacity.ON_DEMAND))

    made.checks.append(watch)
    made.roll_out(uid, "r2")
    made.settle(quiet=200)
    assert not made.owners[uid].rolling, "no deadlock"
    assert placement(made, uid)["on-demand"] == 3
    assert min(least) >= 2
    assert len(made.by_policy()) <= 1


@pytest.mark.rule("spot:B18", "spot:B19", "spot:F11")
def test_an_overflowed_pod_makes_room_for_one_that_must_be_on_demand() -> None:
    made = World(times=Times(start=3, grace=1))
    made.add_nodes("od", 1, Capacity.ON_DEMAND, 4)
    first = made.add("Deployment", "a", 4, "0").uid
    made.settle(quiet=20)
    made.add_nodes("spot", 2, Capacity.SPOT, 4, age=0)
    second = made.add("StatefulSet", "b", 1).uid
    made.run(120)
    assert made.ready(second) == 1
    made.run(30)
    assert made.ready(first) == 4
    assert [str(each.action.reason) for each in made.moved] == ["make-room"]
