"""The status of disruption budgets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.controllers.world import World, deployment, pod, stateful_set

BUDGETS = "poddisruptionbudgets.policy"


def budget(**spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    metadata = {"name": "b"}
    kind = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
    return {**kind, "metadata": metadata, "spec": {"selector": selector, **spec}}


def status(world: World) -> tuple[int, int, int, int]:
    """Expected, healthy now, healthy wanted, allowed."""
    found = world.get(BUDGETS, "b")
    assert found is not None
    counts = found["status"]
    return counts["expectedPods"], counts["currentHealthy"], counts["desiredHealthy"], counts["disruptionsAllowed"]


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({"minAvailable": 2}, (3, 3, 2, 1)),
        ({"minAvailable": 5}, (3, 3, 5, 0)),
        ({"minAvailable": "50%"}, (3, 3, 2, 1)),
        ({"maxUnavailable": 1}, (3, 3, 2, 1)),
        ({"maxUnavailable": "34%"}, (3, 3, 1, 2)),
        ({"maxUnavailable": 0}, (3, 3, 3, 0)),
    ],
)
@pytest.mark.parametrize("workload", ["deployment", "statefulset"])
def test_counts(spec: dict[str, Any], want: tuple[int, int, int, int], workload: str) -> None:
    world = World()
    if workload == "deployment":
        world.create("deployments.apps", deployment(replicas=3))
    else:
        world.create("statefulsets.apps", stateful_set(replicas=3))
    world.create(BUDGETS, budget(**spec))
    world.run(10)
    assert status(world) == want
    found = world.get(BUDGETS, "b")
    assert found is not None
    (told,) = found["status"]["conditions"]
    enough = ("True", "SufficientPods") if want[3] else ("False", "InsufficientPods")
    assert (told["type"], told["status"], told["reason"]) == ("DisruptionAllowed", *enough)
    assert found["status"]["observedGeneration"] == 1


def test_it_follows_the_pods() -> None:
    world = World()
    world.create(BUDGETS, budget(minAvailable=1))
    world.run(1)
    assert status(world) == (0, 0, 1, 0)
    for name in ("x", "y"):
        world.create("pods", pod(name, app="web"))
    world.run(1)
    assert status(world) == (2, 2, 1, 1)
    world.patch("pods", "x", {"metadata": {"annotations": {"unready": "1"}}})
    world.run(1)
    assert status(world) == (2, 1, 1, 0)
    world.patch("pods", "x", {"metadata": {"labels": {"app": "other"}}})
    world.run(1)
    assert status(world) == (1, 1, 1, 0)
    world.delete("pods", "y")
    world.run(0.1)
    assert status(world) == (1, 0, 1, 0)


def test_a_changed_spec_is_counted_anew() -> None:
    world = World()
    world.create("pods", pod("x", app="web"))
    world.create("pods", pod("y", app="other"))
    world.create(BUDGETS, budget(minAvailable=0))
    world.run(1)
    assert status(world) == (1, 1, 0, 1)
    world.patch(BUDGETS, "b", {"spec": {"selector": {"matchLabels": {"app": "other"}}, "minAvailable": 1}})
    world.run(1)
    assert status(world) == (1, 1, 1, 0)


def test_an_evicted_pod_counts_as_disrupted_until_it_is_gone_or_two_minutes_pass() -> None:
    world = World()
    for name in ("x", "y"):
        world.create("pods", pod(name, app="web"))
    world.create(BUDGETS, budget(minAvailable=1))
    world.run(1)
    at = world.list("pods")[0]["metadata"]["creationTimestamp"]
    world.patch(BUDGETS, "b", {"status": {"disruptedPods": {"x": at}, "disruptionsAllowed": 0}})
    world.run(1)
    assert status(world) == (2, 1, 1, 0)
    world.run(130)
    assert status(world) == (2, 2, 1, 1)
