"""On-demand pods that find no room (B17, B18, B19)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from situate.spot.capacity.free_capacity import FreeCapacity
from situate.spot.model.actions import Delete, Evict, Reason
from situate.spot.model.misplaced_pods import Workload
from situate.spot.model.pods_nodes_workloads import Capacity, PodFacts
from situate.spot.model.policy_limits import Limits
from situate.spot.rebalance.capacity_shortage import (
    clear_ended_surge,
    degradation_relief,
    eviction_for_capacity,
    pods_without_capacity,
    repay_debt,
    surge_relief,
)
from situate.spot.workloads.cluster_objects import WorkloadMemory
from tests.spot.builders import NODES, NOW, OD, SPOT, UID, owner, pod

LIMITS = Limits(degrade_after_s=120.0)


class Rooms(FreeCapacity):
    """On demand is full but for the places of these pods; spot has room or not."""

    def __init__(self, *, on_demand: bool = False, spot: bool = True, freed_by: str = "") -> None:
        self.on_demand, self.spot, self.freed_by = on_demand, spot, freed_by

    def fits(self, pod: PodFacts, capacity: Capacity, *, without: PodFacts | None = None, pools: Any = None) -> bool:
        if capacity is SPOT:
            return self.spot
        return self.on_demand or (without is not None and without.key.name.startswith(self.freed_by))


def waiting(age: float = 60, **more: Any) -> PodFacts:
    return pod("want", "", OD, created=NOW - age, **more)


@pytest.mark.rule("spot:B17", "spot:B18")
def test_who_is_in_want() -> None:
    given = [waiting(), waiting(59), pod("s", "", SPOT, created=0), waiting(gated=True), waiting(terminating=True)]
    assert pods_without_capacity(Workload(owner(5), 2, given), NOW, 60) == [given[0]]


@pytest.mark.rule("spot:B17", "spot:B16")
def test_in_a_rollout_the_surplus_goes_to_spot_until_an_old_pod_has_left() -> None:
    old = [pod(f"old-{n}", "od", OD, revision="r0") for n in range(2)]
    rolling = Workload(owner(2, rolling=True), 2, [*old, waiting()])
    relief = surge_relief(rolling, NODES, NOW, WorkloadMemory(), LIMITS)
    assert relief is not None
    assert relief.moves == (Delete(waiting().key, "uid-want", UID, Reason.SURGE),)
    assert (relief.memory.surge_revision, relief.memory.yielding) == ("r1", "uid-old-0")
    assert surge_relief(rolling, NODES, NOW, relief.memory, LIMITS) == relief, "its deletion was refused"
    assert clear_ended_surge(rolling, relief.memory) == relief.memory
    left = replace(rolling, pods=[replace(old[0], terminating=True), old[1]])
    assert clear_ended_surge(left, relief.memory) == WorkloadMemory()
    assert surge_relief(replace(rolling, target=3), NODES, NOW, WorkloadMemory(), LIMITS) is None, "the floor needs it"
    assert surge_relief(Workload(owner(2), 2, rolling.pods), NODES, NOW, WorkloadMemory(), LIMITS) is None, "no rollout"


@pytest.mark.finding("S1")
@pytest.mark.rule("spot:B17")
def test_a_surge_takes_one_new_pod_for_each_old_one_that_is_to_leave() -> None:
    old = [pod(f"old-{n}", "od", OD, revision="r0") for n in range(2)]
    first, second = pod("new-1", "", OD, created=NOW - 70), pod("new-2", "", OD, created=NOW - 65)
    rolling = Workload(owner(2, rolling=True), 2, [*old, first, second])
    relief = surge_relief(rolling, NODES, NOW, WorkloadMemory(), LIMITS)
    assert relief is not None
    assert [move.uid for move in relief.moves] == ["uid-new-1"]
    assert (relief.memory.surged, relief.memory.surged_at) == ("uid-new-1", NOW)
    came = pod("new-3", "spot", SPOT, created=NOW + 1)
    replaced = replace(rolling, pods=[*old, second, came])
    assert surge_relief(replaced, NODES, NOW + 100, relief.memory, LIMITS) is None, "the old Pod leaves next"
    failed = replace(rolling, pods=[*old, second, pod("new-4", "", OD, created=NOW + 1)])
    again = surge_relief(failed, NODES, NOW + 100, relief.memory, LIMITS)
    assert again is not None, "the replacement got on demand after all, and waits as long as the first"
    assert (again.memory.surged, again.memory.yielding) == ("uid-new-4", relief.memory.yielding)


@pytest.mark.rule("spot:B19", "spot:S9")
def test_a_pod_that_need_not_stand_on_demand_makes_room_its_own_workload_first() -> None:
    own = Workload(owner(3), 1, [waiting(), pod("mine", "od", SPOT), pod("mine2", "od", SPOT)])
    other = Workload(owner(2, name="api", uid="uid-api"), 0, [pod("api-1", "od", SPOT), pod("api-2", "od", SPOT)])

    def made(room: Rooms, *all_: Workload) -> Evict | None:
        return eviction_for_capacity(all_[0], all_, NODES, NOW, room, LIMITS)

    assert made(Rooms(), own, other) == Evict(pod("mine").key, "uid-mine", UID, Reason.MAKE_ROOM)
    assert made(Rooms(on_demand=True), own, other) is None, "there is room"
    assert made(Rooms(spot=False), own, other) is None, "it would only want itself"
    alone = replace(own, pods=[waiting()])
    found = made(Rooms(), alone, other)
    assert found is not None
    assert found.owner == "uid-api"
    assert made(Rooms(freed_by="api-2"), alone, other) == replace(found, pod=pod("api-2").key, uid="uid-api-2")
    assert made(Rooms(), alone, replace(other, target=2)) is None, "it has no surplus"
    restless = replace(other, owner=replace(other.owner, rolling=True))
    assert made(Rooms(), alone, restless) is None
    led = eviction_for_capacity(alone, (alone, other), NODES, NOW, Rooms(), LIMITS, leaders=["uid-api-1", "uid-api-2"])
    assert led is None


@pytest.mark.rule("spot:B18", "spot:S35")
def test_a_debt_is_made_after_a_while_and_repaid_when_there_is_room() -> None:
    short = Workload(owner(2), 2, [waiting(120), pod("od-0", "od", OD)])
    relief = degradation_relief(short, NOW, WorkloadMemory(), LIMITS)
    assert relief is not None
    assert (relief.memory.debt, relief.moves[0].reason) == (1, Reason.DEGRADE)
    assert degradation_relief(short, NOW, WorkloadMemory(), Limits()) is None, "by default it waits"
    assert degradation_relief(replace(short, pods=[waiting(119)]), NOW, WorkloadMemory(), LIMITS) is None
    running = Workload(owner(2), 1, [pod("od-0", "od", OD), pod("s", "spot", SPOT)])
    assert repay_debt(running, WorkloadMemory(debt=1), Rooms()).debt == 1
    assert repay_debt(running, WorkloadMemory(debt=2), Rooms(on_demand=True)).debt == 1
    assert repay_debt(short, WorkloadMemory(debt=1), Rooms(on_demand=True)).debt == 1, "while something waits"
    assert repay_debt(running, WorkloadMemory(), Rooms(on_demand=True)) == WorkloadMemory()
    refused = degradation_relief(replace(short, target=1), NOW, WorkloadMemory(debt=1), LIMITS)
    assert refused is not None
    assert refused.memory.debt == 1, "the pod is still there: it is owed once"
    bound = replace(short, target=1, pods=[pod("od-0", "od", OD), pod("od-1", "od", OD)])
    assert repay_debt(bound, WorkloadMemory(debt=1), Rooms()).debt == 0, "it has found a node before it was deleted"
