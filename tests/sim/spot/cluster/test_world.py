from __future__ import annotations

from typing import Any

import pytest

from situate.sim.spot.cluster.world import SpotWorld
from situate.sim.spot.results.account import EndCause
from situate.sim.timeline import Timeline
from situate.spot.model.pods_nodes_workloads import CAPACITY_LABEL, Capacity, NodeState
from tests.sim.spot.worlds import ON_DEMAND, SPOT, pods, run, serving, template, world

REQUIRED: dict[str, Any] = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": CAPACITY_LABEL, "operator": "In", "values": ["spot"]}]}
                ]
            }
        }
    }
}


def four_on_spot() -> SpotWorld:
    made, controllers = world()
    made.add_node(SPOT)
    controllers.add("Deployment", "web", 4, None, template())
    run(made, 60)
    assert serving(made) == 4
    return made


def node(made: SpotWorld, capacity: Capacity = Capacity.SPOT) -> str:
    return next(name for name, each in made.nodes.items() if each.kind.capacity is capacity)


def test_a_pod_serves_when_it_was_bound_and_has_started() -> None:
    made, controllers = world()
    made.add_node(SPOT)
    run(made, 10)
    controllers.add("Deployment", "web", 1, None, template())
    run(made, 25.2)
    assert serving(made) == 0
    run(made, 0.2)
    assert serving(made) == 1
    (pod,) = pods(made)
    assert (pod.ready, pod.phase) == (True, "Running")
    assert pod.ready_since == pytest.approx(1035.3)


@pytest.mark.rule("spot:K7")
def test_pods_of_a_deleted_node_stand_in_the_api_until_that_is_noticed() -> None:
    made = four_on_spot()
    made.add_node(ON_DEMAND)
    made.end_node(node(made), silent=False)
    assert serving(made) == 0
    run(made, 54.9)
    before = {pod.uid for pod in pods(made) if pod.ready}
    assert len(before) == 4
    run(made, 0.3)
    assert not before & {pod.uid for pod in pods(made)}
    run(made, 26)
    assert serving(made) == 4


@pytest.mark.rule("spot:K7", "spot:B25")
@pytest.mark.parametrize(("tolerated", "after"), [(300, 345.0), (20, 65.0)])
def test_pods_of_a_silent_node_are_replaced_when_their_toleration_ends(tolerated: int, after: float) -> None:
    made = four_on_spot()
    made.add_node(ON_DEMAND)
    for pod in made.pods.values():
        made.update(pod, evicting=tuple((key, tolerated) for key, _ in pod.facts.evicting))
    dead = node(made)
    made.end_node(dead, silent=True)
    run(made, 44.9)
    assert made.nodes[dead].facts.state is NodeState.OK
    run(made, 0.2)
    assert made.nodes[dead].facts.state is NodeState.DEAD
    assert not any(pod.ready for pod in pods(made))
    run(made, after - 45.1 - 0.1)
    assert len(pods(made)) == 4
    run(made, 0.5)
    assert sorted(pod.terminating for pod in pods(made)) == [False] * 4 + [True] * 4
    run(made, 3600)
    assert len(pods(made)) == 8  # nobody is there to end the old ones
    assert serving(made) == 4
    made.forget_node(dead)
    run(made, 56)
    assert len(pods(made)) == 4


def test_a_node_with_a_notice_takes_no_new_pods_and_serves_on() -> None:
    made, controllers = world()
    made.add_node(SPOT)
    controllers.add("Deployment", "web", 2, None, template())
    run(made, 60)
    doomed = node(made)
    made.announce_end(doomed, 120)
    assert (made.nodes[doomed].facts.state, made.nodes[doomed].facts.deadline) == (NodeState.DOOMED, made.now + 120)
    controllers.scale("uid-web", 3)
    run(made, 60)
    assert serving(made) == 2
    made.add_node(ON_DEMAND)
    run(made, 26)
    assert serving(made) == 3


def test_a_deleted_pod_serves_for_a_moment_and_keeps_its_place_until_it_is_gone() -> None:
    made = four_on_spot()
    victim = pods(made)[0]
    made.delete(victim.uid, EndCause.MOVED)
    made.delete(victim.uid, EndCause.MOVED)
    run(made, 1.9)
    assert serving(made) == 4
    run(made, 0.2)
    assert serving(made) == 3
    assert [pod.node for pod in pods(made) if not pod.terminating].count("") == 1  # the fifth finds no place
    run(made, 8.2)
    assert [pod.terminating for pod in pods(made)] == [False] * 4
    run(made, 26)
    assert serving(made) == 4
    assert made.account.close(made.now, ()).restarts == 1


@pytest.mark.rule("spot:K6")
def test_a_released_pod_serves_on_beside_its_replacement() -> None:
    made = four_on_spot()
    made.add_node(ON_DEMAND)
    made.release(pods(made)[0].uid, made.now + 120)
    run(made, 26)
    assert serving(made) == 5
    (released,) = [pod for pod in pods(made) if pod.released]
    assert (released.ready, released.controller, released.former_owner) == (True, "", "uid-web")


def test_as_many_nodes_come_as_pods_wait_for() -> None:
    made, controllers = world()
    made.grown = ON_DEMAND
    controllers.add("Deployment", "web", 9, None, template())
    run(made, 76)
    assert [each.kind for each in made.nodes.values()] == [ON_DEMAND] * 3
    run(made, 3600)
    assert len(made.nodes) == 3
    assert serving(made) == 9


def test_no_node_comes_that_would_help_nobody() -> None:
    made, controllers = world()
    made.grown = ON_DEMAND
    controllers.add("Deployment", "web", 2, None, template(**REQUIRED))
    run(made, 600)
    assert not made.nodes


def test_a_fork_has_a_future_of_its_own() -> None:
    made = four_on_spot()
    twin = made.fork(Timeline(made.now), made.account.fork(made.now), made.chance)
    twin.end_node(node(twin), silent=False)
    run(twin, 60)
    assert not {pod.uid for pod in twin.pods_of("uid-web")} & {pod.uid for pod in pods(made)}
    assert len(pods(made)) == serving(made) == 4
    assert len(made.nodes) == 1
