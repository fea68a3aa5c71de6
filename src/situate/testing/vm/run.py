"""Play histories with the shipped processes: every step, the invariants after each, healing, and a final rest."""

from __future__ import annotations

from typing import Final

from msgspec import structs

from situate.testing.histories.play import HistoryResult, Product
from situate.testing.histories.run import run_history, wait_until_settled
from situate.testing.histories.watchdog import HistoryBreach
from situate.testing.virtual_time.isolation import isolate_history
from situate.testing.vm.faults import FAULTS
from situate.testing.vm.history import VmHistory, generate
from situate.testing.vm.invariants.rules import regrant_differences
from situate.testing.vm.invariants.watchdog import VmWatchdog
from situate.testing.vm.performer import VmPerformer
from situate.testing.vm.world.history_world import IGNORED_NAMESPACE, VmHistoryWorld
from situate.vm.config.settings import Deadlines, MigrationLimits
from situate.vm.controller.setup import VmSetup
from situate.vm.model.policy import Rules

BEGIN_S: Final = 4.0
HEALING_S: Final = 900.0
"""Seconds after the last fault within which migrations end, claims close and requests are answered."""
COOL_DOWN_S: Final = 20.0
"""Cool-down in seconds of a brisk history. No cool-down is longer than twice this time."""
RULES: Final = Rules(ignored_namespaces=(IGNORED_NAMESPACE,))
BRISK_RULES: Final = structs.replace(
    RULES,
    calm=MigrationLimits(
        cool_down_s=COOL_DOWN_S,
        longest_cool_down_s=2 * COOL_DOWN_S,
        after_failure_s=5.0,
        longest_after_failure_s=COOL_DOWN_S,
    ),
    deadlines=Deadlines(unbound_s=10.0, not_running_s=20.0, no_progress_s=15.0, least_total_s=30.0),
)
QUIET_S: Final = 50.0
"""Longer than the cool-downs of a brisk history: a VM that migrates after it migrates again and again."""
DEFAULT_QUIET_S: Final = 700.0
"""The same with the default cool-downs, for VMs that have migrated once."""
TAKEOVER_S: Final = 60.0
MOST_ROUNDS: Final = 8
"""Maximum number of such periods until one passes without a migration (I7)."""


@isolate_history()
def play(history: VmHistory) -> HistoryResult:
    """Play a history. Equal histories run equally."""
    settings = history.settings
    nodes = {f"n{number}": str(cpus) for number, cpus in enumerate(settings.nodes)}
    setup = VmSetup(BRISK_RULES if settings.brisk else RULES)
    place = VmHistoryWorld(history.seed, setup, nodes=nodes, processes=settings.processes)
    watchdog = VmWatchdog(place)
    performer = VmPerformer(place, watchdog, settings)

    def begin() -> None:
        place.let_pass(1.0)
        performer.add_pods(settings)
        performer.begin()
        place.let_pass(BEGIN_S)
        watchdog.check()

    def heal() -> None:
        performer.heal()
        _wait_until_settled(place, watchdog, QUIET_S if settings.brisk else DEFAULT_QUIET_S)

    return run_history(history, place, watchdog, begin=begin, perform=performer.perform, heal=heal)


def _wait_until_settled(place: VmHistoryWorld, watchdog: VmWatchdog, quiet_s: float) -> None:
    """Wait until all is as it should be, then until no VM migrates any more."""
    last_fault = place.now
    place.let_pass(20.0)
    wait_until_settled(
        place, watchdog, VmWatchdog.unfinished_work, last_fault=last_fault, within_s=HEALING_S, tick_s=10.0
    )
    for _ in range(MOST_ROUNDS):
        before = watchdog.moves.created
        place.let_pass(quiet_s)
        watchdog.check()
        if watchdog.moves.created == before:
            _check_new_leader(place, watchdog)
            return
    raise HistoryBreach(f"I7: VMs still migrate {MOST_ROUNDS * quiet_s:g} s after the last fault")


def _check_new_leader(place: VmHistoryWorld, watchdog: VmWatchdog) -> None:
    """Kill the leader, and check that the next one reserves the same amounts (I8)."""
    leader, before = place.leader(), watchdog.ledgers.leader_state()
    assert leader is not None
    assert before is not None
    place.end(leader)
    place.let_pass(TAKEOVER_S, stop=lambda: watchdog.ledgers.leader_state() is not None)
    watchdog.check()
    after = watchdog.ledgers.leader_state()
    if after is None:
        raise HistoryBreach(f"I8: no process leads {TAKEOVER_S:g} s after a leader was killed")
    for problem in regrant_differences(before, after):
        raise HistoryBreach(problem)


PRODUCT: Final = Product("situate.testing.vm", generate, VmHistory.from_json, play, FAULTS, "vm-")
