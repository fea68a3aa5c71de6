from __future__ import annotations

import pytest

from situate.sim.spot.cluster.controllers import Controllers
from situate.sim.spot.cluster.world import SpotWorld
from situate.sim.spot.results.account import EndCause
from tests.sim.spot.worlds import SPOT, pods, run, serving, template, world


def running(kind: str, replicas: int) -> tuple[SpotWorld, Controllers]:
    made, controllers = world()
    for _ in range(3):
        made.add_node(SPOT)
    controllers.add(kind, "web", replicas, None, template())
    run(made, 40.0 * max(1, replicas))
    assert serving(made) == replicas
    return made, controllers


@pytest.mark.rule("spot:K5")
def test_a_replica_set_replaces_a_terminating_pod_at_once() -> None:
    made, _ = running("Deployment", 3)
    made.delete(pods(made)[0].uid, EndCause.MOVED)
    run(made, 0.15)
    assert [pod.terminating for pod in pods(made)] == [True, False, False, False]


@pytest.mark.rule("spot:K5")
def test_a_stateful_set_waits_until_the_old_pod_is_gone() -> None:
    made, _ = running("StatefulSet", 3)
    made.delete(next(pod.uid for pod in pods(made) if pod.key.name == "web-1"), EndCause.MOVED)
    run(made, 9.9)
    assert sorted(pod.key.name for pod in pods(made)) == ["web-0", "web-1", "web-2"]
    run(made, 0.5)
    (back,) = [pod for pod in pods(made) if pod.key.name == "web-1"]
    assert (back.terminating, back.ready) == (False, False)


def test_a_stateful_set_starts_one_pod_after_the_other() -> None:
    made, controllers = world()
    made.add_node(SPOT)
    controllers.add("StatefulSet", "web", 3, None, template())
    run(made, 30)
    assert [pod.key.name for pod in pods(made)] == ["web-0", "web-1"]
    assert serving(made) == 1


def test_a_stateful_set_shrinks_from_the_highest_ordinal() -> None:
    made, controllers = running("StatefulSet", 4)
    controllers.scale("uid-web", 2)
    run(made, 60)
    assert [pod.key.name for pod in pods(made)] == ["web-0", "web-1"]


@pytest.mark.rule("spot:P32")
def test_a_deployment_shrinks_by_deletion_cost() -> None:
    made, controllers = running("Deployment", 4)
    cheap = pods(made)[2].uid
    for pod in made.pods.values():
        made.update(pod, cost=-100 if pod.facts.uid == cheap else 200)
    controllers.scale("uid-web", 3)
    run(made, 1)
    assert [pod.uid for pod in pods(made) if pod.terminating] == [cheap]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_a_rollout_replaces_every_pod_within_its_limits(kind: str) -> None:
    made, controllers = running(kind, 4)
    before = {pod.uid for pod in pods(made)}
    controllers.roll_out("uid-web")
    fewest = most = 4
    for _ in range(1200):
        run(made, 0.5)
        live = [pod for pod in pods(made) if pod.live]
        fewest, most = min(fewest, sum(pod.ready for pod in live)), max(most, len(live))
    assert {pod.revision for pod in pods(made)} == {"r2"}
    assert not before & {pod.uid for pod in pods(made)}
    assert not made.owners["uid-web"].rolling
    assert serving(made) == 4
    assert (fewest, most) == ((4, 5) if kind == "Deployment" else (3, 4))


def test_a_rollout_in_the_middle_of_one_ends_at_the_newest() -> None:
    made, controllers = running("Deployment", 3)
    controllers.roll_out("uid-web")
    run(made, 10)
    controllers.roll_out("uid-web")
    run(made, 600)
    assert {pod.revision for pod in pods(made)} == {"r3"}
    assert list(made.replica_sets) == ["uid-web-r3"]
