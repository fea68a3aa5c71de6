"""The guards of the shipped controller, each alone: two processes and a cluster on virtual time, in calm weather."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from situate.cluster.storage.effects import Identity
from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response
from situate.runtime.leadership.leader import NotLeading
from situate.testing.virtual_time.network import NO_FAULTS, NetworkFaults
from situate.testing.vpod.history import SetSource, VpodHistorySettings
from situate.testing.vpod.invariants.rules import VpodWatchdog, unsatisfied_reason
from situate.testing.vpod.run import perform
from situate.testing.vpod.world.world import VPodMember, VPodWorld


@pytest.fixture
def world() -> Iterator[VPodWorld]:
    made = VPodWorld(1, VpodHistorySettings())
    yield made
    made.close()


def settled(world: VPodWorld, vreplicas: int = 12) -> tuple[VpodWatchdog, VPodMember]:
    """Sources are placed; who watches, and who leads."""
    watchdog = VpodWatchdog(world)
    perform(world, watchdog, SetSource(wait=0.0, source=0, wanted=vreplicas))
    world.let_pass(120.0, stop=lambda: unsatisfied_reason(watchdog) is None)
    leader = world.leader()
    assert leader is not None
    assert unsatisfied_reason(watchdog) is None
    return watchdog, leader


def writes(member: VPodMember, what: str) -> list[Request]:
    return [request for request in member.wire.sent_writes if request.path.endswith(what)]


@pytest.mark.rule("vpod:S7", "vpod:V1")
def test_only_the_leader_may_write_and_only_while_its_lease_lasts(world: VPodWorld) -> None:
    _, leader = settled(world)
    (standby,) = [member for member in world.members if member is not leader]
    leader.controller.leader.check()
    with pytest.raises(NotLeading):
        standby.controller.leader.check()
    leader.process.pause()  # as after SIGSTOP: it does not know how late it is
    world.let_pass(40.0)
    with pytest.raises(NotLeading):
        leader.controller.leader.check()


@pytest.mark.rule("vpod:S7")
def test_no_write_arrives_after_the_lease_was_released(world: VPodWorld) -> None:
    watchdog, leader = settled(world)
    arrived: list[str] = []

    def note(request: Request, _: Response | Watch, identity: Identity) -> None:
        if identity.user == leader.identity and request.method != "GET":
            arrived.append(request.path)

    world.request_listeners.append(note)
    world.network.faults = NetworkFaults(latency_s=(2.0, 2.0))  # what leaves now is long on its way
    before = len(leader.wire.sent_writes)
    for source in range(1, 12):
        perform(world, watchdog, SetSource(wait=0.0, source=source, wanted=2))
    world.let_pass(10.0, stop=lambda: len(leader.wire.sent_writes) >= before + 5)
    world.network.faults = NO_FAULTS
    world.stop(leader)
    world.let_pass(30.0)
    assert "/leases/" in arrived[-1]
    assert sum(path.endswith("/status") for path in arrived) == 5
    watchdog.check()


@pytest.mark.rule("vpod:D2", "vpod:D21")
def test_an_old_event_of_the_statefulset_changes_nothing(world: VPodWorld) -> None:
    _, leader = settled(world)
    placing = leader.controller.reconciler
    assert placing.state is not None
    assert placing.state.replicas == 2
    leader.process.loop.call_soon_threadsafe(placing.observe_replicas, 0, "1")
    world.let_pass(0.0)
    assert placing.state.replicas == 2


@pytest.mark.rule("vpod:D21")
def test_the_scale_is_written_against_what_was_read(world: VPodWorld) -> None:
    _, leader = settled(world)
    scales = writes(leader, "/scale")
    assert scales
    for request in scales:
        assert msgspec.json.decode(request.body)["metadata"]["resourceVersion"]


@pytest.mark.rule("vpod:V5")
def test_the_status_is_written_against_what_was_read(world: VPodWorld) -> None:
    _, leader = settled(world)
    statuses = writes(leader, "/status")
    assert statuses
    for request in statuses:
        assert msgspec.json.decode(request.body)["metadata"]["resourceVersion"]
