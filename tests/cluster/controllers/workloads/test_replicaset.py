"""The ReplicaSet controller against upstream's behaviour (reference kubernetes.md §4; replica_set.go)."""

from __future__ import annotations

from typing import Any

import pytest

from situate.cluster.controllers import KubeletSettings, MachinerySettings, WriteAnswer
from situate.cluster.controllers.machinery.actions import Create, Write, slow_start_batches
from situate.cluster.controllers.node.pods import PodFacts
from situate.cluster.controllers.workloads.victims import pods_to_delete
from tests.cluster.controllers.world import START, World, pod, replica_set

SETS = "replicasets.apps"


def status(world: World) -> dict[str, Any]:
    found = world.get(SETS, "web")
    assert found is not None
    result: dict[str, Any] = found["status"]
    return result


def started(replicas: int = 3, **spec: Any) -> World:
    world = World()
    world.create(SETS, replica_set(replicas=replicas, **spec))
    world.run(5)
    world.log.clear()
    return world


def test_pods_have_the_owner_the_labels_and_a_generated_name() -> None:
    world = started(replicas=1)
    (only,) = world.list("pods")
    metadata = only["metadata"]
    assert metadata["name"].startswith("web-")
    assert metadata["labels"] == {"app": "web"}
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"], owner["blockOwnerDeletion"]) == (
        "ReplicaSet",
        "web",
        True,
        True,
    )


def test_status_counts() -> None:
    world = started(replicas=3)
    counts = {field: value for field, value in status(world).items() if field != "conditions"}
    assert counts == {
        "replicas": 3,
        "fullyLabeledReplicas": 3,
        "readyReplicas": 3,
        "availableReplicas": 3,
        "terminatingReplicas": 0,
        "observedGeneration": 1,
    }


def test_creation_runs_in_batches_of_1_2_4() -> None:
    create = Create("pods", "default", {})
    assert [len(batch) for batch in slow_start_batches([create] * 10)] == [1, 2, 4, 3]


def test_a_refusal_ends_the_batches_and_shows_as_replica_failure() -> None:
    world = World()
    asked: list[Write] = []

    def refuse(action: Write) -> WriteAnswer | None:
        if not isinstance(action, Create) or action.resource != "pods":
            return None
        asked.append(action)
        return WriteAnswer(403, "Forbidden", "exceeded quota")

    world.refuse = refuse
    world.create(SETS, replica_set(replicas=50))
    world.machinery.step(world.now)
    assert 1 <= len(asked) <= 4, "one a look, and a look for each change of the status"
    world.run(1)
    (failure,) = status(world)["conditions"]
    assert (failure["type"], failure["reason"], failure["message"]) == (
        "ReplicaFailure",
        "FailedCreate",
        "exceeded quota",
    )
    world.refuse = lambda _: None
    world.run(60)
    assert status(world)["readyReplicas"] == 50
    assert not status(world).get("conditions")


def test_a_terminating_pod_is_replaced_at_once() -> None:
    world = started(replicas=1)
    (old,) = world.pods()
    world.delete("pods", old)
    world.machinery.step(world.now)
    assert len(world.pods()) == 2
    assert (status(world)["replicas"], status(world)["terminatingReplicas"]) == (1, 1)


def test_a_relabelled_pod_is_released_and_replaced_and_adopted_again() -> None:
    world = started(replicas=2)
    name = world.pods()[0]
    world.patch("pods", name, {"metadata": {"labels": {"app": "debug"}}})
    world.run(2)
    released = world.get("pods", name)
    assert released is not None
    assert not released["metadata"].get("ownerReferences")
    assert len(world.pods()) == 3
    world.patch("pods", name, {"metadata": {"labels": {"app": "web"}}})
    world.run(5)
    assert len(world.pods()) == 2


