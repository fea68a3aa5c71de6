from __future__ import annotations

from situate.sim.timeline import Timeline
from situate.sim.vpod.fleet import Fleet
from situate.sim.vpod.settings import FleetSettings


def fleet(replicas: int = 0, pods_per_node: int | None = None) -> tuple[Timeline, Fleet]:
    """Two zones of one node; pods start after 10 s and stop after 5 s."""
    timeline = Timeline()
    cluster = FleetSettings(
        zones={"a": 1, "b": 1}, pods_per_node=pods_per_node, pod_start_delay=10.0, pod_stop_delay=5.0
    )
    made = Fleet(timeline, cluster, "set")
    made.scale(replicas)
    return timeline, made


def let_pass(timeline: Timeline, seconds: float) -> None:
    until = timeline.now + seconds
    while timeline.advance(until):
        pass


def running(fleet: Fleet) -> list[int]:
    return [ordinal for ordinal, pod in sorted(fleet.pods.items()) if pod.running]


def nodes(fleet: Fleet) -> dict[int, str]:
    return {ordinal: pod.node.name if pod.node else "" for ordinal, pod in sorted(fleet.pods.items())}


def test_pods_are_spread_over_zones_and_start_after_a_while() -> None:
    timeline, made = fleet(3)
    assert nodes(made) == {0: "a-0", 1: "b-0", 2: "a-0"}
    let_pass(timeline, 9.0)
    assert running(made) == []
    let_pass(timeline, 1.0)
    assert running(made) == [0, 1, 2]


def test_a_smaller_scale_stops_the_highest_ordinals() -> None:
    timeline, made = fleet(3)
    let_pass(timeline, 10.0)
    made.scale(1)
    assert (facts := made.facts(2)) is not None
    assert facts.deleting
    let_pass(timeline, 5.0)
    assert sorted(made.pods) == [0]


def test_a_pod_that_is_scaled_away_and_back_is_created_anew() -> None:
    timeline, made = fleet(2)
    let_pass(timeline, 10.0)
    before = made.pods[1].uid
    made.scale(1)
    made.scale(2)
    let_pass(timeline, 20.0)
    assert running(made) == [0, 1]
    assert made.pods[1].uid != before


def test_what_finds_no_node_waits_for_room() -> None:
    timeline, made = fleet(3, pods_per_node=1)
    assert nodes(made) == {0: "a-0", 1: "b-0", 2: ""}
    made.scale(4)
    made.lose_pod(0)
    let_pass(timeline, 10.0)
    assert running(made) == [0, 1] or running(made) == [1, 2]  # the room goes to who waited, or to the same identity
    assert len(running(made)) == 2


def test_a_full_cluster_takes_nothing_until_it_is_not() -> None:
    timeline, made = fleet()
    made.set_full(True)
    made.scale(1)
    let_pass(timeline, 60.0)
    assert nodes(made) == {0: ""}
    made.set_full(False)
    let_pass(timeline, 10.0)
    assert running(made) == [0]


def test_a_silent_node_is_seen_later_and_given_up_later_still() -> None:
    timeline, made = fleet(2)
    let_pass(timeline, 10.0)
    made.lose_node("b-0")
    assert running(made) == [0]
    assert made.nodes["b-0"].facts().ready
    let_pass(timeline, 40.0)
    assert made.nodes["b-0"].facts().unreachable
    assert nodes(made)[1] == "b-0"
    let_pass(timeline, 270.0)
    assert nodes(made)[1] == "a-0"
    assert running(made) == [0, 1]


def test_a_node_that_returns_starts_its_pods_again() -> None:
    timeline, made = fleet(2)
    let_pass(timeline, 10.0)
    before = made.pods[1].uid
    made.lose_node("b-0")
    let_pass(timeline, 60.0)
    made.return_node("b-0")
    assert running(made) == [0]
    let_pass(timeline, 10.0)
    assert running(made) == [0, 1]
    assert made.pods[1].uid == before
    let_pass(timeline, 600.0)
    assert made.pods[1].uid == before


def test_nobody_confirms_the_end_of_a_pod_on_a_silent_node() -> None:
    timeline, made = fleet(2)
    let_pass(timeline, 10.0)
    made.lose_node("b-0")
    made.scale(1)
    let_pass(timeline, 60.0)
    assert sorted(made.pods) == [0, 1]
    made.return_node("b-0")
    assert sorted(made.pods) == [0]


def test_a_cordoned_node_takes_nothing_new() -> None:
    _, made = fleet()
    made.cordon("a-0", True)
    made.scale(2)
    assert nodes(made) == {0: "b-0", 1: "b-0"}
