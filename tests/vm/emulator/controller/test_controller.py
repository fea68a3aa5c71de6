"""The shipped stand-in: killed between writes, paused while it leads, without its definitions, in bad weather."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from situate.cluster.storage.effects import Identity
from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response
from situate.runtime.leadership.leader import NotLeading
from situate.testing.virtual_time.network import NetworkFaults
from tests.vm.emulator.controller.shipped import Shipped
from tests.vm.emulator.world import MACHINES, MIGRATIONS, PODS, machine, migration

QUICK = {"bandwidth": "4Gi"}


@pytest.fixture
def world() -> Iterator[Shipped]:
    made = Shipped()
    yield made
    made.close()


def phase(world: Shipped) -> str:
    return str((world.vm().get("status") or {}).get("phase", ""))


def moved(world: Shipped) -> str:
    return str((world.move().get("status") or {}).get("phase", ""))


def at_rest(world: Shipped) -> bool:
    """The machine runs, its move is over, and it has one pod that is its alone."""
    pods = world.pods()
    if phase(world) != "Running" or moved(world) not in ("Succeeded", "Failed") or len(pods) != 1:
        return False
    owners = [(each["kind"], each["controller"]) for each in pods[0]["metadata"]["ownerReferences"]]
    return owners == [("VirtualMachine", True)] and pods[0]["metadata"]["name"] == world.vm()["status"]["podName"]


def until(world: Shipped, holds: Callable[[], bool], within_s: float = 60.0) -> bool:
    """Looks four times a second: looking at each event would be most of the work."""
    end = world.now + within_s
    while not holds():
        if world.now >= end:
            return False
        world.let_pass(0.25)
    return True


def begin(world: Shipped, within_s: float = 60.0) -> None:
    world.call("POST", MACHINES, machine(behaviour=QUICK))
    assert until(world, lambda: phase(world) == "Running", within_s), world.vm()
    world.call("POST", MIGRATIONS, migration())


@pytest.mark.rule("vm:C33", "vm:C34")
def test_a_machine_is_made_and_moves(world: Shipped) -> None:
    begin(world)
    assert until(world, lambda: at_rest(world) and moved(world) == "Succeeded"), world.move()
    assert world.vm()["status"]["node"] == world.move()["status"]["targetNode"]
    assert {"Created", "Started", "Migrated", "Succeeded"} <= world.events.keys()
    world.let_pass(5.0)
    before = world.vm()["metadata"]["resourceVersion"], world.move()["metadata"]["resourceVersion"]
    leases = sum(
        request.path.endswith("situate-vm-machines") for each in world.members for request in each.wire.sent_writes
    )
    world.let_pass(20.0)
    after = world.vm()["metadata"]["resourceVersion"], world.move()["metadata"]["resourceVersion"]
    assert after == before, "nothing is written once all is quiet"
    assert leases, "one of the two leads"


@pytest.mark.rule("vm:F3", "vm:I6")
def test_whoever_leads_is_killed_after_every_second_write(world: Shipped) -> None:
    """Each write of the story is once the last one of its process, and what it left is gone on with."""
    killed = 0
    carried_out = 0

    def told(request: Request, answer: Response | Watch, identity: Identity) -> None:
        nonlocal killed, carried_out
        leader = next((each for each in world.members if each.identity == identity.user), None)
        if leader is None or request.path.endswith("situate-vm-machines") or not isinstance(answer, Response):
            return
        carried_out += 1
        if carried_out % 2:
            killed += 1
            world.end(leader)

    world.request_listeners.append(told)
    world.call("POST", MACHINES, machine(behaviour=QUICK))
    assert until(world, lambda: phase(world) == "Running", 600.0), world.vm()
    world.call("POST", MIGRATIONS, migration())
    assert until(world, lambda: at_rest(world), 1200.0), (world.vm(), world.move())
    assert killed >= 8, killed
    assert world.move()["status"]["phase"] == "Succeeded"


@pytest.mark.rule("vm:F1", "vm:F2")
@pytest.mark.parametrize("seed", [1, 2])
def test_in_bad_weather(seed: int) -> None:
    world = Shipped(seed)
    try:
        world.network.faults = NetworkFaults(
            lose_request=0.02,
            lose_answer=0.1,
            refuse=0.1,
            conflict=0.1,
            event_delay_s=0.5,
            event_jitter_s=2.0,
            repeat_event=0.1,
            late_write_s=1.0,
        )
        begin(world, 900.0)
        assert until(world, lambda: at_rest(world), 900.0), (world.vm(), world.move())
    finally:
        world.close()


@pytest.mark.rule("vm:F4")
def test_a_leader_that_was_paused_writes_nothing_more(world: Shipped) -> None:
    begin(world)
    assert until(world, lambda: moved(world) == "Running", 30.0)
    leader = world.leader()
    assert leader is not None
    leader.controller.leader.check()
    leader.process.pause()
    assert until(world, lambda: at_rest(world), 60.0), "the other one goes on"
    with pytest.raises(NotLeading):
        leader.controller.leader.check()
    sent = len(leader.wire.sent_writes)
    leader.process.resume()
    world.let_pass(10.0)
    writes = [each for each in leader.wire.sent_writes[sent:] if each.method != "GET" and "leases" not in each.path]
    assert writes == []


def test_definitions_that_are_missing_are_waited_for_and_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    world = Shipped(defined=False)
    try:
        world.let_pass(15.0)
        told = [each.controller.not_ready() for each in world.members]
        assert all(each is not None and "situate crds vm" in each for each in told)
        assert capsys.readouterr().out.count("VirtualMachines not available yet, retrying") == len(world.members)
        world.define()
        begin(world)
        assert until(world, lambda: at_rest(world), 60.0)
        assert [each.controller.not_ready() for each in world.members] == [None, None]
    finally:
        world.close()


@pytest.mark.rule("vm:C1")
def test_a_pod_that_loses_its_label_is_not_taken_for_gone(world: Shipped) -> None:
    world.call("POST", MACHINES, machine())
    assert until(world, lambda: phase(world) == "Running")
    (pod,) = world.pods()
    path = f"{PODS}/{pod['metadata']['name']}"
    world.call("PATCH", path, {"metadata": {"labels": {"vm.neon.tech/name": None}}}, patch=True)
    assert until(world, lambda: "vm.neon.tech/name" in world.pods()[0]["metadata"]["labels"])
    assert [each["metadata"]["uid"] for each in world.pods()] == [pod["metadata"]["uid"]]
    assert world.vm()["status"]["restartCount"] == 0


def test_an_orderly_end_gives_the_lease_back(world: Shipped) -> None:
    begin(world)
    leader = world.leader()
    assert leader is not None
    world.stop(leader)
    assert until(world, lambda: world.leader() is not None, 3.0), "without waiting for the lease to run out"
    assert until(world, lambda: at_rest(world), 60.0)


def test_one_that_is_stopped_before_anything_is_defined_ends() -> None:
    world = Shipped(defined=False)
    try:
        world.let_pass(5.0)
        member = world.members[0]
        world.stop(member)
        assert until(world, lambda: not member.process.is_alive, 15.0)
    finally:
        world.close()
