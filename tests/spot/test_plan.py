"""What would happen, and why things are as they are (B31, B32)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.spot.actions import Reason
from situate.spot.decide import Phase, Situation, State
from situate.spot.explain import explain_pod, explain_workload
from situate.spot.ledger import Ledger, Reservation, Slot
from situate.spot.limits import Limits
from situate.spot.model import Capacity, NodeState
from situate.spot.observed import Cluster
from situate.spot.plan import plan
from tests.spot.builders import NODES, NOW, OD, SPOT, UID, cluster, owner, pod, pods
from tests.spot.test_decide import Rooms
from tests.spot.world import SlotRoom, Times, World

KEY = "spot.situate.dev/on-demand"


def situation(known: Cluster, room: Rooms | None = None) -> Situation:
    return Situation(known, room or Rooms())


@pytest.mark.rule("spot:B31", "spot:B10")
def test_all_moves_in_their_order() -> None:
    of = owner(5, annotations={KEY: "3"})
    found = plan(State(), situation(cluster(of, pods("bare:5"))), NOW)
    assert [(move.number, move.pod.name, move.reason, move.comes_back) for move in found.moves] == [
        (1, "bare-0", Reason.REPAIR, OD), (2, "bare-1", Reason.REPAIR, OD), (3, "bare-2", Reason.REPAIR, OD),
    ]  # fmt: skip
    assert found.restarts == {"Deployment shop/web": 3}
    assert (found.on_demand_room, found.complete, found.blocked) == (3, True, {})
    assert (found.share_before, found.share_after) == (1, 1), "what is on unknown nodes is reckoned in full"
    lowered = plan(State(), situation(cluster(owner(4, annotations={KEY: "1"}), pods("od:3 spot:1"))), NOW)
    assert (len(lowered.moves), lowered.on_demand_room) == (2, 0)
    assert lowered.share_before == pytest.approx(1 - 0.7 / 4)
    assert lowered.share_after == pytest.approx(1 - 3 * 0.7 / 4)


@pytest.mark.rule("spot:B31", "spot:B14")
def test_what_stays_wrong_is_said_with_its_reason() -> None:
    known = cluster(owner(3, annotations={KEY: "2"}), pods("spot:3"))
    found = plan(State(), situation(known, Rooms(on_demand=False)), NOW)
    assert (found.moves, found.blocked) == ((), {"Deployment shop/web": "NoOnDemandRoom"})
    read_only = Situation(known, Rooms(), limits=Limits(read_only=True))
    assert len(plan(State(), read_only, NOW).moves) == 2


@pytest.mark.rule("spot:B31")
@settings(max_examples=15)
@given(
    st.integers(0, 5),
    st.integers(0, 5),
    st.sampled_from(["0", "2", "50%", "majority"]),
    st.sampled_from(["1", "all-on-demand"]),
)
def test_the_plan_is_what_the_controller_then_does(first: int, second: int, before: str, after: str) -> None:
    world = World(times=Times(start=2, grace=1))
    world.add_nodes("spot", 2, Capacity.SPOT, 20)
    world.add_nodes("od", 2, Capacity.ON_DEMAND, 20)
    uids = [world.add("Deployment", "web", first, before).uid, world.add("StatefulSet", "db", second).uid]
    world.settle()
    for uid in uids:
        world.annotate(uid, on_demand=after)
    told = plan(world.state, Situation(world.cluster(), SlotRoom(world), world.settings.rules()), world.now)
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
    story = explain_workload(State(), situation(cluster(of, given_)), ledger, UID, NOW)
    assert story is not None
    assert story.report.phase is Phase.CONVERTING
    assert story.report.target.source == f"annotation {KEY} of the Deployment"
    assert dict(story.classes) == {"on-demand": 1, "unclassified": 1, "spot": 2}
    assert [entry.token for entry in story.reservations] == ["t"]
    assert (story.if_spot_ended.stay, story.if_spot_ended.under_quorum_s) == (2, 80)
    assert "Evict shop/d" in story.orders
    risky, left = explain_pod(story, "uid-d"), explain_pod(story, "uid-c")
    assert risky is not None
    assert left is not None
    assert (risky.turn, risky.effective, risky.node_state) == (1, SPOT, NodeState.AT_RISK)
    assert (left.turn, left.pod_class) == (None, SPOT)
    assert explain_pod(story, "nobody") is None
    assert explain_workload(State(), situation(Cluster(nodes=NODES)), ledger, UID, NOW) is None
