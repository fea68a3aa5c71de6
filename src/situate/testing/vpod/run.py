"""Play histories: every step, the invariants after each, and the healing at the end."""

from __future__ import annotations

from collections import Counter

from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response
from situate.testing.histories.play import Played
from situate.testing.virtual_time.isolation import collector_at_rest, logs_off
from situate.testing.virtual_time.processes import Stuck
from situate.testing.vpod.history import History
from situate.testing.vpod.invariants.rules import Breach, Watchdog, drained, satisfied, unused
from situate.testing.vpod.performer import perform
from situate.testing.vpod.recovery import begin_if_recovered, end_faults
from situate.testing.vpod.world.world import VPodWorld

HEALING_S = 900.0
"""Seconds after the last fault within which all wanted vreplicas must run."""
QUIET_S = 120.0
"""Seconds without a write that must follow (B5)."""

__all__ = ["count_write", "perform", "play"]

_FELT = frozenset({"request lost", "answer lost", "request refused", "write in conflict"})
"""Faults counted when a sender notices them, not when they are drawn."""


def play(history: History) -> Played:
    """Run a history from an empty cluster. Equal histories run equally."""
    with collector_at_rest(), logs_off():
        return _play(history)


def _play(history: History) -> Played:
    world = VPodWorld(history.seed, history.settings)
    watchdog = Watchdog(world)
    played = Played()
    happened = world.happened
    happened.update(history.settings.names())
    world.told.append(lambda request, answer, _: count_write(happened, request, answer, watchdog))
    try:
        for number, step in enumerate(history.steps):
            played.at_step = number
            perform(world, watchdog, step)
            world.let_pass(step.wait)
            watchdog.check()
        _heal(world, watchdog)
    except (Breach, Stuck) as breach:
        played.breach = str(breach)
    finally:
        happened.update({name: n for name, n in world.network.happened.items() if name not in _FELT})
        happened.update({f"Event {reason}": number for reason, number in world.events.items()})
        played.happened = +happened
        played.writes = watchdog.writes
        played.virtual_s = world.now
        played.story = watchdog.story()
        world.close()
    return played


def count_write(happened: Counter[str], request: Request, answer: Response | Watch, watchdog: Watchdog) -> None:
    """Count an action of vpod by its kind."""
    if not isinstance(answer, Response) or answer.status >= 300:
        return
    if request.path.endswith("/scale"):
        happened["scale raised" if watchdog.raised() else "scale cut"] += 1
    elif request.path.endswith("/status"):
        evicted = request.headers.get("content-type") == "application/json-patch+json"
        happened["placement evicted" if evicted else "status written"] += 1
    elif "/consumers" in request.path:
        happened["worker written"] += 1


def _heal(world: VPodWorld, watchdog: Watchdog) -> None:
    """End every fault, wait until all wanted vreplicas run, then for silence. The promises are timed meanwhile."""
    watchdog.promises.end()
    end_faults(world)
    end = world.now + HEALING_S
    while (missing := _unwell(world, watchdog)) is not None:
        world.let_pass(5.0)
        watchdog.check()
        if world.now > end:
            raise Breach(f"L: {HEALING_S:g} s after the last fault: {missing}")
    while world.now < end + HEALING_S:
        before, until = watchdog.writes, world.now + QUIET_S
        while world.now < until:
            world.let_pass(QUIET_S / 8)
            watchdog.check()
        if (missing := satisfied(watchdog)) is not None:
            raise Breach(f"L: the state was good, and is not any more: {missing}")
        if watchdog.writes == before and drained(watchdog) is None:
            if (kept := unused(watchdog)) is not None:
                raise Breach(f"L4: nothing was written for {QUIET_S:g} s and {kept}")
            return
    raise Breach(f"B5: vpod still writes {2 * HEALING_S:g} s after the last fault")


def _unwell(world: VPodWorld, watchdog: Watchdog) -> str | None:
    """Return the reason why healing still waits, or None."""
    if not watchdog.promises.timed and not begin_if_recovered(world, watchdog):
        return "no leader has the full state, or Pods do not accept vreplicas"
    return satisfied(watchdog) or drained(watchdog)
