from __future__ import annotations

import dataclasses

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.framework.cycle.feasibility_query import query_feasibility
from situate.framework.engine.decisions import Placed
from situate.framework.engine.engine import Engine
from situate.framework.explain.what_if import PlacementOutcome, group_by_kind, room_for, settle
from situate.framework.plugin_api.plugin import PreFiltered
from situate.framework.pod.pods import PodInfo
from situate.framework.profile.profile import profile_of
from situate.framework.results.verdict import Verdict
from situate.framework.snapshot.snapshot import Snapshot
from situate.objects.kinds.pods import Pod, PodSchedulingGate, PodSpec
from situate.plugins.node_name import NodeName
from situate.plugins.priority_sort import PrioritySort
from tests.framework.clusters import a_node, a_pod, an_engine, random_engine, read
from tests.framework.pods import pod_info

SEEDS = st.integers(0, 10_000)


def tried(engine: Engine, *pods: Pod) -> dict[str, PlacementOutcome]:
    """On a branch."""
    branch = engine.branch()
    for pod in pods:
        branch.set_pod(pod, 0.0)
    return settle(branch, 0.0)


@settings(max_examples=25)
@given(SEEDS)
def test_what_would_be_is_what_the_engine_then_does(seed: int) -> None:
    engine, pods = random_engine(seed, 6)
    told = {uid: (each.node, each.victims) for uid, each in tried(engine, *pods).items()}
    again = {uid: (each.node, each.victims) for uid, each in tried(engine, *pods).items()}
    for pod in pods:
        engine.set_pod(pod, 0.0)
    assert told == again  # a branch leaves nothing behind
    assert {uid: (each.node, each.victims) for uid, each in settle(engine, 0.0).items()} == told


@settings(max_examples=25)
@given(SEEDS)
def test_the_answer_for_one_pod_is_the_engines(seed: int) -> None:
    engine, pods = random_engine(seed, 1)
    if not pods:
        return
    (profile,) = engine.profiles.values()
    node = query_feasibility(profile, read(engine, pods[0]), engine.snapshot).best_node
    engine.set_pod(pods[0], 0.0)
    decision = engine.schedule(0.0)
    assert (decision.node if isinstance(decision, Placed) else "") == node


@settings(max_examples=20)
@given(SEEDS, st.integers(0, 40))
def test_so_many_more_fit_as_are_placed_before_one_is_refused(seed: int, most: int) -> None:
    engine, pods = random_engine(seed, 1, nodes=3)
    if not pods:
        return
    room = room_for(engine, read(engine, pods[0]), 0.0, most)
    metadata, spec = pods[0].metadata, msgspec.structs.replace(pods[0].spec, preemption_policy="Never")
    count = 0
    for number in range(most):
        twin = msgspec.structs.replace(metadata, name=f"{metadata.name}-{number}", uid=f"twin {number}")
        engine.set_pod(msgspec.structs.replace(pods[0], metadata=twin, spec=spec), 0.0)
        if not isinstance(engine.schedule(0.0), Placed):
            break
        count += 1
    assert (room.count, room.exact) == (count, count < most)
    assert bool(room.why) == room.exact


def test_many_are_counted_at_once_and_only_so_far() -> None:
    engine = an_engine(*(a_node(f"n{number}", pods="500") for number in range(4)))
    shape = read(engine, a_pod("web", "10m"))
    room = room_for(engine, shape, 0.0)
    assert (room.count, room.exact) == (4 * 400, True)
    assert room.why == "0/4 nodes are available: 4 Insufficient cpu."
    assert room_for(engine, shape, 0.0, most=1000) == dataclasses.replace(room, count=1000, exact=False, why="")
    assert engine.snapshot.pod_count.sum() == 0


@pytest.mark.parametrize(
    ("cpu", "want"),
    [
        pytest.param("2", ("a", ()), id="there is room"),
        pytest.param("4", ("a", (("default", "low"),)), id="a pod of lower priority goes"),
        pytest.param("5", ("", ()), id="no room even then"),
    ],
)
def test_room_is_made_where_that_helps(cpu: str, want: tuple[str, object]) -> None:
    engine = an_engine(a_node("a"), pods=(a_pod("low", "1", node="a"),))
    outcome = tried(engine, a_pod("high", cpu, spec=PodSpec(priority=10)))["high"]
    assert (outcome.node, outcome.victims) == want
    assert bool(outcome.why) == (not outcome.node)
    assert outcome.short == ("" if outcome.node else "0/1 nodes are available: 1 Insufficient cpu.")


def test_a_plugin_that_fails_is_told_and_counts_nothing() -> None:
    class Fails(NodeName):
        def filter(self, state: object, pod: PodInfo, snapshot: Snapshot) -> Verdict:
            raise ValueError("no idea")

        def pre_filter(self, pod: PodInfo, snapshot: Snapshot) -> PreFiltered:
            raise ValueError("no idea")

    engine = Engine([profile_of("here", [(PrioritySort(), 0), (Fails(), 0)])])
    engine.set_node(a_node("a"), 0.0)
    pod = pod_info("web").pod
    assert "no idea" in tried(engine, pod)["web"].why
    room = room_for(engine, read(engine, pod), 0.0)
    assert (room.count, room.exact) == (0, True)
    assert "no idea" in room.why


def test_a_gated_pod_says_who_keeps_it() -> None:
    gated = a_pod("web", spec=PodSpec(scheduling_gates=(PodSchedulingGate("example.com/quota"),)))
    outcome = tried(an_engine(a_node("a")), gated)["web"]
    assert not outcome.node
    assert outcome.why == "SchedulingGates: waiting for scheduling gates: [example.com/quota]"


def test_nodes_may_come_and_go_on_a_branch() -> None:
    engine = an_engine(a_node("a", cpu="1"))
    branch = engine.branch()
    branch.set_node(a_node("b", cpu="8"), 0.0)
    branch.remove_node("a", 0.0)
    branch.set_pod(a_pod("web", "2"), 0.0)
    assert settle(branch, 0.0)["web"].node == "b"
    assert not tried(engine, a_pod("web", "2"))["web"].node


def test_kinds_are_told_apart_by_what_decides() -> None:
    engine = an_engine(a_node("a"))
    pods = [read(engine, a_pod(name, cpu)) for name, cpu in (("a", "1"), ("b", "2"), ("c", "1"))]
    assert [[pod.name for pod in same] for same in group_by_kind(pods)] == [["a", "c"], ["b"]]
