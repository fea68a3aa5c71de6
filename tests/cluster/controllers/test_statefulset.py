"""The StatefulSet controller against upstream's behaviour (reference kubernetes.md §4; stateful_set_control.go)."""

from __future__ import annotations

from typing import Any

import pytest

from situate.cluster.controllers import KubeletSettings, MachinerySettings, WriteAnswer
from situate.cluster.controllers.machinery.actions import Create
from tests.cluster.controllers.world import World, stateful_set, template

SETS = "statefulsets.apps"


def moves(world: World) -> list[str]:
    """Creations and deletions of pods in order."""
    signs = {"create": "+", "delete": "-"}
    by = "system:serviceaccount:kube-system:statefulset-controller"
    return [
        signs[verb] + name
        for verb, resource, name, user in world.log
        if resource == "pods" and verb in signs and user == by
    ]


def status(world: World, name: str = "web") -> dict[str, Any]:
    found = world.get(SETS, name)
    assert found is not None
    result: dict[str, Any] = found["status"]
    return result


def started(**spec: Any) -> World:
    world = World()
    world.create(SETS, stateful_set(**spec))
    world.run(10)
    world.log.clear()
    return world


def new_image(world: World, image: str = "app:2") -> None:
    world.patch(SETS, "web", {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": image}]}}}})


def test_ordered_creation_waits_for_each_pod_to_be_ready() -> None:
    world = World(MachinerySettings(kubelet=KubeletSettings(start_delay=2)))
    world.create(SETS, stateful_set(replicas=3))
    world.run(1)
    assert world.pods() == ["web-0"]
    world.run(2)
    assert world.pods() == ["web-0", "web-1"]
    world.run(10)
    assert world.pods() == ["web-0", "web-1", "web-2"]
    assert status(world)["readyReplicas"] == 3


def test_parallel_creates_and_deletes_all_at_once() -> None:
    world = World(MachinerySettings(kubelet=KubeletSettings(start_delay=2)))
    world.create(SETS, stateful_set(replicas=5, podManagementPolicy="Parallel"))
    world.run(1)
    assert len(world.pods()) == 5
    world.run(5)
    world.log.clear()
    world.patch(SETS, "web", {"spec": {"replicas": 1}})
    world.run(0.1)
    assert moves(world) == ["-web-4", "-web-3", "-web-2", "-web-1"]


def test_scale_down_goes_in_reverse_and_waits_for_each_pod_to_be_gone() -> None:
    world = started(replicas=3)
    world.patch("pods", "web-2", {"metadata": {"annotations": {"hold": "1"}}})
    world.patch(SETS, "web", {"spec": {"replicas": 1}})
    world.run(60)
    assert moves(world) == ["-web-2"]
    world.patch("pods", "web-2", {"metadata": {"annotations": {"hold": None}}})
    world.run(5)
    assert moves(world) == ["-web-2", "-web-1"]
    assert world.pods() == ["web-0"]


def test_an_ordered_set_repairs_a_gap_before_it_scales_down() -> None:
    world = started(replicas=3)
    world.patch("pods", "web-0", {"metadata": {"annotations": {"unready": "1"}}})
    world.run(1)
    world.patch(SETS, "web", {"spec": {"replicas": 2}})
    world.run(20)
    assert moves(world) == []
    world.patch("pods", "web-0", {"metadata": {"annotations": {"unready": None}}})
    world.run(5)
    assert moves(world) == ["-web-2"]


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, ["-web-2", "+web-2", "-web-1", "+web-1", "-web-0", "+web-0"], id="highest ordinal first"),
        pytest.param(
            {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}},
            ["-web-2", "+web-2"],
            id="the partition keeps lower ordinals",
        ),
        pytest.param({"updateStrategy": {"type": "OnDelete"}}, [], id="OnDelete waits for somebody to delete"),
    ],
)
def test_rolling_update(spec: dict[str, Any], want: list[str]) -> None:
    world = started(replicas=3, **spec)
    new_image(world)
    world.run(20)
    assert moves(world) == want


def test_a_finished_rollout_moves_the_current_revision() -> None:
    world = started(replicas=2)
    before = status(world)["currentRevision"]
    new_image(world)
    world.run(0.1)
    during = status(world)
    assert during["currentRevision"] == before != during["updateRevision"]
    world.run(20)
    after = status(world)
    assert after["currentRevision"] == after["updateRevision"] == during["updateRevision"]
    assert (after["currentReplicas"], after["updatedReplicas"]) == (2, 2)


