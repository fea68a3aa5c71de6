"""Random histories around the decisions alone: what is promised holds, and in the end everything has its place."""

from __future__ import annotations

from collections import Counter

import pytest

from situate.sharding.configuration import SupervisorConfig
from situate.testing.sharding.invariants import breaches
from tests.sharding.played import END_S, History

CONFIG = SupervisorConfig(drain_timeout=10.0, max_reassigns=50, drain_unhealthy=True, max_forced_moves_per_s=20.0)
SEEDS = 32
PART = 16
MUST_HAPPEN = (
    "cut",
    "crash",
    "proof",
    "back",
    "unready",
    "cordon",
    "fail-over",
    "down",
    "edit",
    "ack",
    "assign",
    "revoke",
    "drain",
    "complete",
    "refused write",
    "conflict",
    "refused supervisor",
    "lost: expired",
    "lost: dead",
)


def played(seed: int) -> History:
    history = History(seed, CONFIG)
    history.play()
    return history


@pytest.mark.rule("sharding:S1", "sharding:S2", "sharding:S3", "sharding:S4", "sharding:S5", "sharding:S6")
@pytest.mark.rule("sharding:S10", "sharding:S11", "sharding:L2", "sharding:L3", "sharding:L6")
@pytest.mark.parametrize("first", range(0, SEEDS, PART))
def test_histories(first: int) -> None:
    happened: Counter[str] = Counter()
    for seed in range(first, first + PART):
        history = played(seed)
        assert breaches(history.log) == [], f"seed {seed}"
        _settled(history, seed)
        happened += history.happened
    missing = [name for name in MUST_HAPPEN if not happened[name]]
    assert not missing, f"these seeds no longer show {missing}: {dict(happened)}"


def _settled(history: History, seed: int) -> None:
    """Long after the last fault: every open object is held by somebody who lives and keeps it."""
    drained = history.config.drain_unhealthy
    keepers = {
        each.uid for each in history.processes if each.alive and not each.cordoned and (each.ready or not drained)
    }
    if not any(each.ready for each in history.processes if each.uid in keepers):
        return
    for uid in history.objects:
        view = history.view(uid)
        assert view.completed or view.executor_uid in keepers, f"seed {seed}: {uid} at {END_S} s: {view}"
