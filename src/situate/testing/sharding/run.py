"""Play histories of sharding: every step, the healing, and the invariants on the log."""

from __future__ import annotations

import hashlib

from situate.testing.histories.play import Played
from situate.testing.sharding.history import History
from situate.testing.sharding.performing import Performer, UserKeptOut
from situate.testing.sharding.store import PATHS
from situate.testing.sharding.town import Town

BEGIN_S = 4.0
HEALING_S = 150.0
"""Seconds after the last fault within which every object must be assigned or archived."""
LOOK_S = 5.0


def play(history: History) -> Played:
    """Play a history. Equal histories run equally."""
    settings = history.settings
    town = Town(history.seed, policy=settings.fencing in ("policy", "both"))
    performer = Performer(town, settings)
    played = Played(happened=town.happened)
    town.happened[f"fencing: {settings.fencing}"] += 1
    town.happened["clocks drift"] += settings.drifting
    try:
        performer.begin()
        _pass(town, BEGIN_S)
        for number, step in enumerate(history.steps):
            played.at_step = number
            town.happened[_name(step)] += 1
            performer.perform(step)
            _pass(town, step.wait)
            performer.tidy()
        played.at_step = len(history.steps)
        performer.heal()
        played.breach = _healed(town, performer)
    except UserKeptOut as problem:
        played.breach = str(problem)
    log = town.log
    if found := town.breaches():
        played.breach = str(found[0])
        at = next((place for place, event in enumerate(log) if event.t >= found[0].t), 0)
        played.last = [repr(event) for event in log[max(0, at - 20) : at + 3]]
    elif played.breach is None:
        played.breach = _lost(town)
    played.writes = town.writes
    played.virtual_s = town.now
    played.story = hashlib.sha256("\n".join(map(repr, log)).encode()).hexdigest()
    return played


def _pass(town: Town, seconds: float) -> None:
    until = town.now + seconds
    while town.timeline.advance(until):
        pass


def _name(step: object) -> str:
    kind = getattr(step, "kind", None) or getattr(step, "direction", None)
    return type(step).__name__ + (f" {kind}" if kind else "")


def _healed(town: Town, performer: Performer) -> str | None:
    """Wait until all is as it should be. Return the first open problem after the time limit, or None."""
    until = town.now + HEALING_S
    while (missing := _unsettled(town)) is not None:
        if town.now >= until:
            return f"L2, L3, L4, L6: {HEALING_S:g} s after the last fault: {missing}"
        _pass(town, LOOK_S)
        performer.tidy()
    return None


def _unsettled(town: Town) -> str | None:
    living = {each.me.uid for each in town.living()}
    for name, stored in town.store.objects.items():
        view = stored.view
        if view.completed_at is not None and view.completed_at > town.wall() and not view.deleting:
            continue  # its completion time is still ahead: a supervisor with a fast clock wrote it
        if view.completed or view.deleting:
            return f"{name} is not archived: {view}"
        if view.executor_uid not in living or view.drain is not None:
            return f"{name} is in no good hands: {view}"
    return None


def _lost(town: Town) -> str | None:
    """Check that each removed object has a record of exactly its last version. Return the breach, or None."""
    for uid, view in town.gone.items():
        if uid in town.forsaken or (not view.completed and view.epoch == 0):
            continue
        record = town.archive.record(uid)
        if record is None:
            return f"S7: {view.name} ({uid}) is gone, and the archive has no record of it"
        if PATHS.completed_at(view.content) != record.completed_at or record.object.get("status") != view.content.get(
            "status"
        ):
            return f"S7: {view.name} ({uid}) is gone, and the archive has an older version of it"
    return None
