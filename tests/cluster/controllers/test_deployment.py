"""The Deployment controller against upstream's behaviour (pkg/controller/deployment)."""

from __future__ import annotations

from typing import Any

import pytest

from situate.cluster.controllers import KubeletSettings, MachinerySettings, WriteAnswer
from situate.cluster.controllers.machinery.actions import Create
from situate.cluster.controllers.workloads.deployment.rollout import build_rollout
from situate.cluster.controllers.workloads.deployment.scaling import scaled_sizes
from tests.cluster.controllers.world import World, deployment, template

DEPLOYMENTS = "deployments.apps"
SETS = "replicasets.apps"


def started(replicas: int = 3, settings: MachinerySettings | None = None, **spec: Any) -> World:
    world = World(settings)
    world.create(DEPLOYMENTS, deployment(replicas=replicas, **spec))
    world.run(10)
    world.log.clear()
    return world


def get(world: World) -> dict[str, Any]:
    found = world.get(DEPLOYMENTS, "web")
    assert found is not None
    return found


def progressing(world: World) -> dict[str, Any]:
    return next(entry for entry in get(world)["status"]["conditions"] if entry["type"] == "Progressing")


def sizes(world: World) -> dict[str, int]:
    """Size of each ReplicaSet by its image."""
    return {
        entry["spec"]["template"]["spec"]["containers"][0]["image"]: entry["spec"]["replicas"]
        for entry in world.list(SETS)
    }


def set_image(world: World, image: str) -> None:
    world.patch(DEPLOYMENTS, "web", {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": image}]}}}})


def test_a_new_deployment() -> None:
    world = started()
    (replica_set,) = world.list(SETS)
    label = replica_set["metadata"]["labels"]["pod-template-hash"]
    assert replica_set["metadata"]["name"] == f"web-{label}"
    assert replica_set["spec"]["selector"] == {"matchLabels": {"app": "web", "pod-template-hash": label}}
    assert replica_set["metadata"]["annotations"] == {
        "deployment.kubernetes.io/revision": "1",
        "deployment.kubernetes.io/desired-replicas": "3",
        "deployment.kubernetes.io/max-replicas": "4",
    }
    assert get(world)["metadata"]["annotations"] == {"deployment.kubernetes.io/revision": "1"}
    assert progressing(world)["reason"] == "NewReplicaSetAvailable"
    status = get(world)["status"]
    assert (status["replicas"], status["updatedReplicas"], status["availableReplicas"]) == (3, 3, 3)
    told = [e["message"] for e in world.list("events") if e["involvedObject"]["kind"] == "Deployment"]
    assert told == [f"Scaled up replica set web-{label} from 0 to 3"]


@pytest.mark.parametrize(
    ("surge", "unavailable"), [(1, 0), (0, 1), ("25%", "25%"), (0, 0), ("100%", 0), (2, 2), (0, "100%")]
)
def test_a_rolling_update_stays_within_its_bounds(surge: int | str, unavailable: int | str) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    settings = MachinerySettings(kubelet=KubeletSettings(start_delay=1, jitter=1.0))
    world = started(8, settings, strategy=strategy)
    plan = build_rollout(get(world), world.list(SETS))
    seen: list[tuple[int, int]] = []

    def look() -> None:
        pods = [pod for pod in world.list("pods") if "deletionTimestamp" not in pod["metadata"]]
        ready = sum(
            any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", ()))
            for pod in pods
        )
        seen.append((ready, len(pods)))

    world.after_write = look
    set_image(world, "app:2")
    world.run(120)
    assert sizes(world) == {"app:1": 0, "app:2": 8}
    assert min(ready for ready, _ in seen) >= 8 - plan.max_unavailable
    assert max(count for _, count in seen) <= 8 + plan.max_surge


def test_recreate_starts_nothing_before_the_last_old_pod_is_gone() -> None:
    world = started(3, strategy={"type": "Recreate"})
    held = world.pods()[0]
    world.patch("pods", held, {"metadata": {"annotations": {"hold": "1"}}})
    set_image(world, "app:2")
    world.run(60)
    assert sizes(world) == {"app:1": 0}
    assert world.pods() == [held]
    world.patch("pods", held, {"metadata": {"annotations": {"hold": None}}})
    world.run(10)
    assert sizes(world) == {"app:1": 0, "app:2": 3}
    assert get(world)["status"]["availableReplicas"] == 3


def test_going_back_takes_the_old_set_and_gives_it_a_new_revision() -> None:
    world = started(2)
    set_image(world, "app:2")
    world.run(20)
    set_image(world, "app:1")
    world.run(20)
    assert sizes(world) == {"app:1": 2, "app:2": 0}
    annotations = {
        entry["spec"]["template"]["spec"]["containers"][0]["image"]: entry["metadata"]["annotations"]
        for entry in world.list(SETS)
    }
    assert annotations["app:1"]["deployment.kubernetes.io/revision"] == "3"
    assert annotations["app:1"]["deployment.kubernetes.io/revision-history"] == "1"
    assert get(world)["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"


def test_old_sets_beyond_the_history_limit_are_deleted() -> None:
    world = started(1, revisionHistoryLimit=1)
    for number in range(2, 6):
        set_image(world, f"app:{number}")
        world.run(20)
    assert sizes(world) == {"app:4": 0, "app:5": 1}


def test_paused_means_no_rollout_but_scaling() -> None:
    world = started(2)
    world.patch(DEPLOYMENTS, "web", {"spec": {"paused": True}})
    world.run(5)
    assert (progressing(world)["status"], progressing(world)["reason"]) == ("Unknown", "DeploymentPaused")
    set_image(world, "app:2")
    world.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 4}})
    world.run(20)
    assert sizes(world) == {"app:1": 4}
    world.patch(DEPLOYMENTS, "web", {"spec": {"paused": None}})
    world.run(20)
    assert sizes(world) == {"app:1": 0, "app:2": 4}
    assert progressing(world)["reason"] == "NewReplicaSetAvailable"


