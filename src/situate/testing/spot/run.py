"""Play histories: every step, the invariants after each, and the healing at the end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from situate.spot.config.settings import SpotSettings
from situate.spot.workloads.owners import DEFAULT_KINDS, KINDS
from situate.testing.histories.play import HistoryResult, Product
from situate.testing.histories.run import run_history, wait_until_settled
from situate.testing.histories.watchdog import HistoryBreach
from situate.testing.spot.faults import FAULTS
from situate.testing.spot.generate import generate
from situate.testing.spot.history import SpotHistory, SpotHistorySettings
from situate.testing.spot.invariants.recorder import Recorder
from situate.testing.spot.invariants.review_answers import ReviewChecker
from situate.testing.spot.invariants.rules import PEND_S, SpotWatchdog, unfinished_work
from situate.testing.spot.performer import SpotPerformer
from situate.testing.spot.world.initial_objects import ON_DEMAND_NODES, SPOT_NODES, WORKLOADS, WorkloadPlan
from situate.testing.spot.world.other_controllers import ThirdPartyControllers
from situate.testing.spot.world.world import SHOP, SpotWorld, machinery_settings, parse_settings
from situate.testing.virtual_time.isolation import isolate_history

HEALING_S = 1200.0
"""Seconds after the last fault within which every workload must be as it should be."""
QUIET_S = 120.0
"""Seconds that must then pass without a touched pod (I13)."""
BEGIN_S = 40.0
"""Seconds for the workloads at the start of a history to come up."""


@isolate_history()
def play(history: SpotHistory) -> HistoryResult:
    """Run a history from an empty cluster. Equal histories run equally."""
    chosen = history.settings
    stage = SpotHistoryRun.create(history.seed, _spot_settings(chosen), events=chosen.events)
    stage.watchdog.windows = chosen.windows
    if chosen.strict == "policy":
        stage.performer.gate_by_policy()
    stage.world.happened.update(chosen.changed_names())
    return run_history(
        history,
        stage.world,
        stage.watchdog,
        begin=partial(stage.begin, chosen.workloads),
        perform=stage.performer.perform,
        heal=stage.heal,
    )


@dataclass(slots=True)
class SpotHistoryRun:
    """A world with its recorder, watchdog and performer. Close the world at the end."""

    world: SpotWorld
    recorder: Recorder
    watchdog: SpotWatchdog
    performer: SpotPerformer

    @classmethod
    def create(cls, seed: int, settings: SpotSettings, *, events: bool = False) -> SpotHistoryRun:
        """Build a stage. `events` is that of `machinery_settings`."""
        world = SpotWorld(seed, settings, machinery_settings(events=events))
        kubelets = world.cluster.machinery.kubelets
        recorder = Recorder(world.cluster.api.store, SHOP, lambda: world.now, kubelets.is_running)
        watchdog = SpotWatchdog(world, recorder)
        reviewing = ReviewChecker(recorder.nodes.values, watchdog.record_breach, world.happened)
        world.webhook_calls.review_listeners.append(reviewing.check_review)
        recorder.ungate_listeners.append(reviewing.check_ungated_pod)
        if len(settings.kinds) > len(DEFAULT_KINDS):
            ThirdPartyControllers(world)
        return cls(world, recorder, watchdog, SpotPerformer(world, watchdog))

    def begin(self, plans: Sequence[WorkloadPlan] = WORKLOADS) -> None:
        """Create nodes, wait for a leader, and create the workloads."""
        self.performer.clouds.add_nodes("on-demand", ON_DEMAND_NODES)
        self.performer.clouds.add_nodes("spot", SPOT_NODES)
        if not self.world.wait_until_led():
            raise HistoryBreach("no leader answers after a minute of calm")
        self.performer.begin(plans)
        self.world.let_pass(BEGIN_S)
        self.watchdog.check()

    def heal(self) -> None:
        """End every fault, wait until all workloads are as they should be, then wait for a time without moves."""
        world, watchdog = self.world, self.watchdog
        self.performer.heal()
        last_fault = world.now
        wait_until_settled(world, watchdog, unfinished_work, last_fault=last_fault, within_s=HEALING_S, rule="B28: ")
        while world.now < last_fault + 2 * HEALING_S:
            before = watchdog.moves
            world.let_pass(QUIET_S)
            watchdog.check()
            if (missing := unfinished_work(watchdog)) is not None:
                raise HistoryBreach(f"B28: the state was good, and is not any more: {missing}")
            if watchdog.moves == before:
                return
        raise HistoryBreach(f"I13: pods are still moved {2 * HEALING_S:g} s after the last fault")


def _spot_settings(chosen: SpotHistorySettings) -> SpotSettings:
    """Return the shipped settings, with shorter times."""
    strict: dict[str, Any] = {"strict": {}, "gateBy": chosen.strict} if chosen.strict else {}
    window = {"cron": "*/10 * * * *", "duration": "5m"}
    return parse_settings(
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


PRODUCT: Final = Product("situate.testing.spot", generate, SpotHistory.from_json, play, FAULTS, "spot-")