def test_a_pod_below_the_partition_comes_back_at_the_old_revision() -> None:
    world = started(replicas=3, updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}})
    new_image(world)
    world.run(10)
    world.delete("pods", "web-0")
    world.run(10)
    images = {pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"] for pod in world.list("pods")}
    assert images == {"web-0": "app:1", "web-1": "app:1", "web-2": "app:2"}


def test_going_back_to_an_old_template_reuses_its_revision() -> None:
    world = started(replicas=1)
    first = status(world)["currentRevision"]
    new_image(world)
    world.run(5)
    new_image(world, "app:1")
    world.run(5)
    assert status(world)["currentRevision"] == first
    revisions = {r["metadata"]["name"]: r["revision"] for r in world.list("controllerrevisions.apps")}
    assert len(revisions) == 2
    assert revisions[first] == 3


def test_history_beyond_the_limit_is_deleted() -> None:
    world = started(replicas=1, revisionHistoryLimit=1)
    for number in range(2, 6):
        new_image(world, f"app:{number}")
        world.run(5)
    assert sorted(r["revision"] for r in world.list("controllerrevisions.apps")) == [4, 5]


def test_identity_of_a_pod() -> None:
    world = started(replicas=1, ordinals={"start": 5})
    pod = world.get("pods", "web-5")
    assert pod is not None
    labels = pod["metadata"]["labels"]
    assert labels["statefulset.kubernetes.io/pod-name"] == "web-5"
    assert labels["apps.kubernetes.io/pod-index"] == "5"
    assert labels["controller-revision-hash"] == status(world)["updateRevision"]
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("web-5", "web")
    assert pod["metadata"]["generateName"] == "web-"


def test_moving_the_start_of_the_ordinals_replaces_pods_outside() -> None:
    world = started(replicas=3)
    world.patch(SETS, "web", {"spec": {"ordinals": {"start": 2}}})
    world.run(20)
    assert world.pods() == ["web-2", "web-3", "web-4"]


def test_lost_labels_are_restored() -> None:
    world = started(replicas=1)
    world.patch("pods", "web-0", {"metadata": {"labels": {"apps.kubernetes.io/pod-index": None}}})
    world.run(1)
    pod = world.get("pods", "web-0")
    assert pod is not None
    assert pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"] == "0"


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_finished_pod_is_replaced(phase: str) -> None:
    world = started(replicas=1)
    old = world.get("pods", "web-0")
    assert old is not None
    world.patch("pods", "web-0", {"status": {"phase": phase}})
    world.run(5)
    new = world.get("pods", "web-0")
    assert new is not None
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert new["status"]["phase"] == "Running"


def test_a_released_pod_keeps_its_name_occupied() -> None:
    world = started(replicas=1)
    world.patch("pods", "web-0", {"metadata": {"labels": {"app": "other"}}})
    world.run(5)
    pod = world.get("pods", "web-0")
    assert pod is not None
    assert not pod["metadata"].get("ownerReferences")
    assert world.pods() == ["web-0"]
    assert status(world)["replicas"] == 0
    world.patch("pods", "web-0", {"metadata": {"labels": {"app": "web"}}})
    world.run(5)
    assert status(world)["replicas"] == 1


def test_min_ready_seconds_holds_back_the_next_pod() -> None:
    world = World()
    world.create(SETS, stateful_set(replicas=2, minReadySeconds=10))
    world.run(5)
    assert world.pods() == ["web-0"]
    assert (status(world)["readyReplicas"], status(world)["availableReplicas"]) == (1, 0)
    world.run(30)
    assert world.pods() == ["web-0", "web-1"]
    assert status(world)["availableReplicas"] == 2


def test_claims_are_made_before_the_pod_and_kept_after_it() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}
    world = started(replicas=2, volumeClaimTemplates=[claim])
    claims = [entry["metadata"]["name"] for entry in world.list("persistentvolumeclaims")]
    assert claims == ["data-web-0", "data-web-1"]
    pod = world.get("pods", "web-1")
    assert pod is not None
    assert pod["spec"]["volumes"] == [{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-1"}}]
    world.patch(SETS, "web", {"spec": {"replicas": 0}})
    world.run(10)
    assert len(world.list("persistentvolumeclaims")) == 2


def test_claims_of_scaled_down_pods_go_if_the_policy_says_so() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {}}
    policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
    world = started(replicas=2, volumeClaimTemplates=[claim], persistentVolumeClaimRetentionPolicy=policy)
    world.patch(SETS, "web", {"spec": {"replicas": 1}})
    world.run(20)
    assert [entry["metadata"]["name"] for entry in world.list("persistentvolumeclaims")] == ["data-web-0"]
    world.delete(SETS, "web")
    world.run(20)
    assert world.list("persistentvolumeclaims") == []


def test_a_refused_pod_is_told_and_tried_again() -> None:
    world = World()
    world.refuse = lambda action: (
        WriteAnswer(403, "Forbidden", "exceeded quota")
        if isinstance(action, Create) and action.resource == "pods"
        else None
    )
    world.create(SETS, stateful_set(replicas=1))
    world.run(5)
    events = [event for event in world.list("events") if event["reason"] == "FailedCreate"]
    assert events[0]["message"] == "Create Pod web-0 in StatefulSet web failed error: exceeded quota"
    world.refuse = lambda _: None
    world.run(60)
    assert world.pods() == ["web-0"]


def test_events_have_upstreams_words() -> None:
    world = started(replicas=1)
    told = [(e["reason"], e["message"]) for e in world.list("events") if e["involvedObject"]["kind"] == "StatefulSet"]
    assert told == [("SuccessfulCreate", "Create Pod web-0 in StatefulSet web successful")]


def test_a_colliding_revision_name_is_avoided() -> None:
    world = World()
    made = world.create(SETS, stateful_set(replicas=1))
    world.run(5)
    name = status(world)["currentRevision"]
    world.delete(SETS, made["metadata"]["name"])
    world.run(30)
    stranger = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": {"name": name}, "revision": 1}
    world.create("controllerrevisions.apps", {**stranger, "data": {"spec": {"template": template("other")}}})
    world.create(SETS, stateful_set(replicas=1))
    world.run(5)
    assert status(world)["currentRevision"] != name
    assert status(world)["readyReplicas"] == 1
