"""The loop of the simulation against the shipped controller: the same changes lead to the same placements."""

from __future__ import annotations

from random import Random

import pytest

from situate.sim.timeline import Timeline
from situate.sim.vpod.fleet import Fleet
from situate.sim.vpod.loop import SchedulerLoop
from situate.sim.vpod.settings import FleetSettings
from situate.testing.vpod.history import NODES, SetSource, VpodHistorySettings
from situate.testing.vpod.invariants.rules import VpodWatchdog, unsatisfied_reason
from situate.testing.vpod.run import perform
from situate.testing.vpod.world.world import STATEFULSET, TENANTS, VPodWorld
from situate.vpod.model.vpod import Key

PAUSE_S = 60.0
"""Between two changes: long enough for both to come to rest."""


@pytest.mark.parametrize("policy", ["spread", "pack", "policy"])
@pytest.mark.parametrize("seed", range(3))
def test_the_loop_places_what_the_controller_places(policy: str, seed: int) -> None:
    world = VPodWorld(seed, VpodHistorySettings(policy=policy))
    try:
        watchdog = VpodWatchdog(world)
        timeline = Timeline()
        zones = {f"zone-{zone}": len(range(zone, NODES, 3)) for zone in range(3)}
        fleet = Fleet(timeline, FleetSettings(zones=zones, pod_start_delay=1.0, pod_stop_delay=0.5), STATEFULSET)
        loop = SchedulerLoop(timeline, world._statefulset_settings().options(), fleet)
        rng = Random(seed)
        for _ in range(20):
            # no change needs more than one new pod: of two, a real cluster shows one first, and it is used at once
            source, wanted = rng.randrange(8), rng.randrange(7)
            perform(world, watchdog, SetSource(wait=0.0, source=source, wanted=wanted))
            world.let_pass(PAUSE_S)
            loop.set_wanted(Key(TENANTS[source % len(TENANTS)], f"s{source}"), wanted, 1, 0)
            while timeline.advance(timeline.now + PAUSE_S) and timeline.now < world.now:
                pass
            assert unsatisfied_reason(watchdog) is None
            simulated = {
                str(key): {each.pod_name: each.vreplicas for each in vpod.placements}
                for key, vpod in loop.vpods.items()
            }
            assert simulated == watchdog.placements()
            assert loop.state.replicas == watchdog.replicas()
    finally:
        world.close()
