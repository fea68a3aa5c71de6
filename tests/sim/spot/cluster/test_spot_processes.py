"""The webhook and the controller in a simulated cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from situate.sim.spot.cluster.controllers import Controllers
from situate.sim.spot.cluster.spot_processes import SimulatedSpot, settings_of
from situate.sim.spot.cluster.world import SpotWorld
from situate.sim.spot.policies import BY_NAME
from situate.spot.model.pods_nodes_workloads import Capacity
from tests.sim.spot.worlds import ON_DEMAND, SPOT, pods, run, template, world


def installed(
    policy: str, on_demand: str | None, kind: str = "Deployment"
) -> tuple[SpotWorld, Controllers, SimulatedSpot]:
    made, controllers = world()
    found = BY_NAME[policy]
    ours = SimulatedSpot.install(made, settings_of(found, autoscaling=False, start_s=25.0), found.reacts)
    for kind_of_node in (SPOT, SPOT, ON_DEMAND, ON_DEMAND):
        made.add_node(kind_of_node, age_s=86_400.0)
    controllers.add(kind, "web", 4, on_demand, template())
    run(made, 300)
    return made, controllers, ours


def standing(made: SpotWorld) -> dict[Capacity, int]:
    found = dict.fromkeys((Capacity.ON_DEMAND, Capacity.SPOT), 0)
    for pod in made.pods.values():
        if pod.node is not None and pod.facts.live:
            found[pod.node.kind.capacity] += 1
    return found


@pytest.mark.rule("spot:B33", "spot:P23", "spot:P24")
def test_pods_are_classed_at_their_creation_and_stand_so() -> None:
    made, _, ours = installed("floor-release", "1")
    assert standing(made) == {Capacity.ON_DEMAND: 1, Capacity.SPOT: 3}
    assert sorted(str(pod.pod_class) for pod in pods(made)) == ["on-demand", "spot", "spot", "spot"]
    assert {seconds for pod in pods(made) for _, seconds in pod.evicting if pod.pod_class is Capacity.SPOT} == {20}
    assert not ours.ledger.reservations


def test_without_our_waves_tolerations_stay_as_they_are() -> None:
    made, _, _ = installed("note-default", None)
    assert {seconds for pod in pods(made) for _, seconds in pod.evicting} == {300}


@pytest.mark.rule("spot:B11")
def test_a_changed_floor_is_reached_one_pod_at_a_time() -> None:
    made, _, _ = installed("floor-release", "0")
    asked = replace(made.owners["uid-web"], annotations={"spot.situate.dev/on-demand": "2"})
    made.owners["uid-web"] = asked
    made.on_change()
    fewest = 4
    for _ in range(600):
        run(made, 1)
        fewest = min(fewest, sum(pod.ready and not pod.terminating for pod in pods(made)))
    assert standing(made) == {Capacity.ON_DEMAND: 2, Capacity.SPOT: 2}
    assert fewest == 3


@pytest.mark.rule("spot:B20", "spot:B23")
def test_a_notice_releases_pods_and_ends_them_when_others_serve() -> None:
    made, _, _ = installed("floor-release", "1")
    for name in [name for name, node in made.nodes.items() if node.kind is SPOT]:
        made.announce_end(name, 120.0)
    run(made, 1.0)
    assert sorted((pod.released, pod.ready) for pod in pods(made) if pod.ready) == [(False, True)] + [(True, True)] * 3
    run(made, 40.0)
    assert not any(pod.released for pod in pods(made))
    assert standing(made) == {Capacity.ON_DEMAND: 4, Capacity.SPOT: 0}


def test_a_policy_without_our_waves_does_nothing_about_a_notice() -> None:
    made, _, _ = installed("note-default", None)
    before = {pod.uid for pod in pods(made)}
    for name in [name for name, node in made.nodes.items() if node.kind is SPOT]:
        made.announce_end(name, 120.0)
    run(made, 100.0)
    assert {pod.uid for pod in pods(made)} == before
    assert not any(pod.released or pod.terminating for pod in pods(made))


@pytest.mark.rule("spot:B21")
def test_a_stateful_set_is_never_released() -> None:
    made, _, _ = installed("floor-release", None, "StatefulSet")
    assert standing(made) == {Capacity.ON_DEMAND: 3, Capacity.SPOT: 1}
    for name in [name for name, node in made.nodes.items() if node.kind is SPOT]:
        made.announce_end(name, 120.0)
    run(made, 60.0)
    assert not any(pod.released for pod in pods(made))
    assert standing(made) == {Capacity.ON_DEMAND: 4, Capacity.SPOT: 0}
