"""A move from its preparation to its end, and every way in which it can go wrong on the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from situate.vm.emulator import Create, Kind, Patch, Settings
from situate.vm.emulator import object_fields as field
from situate.vm.emulator.hypervisor import COPIED_CPUS, COPYING_SINCE, HYPERVISOR
from tests.vm.emulator.town import Refused, Town, condition

MACHINE, MIGRATION, POD = Kind.MACHINE, Kind.MIGRATION, Kind.POD


def begun(behaviour: str = "{}", vm: dict[str, Any] | None = None, **spec: Any) -> Town:
    """A machine whose migration is Pending, with a target that is not at work yet."""
    town = Town()
    town.running(metadata={"annotations": {HYPERVISOR: behaviour}}, spec=vm or {})
    town.migration(spec=spec)
    town.settle(MIGRATION, "m")
    assert town.move()["status"]["phase"] == "Pending"
    return town


def copying(behaviour: str = "{}", **spec: Any) -> Town:
    """The target is at work on node-2, and The hypervisor copies the memory."""
    town = begun(behaviour, **spec)
    town.comes_up(target(town), "node-2")
    town.settle(MIGRATION, "m")
    assert town.move()["status"]["phase"] == "Running"
    return town


def target(town: Town) -> str:
    return str(town.move()["status"]["targetPodName"])


def phases(town: Town) -> tuple[str, str]:
    """Of the machine and of the migration."""
    return town.vm()["status"]["phase"], town.move()["status"].get("phase", "")


def owners(town: Town, pod: str) -> set[tuple[str, bool]]:
    return {(each["kind"], each["controller"]) for each in town.pod(pod)["metadata"].get("ownerReferences", ())}


@pytest.mark.rule("vm:C34", "vm:C6")
def test_preparation_is_a_write_at_a_time() -> None:
    town = Town()
    town.running()
    town.migration()
    seen = []
    for _ in range(4):
        town.step(MIGRATION, "m")
        meta, said = town.move()["metadata"], town.move()["status"]
        seen.append(
            (
                meta.get("finalizers"),
                len(meta.get("ownerReferences", ())),
                len(said.get("conditions", ())),
                "targetPodName" in said,
            )
        )
    mark = ["vm.neon.tech/finalizer"]
    assert seen == [(mark, 0, 0, False), (mark, 1, 0, False), (mark, 1, 1, False), (mark, 1, 1, True)]
    assert condition(town.move(), "Available")[0] == "Unknown"
    assert field.is_owned_by(town.move(), town.vm(), controller=True)
    assert target(town).startswith("vm-")
    assert phases(town) == ("Running", "")


@pytest.mark.rule("vm:C34", "vm:D9")
def test_the_machine_is_frozen_before_the_migration_says_so_and_a_half_done_step_goes_on() -> None:
    town = Town()
    town.running()
    town.migration()
    while phases(town) == ("Running", ""):
        town.step(MIGRATION, "m")
    assert phases(town) == ("PreMigrating", "")
    town.refused_kind = MIGRATION
    for _ in range(3):
        with pytest.raises(Refused):
            town.step(MIGRATION, "m")
    town.settle(MACHINE, "vm")
    assert phases(town) == ("PreMigrating", ""), "it is the migration's own half-done step"
    town.refused_kind = None
    town.step(MIGRATION, "m")
    assert phases(town) == ("PreMigrating", "Pending")


@pytest.mark.rule("vm:C34", "vm:N5", "vm:N6")
def test_nothing_is_copied_before_the_target_is_at_work() -> None:
    town = begun()
    assert field.phase(town.pod(target(town))) == "Pending"
    assert owners(town, "vm-source") == {("VirtualMachine", True), ("VirtualMachineMigration", False)}
    assert owners(town, target(town)) == {("VirtualMachine", False), ("VirtualMachineMigration", True)}
    town.now += 20
    assert town.settle(MIGRATION, "m").requeue_at == town.now + 1
    assert COPYING_SINCE not in field.annotations_of(town.move())
    town.change(POD, target(town), {"spec": {"nodeName": "node-2"}, "status": {"phase": "Running"}})
    town.step(MIGRATION, "m")
    assert COPYING_SINCE in field.annotations_of(town.move()), "its readiness does not count"
    town.step(MIGRATION, "m")
    assert phases(town) == ("Migrating", "Pending")
    town.step(MIGRATION, "m")
    assert phases(town) == ("Migrating", "Running")
    assert condition(town.move(), "Available")[0] == "True"
    assert town.move()["status"]["targetNode"] == "node-2"


@pytest.mark.rule("vm:C34")
def test_cpus_are_plugged_into_the_target_only_where_they_are_plugged_at_all() -> None:
    assert field.annotations_of(copying().move())[COPIED_CPUS] == "1"
    town = begun(vm={"cpuScalingMode": "SysfsScaling"})
    town.comes_up(target(town), "node-2")
    town.settle(MIGRATION, "m")
    assert COPIED_CPUS not in field.annotations_of(town.move())


@pytest.mark.rule("vm:C34", "vm:C3")
def test_a_move_that_succeeds() -> None:
    town = copying('{"bandwidth": "512Mi", "downtimeMs": 100}')
    town.now += 1
    again_at = town.settle(MIGRATION, "m").requeue_at
    ram = town.move()["status"]["info"]["ram"]
    assert (ram["remaining"], ram["total"], again_at) == (2**29, 2**30, town.now + 1), "asked about every second"
    town.now += 1
    again_at = town.settle(MIGRATION, "m").requeue_at
    assert again_at == pytest.approx(town.now + 0.1), "not later than it is done"
    town.now += 0.1001
    town.step(MIGRATION, "m")
    said = town.vm()["status"]
    assert (said["phase"], said["podName"], said["node"]) == ("Running", target(town), "node-2")
    assert phases(town)[1] == "Running", "the machine is told first"
    town.step(MIGRATION, "m")
    assert owners(town, "vm-source") == {("VirtualMachine", False), ("VirtualMachineMigration", False)}
    town.step(MIGRATION, "m")
    assert owners(town, target(town)) == {("VirtualMachine", True)}
    town.step(MIGRATION, "m")
    assert phases(town) == ("Running", "Succeeded")
    assert town.move()["status"]["info"]["status"] == "completed"
    assert (POD, "vm-source") in town.objects
    town.settle(MIGRATION, "m")
    assert (POD, "vm-source") not in town.objects
    assert not {"sourcePodName", "sourcePodIP", "sourceNode"} & town.move()["status"].keys()
    town.settle(MACHINE, "vm")
    assert phases(town) == ("Running", "Succeeded")


def refused(town: Town) -> None:
    town.change(MACHINE, "vm", {"metadata": {"annotations": {HYPERVISOR: '{"refuseStart": "no KVM"}'}}})
    town.comes_up(target(town), "node-2")


def unreadable(town: Town) -> None:
    town.change(MACHINE, "vm", {"metadata": {"annotations": {HYPERVISOR: "{"}}})
    town.comes_up(target(town), "node-2")


def target_ends(town: Town) -> None:
    town.comes_up(target(town), "node-2", "Failed")


def target_done(town: Town) -> None:
    town.comes_up(target(town), "node-2", "Succeeded")


def target_gone(town: Town) -> None:
    town.delete(POD, target(town))


def same_host(town: Town) -> None:
    town.comes_up(target(town), "node-1")


def source_gone(town: Town) -> None:
    town.delete(POD, "vm-source")


def source_ends(town: Town) -> None:
    town.comes_up("vm-source", phase="Failed")


def out_of_time(town: Town) -> None:
    town.now += 3600


def deleted(town: Town) -> None:
    town.delete(MIGRATION, "m")


def breaks(town: Town) -> None:
    town.change(MACHINE, "vm", {"metadata": {"annotations": {HYPERVISOR: '{"failAtPercent": 99}'}}})
    town.now += 60


def name_taken(town: Town) -> None:
    town.put(POD, target(town), spec={}, status={"phase": "Running"})


Trouble = Callable[[Town], None]


@pytest.mark.rule("vm:D10", "vm:F6", "vm:F7", "vm:F8", "vm:I6", "vm:D12")
@pytest.mark.parametrize(
    ("state", "trouble", "reason"),
    [
        (begun, refused, "StartRefused"),
        (begun, unreadable, "StartRefused"),
        (begun, target_ends, "TargetFailed"),
        (begun, target_done, "TargetFailed"),
        (begun, name_taken, "TargetNameTaken"),
        (begun, same_host, "SameHost"),
        (begun, source_gone, "SourceLost"),
        (begun, out_of_time, "CompletionTimeout"),
        (copying, target_ends, "TargetLost"),
        (copying, target_gone, "TargetLost"),
        (copying, source_gone, "SourceLost"),
        (copying, source_ends, "SourceLost"),
        (copying, breaks, "CopyFailed"),
    ],
)
def test_every_way_out_fails_the_migration_and_gives_the_machine_back(
    state: Callable[[str], Town], trouble: Trouble, reason: str
) -> None:
    town = state('{"stallAtPercent": 50}')
    trouble(town)
    town.step(MIGRATION, "m")
    assert (phases(town)[1], condition(town.move(), "Degraded")) == ("Failed", ("True", reason))
    town.settle(MIGRATION, "m")
    assert phases(town) == ("Running", "Failed")
    left = {pod["metadata"]["name"] for pod in town.all(POD) if field.is_owned_by(pod, town.move())}
    assert not left, "the target is told to quit, and the source is no source any more"
    assert trouble is name_taken or (POD, target(town)) not in town.objects
    if (POD, "vm-source") in town.objects:
        assert owners(town, "vm-source") == {("VirtualMachine", True)}


@pytest.mark.rule("vm:C34", "vm:F7")
def test_how_far_one_came_that_broke_off_is_told() -> None:
    town = copying('{"stallAtPercent": 50}')
    breaks(town)
    town.settle(MIGRATION, "m")
    info = town.move()["status"]["info"]
    assert info["status"] == "failed"
    assert 0 < info["ram"]["remaining"] <= info["ram"]["total"] // 100 + 1


@pytest.mark.rule("vm:D12")
def test_the_time_of_a_move_is_its_own() -> None:
    town = copying('{"stallAtPercent": 50}', completionTimeout=60)
    town.now += 50
    town.settle(MIGRATION, "m")
    assert phases(town) == ("Migrating", "Running")
    town.now += 10
    town.settle(MIGRATION, "m")
    assert phases(town) == ("Running", "Failed")


@pytest.mark.rule("vm:F6")
def test_a_target_that_was_deleted_before_it_began_is_made_anew() -> None:
    town = begun()
    first = town.pod(target(town))["metadata"]["uid"]
    town.delete(POD, target(town))
    town.settle(MIGRATION, "m")
    assert town.pod(target(town))["metadata"]["uid"] != first


@pytest.mark.rule("vm:D11", "vm:F12")
def test_a_second_migration_fails_at_once_and_the_first_goes_on() -> None:
    town = begun()
    town.migration("m2")
    town.step(MIGRATION, "m2")
    assert condition(town.move("m2"), "Degraded") == ("True", "Busy")
    town.settle(MIGRATION, "m2")
    assert phases(town) == ("PreMigrating", "Pending"), "the machine is not the second's to give back"
    assert len(town.all(POD)) == 2


@pytest.mark.rule("vm:D11")
def test_of_two_that_have_not_begun_the_older_goes() -> None:
    town = Town()
    town.running()
    town.migration("m")
    town.migration("younger")
    town.settle(MIGRATION, "younger")
    town.settle(MIGRATION, "m")
    assert (field.phase(town.move("younger")), field.phase(town.move("m"))) == ("Failed", "Pending")


@pytest.mark.rule("vm:D11")
def test_as_the_reference_a_second_one_waits() -> None:
    town = Town(Settings(compat=True))
    town.running()
    town.migration("m")
    town.migration("m2")
    town.settle(MIGRATION, "m")
    assert town.settle(MIGRATION, "m2").requeue_at == town.now + 1
    assert field.phase(town.move("m2")) == ""


@pytest.mark.rule("vm:D9", "vm:D10")
def test_a_machine_left_copying_by_one_that_is_gone_is_not_held_by_one_that_waits() -> None:
    town = Town(Settings(compat=True))
    town.running(phase="Migrating")
    town.migration("m")
    town.settle(MIGRATION, "m")
    assert phases(town) == ("Migrating", "")
    town.settle(MACHINE, "vm")
    town.settle(MIGRATION, "m")
    assert phases(town) == ("PreMigrating", "Pending")


@pytest.mark.rule("vm:D9", "vm:D11")
@pytest.mark.parametrize("phase", ["", "Running"])
def test_one_that_others_hold_back_while_it_is_deleted_holds_up_nobody(phase: str) -> None:
    town = Town()
    town.running(phase="PreMigrating")
    held = {"finalizers": ["example.com/hold"], "deletionTimestamp": field.timestamp(town.now)}
    town.put(MIGRATION, "held", metadata=held, spec={"vmName": "vm"}, status={"phase": phase} if phase else {})
    assert town.settle(MIGRATION, "held").requeue_at is None
    town.settle(MACHINE, "vm")
    assert town.vm()["status"]["phase"] == "Running"
    town.migration()
    town.settle(MIGRATION, "m")
    assert phases(town) == ("PreMigrating", "Pending")


@pytest.mark.rule("vm:C34")
def test_one_that_somebody_else_controls_is_the_machines_as_well() -> None:
    town = Town()
    town.running()
    other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "tool", "uid": "tool", "controller": True}
    town.migration()
    town.change(MIGRATION, "m", {"metadata": {"ownerReferences": [other]}})
    town.settle(MIGRATION, "m")
    assert phases(town) == ("PreMigrating", "Pending")
    kept, added = town.move()["metadata"]["ownerReferences"]
    assert (kept, added["uid"], added["controller"]) == (other, field.uid(town.vm()), False)


@pytest.mark.rule("vm:D11", "vm:F9")
@pytest.mark.parametrize("state", [begun, copying])
def test_without_its_machine_it_ends(state: Callable[[], Town]) -> None:
    town = state()
    town.delete(MACHINE, "vm")
    town.running()  # another one under the same name
    town.settle(MIGRATION, "m")
    assert condition(town.move(), "Degraded") == ("True", "VMGone")
    assert phases(town) == ("Running", "Failed")
    assert (POD, target(town)) not in town.objects


@pytest.mark.rule("vm:C34")
def test_a_migration_for_no_machine() -> None:
    town = Town()
    town.migration()
    town.settle(MIGRATION, "m")
    assert condition(town.move(), "Degraded") == ("True", "VMGone")


@pytest.mark.rule("vm:C34")
@pytest.mark.parametrize("phase", ["", "Pending", "Scaling", "Failed", "Succeeded"])
def test_it_waits_for_a_machine_that_runs(phase: str) -> None:
    town = Town()
    town.machine(phase=phase)
    town.migration()
    assert town.settle(MIGRATION, "m").requeue_at == town.now + 1
    assert phases(town) == (phase, "")


@pytest.mark.rule("vm:C34", "vm:F12")
@pytest.mark.parametrize("state", [begun, copying])
def test_deleting_it_cancels(state: Callable[[str], Town]) -> None:
    town = state('{"stallAtPercent": 99}')
    name = target(town)
    deleted(town)
    town.now += 1000
    town.settle(MIGRATION, "m")
    assert (MIGRATION, "m") not in town.objects
    assert (POD, name) not in town.objects
    assert town.vm()["status"]["phase"] == "Running"
    assert town.vm()["status"]["podName"] == "vm-source"
    assert owners(town, "vm-source") == {("VirtualMachine", True)}


@pytest.mark.rule("vm:C34", "vm:D9")
def test_deleting_it_between_the_two_halves_of_the_freeze() -> None:
    town = Town()
    town.running()
    town.migration()
    while phases(town) == ("Running", ""):
        town.step(MIGRATION, "m")
    deleted(town)
    town.settle(MIGRATION, "m")
    assert (MIGRATION, "m") not in town.objects
    assert town.vm()["status"]["phase"] == "Running"


def test_what_is_copied_by_then_cannot_be_cancelled() -> None:
    town = copying()
    name = target(town)
    town.now += 60
    deleted(town)
    town.settle(MIGRATION, "m")
    assert (MIGRATION, "m") not in town.objects
    assert town.vm()["status"]["podName"] == name
    assert [pod["metadata"]["name"] for pod in town.all(POD)] == [name]
    assert owners(town, name) == {("VirtualMachine", True)}


def test_a_stall_may_be_taken_away() -> None:
    town = copying('{"stallAtPercent": 40}')
    town.now += 100
    town.settle(MIGRATION, "m")
    assert phases(town) == ("Migrating", "Running")
    town.change(MACHINE, "vm", {"metadata": {"annotations": {HYPERVISOR: None}}})
    town.settle(MIGRATION, "m")
    assert phases(town) == ("Running", "Succeeded")


@pytest.mark.rule("vm:F1", "vm:F4")
def test_each_write_carries_a_precondition() -> None:
    town = copying('{"bandwidth": "512Mi"}')
    town.now += 60
    town.settle(MIGRATION, "m")
    for write in town.writes:
        if isinstance(write, Patch):
            assert write.body["metadata"]["uid"]
            if write.kind is not POD or "ownerReferences" in write.body["metadata"]:
                assert write.body["metadata"]["resourceVersion"]
        elif not isinstance(write, Create):
            assert write.uid
