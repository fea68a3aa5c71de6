"""A machine's phases, its runner pod and its size, one look at a time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from situate.vm.api.well_known import NAME_LABEL, RESOURCES, USAGE
from situate.vm.emulator import Create, Delete, Kind, Patch, Settings
from situate.vm.emulator import object_fields as field
from situate.vm.emulator.hypervisor import HYPERVISOR
from tests.vm.emulator.town import Refused, Town, condition

MACHINE, POD = Kind.MACHINE, Kind.POD


def town_with_pod(**parts: Any) -> Town:
    """A new machine whose pod was made."""
    town = Town()
    town.machine(**parts)
    town.settle(MACHINE, "vm")
    return town


def pod_name(town: Town) -> str:
    return str(town.vm()["status"]["podName"])


@pytest.mark.rule("vm:C33")
def test_a_new_machine_gets_a_pod_and_runs_when_that_is_ready() -> None:
    town = Town()
    town.machine()
    town.step(MACHINE, "vm")
    assert town.vm()["status"]["phase"] == "Pending"
    looked = town.step(MACHINE, "vm")
    assert isinstance(looked.write, Create)
    assert looked.write.body["metadata"]["name"] == pod_name(town)
    assert town.settle(MACHINE, "vm").requeue_at is None, "the pod's next change brings the next look"
    assert town.vm()["status"]["phase"] == "Pending", "it is not ready"
    town.comes_up(pod_name(town), "node-2")
    town.settle(MACHINE, "vm")
    said = town.vm()["status"]
    assert (said["phase"], said["node"], said["cpus"], said["memorySize"], said["restartCount"]) == (
        "Running",
        "node-2",
        1,
        "1Gi",
        0,
    )
    assert condition(town.vm(), "Available") == ("True", "Running")


@pytest.mark.rule("vm:C3", "vm:C33")
def test_the_pod_is_the_machines_and_leaves_a_lost_node_after_30_s() -> None:
    terms = {"schedulerName": "situate-vm", "nodeSelector": {"pool": "db"}, "affinity": {"nodeAffinity": {"x": []}}}
    pod = town_with_pod(spec={**terms, "tolerations": [{"key": "vm", "operator": "Exists"}]}).all(POD)[0]
    (owner,) = pod["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["kind"], owner["controller"]) == ("vm.neon.tech/v1", "VirtualMachine", True)
    assert {key: pod["spec"][key] for key in terms} == terms
    assert pod["spec"]["restartPolicy"] == "Never"
    waits = {each["key"]: each.get("tolerationSeconds") for each in pod["spec"]["tolerations"]}
    assert waits == {"vm": None, "node.kubernetes.io/not-ready": 30, "node.kubernetes.io/unreachable": 30}


def test_a_machine_that_speaks_of_lost_nodes_itself_is_believed() -> None:
    own = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    pod = town_with_pod(spec={"tolerations": [own]}).all(POD)[0]
    waits = {each["key"]: each["tolerationSeconds"] for each in pod["spec"]["tolerations"]}
    assert waits == {"node.kubernetes.io/unreachable": 5, "node.kubernetes.io/not-ready": 30}


@pytest.mark.parametrize(
    ("spec", "resources"),
    [
        pytest.param({}, {"requests": {"cpu": "1", "memory": "1Gi"}}, id="what it begins with"),
        pytest.param(
            {"podResources": {"requests": {"cpu": "100m"}, "limits": {}}},
            {"requests": {"cpu": "100m"}},
            id="as it says",
        ),
    ],
)
def test_requests(spec: dict[str, Any], resources: dict[str, Any]) -> None:
    assert town_with_pod(spec=spec).all(POD)[0]["spec"]["containers"][0]["resources"] == resources


@pytest.mark.rule("vm:C1", "vm:C4")
def test_labels_and_annotations_follow_the_machine() -> None:
    applied = "kubectl.kubernetes.io/last-applied-configuration"
    metadata = {"labels": {"a": "1", "b": "1"}, "annotations": {"c": "1", "d": "1", applied: "{}"}}
    town = town_with_pod(metadata=metadata, spec={"overcommit": {"cpu": "1500m"}})
    name = pod_name(town)
    town.comes_up(name)
    town.change(POD, name, {"metadata": {"labels": {"others": "x"}, "annotations": {"others": "x"}}})
    town.settle(MACHINE, "vm")
    pod = town.pod(name)["metadata"]
    assert pod["labels"] == {"a": "1", "b": "1", "others": "x", NAME_LABEL: "vm"}
    assert applied not in pod["annotations"], "whoever applies the pod would take it for his own"
    assert pod["annotations"]["vm.neon.tech/overcommit"] == '{"cpu":"1500m"}'
    assert pod["annotations"][USAGE] == '{"cpu":"1","memory":"1Gi"}'
    assert pod["annotations"][RESOURCES] == (
        '{"cpus":{"min":1,"max":4,"use":1},"memorySlots":{"min":1,"max":4,"use":1},"memorySlotSize":"1Gi"}'
    )

    changed = {"labels": {"a": "2", "b": None, "e": "1"}, "annotations": {"c": "2", "d": None}}
    town.change(MACHINE, "vm", {"metadata": changed, "spec": {"overcommit": None}})
    town.settle(MACHINE, "vm")
    pod = town.pod(name)["metadata"]
    assert pod["labels"] == {"a": "2", "e": "1", "others": "x", NAME_LABEL: "vm"}, "others' stay"
    assert {key: pod["annotations"].get(key) for key in ("c", "d", "others", "vm.neon.tech/overcommit")} == {
        "c": "2",
        "d": None,
        "others": "x",
        "vm.neon.tech/overcommit": None,
    }


@pytest.mark.rule("vm:C33", "vm:C2")
def test_a_change_of_size_goes_through_scaling_and_is_told_as_the_larger_until_it_is_done() -> None:
    town = Town(Settings(scale_s=5.0))
    town.running()
    town.settle(MACHINE, "vm")
    town.change(MACHINE, "vm", {"spec": {"guest": {"cpus": {"use": "2500m"}, "memorySlots": {"use": 3}}}})
    due = town.settle(MACHINE, "vm").requeue_at
    assert due == town.now + 5.0
    said = town.vm()["status"]
    assert (said["phase"], said["cpus"], said["memorySize"]) == ("Scaling", 1, "1Gi")
    assert json.loads(town.pod("vm-source")["metadata"]["annotations"][USAGE]) == {"cpu": "2500m", "memory": "3Gi"}
    town.now = due
    town.settle(MACHINE, "vm")
    said = town.vm()["status"]
    assert (said["phase"], said["cpus"], said["memorySize"]) == ("Running", "2500m", "3Gi")

    town.change(MACHINE, "vm", {"spec": {"guest": {"cpus": {"use": 1}, "memorySlots": {"use": 1}}}})
    town.settle(MACHINE, "vm")
    assert json.loads(town.pod("vm-source")["metadata"]["annotations"][USAGE]) == {"cpu": "2500m", "memory": "3Gi"}
    town.now += 5
    town.settle(MACHINE, "vm")
    assert json.loads(town.pod("vm-source")["metadata"]["annotations"][USAGE]) == {"cpu": "1", "memory": "1Gi"}


def test_a_machine_may_say_how_long_it_takes_to_scale() -> None:
    town = Town(Settings(scale_s=5.0))
    town.running(metadata={"annotations": {HYPERVISOR: '{"scaleMs": 250}'}})
    town.change(MACHINE, "vm", {"spec": {"guest": {"cpus": {"use": 2}}}})
    assert town.settle(MACHINE, "vm").requeue_at == town.now + 0.25


def test_a_change_that_is_taken_back_while_scaling() -> None:
    town = Town(Settings(scale_s=5.0))
    town.running()
    town.change(MACHINE, "vm", {"spec": {"guest": {"cpus": {"use": 2}}}})
    town.settle(MACHINE, "vm")
    town.change(MACHINE, "vm", {"spec": {"guest": {"cpus": {"use": 1}}}})
    town.settle(MACHINE, "vm")
    assert (town.vm()["status"]["phase"], town.vm()["status"]["cpus"]) == ("Running", 1)


@pytest.mark.rule("vm:C33")
def test_the_revision_is_told_only_while_running_and_of_the_size() -> None:
    town = Town(Settings(scale_s=5.0))
    town.running()
    wanted = {"revision": {"value": 7, "flags": 1}, "updatedAt": "2024-01-01T00:00:00Z"}
    town.change(MACHINE, "vm", {"spec": {"targetRevision": wanted, "guest": {"cpus": {"use": 2}}}})
    town.settle(MACHINE, "vm")
    assert (town.vm()["status"]["phase"], town.vm()["status"].get("currentRevision")) == ("Scaling", None)
    town.now += 5
    town.settle(MACHINE, "vm")
    current = town.vm()["status"]["currentRevision"]
    assert current["revision"] == {"value": 7, "flags": 1}
    assert current["updatedAt"].startswith("2023-"), "when it was reached, not when it was wished"

    town.change(
        MACHINE, "vm", {"status": {"phase": "Migrating"}, "spec": {"targetRevision": {"revision": {"value": 8}}}}
    )
    town.put(Kind.MIGRATION, "m", spec={"vmName": "vm"}, status={"phase": "Running"})
    town.settle(MACHINE, "vm")
    assert town.vm()["status"]["currentRevision"]["revision"]["value"] == 7


@pytest.mark.rule("vm:C33")
@pytest.mark.parametrize(
    ("policy", "ended", "restarts"),
    [
        ("Always", "Failed", True),
        ("Always", "Succeeded", True),
        ("OnFailure", "Failed", True),
        ("OnFailure", "Succeeded", False),
        ("Never", "Failed", False),
    ],
)
def test_a_pod_that_ended(policy: str, ended: str, restarts: bool) -> None:
    town = Town()
    town.running(spec={"restartPolicy": policy})
    town.comes_up("vm-source", phase=ended)
    town.step(MACHINE, "vm")  # its labels
    town.step(MACHINE, "vm")
    assert town.vm()["status"]["phase"] == ended
    town.settle(MACHINE, "vm")
    if not restarts:
        assert (town.vm()["status"]["phase"], [pod["metadata"]["name"] for pod in town.all(POD)]) == (
            ended,
            ["vm-source"],
        )
        return
    said = town.vm()["status"]
    assert (said["phase"], said["restartCount"], said.get("node")) == ("Pending", 1, None)
    assert [pod["metadata"]["name"] for pod in town.all(POD)] == [said["podName"]]
    deleted = [n for n, write in enumerate(town.writes) if isinstance(write, Delete)]
    created = [n for n, write in enumerate(town.writes) if isinstance(write, Create)]
    assert deleted < created, "never two pods of one machine that does not move"


def test_a_pod_that_takes_its_time_to_go_is_waited_for() -> None:
    town = Town()
    town.running()
    town.change(POD, "vm-source", {"metadata": {"finalizers": ["hold"]}})
    town.comes_up("vm-source", phase="Failed")
    town.settle(MACHINE, "vm")
    assert town.pod("vm-source")["metadata"]["deletionTimestamp"]
    assert (town.vm()["status"]["phase"], len(town.all(POD))) == ("Failed", 1), "never on two nodes"
    town.change(POD, "vm-source", {"metadata": {"finalizers": None}})
    town.settle(MACHINE, "vm")
    assert (town.vm()["status"]["phase"], len(town.all(POD))) == ("Pending", 1)


@pytest.mark.rule("vm:F1", "vm:F4")
def test_a_pod_that_a_late_write_made_is_taken_away() -> None:
    town = Town()
    town.running()
    vm = town.vm()
    moving = town.migration()
    label = {"labels": {NAME_LABEL: "vm"}}
    ours = [field.machine_owner(vm, controller=True)]
    for name, owners in (
        ("vm-late", ours),
        ("vm-target", [field.migration_owner(moving, controller=True), field.machine_owner(vm, controller=False)]),
        ("others", []),
    ):
        town.put(POD, name, metadata={**label, "ownerReferences": owners}, spec={}, status={})
    town.settle(MACHINE, "vm")
    assert {pod["metadata"]["name"] for pod in town.all(POD)} == {"vm-source", "vm-target", "others"}
    town.delete(Kind.MIGRATION, "m")
    town.settle(MACHINE, "vm")
    assert {pod["metadata"]["name"] for pod in town.all(POD)} == {"vm-source", "others"}, "nobody will move into it"


@pytest.mark.rule("vm:C33")
def test_where_its_pod_is_by_now_is_said() -> None:
    town = Town()
    town.running()
    town.settle(MACHINE, "vm")
    town.change(POD, "vm-source", {"status": {"podIP": "10.9.9.9"}})
    town.settle(MACHINE, "vm")
    assert town.vm()["status"]["podIP"] == "10.9.9.9"
    town.change(POD, "vm-source", {"status": {"podIP": None}})
    town.settle(MACHINE, "vm")
    assert town.vm()["status"]["podIP"] == "10.9.9.9", "what is not said of it for a moment is not forgotten"


@pytest.mark.rule("vm:C33")
def test_a_pod_that_is_gone_is_a_failure() -> None:
    town = Town()
    town.running()
    town.delete(POD, "vm-source")
    town.step(MACHINE, "vm")
    assert (town.vm()["status"]["phase"], condition(town.vm(), "Available")) == ("Failed", ("False", "PodGone"))


@pytest.mark.rule("vm:D9", "vm:I6")
@pytest.mark.parametrize("phase", ["PreMigrating", "Migrating"])
@pytest.mark.parametrize(
    ("migrations", "frozen_in"),
    [
        pytest.param([], set(), id="none"),
        pytest.param(["Failed", "Succeeded"], set(), id="only such as are over"),
        pytest.param(["Pending"], {"PreMigrating", "Migrating"}, id="one at work"),
        pytest.param([""], {"PreMigrating"}, id="one that has not begun holds what it froze, and copies nothing"),
    ],
)
def test_a_frozen_machine_that_nobody_moves_runs_again(phase: str, migrations: list[str], frozen_in: set[str]) -> None:
    town = Town()
    town.running(phase=phase)
    for number, each in enumerate(migrations):
        town.put(Kind.MIGRATION, f"m{number}", spec={"vmName": "vm"}, status={"phase": each})
    town.settle(MACHINE, "vm")
    assert town.vm()["status"]["phase"] == (phase if phase in frozen_in else "Running")


def test_a_pod_of_somebody_else_is_left_alone_and_told_once() -> None:
    town = Town()
    town.machine()
    town.step(MACHINE, "vm")
    town.put(POD, pod_name(town), spec={}, status={"phase": "Running"})
    looked = town.settle(MACHINE, "vm")
    assert looked.requeue_at is not None
    assert condition(town.vm(), "Degraded") == ("True", "PodNameTaken")
    assert [type(write) for write in town.writes] == [Patch, Patch]


def test_a_machine_that_is_being_deleted_is_let_go() -> None:
    town = Town()
    town.running(metadata={"deletionTimestamp": "2024-01-01T00:00:00Z"})
    assert town.settle(MACHINE, "vm").write is None
    assert town.writes == []


@pytest.mark.rule("vm:F9")
def test_one_of_the_same_name_gets_another_pod() -> None:
    names = set()
    town = Town()
    for _ in range(2):
        town.machine()
        town.settle(MACHINE, "vm")
        names.add(pod_name(town))
        town.delete(MACHINE, "vm")
    assert len(names) == 2


@pytest.mark.rule("vm:F4")
def test_a_decision_on_an_old_sight_is_refused() -> None:
    """Two leaders: the one that was paused has seen a machine that is another one by now."""
    town = Town()
    town.running(phase="Migrating")
    old = town.look(MACHINE, "vm").write
    assert old is not None
    town.change(MACHINE, "vm", {"status": {"podName": "elsewhere"}})
    with pytest.raises(Refused):
        town.perform(old)