def test_without_progress_the_deadline_passes_for_good() -> None:
    world = started(2, progressDeadlineSeconds=30)
    template_ = {"metadata": {"annotations": {"notready": "1"}}, "spec": {"containers": [{"name": "a", "image": "2"}]}}
    world.patch(DEPLOYMENTS, "web", {"spec": {"template": template_}})
    world.run(20)
    assert progressing(world)["status"] == "True"
    world.run(600)
    failed = progressing(world)
    assert (failed["status"], failed["reason"]) == ("False", "ProgressDeadlineExceeded")
    assert failed["message"].endswith("has timed out progressing.")


def test_scaling_in_mid_rollout_is_proportional() -> None:
    """The documented example: 10 replicas, surge 3, unavailable 2; 8 old and 5 new become 11 and 7 at 15."""
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 3, "maxUnavailable": 2}}
    spec = deployment(replicas=15, strategy=strategy)
    spec["metadata"].update(namespace="default", uid="u")
    spec["spec"]["template"] = template("app:2", app="web")

    def sized(name: str, image: str, size: int) -> dict[str, Any]:
        annotations = {"deployment.kubernetes.io/max-replicas": "13", "deployment.kubernetes.io/desired-replicas": "10"}
        metadata = {"name": name, "uid": name, "annotations": annotations, "creationTimestamp": name}
        return {"metadata": metadata, "spec": {"replicas": size, "template": template(image, app="web")}}

    plan = build_rollout(spec, [sized("old", "app:1", 8), sized("new", "app:2", 5)])
    assert {entry.name: size for entry, size in scaled_sizes(plan)} == {"old": 11, "new": 7}


def test_a_replica_failure_shows_on_the_deployment() -> None:
    world = World()
    world.refuse = lambda action: (
        WriteAnswer(403, "Forbidden", "exceeded quota")
        if isinstance(action, Create) and action.resource == "pods"
        else None
    )
    world.create(DEPLOYMENTS, deployment(replicas=1))
    world.run(5)
    conditions = {entry["type"]: entry for entry in get(world)["status"]["conditions"]}
    assert conditions["ReplicaFailure"]["message"] == "exceeded quota"
    assert conditions["Available"]["status"] == "False"


def test_a_taken_name_bumps_the_collision_count() -> None:
    world = started(1)
    (first,) = world.list(SETS)
    world.delete(DEPLOYMENTS, "web")
    world.run(20)
    stranger = {**first, "spec": {**first["spec"], "selector": {"matchLabels": {"app": "other"}}, "replicas": 0}}
    stranger["metadata"] = {"name": first["metadata"]["name"], "labels": {"app": "other"}}
    stranger["spec"]["template"] = template(app="other")
    world.create(SETS, stranger)
    world.create(DEPLOYMENTS, deployment(replicas=1))
    world.run(20)
    assert get(world)["status"]["collisionCount"] == 1
    assert get(world)["status"]["availableReplicas"] == 1


def test_a_set_that_loses_its_owner_reference_is_adopted_again() -> None:
    world = started(1)
    (name,) = (entry["metadata"]["name"] for entry in world.list(SETS))
    world.patch(SETS, name, {"metadata": {"ownerReferences": None}})
    world.run(5)
    found = world.get(SETS, name)
    assert found is not None
    assert found["metadata"]["ownerReferences"][0]["name"] == "web"
