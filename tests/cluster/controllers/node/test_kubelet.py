"""The stand-in kubelets: what they report, and the annotations that withhold a part of it."""

from __future__ import annotations

from typing import Any

import pytest

from situate.cluster.controllers import KubeletSettings, MachinerySettings
from situate.cluster.controllers.node.pods import condition
from tests.cluster.controllers.world import START, World, pod


def status(world: World, name: str = "a") -> dict[str, Any]:
    found = world.get("pods", name)
    assert found is not None
    result: dict[str, Any] = found["status"]
    return result


def ready(world: World, name: str = "a") -> str:
    found = condition({"status": status(world, name)}, "Ready")
    return found["status"] if found else ""


def annotate(world: World, name: str, **annotations: str | None) -> None:
    world.patch("pods", name, {"metadata": {"annotations": annotations}})


def test_a_bound_pod_runs_and_reports() -> None:
    world = World()
    world.create("pods", pod("a", app="x"))
    world.run(1)
    found = status(world)
    assert found["phase"] == "Running"
    assert found["podIP"] == "10.128.0.1"
    assert found["podIPs"] == [{"ip": "10.128.0.1"}]
    assert found["hostIP"].startswith("10.0.0.")
    assert found["startTime"]
    conditions = {entry["type"]: entry["status"] for entry in found["conditions"]}
    assert conditions == dict.fromkeys(
        ("PodScheduled", "PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"), "True"
    )
    (container,) = found["containerStatuses"]
    assert (container["name"], container["ready"], container["started"], container["restartCount"]) == (
        "app",
        True,
        True,
        0,
    )


def test_no_two_pods_have_one_address() -> None:
    world = World()
    for number in range(20):
        world.create("pods", pod(f"p{number}"))
    world.run(1)
    assert len({entry["status"]["podIP"] for entry in world.list("pods")}) == 20


def test_start_and_stop_take_their_time() -> None:
    world = World(MachinerySettings(kubelet=KubeletSettings(start_delay=5, stop_delay=3)))
    world.create("pods", pod("a"))
    world.run(4)
    assert status(world)["phase"] == "Pending"
    world.run(2)
    assert ready(world) == "True"
    world.delete("pods", "a")
    world.run(2)
    assert world.pods() == ["a"]
    world.run(2)
    assert world.pods() == []


def test_a_pod_ends_at_the_latest_after_its_grace_period() -> None:
    world = World(MachinerySettings(kubelet=KubeletSettings(stop_delay=100)))
    world.create("pods", pod("a"))
    world.run(1)
    world.delete("pods", "a")
    world.run(29)
    assert world.pods() == ["a"]
    world.run(2)
    assert world.pods() == []


@pytest.mark.parametrize(("annotation", "phase"), [("notready", "Pending"), ("unready", "Running")])
def test_readiness_withheld(annotation: str, phase: str) -> None:
    world = World()
    world.create("pods", {**pod("a"), "metadata": {"name": "a", "annotations": {annotation: "1"}}})
    world.run(5)
    assert status(world)["phase"] == phase
    assert ready(world) in ("", "False")
    annotate(world, "a", **{annotation: None})
    world.run(5)
    assert ready(world) == "True"


def test_hold_keeps_a_pod_terminating() -> None:
    world = World()
    world.create("pods", pod("a"))
    world.run(1)
    annotate(world, "a", hold="1")
    world.delete("pods", "a")
    world.run(600)
    assert world.pods() == ["a"]
    annotate(world, "a", hold=None)
    world.run(1)
    assert world.pods() == []