def test_removing_only_the_owner_reference_is_undone() -> None:
    world = started(replicas=2)
    name = world.pods()[0]
    world.patch("pods", name, {"metadata": {"ownerReferences": None}})
    world.run(2)
    found = world.get("pods", name)
    assert found is not None
    assert found["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"
    assert len(world.pods()) == 2


def test_loose_pods_are_adopted_when_the_set_comes() -> None:
    world = World()
    world.create("pods", pod("mine", app="web"))
    world.create("pods", pod("other", app="else"))
    world.create(SETS, replica_set(replicas=1))
    world.run(5)
    assert world.pods() == ["mine", "other"]


def test_a_released_pod_outlives_its_owner() -> None:
    world = started(replicas=1)
    (name,) = world.pods()
    world.patch("pods", name, {"metadata": {"labels": {"app": "debug"}}})
    world.run(2)
    world.delete(SETS, "web")
    world.run(10)
    assert world.pods() == [name]


def facts(name: str, **changes: Any) -> PodFacts:
    values: dict[str, Any] = {
        "namespace": "default",
        "name": name,
        "uid": name,
        "node": "n1",
        "labels": {},
        "owner_uid": "o",
        "owner_kind": "ReplicaSet",
        "owner_name": "web",
        "phase": "Running",
        "ready": True,
        "ready_since": START,
        "created": START,
        "terminating": False,
        "delete_by": 0.0,
        "generation": 1,
        "restarts": 0,
        "deletion_cost": 0,
        "index": -1,
        "named": False,
    }
    return PodFacts(**{**values, **changes})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param({"node": ""}, {"phase": "Pending", "ready": False}, id="unassigned before assigned"),
        pytest.param({"phase": "Pending", "ready": False}, {"phase": "Unknown", "ready": False}, id="Pending first"),
        pytest.param({"phase": "Unknown", "ready": False}, {"ready": False}, id="Unknown before Running"),
        pytest.param({"ready": False}, {"deletion_cost": -5}, id="not ready before ready"),
        pytest.param({"deletion_cost": 1}, {"deletion_cost": 2, "ready_since": START + 50}, id="lower cost"),
        pytest.param({"ready_since": START + 90}, {"ready_since": START}, id="ready for less time"),
        pytest.param({"restarts": 3}, {"restarts": 1}, id="more restarts"),
        pytest.param({"created": START + 90}, {"created": START}, id="younger"),
        pytest.param({"uid": "a"}, {"uid": "b"}, id="smaller uid"),
        pytest.param(
            {"uid": "a", "ready_since": START}, {"uid": "b", "ready_since": START + 20}, id="same power of two: uid"
        ),
    ],
)
def test_order_of_victims(first: dict[str, Any], second: dict[str, Any]) -> None:
    pods = [facts("second", **second), facts("first", **first)]
    assert [entry.name for entry in pods_to_delete(pods, pods, 1, START + 100)] == ["first"]


def test_victims_come_from_the_node_with_more_pods_of_the_same_owner() -> None:
    crowd = [facts(f"crowd-{i}", node="n2") for i in range(2)]
    alone = facts("alone", node="n1", uid="0")
    assert [entry.name for entry in pods_to_delete([alone, *crowd], [alone, *crowd], 1, START)] == ["crowd-0"]


@pytest.mark.parametrize("has_controller", [False, True])
def test_pods_of_a_node_count_only_for_a_set_that_has_a_controller(has_controller: bool) -> None:
    """Upstream getIndirectlyRelatedPods: of a set that is nobody's the youngest goes, wherever it is."""
    world = World()
    theirs = world.create("configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs"}})
    for name, node, seconds in (("old", "node-0", 1), ("older", "node-0", 3600), ("young", "node-1", 5)):
        made = pod(name, app="web")
        world.create("pods", made | {"spec": made["spec"] | {"nodeName": node}})
        world.run(seconds)
    replicas = replica_set(replicas=2)
    if has_controller:
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": theirs["metadata"]["uid"]}
        replicas["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    world.create(SETS, replicas)
    world.run(5)
    assert len(world.pods()) == 2
    assert ("young" in world.pods()) is has_controller


def test_min_ready_seconds_delays_availability() -> None:
    world = World(MachinerySettings(kubelet=KubeletSettings(start_delay=1)))
    world.create(SETS, replica_set(replicas=1, minReadySeconds=20))
    world.run(5)
    assert (status(world)["readyReplicas"], status(world)["availableReplicas"]) == (1, 0)
    world.run(20)
    assert status(world)["availableReplicas"] == 1
