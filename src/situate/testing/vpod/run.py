"""Play histories: every step, the invariants after each, and the healing at the end."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Final

from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response
from situate.testing.histories.play import HistoryResult, Product
from situate.testing.histories.run import run_history, wait_until_settled
from situate.testing.histories.watchdog import HistoryBreach
from situate.testing.virtual_time.isolation import isolate_history
from situate.testing.vpod.faults import FAULTS
from situate.testing.vpod.history import VpodHistory, generate
from situate.testing.vpod.invariants.rules import VpodWatchdog, running_drain, unsatisfied_reason, unused_pod
from situate.testing.vpod.performer import perform
from situate.testing.vpod.recovery import begin_timing_if_recovered, end_faults
from situate.testing.vpod.world.world import VPodWorld

HEALING_S = 900.0
"""Seconds after the last fault within which all wanted vreplicas must run."""
QUIET_S = 120.0
"""Seconds without a write that must follow (B5)."""

__all__ = ["PRODUCT", "count_write", "perform", "play"]

_FELT_FAULTS = frozenset({"request lost", "answer lost", "request refused", "write in conflict"})
"""Faults counted when a sender notices them, not when they are drawn."""


@isolate_history()
def play(history: VpodHistory) -> HistoryResult:
    """Run a history from an empty cluster. Equal histories run equally."""
    world = VPodWorld(history.seed, history.settings)
    watchdog = VpodWatchdog(world)
    happened = world.happened
    happened.update(history.settings.changed_names())
    world.request_listeners.append(lambda request, answer, _: count_write(happened, request, answer, watchdog))
    return run_history(
        history,
        world,
        watchdog,
        perform=partial(perform, world, watchdog),
        heal=partial(_heal, world, watchdog),
        counted_apart=_FELT_FAULTS,
    )


def count_write(happened: Counter[str], request: Request, answer: Response | Watch, watchdog: VpodWatchdog) -> None:
    """Count an action of vpod by its kind."""
    if not isinstance(answer, Response) or answer.status >= 300:
        return
    if request.path.endswith("/scale"):
        happened["scale raised" if watchdog.was_raised() else "scale cut"] += 1
    elif request.path.endswith("/status"):
        evicted = request.headers.get("content-type") == "application/json-patch+json"
        happened["placement evicted" if evicted else "status written"] += 1
    elif "/consumers" in request.path:
        happened["worker written"] += 1


def _heal(world: VPodWorld, watchdog: VpodWatchdog) -> None:
    """End every fault, wait until all wanted vreplicas run, then for silence. The promises are timed meanwhile."""
    watchdog.liveness.end_timing()
    end_faults(world)
    last_fault = world.now
    wait_until_settled(
        world, watchdog, partial(_unhealed_reason, world), last_fault=last_fault, within_s=HEALING_S, rule="L: "
    )
    while world.now < last_fault + 2 * HEALING_S:
        before, until = watchdog.writes, world.now + QUIET_S
        while world.now < until:
            world.let_pass(QUIET_S / 8)
            watchdog.check()
        if (missing := unsatisfied_reason(watchdog)) is not None:
            raise HistoryBreach(f"L: the state was good, and is not any more: {missing}")
        if watchdog.writes == before and running_drain(watchdog) is None:
            if (kept := unused_pod(watchdog)) is not None:
                raise HistoryBreach(f"L4: nothing was written for {QUIET_S:g} s and {kept}")
            return
    raise HistoryBreach(f"B5: vpod still writes {2 * HEALING_S:g} s after the last fault")


def _unhealed_reason(world: VPodWorld, watchdog: VpodWatchdog) -> str | None:
    """Return the reason why healing still waits, or None."""
    if not watchdog.liveness.is_timed and not begin_timing_if_recovered(world, watchdog):
        return "no leader has the full state, or Pods do not accept vreplicas"
    return unsatisfied_reason(watchdog) or running_drain(watchdog)


PRODUCT: Final = Product("situate.testing.vpod", generate, VpodHistory.from_json, play, FAULTS)
