"""What nobody would see without being told: sources of a kind that nobody schedules, pods that keep others away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from situate.testing.vpod.history import CAPACITY, HoldPods, SetSource, VpodHistorySettings
from situate.testing.vpod.invariants.rules import VpodWatchdog
from situate.testing.vpod.run import perform
from situate.testing.vpod.world.world import GROUPS_PATH, NAMESPACE, STATEFULSET, VPodWorld

KIND_LABEL = "kafka.eventing.knative.dev/metadata.kind"
GROUPS = f"{GROUPS_PATH}/namespaces/red/consumergroups"
SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets"


@pytest.fixture
def world() -> Iterator[VPodWorld]:
    made = VPodWorld(1, VpodHistorySettings())
    made.let_pass(20.0)  # somebody leads by then
    yield made
    made.close()


def group(labels: dict[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "internal.kafka.eventing.knative.dev/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {"name": "odd", "labels": labels},
        "spec": {"replicas": 2, "template": {"spec": {"topics": ["t"]}}},
    }


def condition(world: VPodWorld) -> dict[str, Any]:
    """The condition of the ConsumerGroup; empty if there is none."""
    found = world.call("GET", f"{GROUPS}/odd").get("status", {}).get("conditions") or [{}]
    assert len(found) == 1
    return dict(found[0])


@pytest.mark.parametrize("labels", [{}, {KIND_LABEL: "pingsource"}], ids=["no label", "another kind"])
def test_a_source_that_nobody_schedules_is_told_so(world: VPodWorld, labels: dict[str, str]) -> None:
    world.call("POST", GROUPS, group(labels))
    world.let_pass(5.0)
    assert world.events["NoSchedulerFound"] == 0  # a scheduler that we do not know may come
    world.let_pass(15.0)
    assert world.events["NoSchedulerFound"] == 1
    told = condition(world)
    assert (told["type"], told["status"], told["reason"]) == ("ConsumersScheduled", "False", "Schedule")
    assert told["message"].startswith("no scheduler found for ")
    world.call("PATCH", f"{GROUPS}/odd", {"spec": {"replicas": 3}}, patch=True)
    world.let_pass(30.0)
    assert world.events["NoSchedulerFound"] == 1  # not again for the same


def test_a_source_whose_label_is_corrected_is_scheduled(world: VPodWorld) -> None:
    world.call("POST", GROUPS, group({}))
    world.let_pass(20.0)
    assert condition(world)["status"] == "False"
    world.call("PATCH", f"{GROUPS}/odd", {"metadata": {"labels": {KIND_LABEL: "Test"}}}, patch=True)
    world.let_pass(30.0)
    assert condition(world)["status"] == "True"
    assert sum(each["vreplicas"] for each in world.call("GET", f"{GROUPS}/odd")["status"]["placements"]) == 2


def test_a_source_that_another_installation_schedules_is_left_alone(world: VPodWorld) -> None:
    world.call("POST", GROUPS, group({}))
    world.let_pass(5.0)
    verdict = {"type": "ConsumersScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    world.call("PATCH", f"{GROUPS}/odd/status", {"status": {"conditions": [verdict]}}, patch=True)
    world.let_pass(60.0)
    assert world.events["NoSchedulerFound"] == 0
    assert condition(world) == verdict


def test_a_new_leader_tells_what_the_old_one_could_not(world: VPodWorld) -> None:
    world.call("POST", GROUPS, group({}))
    leader = world.leader()
    assert leader is not None
    world.end(leader)
    world.let_pass(60.0)
    assert (world.events["NoSchedulerFound"], condition(world)["status"]) == (1, "False")
    leader = world.leader()
    assert leader is not None
    world.end(leader)
    world.let_pass(60.0)
    assert world.events["NoSchedulerFound"] == 1  # the status says it already


@pytest.mark.parametrize("kind", ["trigger", "KafkaChannel", "test"])
def test_a_source_that_somebody_schedules_is_left_alone(world: VPodWorld, kind: str) -> None:
    world.call("POST", GROUPS, group({KIND_LABEL: kind}))
    world.let_pass(30.0)
    assert world.events["NoSchedulerFound"] == 0
    assert condition(world).get("reason") != "Schedule" or kind == "test"


@pytest.mark.rule("vpod:D18", "vpod:B13", "vpod:V22")
def test_what_could_be_placed_is_published_with_the_words_of_the_shortage(world: VPodWorld) -> None:
    watchdog = VpodWatchdog(world)
    perform(world, watchdog, SetSource(0.0, 0, CAPACITY - 1))
    world.let_pass(30.0)
    perform(world, watchdog, HoldPods(0.0, held=True))
    perform(world, watchdog, SetSource(0.0, 0, CAPACITY + 2))
    world.let_pass(10.0)
    (source,) = world.call("GET", f"{GROUPS_PATH}/consumergroups")["items"]
    status = source["status"]
    assert [(each["podName"], each["vreplicas"]) for each in status["placements"]] == [(f"{STATEFULSET}-0", CAPACITY)]
    (told,) = status["conditions"]
    assert (told["status"], told["reason"]) == ("False", "Schedule")
    assert told["message"] == "0/2 pods can take 2 more: 1 full, 1 pending"
    assert world.events["NotEnoughReplicas"] >= 1
    perform(world, watchdog, HoldPods(0.0, held=False))
    world.let_pass(30.0)
    (source,) = world.call("GET", f"{GROUPS_PATH}/consumergroups")["items"]
    assert source["status"]["conditions"][0]["status"] == "True"
    assert ("PlacementChanged", f"{CAPACITY + 2} wanted") in [(r, m.rpartition(": ")[2]) for _, r, m in world.notes]


def ordered(world: VPodWorld) -> None:
    """The same StatefulSet, whose pods come one after another."""
    content = world.call("GET", f"{SETS}/{STATEFULSET}")
    world.call("DELETE", f"{SETS}/{STATEFULSET}")
    world.let_pass(5.0)
    spec = {**content["spec"], "podManagementPolicy": "OrderedReady"}
    answer = world.call("POST", SETS, {**content, "metadata": {"name": STATEFULSET}, "spec": spec})
    assert answer["spec"]["podManagementPolicy"] == "OrderedReady", answer


@pytest.mark.rule("vpod:B13", "vpod:V22")
def test_the_pod_that_blocks_an_ordered_set_is_named(world: VPodWorld) -> None:
    ordered(world)
    watchdog = VpodWatchdog(world)
    perform(world, watchdog, HoldPods(0.0, held=True))
    perform(world, watchdog, SetSource(0.0, 0, 3 * CAPACITY))
    world.let_pass(5.0)
    assert world.events["OrdinalBlocks"] == 0  # a pod may take podGrace to come
    world.let_pass(40.0)
    assert world.events["OrdinalBlocks"] == 1
    source = next(iter(world.call("GET", f"{GROUPS_PATH}/consumergroups")["items"]))
    (told,) = source["status"]["conditions"]
    assert f"pod {STATEFULSET}-0 is pending and blocks the creation of 2 pods above it" in told["message"]
    perform(world, watchdog, HoldPods(0.0, held=False))
    world.let_pass(60.0)
    source = next(iter(world.call("GET", f"{GROUPS_PATH}/consumergroups")["items"]))
    assert source["status"]["conditions"][0]["status"] == "True"
    assert world.events["OrdinalBlocks"] == 1


@pytest.mark.rule("vpod:V22")
def test_pods_that_come_together_block_nobody(world: VPodWorld) -> None:
    watchdog = VpodWatchdog(world)
    perform(world, watchdog, HoldPods(0.0, held=True))
    perform(world, watchdog, SetSource(0.0, 0, 3 * CAPACITY))
    world.let_pass(60.0)
    assert world.events["OrdinalBlocks"] == 0


def told(world: VPodWorld, reason: str = "") -> list[str]:
    """What the Events on the source say, in order."""
    return [f"{why}: {said}" for what, why, said in world.notes if "s0" in what and reason in why]


@pytest.mark.finding("N6")
def test_each_change_of_a_placement_is_one_event_with_from_to_and_reason(world: VPodWorld) -> None:
    watchdog = VpodWatchdog(world)
    for wanted in (3, 5, 2, 0):
        perform(world, watchdog, SetSource(0.0, 0, wanted))
        world.let_pass(30.0)
    pod = f"{STATEFULSET}-0"
    assert told(world, "PlacementChanged") == [
        f"PlacementChanged: 0 vreplicas became 3 ({pod}: 3): 3 wanted",
        f"PlacementChanged: 3 vreplicas ({pod}: 3) became 5 ({pod}: 5): 5 wanted",
        f"PlacementChanged: 5 vreplicas ({pod}: 5) became 2 ({pod}: 2): 2 wanted",
        f"PlacementChanged: 2 vreplicas ({pod}: 2) became 0: 0 wanted",
    ]


@pytest.mark.finding("N6")
def test_what_a_drain_moves_says_so(world: VPodWorld) -> None:
    watchdog = VpodWatchdog(world)
    perform(world, watchdog, SetSource(0.0, 0, 2 * CAPACITY))
    world.let_pass(30.0)
    perform(world, watchdog, SetSource(0.0, 0, 2))
    world.let_pass(120.0)
    assert watchdog.replicas() == 1
    assert told(world)[-1].endswith("2 wanted") or told(world)[-1].endswith("vpod drains pods for a scale-down")


@pytest.mark.finding("N6")
@pytest.mark.parametrize(
    ("annotations", "reason"),
    [
        pytest.param({"vpod.situate.dev/weight": "heavy"}, "InvalidObject", id="a weight that is no number"),
        pytest.param({"vpod.situate.dev/weight": "99"}, "WeightExceedsCapacity", id="a weight above the capacity"),
    ],
)
def test_one_mistake_is_one_warning(world: VPodWorld, annotations: dict[str, str], reason: str) -> None:
    world.call("POST", GROUPS, group({KIND_LABEL: "test"}))
    world.let_pass(30.0)  # pods are there
    content = group({KIND_LABEL: "test"})
    content["metadata"] |= {"annotations": annotations, "name": "s0"}
    world.call("POST", GROUPS, content)
    world.let_pass(30.0)
    (_,) = {each for each in told(world) if not each.startswith("PlacementChanged")}
    assert told(world, reason)
