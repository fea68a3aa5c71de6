"""What would happen, and why things are as they are (B31, B32)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.spot.admission.ledger import Ledger, Reservation, Slot
from situate.spot.capacity.free_capacity import PlanningCapacity
from situate.spot.model.actions import Reason
from situate.spot.model.pods_nodes_workloads import Capacity, NodeState, PodFacts
from situate.spot.model.policy_limits import Limits
from situate.spot.rebalance.decide import ClusterView, Phase, State
from situate.spot.report.explain import explain_pod, explain_workload
from situate.spot.report.plan import Plan, plan
from situate.spot.workloads.cluster_objects import Cluster
from tests.spot.builders import NODES, NOW, OD, SPOT, UID, cluster, owner, pod, pods
from tests.spot.rebalance.test_decide import Rooms
from tests.spot.world import SlotRoom, Times, World

KEY = "spot.situate.dev/on-demand"


class Always(Rooms):
    """Room that no move uses up, on one node of each kind."""

    begun = True  # plans keep nobody waiting

    def after_move(self, pod: PodFacts, uid: str, capacity: Capacity) -> tuple[Always, str]:
        nodes = {OD: "od", SPOT: "spot"}
        return self, nodes[capacity] if self.fits(pod, capacity) else ""


def situation(known: Cluster, room: Rooms | None = None) -> ClusterView:
    return ClusterView(known, room or Rooms())


def planned(given: ClusterView, places: PlanningCapacity | None = None, state: State | None = None) -> Plan:
    return plan(state or State(), given, places or Always(), NOW)


@pytest.mark.rule("spot:B31", "spot:B10")
def test_all_moves_in_their_order() -> None:
    of = owner(5, annotations={KEY: "3"})
    found = planned(situation(cluster(of, pods("bare:5"))))
    assert [(move.number, move.pod.name, move.reason, move.comes_back) for move in found.moves] == [
        (1, "bare-0", Reason.REPAIR, OD), (2, "bare-1", Reason.REPAIR, OD), (3, "bare-2", Reason.REPAIR, OD),
    ]  # fmt: skip
    assert found.restarts == {"Deployment shop/web": 3}
    assert (found.extra_on_demand_places, found.complete, found.blocked) == (3, True, {})
    assert (found.share_before, found.share_after) == (1, 1), "what is on unknown nodes is reckoned in full"
    lowered = planned(situation(cluster(owner(4, annotations={KEY: "1"}), pods("od:3 spot:1"))))
    assert (len(lowered.moves), lowered.extra_on_demand_places) == (2, 0)
    assert lowered.share_before == pytest.approx(1 - 0.7 / 4)
    assert lowered.share_after == pytest.approx(1 - 3 * 0.7 / 4)


@pytest.mark.rule("spot:B31", "spot:B14")
def test_what_stays_wrong_is_said_with_its_reason() -> None:
    known = cluster(owner(3, annotations={KEY: "2"}), pods("spot:3"))
    found = planned(situation(known), Always(on_demand=False))
    assert (found.moves, found.blocked) == ((), {"Deployment shop/web": "NoOnDemandRoom"})
    assert found.short == {"Deployment shop/web"}
    too_many = cluster(owner(3, annotations={KEY: "1"}), pods("od:3"))
    over = planned(situation(too_many), Always(spot=False))
    assert (over.blocked, over.short) == ({"Deployment shop/web": "NoSpotRoom"}, frozenset())
    read_only = ClusterView(known, Rooms(), limits=Limits(read_only=True))
    assert len(planned(read_only).moves) == 2


@pytest.mark.rule("spot:B31", "spot:B20", "spot:B21")
def test_in_a_wave_the_plan_is_the_evacuation() -> None:
    given = [pod("a", "od", OD), pod("b", "doomed", SPOT), pod("c", "doomed", SPOT)]
    known = situation(cluster(owner(3, annotations={KEY: "1"}), given))
    found = planned(known)
    assert [(move.pod.name, move.how, move.reason, move.to) for move in found.moves] == [
        ("b", "Release", Reason.EVACUATE, "spot"),
        ("c", "Release", Reason.EVACUATE, "spot"),
    ]
    full = planned(known, Always(on_demand=False, spot=False))
    assert [move.to for move in full.moves] == ["", ""], "they serve on until the last moment"
    of = owner(3, "StatefulSet")
    pods_ = [pod(f"web-{n}", "od" if n < 2 else "doomed", OD if n < 2 else SPOT, controller=UID) for n in range(3)]
    (only,) = planned(situation(cluster(of, pods_))).moves
    assert (only.pod.name, only.how, only.comes_back) == ("web-2", "Evict", SPOT)


@pytest.mark.rule("spot:B31", "spot:B17")
def test_a_surge_that_finds_no_room_comes_back_as_spot() -> None:
    given = [*pods("od:2"), pod("new", "", OD, revision="r2", created=NOW - 100)]
    of = owner(2, annotations={KEY: "2"}, rolling=True, revision="r2")
    (move,) = planned(situation(cluster(of, given)), Always(on_demand=False)).moves
    assert (move.pod.name, move.how, move.reason) == ("new", "Delete", Reason.SURGE)
    assert (move.comes_back, move.to) == (SPOT, "spot")


@pytest.mark.rule("spot:B31")
def test_one_place_is_not_given_to_two_pods() -> None:
    class One(Always):
        def __init__(self, left: int) -> None:
            super().__init__(on_demand=left > 0)
            self.left = left

        def after_move(self, pod: PodFacts, uid: str, capacity: Capacity) -> tuple[Always, str]:
            return One(self.left - 1), super().after_move(pod, uid, capacity)[1]

    web = owner(3, annotations={KEY: "2"})
    api = owner(2, annotations={KEY: "1"}, name="api", uid="uid-api")
    known = cluster(web, pods("spot:3"))
    others = [replace(each, uid=f"api {each.uid}") for each in pods("spot:2")]
    known = replace(known, owners={UID: web, "uid-api": api}, pods={**known.pods, "uid-api": others})
    found = planned(situation(known), One(2))
    assert [(move.owner, move.leaves, move.to) for move in found.moves] == [
        ("Deployment shop/web", "spot", "od"),
        ("Deployment shop/api", "spot", "od"),
    ]
    assert found.blocked == {"Deployment shop/web": "NoOnDemandRoom"}
    grown = replace(situation(known), limits=Limits(on_demand_autoscaling=True))
    found = planned(grown, One(1))
    assert [move.to for move in found.moves] == ["od", "a new on-demand node", "a new on-demand node"]


@pytest.mark.rule("spot:B31")
@settings(max_examples=25)
@given(
    st.sampled_from([3, 4, 20]),
    st.integers(0, 5),
    st.integers(0, 5),
    st.sampled_from(["0", "2", "50%", "majority"]),
    st.sampled_from(["1", "all-on-demand"]),
)
def test_the_plan_is_what_the_controller_then_does(
    slots: int, first: int, second: int, before: str, after: str
) -> None:
    world = World(times=Times(start=2, grace=1))
    world.add_nodes("spot", 2, Capacity.SPOT, 20)
    world.add_nodes("od", 2, Capacity.ON_DEMAND, slots)
    uids = [world.add("Deployment", "web", first, before).uid, world.add("StatefulSet", "db", second).uid]
    world.settle()
    changed = uids if slots == 20 else uids[:1]  # who wins the last place is decided by chance
    for uid in changed:
        world.annotate(uid, on_demand=after)
    room = SlotRoom(world)
    told = plan(world.state, ClusterView(world.cluster(), room, world.settings.rules()), room, world.now)
    done = len(world.moved)
    world.settle()
    moved = [each.action for each in world.moved[done:] if each.action.reason is not Reason.REPLACED]
    assert len(told.moves) == len(moved)
    for uid in uids:
        kind = world.owners[uid]
        mine = [move.pod for move in told.moves if move.owner == str(kind)]
        really = [action.pod for action in moved if action.owner == uid]
        assert sorted(mine) == sorted(really)


@pytest.mark.rule("spot:B32", "spot:I12")
def test_the_story_of_a_workload_and_its_pods() -> None:
    of = owner(4, annotations={KEY: "3"}, conflict="")
    given_ = [pod("a", "od", OD), pod("b", "od"), pod("c", "spot", SPOT), pod("d", "risky", SPOT)]
    ledger = Ledger.empty().with_reservation(Slot(UID, "r1"), Reservation("t", OD, NOW))
    story = explain_workload(State(), situation(cluster(of, given_)), Always(), ledger, UID, NOW)
    assert story is not None
    assert story.report.phase is Phase.CONVERTING
    assert story.report.target.source == f"annotation {KEY} of the Deployment"
    assert dict(story.classes) == {"on-demand": 1, "unclassified": 1, "spot": 2}
    assert [entry.token for entry in story.reservations] == ["t"]
    assert (story.if_spot_ended.stay, story.if_spot_ended.under_quorum_s) == (2, 80)
    assert "Evict shop/d" in story.orders
    assert story.next_class is SPOT, "two are on demand, and one is promised"
    risky, left = explain_pod(story, "uid-d"), explain_pod(story, "uid-c")
    assert risky is not None
    assert left is not None
    assert (risky.turn, risky.effective, risky.node_state) == (1, SPOT, NodeState.AT_RISK)
    assert (left.turn, left.pod_class) == (None, SPOT)
    assert explain_pod(story, "nobody") is None
    assert explain_workload(State(), situation(Cluster(nodes=NODES)), Always(), ledger, UID, NOW) is None
