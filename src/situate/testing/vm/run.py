"""Play histories with the shipped processes: every step, the invariants after each, healing, and a final rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from situate.testing.histories.play import Played
from situate.testing.virtual_time.isolation import collector_at_rest, logs_off
from situate.testing.virtual_time.processes import Stuck
from situate.testing.vm.history import History
from situate.testing.vm.invariants.rules import regranted
from situate.testing.vm.invariants.watchdog import Breach, Watchdog
from situate.testing.vm.performer import Performer
from situate.testing.vm.world.history_world import SPARE, Place
from situate.vm.controller.setup import VmSetup
from situate.vm.model.policy import Calm, Deadlines, Rules

BEGIN_S: Final = 4.0
HEALING_S: Final = 900.0
"""Seconds after the last fault within which migrations end, claims close and requests are answered."""
COOL_DOWN_S: Final = 20.0
"""Cool-down in seconds of a brisk history. No cool-down is longer than twice this time."""
RULES: Final = Rules(ignored_namespaces=frozenset((SPARE,)))
BRISK: Final = replace(
    RULES,
    calm=Calm(
        cool_down_s=COOL_DOWN_S, most_cool_down_s=2 * COOL_DOWN_S, after_failure_s=5.0, most_after_failure_s=COOL_DOWN_S
    ),
    deadlines=Deadlines(unbound_s=10.0, not_running_s=20.0, no_progress_s=15.0, total_least_s=30.0),
)
QUIET_S: Final = 50.0
"""Longer than the cool-downs of a brisk history: a VM that migrates after it migrates again and again."""
DEFAULT_QUIET_S: Final = 700.0
"""The same with the default cool-downs, for VMs that have migrated once."""
TAKING_OVER_S: Final = 60.0
MOST_ROUNDS: Final = 8
"""Maximum number of such periods until one passes without a migration (I7)."""


def play(history: History) -> Played:
    """Play a history. Equal histories run equally."""
    with collector_at_rest(), logs_off():
        return _play(history)


def _play(history: History) -> Played:
    settings = history.settings
    played = Played()
    nodes = {f"n{number}": str(cpus) for number, cpus in enumerate(settings.nodes)}
    setup = VmSetup(BRISK if settings.brisk else RULES)
    place = Place(history.seed, setup, nodes=nodes, processes=settings.processes)
    watchdog = Watchdog(place, played.happened)
    performer = Performer(place, watchdog, settings, played.happened)
    try:
        place.let_pass(1.0)
        performer.add_pods(settings)
        performer.begin()
        place.let_pass(BEGIN_S)
        watchdog.check()
        for number, step in enumerate(history.steps):
            played.at_step = number
            played.happened[type(step).__name__] += 1
            performer.perform(step)
            place.let_pass(step.wait)
            watchdog.check()
        played.at_step = len(history.steps)
        performer.heal()
        _rest(place, watchdog, QUIET_S if settings.brisk else DEFAULT_QUIET_S)
    except (Breach, Stuck) as breach:
        played.breach = str(breach)
        played.last = watchdog.last()
    finally:
        played.happened.update(place.network.happened)
        played.happened.update({f"Event {reason}": number for reason, number in place.events.items()})
        played.writes = watchdog.writes
        played.virtual_s = place.now
        played.story = watchdog.story()
        failed = [repr(problem) for each in place.world.processes if (problem := each.failure()) is not None]
        failed += [repr(complaint) for each in place.world.processes for complaint in each.complaints]
        place.close()
    if failed and played.breach is None:
        played.breach = f"a situate process failed: {failed[0]}"
    return played


def _rest(place: Place, watchdog: Watchdog, quiet_s: float) -> None:
    """Wait until all is as it should be, then until no VM migrates any more."""
    end = place.now + HEALING_S
    place.let_pass(20.0)
    while (missing := watchdog.unfinished()) is not None:
        place.let_pass(10.0)
        watchdog.check()
        if place.now > end:
            raise Breach(f"{HEALING_S:g} s after the last fault: {missing}")
    for _ in range(MOST_ROUNDS):
        before = watchdog.moves.created
        place.let_pass(quiet_s)
        watchdog.check()
        if watchdog.moves.created == before:
            _begin_anew(place, watchdog)
            return
    raise Breach(f"I7: VMs still migrate {MOST_ROUNDS * quiet_s:g} s after the last fault")


def _begin_anew(place: Place, watchdog: Watchdog) -> None:
    """Kill the leader, and check that the next one reserves the same amounts (I8)."""
    leader, before = place.leader(), watchdog.ledgers.leading()
    assert leader is not None
    assert before is not None
    place.end(leader)
    place.let_pass(TAKING_OVER_S, stop=lambda: watchdog.ledgers.leading() is not None)
    watchdog.check()
    after = watchdog.ledgers.leading()
    if after is None:
        raise Breach(f"I8: no process leads {TAKING_OVER_S:g} s after a leader was killed")
    for problem in regranted(before, after):
        raise Breach(problem)
