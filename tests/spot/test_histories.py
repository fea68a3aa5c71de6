"""The invariants of the reference as properties over random histories of the deciding functions, faults included.

A history is a list of plain steps, so a failing one prints as it can be replayed. Histories of the shipped controller
are another, slower kind; these try the decisions alone.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.spot.config.settings import SpotSettings
from situate.spot.model.actions import POLICY_REASONS, Reason
from situate.spot.model.pods_nodes_workloads import Capacity, NodeState
from situate.spot.model.policy_limits import EvictionLimits, ReturnConditions
from tests.spot.world import Times, World, placement

POLICIES = ("default", "0", "1", "3", "50%", "all-on-demand", "all-spot", "majority", "nonsense")
QUICK = SpotSettings(
    evictions=EvictionLimits(cool_down_s=10.0),
    returns=ReturnConditions(every_s=20.0, node_age_s=30.0, calm_s=60.0, distrust_s=120.0),
)
CALM_STEPS = st.one_of(
    st.tuples(st.just("scale"), st.integers(0, 8)),
    st.tuples(st.just("policy"), st.sampled_from(POLICIES)),
    st.tuples(st.just("roll out"), st.integers(2, 4)),
    st.tuples(st.just("wait"), st.integers(1, 90)),
)
FAULTS = st.one_of(
    st.tuples(st.just("kill a spot node"), st.integers(0, 3)),
    st.tuples(st.just("silence a spot node"), st.integers(0, 3)),
    st.tuples(st.just("notice"), st.integers(0, 120)),
    st.tuples(st.just("new spot node"), st.integers(0, 1)),
    st.tuples(st.just("delete a pod"), st.integers(0, 7)),
    st.tuples(st.just("cordon"), st.integers(0, 5)),
    st.tuples(st.just("lose the label"), st.integers(0, 5)),
    st.tuples(st.just("forget"), st.just(0)),
)
Step = tuple[str, object]


def world(watch: int, on_demand_slots: int = 12) -> tuple[World, list[str]]:
    made = World(settings=QUICK, times=Times(start=3, grace=2, watch=watch))
    made.add_nodes("spot", 4, Capacity.SPOT, 6)
    made.add_nodes("od", 2, Capacity.ON_DEMAND, on_demand_slots)
    uids = [
        made.add("Deployment", "web", 5, "2").uid,
        made.add("Deployment", "api", 4, surge=0).uid,
        made.add("StatefulSet", "db", 3).uid,
    ]
    made.checks.append(moves_keep_their_promises)
    return made, uids


def moves_keep_their_promises(made: World) -> None:
    """I1, I4, I14 of every move by policy, when it was made."""
    seen = [each for each in made.by_policy() if each.at == made.now]
    owners = [each.action.owner for each in seen]
    assert len(owners) == len(set(owners)), f"two moves of one workload at once: {owners}"
    for each in seen:
        assert each.whole, f"moved a pod of a workload that was not whole: {each}"
        if each.action.reason in (Reason.TO_ON_DEMAND, Reason.REPAIR):
            assert each.stood is not Capacity.ON_DEMAND, f"moved a pod that sat right: {each}"
        if each.action.reason in (Reason.TO_SPOT, Reason.RETURN):
            assert each.stood is Capacity.ON_DEMAND, f"moved a pod that sat right: {each}"


def apply(made: World, uids: list[str], number: int, step: Step) -> None:
    kind, value = step
    uid = uids[number % len(uids)]
    spot, pods = made.names(Capacity.SPOT), sorted(made.pods)
    at = value if isinstance(value, int) else 0
    match kind:
        case "scale":
            made.scale(uid, at)
        case "policy":
            made.annotate(uid, on_demand=str(value))
        case "roll out" if not made.owners[uid].stateful:
            made.roll_out(uid, f"r{value}")
        case "wait":
            made.run(at)
        case "kill a spot node" if spot:
            made.kill(spot[at % len(spot)])
        case "silence a spot node" if spot:
            made.silence(spot[at % len(spot)])
        case "notice" if spot:
            made.notice(spot[0], at)
        case "new spot node":
            made.add_nodes("spot", 1, Capacity.SPOT, 6, age=0)
        case "delete a pod" if pods:
            made._end(made.pods[pods[at % len(pods)]])
        case "cordon" | "lose the label":
            name = sorted(made.nodes)[at % len(made.nodes)]
            facts = made.nodes[name].facts
            changed = (
                replace(facts, state=max(facts.state, NodeState.CORDONED), cordoned=True)
                if kind == "cordon"
                else replace(facts, capacity=Capacity.UNKNOWN)
            )
            made.nodes[name].facts = changed
        case "forget":
            made.state, made.ledger = type(made.state)(), type(made.ledger).empty()
    made.run(5)


def heal(made: World) -> None:
    """Everything that was broken is put right, with room on both sides."""
    for name in list(made.nodes):
        if made.nodes[name].facts.state is not NodeState.OK or made.nodes[name].facts.capacity is Capacity.UNKNOWN:
            made.kill(name)
    made.add_nodes("spot", 4, Capacity.SPOT, 6)
    made.add_nodes("od", 2, Capacity.ON_DEMAND, 12)


@pytest.mark.rule("spot:I4", "spot:I5", "spot:I13", "spot:B11", "spot:B28", "spot:P28", "spot:D13")
@settings(max_examples=12)
@given(steps=st.lists(CALM_STEPS, max_size=8), watch=st.integers(0, 2))
def test_without_faults_every_workload_ends_at_its_target_and_loses_one_pod_at_a_time(
    steps: list[Step], watch: int
) -> None:
    made, uids = world(watch)
    made.settle()
    for number, step in enumerate(steps):
        apply(made, uids, number, step)
    for uid in uids:
        if not made.owners[uid].observed:
            raise AssertionError
    made.settle(quiet=150)
    assert made.decision is not None
    for uid in uids:
        report, owner = made.decision.reports[uid], made.owners[uid]
        assert made.ready(uid) == owner.replicas, (owner, placement(made, uid))
        assert made.on_demand(uid) == report.target.on_demand, (str(owner), placement(made, uid), report)
    before = len(made.moved)
    made.run(200)
    assert len(made.moved) == before, made.moved[before:]


@pytest.mark.rule("spot:I1", "spot:I14", "spot:B27", "spot:F3", "spot:F10", "spot:F12", "spot:F13", "spot:F14")
@settings(max_examples=12)
@given(steps=st.lists(st.one_of(CALM_STEPS, FAULTS), max_size=10), watch=st.integers(0, 2))
def test_with_faults_no_move_breaks_a_promise_and_all_is_well_in_the_end(steps: list[Step], watch: int) -> None:
    made, uids = world(watch)
    made.run(30)
    for number, step in enumerate(steps):
        apply(made, uids, number, step)
    heal(made)
    made.run(140)
    made.settle(quiet=300, limit=4000)
    assert made.decision is not None
    for uid in uids:
        owner, report = made.owners[uid], made.decision.reports[uid]
        assert made.ready(uid) == owner.replicas, (str(owner), placement(made, uid), report)
        assert made.on_demand(uid) == report.target.on_demand, (str(owner), placement(made, uid), report)


@pytest.mark.rule("spot:I2", "spot:I3", "spot:S4", "spot:S5", "spot:S8", "spot:F8", "spot:B21")
@pytest.mark.parametrize("notice", [None, 30, 120])
@pytest.mark.parametrize("silent", [False, True])
def test_the_floor_stands_when_all_spot_ends(notice: int | None, silent: bool) -> None:
    made, uids = world(0)
    made.settle()
    floors = {uid: made.on_demand(uid) for uid in uids}
    least = dict.fromkeys(uids, 99)
    made.checks.append(lambda w: least.update({uid: min(least[uid], w.ready(uid)) for uid in uids}))
    spot = made.names(Capacity.SPOT)
    if notice is not None:
        for name in spot:
            made.notice(name, notice)
        made.run(notice)
    for name in spot:
        (made.silence if silent else made.kill)(name)
    made.settle()
    assert all(least[uid] >= floors[uid] for uid in uids), (least, floors)
    if notice == 120:
        assert least[uids[0]] == 5, "make before break: a Deployment loses nothing"
        assert least[uids[1]] == 4
    assert all(made.ready(uid) == made.owners[uid].replicas for uid in uids if not (silent and uid == uids[2]))


@pytest.mark.rule("spot:B27", "spot:B26")
def test_spot_that_comes_and_goes_moves_each_pod_once_in_two_hours() -> None:
    made = World()
    made.add_nodes("od", 2, Capacity.ON_DEMAND, 20)
    made.add_nodes("spot", 2, Capacity.SPOT, 10)
    uid = made.add("Deployment", "web", 6, "1").uid
    made.settle()
    for _ in range(20):
        for name in made.names(Capacity.SPOT):
            made.kill(name)
        made.run(180)
        made.add_nodes("spot", 2, Capacity.SPOT, 10, age=0)
        made.run(180)
    assert len(made.by_policy()) <= 6
    assert made.ready(uid) == 6


@pytest.mark.rule("spot:I10", "spot:D6", "spot:F12")
def test_nodes_without_a_label_never_hold_the_floor() -> None:
    made = World(settings=QUICK)
    made.add_nodes("bare", 3, Capacity.UNKNOWN, 10)
    made.add_nodes("od", 1, Capacity.ON_DEMAND, 10)
    made.installed = False
    uid = made.add("Deployment", "web", 4, "3").uid
    made.settle()
    made.installed = True
    made.settle()
    assert made.on_demand(uid) == 3
    assert {each.action.reason for each in made.moved} <= POLICY_REASONS
