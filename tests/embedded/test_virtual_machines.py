"""Machines in the in-memory cluster, among its other controllers: scheduler, kubelets and garbage collection."""

from __future__ import annotations

import pytest

from situate.cluster.controllers import MachinerySettings
from situate.vm.emulator import Settings
from tests.vm.emulator.world import MACHINES, MIGRATIONS, PODS, World, machine, migration

STALLS = {"stallAtPercent": 40}


def test_it_is_one_controller_more() -> None:
    world = World()
    names = world.cluster.machinery.names
    assert names[-1] == "virtual-machines"
    assert "kubelet" in names


def test_a_further_controller_can_be_left_out_by_its_name() -> None:
    world = World(machinery=MachinerySettings(disabled=frozenset({"virtual-machines"})))
    world.post(MACHINES, machine())
    world.run(5.0)
    assert "status" not in world.vm()


@pytest.mark.rule("vm:C33", "vm:C34")
def test_a_machine_lives_grows_and_moves() -> None:
    world = World()
    vm = world.start()
    assert (vm["status"]["phase"], vm["status"]["cpus"], vm["status"]["node"]) == ("Running", 1, "node-0")
    world.patch(f"{MACHINES}/db", {"spec": {"guest": {"memorySlots": {"use": 4}}}})
    world.run(1.0)
    assert world.vm()["status"]["memorySize"] == "4Gi"

    world.post(MIGRATIONS, migration())
    world.run(2.5)
    assert (world.vm()["status"]["phase"], len(world.pods())) == ("Migrating", 2)
    ram = world.move()["status"]["info"]["ram"]
    assert ram["transferred"] + ram["remaining"] == ram["total"] == 4 * 2**30
    world.run(5.0)
    said = world.vm()["status"]
    assert (said["phase"], said["node"]) == ("Running", world.move()["status"]["targetNode"])
    assert [pod["metadata"]["name"] for pod in world.pods()] == [said["podName"]]
    assert said["node"] != "node-0"
    about = {(each["involvedObject"]["kind"], each["reason"]) for each in world.events_all()}
    assert {("VirtualMachine", "Migrated"), ("VirtualMachineMigration", "Succeeded")} <= about


@pytest.mark.rule("vm:C34", "vm:N9", "vm:I6")
def test_a_move_that_finds_no_node_is_cancelled_and_the_machine_goes_on() -> None:
    world = World(node_count=1)
    world.start()
    world.post(MIGRATIONS, migration())
    world.run(20.0)
    assert (world.vm()["status"]["phase"], world.move()["status"]["phase"]) == ("PreMigrating", "Pending")
    target = world.pod(world.move()["status"]["targetPodName"])
    assert not target["spec"].get("nodeName"), "beside its own source it may not be"
    world.delete(f"{MIGRATIONS}/move")
    world.run(2.0)
    assert world.vm()["status"]["phase"] == "Running"
    assert world.find(f"{MIGRATIONS}/move") is None
    assert len(world.pods()) == 1


@pytest.mark.rule("vm:D12")
def test_a_move_goes_where_it_is_told() -> None:
    world = World(node_count=4)
    world.start()
    world.post(MIGRATIONS, migration(nodeSelector={"kubernetes.io/hostname": "node-3"}))
    world.run(10.0)
    assert world.vm()["status"]["node"] == "node-3"


@pytest.mark.rule("vm:F8", "vm:D10")
def test_the_targets_node_is_lost_while_copying() -> None:
    world = World()
    world.start(machine(behaviour=STALLS))
    world.post(MIGRATIONS, migration())
    world.run(5.0)
    lost = world.move()["status"]["targetNode"]
    world.delete(f"/api/v1/nodes/{lost}")
    world.run(120.0)
    assert (world.vm()["status"]["phase"], world.move()["status"]["phase"]) == ("Running", "Failed")
    assert world.vm()["status"]["node"] == "node-0"


@pytest.mark.rule("vm:F8", "vm:C33")
def test_the_sources_node_is_lost_while_copying() -> None:
    world = World()
    world.start(machine(behaviour=STALLS))
    world.post(MIGRATIONS, migration())
    world.run(5.0)
    world.delete("/api/v1/nodes/node-0")
    world.run(120.0)
    said = world.vm()["status"]
    assert (said["phase"], said["restartCount"], world.move()["status"]["phase"]) == ("Running", 1, "Failed")
    assert [pod["metadata"]["name"] for pod in world.pods()] == [said["podName"]]


@pytest.mark.rule("vm:F9", "vm:D11")
def test_a_machine_that_is_deleted_while_it_moves_takes_everything_with_it() -> None:
    world = World()
    world.start(machine(behaviour=STALLS))
    world.post(MIGRATIONS, migration())
    world.run(5.0)
    world.delete(f"{MACHINES}/db")
    world.run(20.0)
    assert (world.pods(), world.find(f"{MACHINES}/db"), world.find(f"{MIGRATIONS}/move")) == ([], None, None)
    world.start()
    assert world.vm()["status"]["phase"] == "Running"


def test_a_pod_that_the_server_does_not_take_is_told_and_made_once_that_is_mended() -> None:
    world = World()
    world.start(machine(affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}))
    assert (world.vm()["status"]["phase"], world.pods()) == ("Pending", [])
    (event, *_) = world.events("FailedCreate")
    assert event["type"] == "Warning"
    assert "nodeSelectorTerms" in event["message"]
    world.patch(f"{MACHINES}/db", {"spec": {"affinity": None}})
    world.run(2.0)
    assert world.vm()["status"]["phase"] == "Running"


@pytest.mark.rule("vm:D9")
def test_somebody_freezes_a_machine_by_hand() -> None:
    world = World()
    world.start()
    world.patch(f"{MACHINES}/db/status", {"status": {"phase": "Migrating"}})
    world.run(10.0)
    assert world.vm()["status"]["phase"] == "Running"


@pytest.mark.rule("vm:C1")
def test_a_pod_that_loses_its_labels_gets_them_back() -> None:
    world = World(Settings())
    name = world.start()["status"]["podName"]
    world.patch(f"{PODS}/{name}", {"metadata": {"labels": {"vm.neon.tech/name": None, "tenant": "b"}}})
    world.run(2.0)
    assert world.pod(name)["metadata"]["labels"] == {"tenant": "a", "vm.neon.tech/name": "db"}
    assert len(world.pods()) == 1


def test_a_target_that_no_server_takes_is_told_of_and_nothing_else_stands_still() -> None:
    world = World()
    world.start()
    world.patch(f"{MACHINES}/db", {"spec": {"affinity": {"nodeAffinity": "ssd"}}})
    world.post(MIGRATIONS, migration())
    world.run(5.0)
    (told,) = world.events("FailedCreate")
    assert (told["involvedObject"]["name"], told["type"]) == ("move", "Warning")
    assert "nodeAffinity" in told["message"]
    world.post(MACHINES, machine("other"))
    world.run(5.0)
    assert world.vm("other")["status"]["phase"] == "Running"
    world.delete(f"{MIGRATIONS}/move")
    world.run(5.0)
    assert world.vm()["status"]["phase"] == "Running"
