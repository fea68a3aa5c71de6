"""Play histories with the shipped supervisor and executors: every step, the healing, and the invariants on the log."""

from __future__ import annotations

import hashlib

from situate.sharding.model.object_view import view_of
from situate.testing.histories.play import HistoryResult
from situate.testing.sharding.history import LEAST_LEASE_S, ShardingHistory
from situate.testing.sharding.invariants import Limits, breaches
from situate.testing.sharding.performer import ShardingPerformer, UserEditRefused, supervisor_config
from situate.testing.sharding.world.reports import PATHS
from situate.testing.sharding.world.sharding_world import ShardingWorld
from situate.testing.virtual_time.isolation import disable_collector, suppress_logs
from situate.testing.virtual_time.processes import ProcessesStuck

BEGIN_S = 3.0
HEALING_S = 150.0
"""Seconds after the last fault within which every object must be assigned or archived."""
CHECK_S = 1.0
_CHECKED_ELSEWHERE = frozenset({"S4", "L1", "L2"})
"""Invariants not checked on the log: a supervisor's knowledge is as late as the weather makes it.

`SupervisorWorld` and `Promptness` check them while it is calm.
"""


def play(history: ShardingHistory) -> HistoryResult:
    """Play a history. Equal histories run equally."""
    with disable_collector(), suppress_logs():
        return _play(history)


def _play(history: ShardingHistory) -> HistoryResult:
    settings = history.settings
    stage = ShardingWorld(history.seed, settings, supervisor_config(settings))
    performer = ShardingPerformer(stage, settings)
    played = HistoryResult(happened=stage.happened)
    stage.happened[f"fencing: {settings.fencing}"] += 1
    stage.happened["clocks drift"] += settings.drifting
    try:
        performer.begin()
        stage.run(BEGIN_S)
        for number, step in enumerate(history.steps):
            played.at_step = number
            stage.happened[_step_name(step)] += 1
            performer.perform(step)
            stage.update_calm()
            stage.run(step.wait)
            performer.replace_dead_processes()
        played.at_step = len(history.steps)
        performer.heal()
        stage.update_calm()
        played.breach = _wait_until_healed(stage, performer) or _missing_record(stage, performer)
    except (UserEditRefused, ProcessesStuck) as problem:
        played.breach = str(problem)
    finally:
        failed = stage.close_and_judge()
    log = stage.log
    found = [
        each
        for each in breaches(log, Limits(lease_duration_s=LEAST_LEASE_S))
        if each.invariant not in _CHECKED_ELSEWHERE
    ]
    if found:
        played.breach = str(found[0])
        at = next((place for place, event in enumerate(log) if event.t >= found[0].t), 0)
        played.last_records = [repr(event) for event in log[max(0, at - 20) : at + 3]]
    elif failed and played.breach is None:
        played.breach = failed[0]
    played.writes = stage.writes
    played.virtual_s = stage.world.now
    played.digest = hashlib.sha256("\n".join(map(repr, log)).encode()).hexdigest()
    return played


def _step_name(step: object) -> str:
    kind = getattr(step, "kind", None) or getattr(step, "direction", None)
    return type(step).__name__ + (f" {kind}" if kind else "")


def _wait_until_healed(stage: ShardingWorld, performer: ShardingPerformer) -> str | None:
    """Wait until all is as it should be. Return the first open problem after the time limit, or None."""
    until = stage.world.now + HEALING_S
    while (missing := performer.open_problem()) is not None:
        if stage.world.now >= until:
            return f"L2, L3, L4, L6: {HEALING_S:g} s after the last fault: {missing}"
        stage.run(CHECK_S)
        performer.replace_dead_processes()
    return None


def _missing_record(stage: ShardingWorld, performer: ShardingPerformer) -> str | None:
    """Check that each removed object has a record of exactly its last version. Return the breach, or None."""
    for uid, content in stage.removed_objects.items():
        view = view_of(content, PATHS)
        if uid in performer.abandoned_uids or (not view.completed and view.epoch == 0):
            continue
        record = stage.archived_record(uid)
        if record is None:
            return f"S7: {view.name} ({uid}) is gone, but the archive has no record of it"
        if record.completed_at != view.completed_at or record.object.get("status") != content.get("status"):
            return f"S7: {view.name} ({uid}) is gone, but the archive has an older version of it"
    return None
