"""Plays histories with the shipped processes: every step, the invariants after each, healing, and rest in the end."""

from __future__ import annotations

from typing import Final

from situate.testing.playing import Played
from situate.testing.processes import Stuck
from situate.testing.undisturbed import collector_at_rest, logs_off
from situate.testing.vm.history import History
from situate.testing.vm.performing import Performer
from situate.testing.vm.place import Place
from situate.testing.vm.watchdog import Breach, Watchdog
from situate.vm.controller.setup import VmSetup

BEGIN_S: Final = 6.0
HEALING_S: Final = 900.0
"""Once all is calm every move is over, every claim closed and every wish answered within this time."""
QUIET_S: Final = 700.0
"""Longer than a cool-down: who moves after it, moves again and again."""
MOST_ROUNDS: Final = 8
"""Of such times until one passes without a move (I7)."""


def play(history: History) -> Played:
    """Equal histories go equally."""
    with collector_at_rest(), logs_off():
        return _play(history)


def _play(history: History) -> Played:
    settings = history.settings
    played = Played()
    nodes = {f"n{number}": str(cpus) for number, cpus in enumerate(settings.nodes)}
    place = Place(history.seed, VmSetup(), nodes=nodes)
    watchdog = Watchdog(place, played.happened)
    performer = Performer(place, watchdog, settings, played.happened)
    try:
        place.let_pass(2.0)
        performer.add_pods(settings.pods)
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
        _rest(place, watchdog)
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
        played.breach = f"a process of ours failed: {failed[0]}"
    return played


def _rest(place: Place, watchdog: Watchdog) -> None:
    """Until all is as it should be, and then until nobody moves any more."""
    end = place.now + HEALING_S
    place.let_pass(60.0)
    while (missing := watchdog.unfinished()) is not None:
        place.let_pass(10.0)
        watchdog.check()
        if place.now > end:
            raise Breach(f"{HEALING_S:g} s after the last fault: {missing}")
    for _ in range(MOST_ROUNDS):
        before = watchdog.created
        place.let_pass(QUIET_S)
        watchdog.check()
        if watchdog.created == before:
            return
    raise Breach(f"I7: machines are still moved {MOST_ROUNDS * QUIET_S:g} s after the last fault")
