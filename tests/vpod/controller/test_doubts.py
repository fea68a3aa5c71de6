"""What the shipped controller does when it cannot know whether a write of its own landed, or what it would undo."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from situate.testing.virtual_time.network import NetworkFaults
from situate.testing.vpod.history import DeleteSource, HoldPods, SetSource, SpoilStatus, VpodHistorySettings
from situate.testing.vpod.invariants.rules import VpodWatchdog, unsatisfied_reason
from situate.testing.vpod.run import perform
from situate.testing.vpod.world.world import VPodWorld
from situate.vpod.model.pod_classes import NodeFacts
from situate.vpod.scaling.drain import Eviction


@pytest.fixture
def world() -> Iterator[VPodWorld]:
    made = VPodWorld(1, VpodHistorySettings())
    yield made
    made.close()


@pytest.mark.rule("vpod:S1", "vpod:V5")
def test_after_a_conflict_the_vpod_is_read_before_anything_is_decided_for_it(world: VPodWorld) -> None:
    watchdog = VpodWatchdog(world)
    perform(world, watchdog, SetSource(wait=0.0, source=0, wanted=12))
    world.let_pass(120.0, stop=lambda: unsatisfied_reason(watchdog) is None)
    leader = world.leader()
    assert leader is not None
    world.network.faults = NetworkFaults(event_delay_s=30.0)
    perform(world, watchdog, SpoilStatus(wait=0.0, source=0, kind="moved"))
    before = len(leader.wire.sent_writes)
    world.reconfigure(capacity=9)  # every vpod is looked at again
    perform(world, watchdog, SpoilStatus(wait=0.0, source=0, kind="moved"))
    world.reconfigure(capacity=3)
    world.let_pass(2.0)
    written = [request for request in leader.wire.sent_writes[before:] if request.path.endswith("/status")]
    assert 1 <= len(written) <= 3, "it does not try the same again and again until the watch catches up"
    (placements,) = watchdog.placements().values()
    assert all(vreplicas <= 3 for vreplicas in placements.values())


@pytest.mark.rule("vpod:S1", "vpod:V5")
def test_a_write_without_an_answer_is_looked_up(world: VPodWorld) -> None:
    watchdog = VpodWatchdog(world)
    perform(world, watchdog, SetSource(wait=0.02, source=0, wanted=6))
    world.let_pass(120.0, stop=lambda: unsatisfied_reason(watchdog) is None)
    world.let_pass(5.0)
    leader = world.leader()
    assert leader is not None
    before, wire = len(leader.wire.sent_writes), leader.wire

    def written() -> list[str]:
        return [each.path.rpartition("/consumergroups/")[2] for each in wire.sent_writes[before:] if "/s0" in each.path]

    world.network.faults = NetworkFaults(lose_answer=1.0, event_delay_s=300.0)
    world.reconfigure(capacity=3)
    world.let_pass(1.0)
    assert written() == ["s0/status"], "it was carried out, and nobody was told"
    world.network.faults = NetworkFaults(event_delay_s=300.0)
    world.let_pass(29.5)  # it has waited for the answer for 30 s
    assert written() == ["s0/status"], "it looks instead of writing the same on what it has last seen"
    state = leader.controller.reconciler.state
    assert state is not None
    (entry,) = state.vpods.values()
    (placements,) = watchdog.placements().values()
    assert {f"dispatcher-{ordinal}": vreplicas for ordinal, vreplicas in entry.status.items()} == placements


def test_a_stale_leader_that_wakes_up_does_not_call_the_new_leaders_placements_drift(world: VPodWorld) -> None:
    watchdog = VpodWatchdog(world)
    perform(world, watchdog, SetSource(wait=0.0, source=0, wanted=6))
    world.let_pass(120.0, stop=lambda: unsatisfied_reason(watchdog) is None)
    world.let_pass(1.0)  # it has seen its own writes
    stale = world.leader()
    assert stale is not None
    stale.process.pause()
    world.let_pass(60.0, stop=lambda: world.leader() not in (None, stale))
    for wanted in (9, 10):
        perform(world, watchdog, SetSource(wait=0.0, source=0, wanted=wanted))
        world.let_pass(30.0, stop=lambda: unsatisfied_reason(watchdog) is None)
    world.let_pass(5.0)
    stale.process.resume()
    world.let_pass(30.0)
    assert world.events["PlacementDrift"] == 0
    perform(world, watchdog, SpoilStatus(wait=0.0, source=0, kind="moved"))
    world.let_pass(5.0)
    assert world.events["PlacementDrift"] == 1
    watchdog.check()


@pytest.mark.rule("vpod:V15", "vpod:V16")
def test_what_we_evict_is_not_called_somebody_elses_write(world: VPodWorld) -> None:
    watchdog = VpodWatchdog(world)
    perform(world, watchdog, SetSource(wait=0.0, source=0, wanted=6))
    world.let_pass(120.0, stop=lambda: unsatisfied_reason(watchdog) is None)
    world.let_pass(1.0)
    leader = world.leader()
    assert leader is not None
    placing = leader.controller.reconciler
    assert placing.state is not None
    (entry,) = placing.state.vpods.values()
    eviction = Eviction(entry.key, entry.placements[0], 0)
    done: list[asyncio.Task[bool]] = []
    loop = leader.process.loop
    loop.call_soon_threadsafe(lambda: done.append(loop.create_task(placing.evict(eviction))))
    world.let_pass(5.0)
    assert done[0].result() is True
    assert world.events["PlacementDrift"] == 0


def test_what_is_remembered_of_objects_goes_with_them_whoever_leads(world: VPodWorld) -> None:
    watchdog = VpodWatchdog(world)
    perform(world, watchdog, SetSource(wait=0.0, source=0, wanted=6))
    world.let_pass(120.0, stop=lambda: unsatisfied_reason(watchdog) is None)
    led = world.leader()
    assert led is not None
    assert led.controller.reconciler.sources._read_before
    led.process.pause()
    world.let_pass(60.0, stop=lambda: world.leader() not in (None, led))
    led.process.resume()
    world.let_pass(30.0)
    assert led.controller.reconciler.state is None
    perform(world, watchdog, DeleteSource(wait=0.0, source=0))
    world.let_pass(5.0)
    assert led.controller.reconciler.sources._read_before == {}


@pytest.mark.rule("vpod:L5")
def test_those_that_are_short_are_tried_again_when_anything_has_changed_and_only_then(world: VPodWorld) -> None:
    watchdog = VpodWatchdog(world)
    decided: list[float] = []
    perform(world, watchdog, HoldPods(wait=0.0, held=True))
    perform(world, watchdog, SetSource(wait=0.0, source=0, wanted=6))
    world.let_pass(120.0)  # a pod is asked for, and held
    leader = world.leader()
    assert leader is not None
    placing = leader.controller.reconciler
    state = placing.state
    assert state is not None
    assert state.pending
    world.audit_listeners.append(lambda *_: decided.append(world.now))

    def try_again() -> int:
        before = len(decided)
        leader.process.loop.call_soon(placing.retry_changed_shortages)
        world.let_pass(0.0)
        return len(decided) - before

    try_again()
    assert try_again() == 0, "the answer would be the same"
    world.let_pass(60.0)
    version = state.version
    world.let_pass(20.0)
    assert state.version == version, "nothing happens"
    try_again()
    state.observe_node(NodeFacts("another", "zone-9", unschedulable=False, ready=True, unreachable=False), state.now)
    assert try_again() == 1
    assert try_again() == 0
