"""Play histories: every step, the invariants after each, and the healing at the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from situate.spot.config.settings import SpotSettings
from situate.spot.workloads.owners import DEFAULT_KINDS, KINDS
from situate.testing.histories.play import Played
from situate.testing.spot.history import History, Settings
from situate.testing.spot.invariants.recorder import Recorder
from situate.testing.spot.invariants.review_answers import Reviewing
from situate.testing.spot.invariants.rules import PEND_S, Breach, Watchdog, unfinished
from situate.testing.spot.performer import Performer
from situate.testing.spot.world.initial_objects import ON_DEMAND_NODES, SPOT_NODES, WORKLOADS, WorkloadPlan
from situate.testing.spot.world.other_controllers import FurtherControllers
from situate.testing.spot.world.world import SHOP, SpotWorld, machinery, settings_of
from situate.testing.virtual_time.isolation import collector_at_rest, logs_off
from situate.testing.virtual_time.processes import Stuck

HEALING_S = 1200.0
"""Seconds after the last fault within which every workload must be as it should be."""
QUIET_S = 120.0
"""Seconds that must then pass without a touched pod (I13)."""
BEGIN_S = 40.0
"""Seconds for the workloads at the start of a history to come up."""


def play(history: History) -> Played:
    """Run a history from an empty cluster. Equal histories run equally."""
    with collector_at_rest(), logs_off():
        return _play(history)


def _play(history: History) -> Played:
    chosen = history.settings
    stage = Stage.of(history.seed, _settings(chosen), events=chosen.events)
    world, watchdog = stage.world, stage.watchdog
    watchdog.windows = chosen.windows
    if chosen.strict == "policy":
        stage.performer.gate_by_policy()
    played = Played(happened=stage.happened)
    stage.happened.update(history.settings.names())
    try:
        stage.begin(chosen.workloads)
        for number, step in enumerate(history.steps):
            played.at_step = number
            stage.happened[type(step).__name__] += 1
            stage.performer.perform(step)
            world.let_pass(step.wait)
            watchdog.check()
        played.at_step = len(history.steps)
        stage.heal()
    except (Breach, Stuck) as breach:
        played.breach = str(breach)
        played.last = watchdog.last()
    finally:
        stage.happened.update(world.network.happened)
        stage.happened.update({f"Event {reason}": number for reason, number in world.events.items()})
        played.writes = watchdog.writes
        played.virtual_s = world.now
        played.story = watchdog.story()
        world.close()
    return played


@dataclass(slots=True)
class Stage:
    """A world with its recorder, watchdog and performer. Close the world at the end."""

    world: SpotWorld
    recorder: Recorder
    watchdog: Watchdog
    performer: Performer
    happened: Counter[str]

    @classmethod
    def of(cls, seed: int, settings: SpotSettings, *, events: bool = False) -> Stage:
        """Build a stage. `events` is that of `machinery`."""
        happened: Counter[str] = Counter()
        world = SpotWorld(seed, settings, machinery(events=events))
        kubelets = world.cluster.machinery.kubelets
        recorder = Recorder(world.cluster.api.store, SHOP, lambda: world.now, kubelets.works)
        watchdog = Watchdog(world, recorder, happened)
        reviewing = Reviewing(recorder.nodes.values, watchdog.breach, happened)
        world.calls.heard.append(reviewing.heard)
        recorder.opened.append(reviewing.opened)
        if len(settings.kinds) > len(DEFAULT_KINDS):
            FurtherControllers(world)
        return cls(world, recorder, watchdog, Performer(world, watchdog, happened), happened)

    def begin(self, plans: Sequence[WorkloadPlan] = WORKLOADS) -> None:
        """Create nodes, wait for a leader, and create the workloads."""
        self.performer.clouds.add_nodes("on-demand", ON_DEMAND_NODES)
        self.performer.clouds.add_nodes("spot", SPOT_NODES)
        if not self.world.lead_to():
            raise Breach("no leader answers after a minute of calm")
        self.performer.begin(plans)
        self.world.let_pass(BEGIN_S)
        self.watchdog.check()

    def heal(self) -> None:
        """End every fault, wait until all workloads are as they should be, then wait for a time without moves."""
        world, watchdog = self.world, self.watchdog
        self.performer.heal()
        end = world.now + HEALING_S
        while (missing := unfinished(watchdog)) is not None:
            world.let_pass(5.0)
            watchdog.check()
            if world.now > end:
                raise Breach(f"B28: {HEALING_S:g} s after the last fault: {missing}")
        while world.now < end + HEALING_S:
            before = watchdog.moves
            world.let_pass(QUIET_S)
            watchdog.check()
            if (missing := unfinished(watchdog)) is not None:
                raise Breach(f"B28: the state was good, and is not any more: {missing}")
            if watchdog.moves == before:
                return
        raise Breach(f"I13: pods are still moved {2 * HEALING_S:g} s after the last fault")


def _settings(chosen: Settings) -> SpotSettings:
    """Return the shipped settings, with shorter times."""
    strict: dict[str, Any] = {"strict": {}, "gateBy": chosen.strict} if chosen.strict else {}
    window = {"cron": "*/10 * * * *", "duration": "5m"}
    return settings_of(
        **strict,
        windows=[window] if chosen.windows else [],
        ownerKinds=list(KINDS) if chosen.further else list(DEFAULT_KINDS),
        evictions={"coolDown": "10s", "perHour": 1000, "stop": "120s"},
        **{"return": {"every": "15s", "nodeAge": "30s", "calm": "60s", "flap": "30s", "distrust": "90s"}},
        pendLimit=f"{PEND_S:g}s",
        onDemandFull="degrade" if chosen.degrade else "wait",
        degradeAfter="60s",
        makeBeforeBreak=chosen.make_before_break,
        start="6s",
        webhook={"certificateLife": "120s"} if chosen.short_certificates else {},
    )
