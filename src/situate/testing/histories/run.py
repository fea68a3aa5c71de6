"""Run one history: perform every step, check the invariants after each, and heal at the end."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import TypeVar

from situate.testing.histories.play import AnyHistory, HistoryResult
from situate.testing.histories.watchdog import HistoryBreach, Watchdog
from situate.testing.virtual_time.processes import ProcessesStuck
from situate.testing.virtual_time.world import C, ClusterWorld

W = TypeVar("W", bound=Watchdog)


def run_history(
    history: AnyHistory,
    world: ClusterWorld[C],
    watchdog: Watchdog,
    *,
    begin: Callable[[], None] = lambda: None,
    perform: Callable[..., object],
    heal: Callable[[], None],
    counted_apart: Set[str] = frozenset(),
) -> HistoryResult:
    """Run a history in its world, and close the world.

    `begin` makes the initial objects. `heal` ends every fault, waits until no work is left, and raises `HistoryBreach`
    if that takes too long. `counted_apart` are the faults of the network that the product counts by itself.
    """
    played = HistoryResult()
    try:
        begin()
        for number, step in enumerate(history.steps):
            played.at_step = number
            perform(step)
            world.let_pass(step.wait)
            watchdog.check()
        played.at_step = len(history.steps)
        heal()
    except (HistoryBreach, ProcessesStuck) as breach:
        played.breach = str(breach)
        played.last_records = watchdog.last_records()
    finally:
        happened = world.happened
        happened.update({name: n for name, n in world.network.happened.items() if name not in counted_apart})
        happened.update({f"Event {reason}": number for reason, number in world.events.items()})
        played.happened = +happened
        played.writes = watchdog.writes
        played.virtual_s = world.now
        played.digest = watchdog.digest()
        world.close()
    return played


def wait_until_settled(
    world: ClusterWorld[C],
    watchdog: W,
    unfinished_work: Callable[[W], str | None],
    *,
    last_fault: float,
    within_s: float,
    tick_s: float = 5.0,
    rule: str = "",
) -> None:
    """Wait until no work is left after the last fault. Raises `HistoryBreach` when the time is over."""
    while (missing := unfinished_work(watchdog)) is not None:
        world.let_pass(tick_s)
        watchdog.check()
        if world.now > last_fault + within_s:
            raise HistoryBreach(f"{rule}{within_s:g} s after the last fault: {missing}")