def test_a_crash_loop_counts_restarts_with_growing_back_off() -> None:
    world = World()
    world.create("pods", pod("a"))
    world.run(1)
    annotate(world, "a", crashloop="1")
    world.run(5)
    counts = []
    for wait in (30, 60, 120, 240):
        (container,) = status(world)["containerStatuses"]
        counts.append(container["restartCount"])
        world.run(wait)
    assert counts == sorted(set(counts))
    assert container["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert ready(world) == "False"
    annotate(world, "a", crashloop=None)
    world.run(1)
    (container,) = status(world)["containerStatuses"]
    assert container["restartCount"] >= counts[-1]
    assert ready(world) == "True"


@pytest.mark.parametrize(("annotations", "reported"), [({}, "2"), ({"noresize": "1"}, "1")])
def test_a_resize_is_reported(annotations: dict[str, str], reported: str) -> None:
    world = World()
    made = pod("a")
    made["spec"] = {"containers": [{"name": "app", "image": "x", "resources": {"requests": {"cpu": "1"}}}]}
    world.create("pods", made)
    world.run(1)
    annotate(world, "a", **annotations)
    bigger = [{"name": "app", "image": "x", "resources": {"requests": {"cpu": "2"}}}]
    world.patch("pods", "a", {"spec": {"containers": bigger}})
    world.run(1)
    (container,) = status(world)["containerStatuses"]
    assert container["resources"]["requests"]["cpu"] == reported
    assert container["allocatedResources"]["cpu"] == reported
    assert (status(world)["observedGeneration"] == 2) is (reported == "2")


def asking(name: str, cpu: str, node: str = "node-0") -> dict[str, Any]:
    made = pod(name)
    made["spec"] = {"nodeName": node, "containers": containers(cpu)}
    return made


def containers(cpu: str) -> list[dict[str, Any]]:
    return [{"name": "app", "image": "x", "resources": {"requests": {"cpu": cpu}}}]


def pending(world: World, name: str) -> str:
    found = condition({"status": status(world, name)}, "PodResizePending")
    return str(found["reason"]) if found else ""


def allocated(world: World, name: str) -> tuple[str, str]:
    (container,) = status(world, name)["containerStatuses"]
    return container["allocatedResources"]["cpu"], container["resources"]["requests"]["cpu"]


@pytest.mark.rule("vm:B35")
def test_a_resize_is_put_off_until_there_is_room_and_refused_if_there_never_is() -> None:
    world = World(node_count=1)
    world.patch("nodes", "node-0", {"status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}})
    for name, cpu in (("a", "1"), ("b", "2")):
        world.create("pods", asking(name, cpu))
    world.run(1)
    world.patch("pods", "a", {"spec": {"containers": containers("3")}})
    world.run(1)
    assert (pending(world, "a"), allocated(world, "a")) == ("Deferred", ("1", "1"))
    world.patch("pods", "a", {"spec": {"containers": containers("5")}})
    world.run(1)
    assert (pending(world, "a"), allocated(world, "a")) == ("Infeasible", ("1", "1"))
    world.patch("pods", "a", {"spec": {"containers": containers("4")}})
    world.run(1)
    assert pending(world, "a") == "Deferred"
    world.delete("pods", "b")
    world.run(40)
    assert (pending(world, "a"), allocated(world, "a")) == ("", ("4", "4"))
    world.patch("pods", "a", {"spec": {"containers": containers("1")}})
    world.run(1)
    assert allocated(world, "a") == ("1", "1"), "less is given back at once"


@pytest.mark.rule("vm:B33")
def test_a_sidecar_is_resized_beside_the_containers() -> None:
    world = World(node_count=1)
    world.patch("nodes", "node-0", {"status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}})
    made = asking("a", "1")
    sidecar = {"name": "side", "image": "x", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    world.create("pods", {**made, "spec": {**made["spec"], "initContainers": [sidecar]}})
    world.run(1)

    def grown(cpu: str) -> Any:
        sizes = {**sidecar, "resources": {"requests": {"cpu": cpu}}}
        world.patch("pods", "a", {"spec": {"initContainers": [sizes]}})
        world.run(1)
        (found,) = status(world, "a")["initContainerStatuses"]
        return pending(world, "a"), found["allocatedResources"]["cpu"], found["resources"]["requests"]["cpu"]

    assert grown("3") == ("", "3", "3")
    assert grown("4") == ("Infeasible", "3", "3")


def test_a_pod_whose_amounts_nobody_can_read_keeps_what_it_has_and_stops_nobody() -> None:
    world = World(node_count=1)
    for name in ("a", "b"):
        world.create("pods", asking(name, "1"))
    world.run(1)
    world.patch("pods", "a", {"spec": {"containers": containers("lots")}})
    world.patch("pods", "b", {"spec": {"containers": containers("2")}})
    world.run(40)
    assert pending(world, "a") == ""
    assert allocated(world, "b") == ("2", "2")


@pytest.mark.rule("vm:B35")
def test_what_is_allocated_is_in_progress_until_the_containers_have_it() -> None:
    world = World(MachinerySettings(kubelet=KubeletSettings(resize_delay=5.0)), node_count=1)
    world.create("pods", asking("a", "1"))
    world.run(1)
    world.patch("pods", "a", {"spec": {"containers": containers("2")}})
    world.run(1)
    assert condition({"status": status(world)}, "PodResizeInProgress") is not None
    assert allocated(world, "a") == ("2", "1")
    world.run(6)
    assert condition({"status": status(world)}, "PodResizeInProgress") is None
    assert allocated(world, "a") == ("2", "2")


def test_readiness_gates_are_respected() -> None:
    world = World()
    made = pod("a")
    made["spec"] = {**made["spec"], "readinessGates": [{"conditionType": "example.com/go"}]}
    world.create("pods", made)
    world.run(1)
    assert ready(world) == "False"
    conditions = [*status(world)["conditions"], {"type": "example.com/go", "status": "True"}]
    world.patch("pods", "a", {"status": {"conditions": conditions}})
    world.run(1)
    assert ready(world) == "True"


def test_a_stopped_kubelet_does_nothing_and_catches_up() -> None:
    world = World(node_count=1)
    world.create("pods", pod("old"))
    world.run(1)
    world.machinery.stop_kubelet("node-0")
    world.create("pods", pod("new"))
    world.delete("pods", "old")
    world.run(5)
    assert world.pods() == ["new", "old"]
    assert status(world, "new")["phase"] == "Pending"
    world.machinery.start_kubelet("node-0")
    world.run(1)
    assert world.pods() == ["new"]
    assert ready(world, "new") == "True"


def test_a_slow_kubelet_takes_longer() -> None:
    world = World(node_count=1)
    world.run(1)
    world.machinery.slow_kubelet("node-0", 7)
    world.create("pods", pod("a"))
    world.run(6)
    assert status(world)["phase"] == "Pending"
    world.run(2)
    assert status(world)["phase"] == "Running"


def test_an_idle_cluster_writes_heartbeats_only() -> None:
    world = World()
    world.create("pods", pod("a"))
    world.run(20)
    world.log.clear()
    world.run(290)
    assert {resource for _, resource, _, _ in world.log} == {"leases.coordination.k8s.io", "nodes"}
    leases = [entry for entry in world.log if entry[1].startswith("leases")]
    assert 3 * 28 <= len(leases) <= 3 * 30


def test_without_lease_renewal_nothing_is_ever_due() -> None:
    settings = MachinerySettings(kubelet=KubeletSettings(lease_renewal=0), disabled=frozenset({"node-lifecycle"}))
    world = World(settings)
    world.create("pods", pod("a"))
    world.run(20)
    assert world.machinery.next_due() is None
    assert ready(world) == "True"
    assert world.events[-1].revision < 100
    assert world.now == START + 20
