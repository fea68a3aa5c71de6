"""Histories of sharding under faults: no stale write is accepted, nothing runs twice, nothing is lost, with the checks
of clients alone, with the policy alone, and with both.

The shipped supervisor and executors run on virtual time. A failure prints a replayable history, shortened:
`python -m situate.testing.sharding replay FILE`. More seeds: `make soak-shard`.
"""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest

from situate.testing.sharding import steps
from situate.testing.sharding.faults import FAULTS
from situate.testing.sharding.history import (
    FENCINGS,
    LEAST_FAULTS,
    Fencing,
    ShardingHistory,
    ShardingHistorySettings,
    generate,
)
from situate.testing.sharding.run import play
from situate.testing.sharding.scenes import SCENES
from situate.testing.sharding.soak import PRODUCT
from tests import histories


@pytest.mark.slow
@pytest.mark.rule("sharding:B3", "sharding:S1-S11", "sharding:L1-L3", "sharding:L6")
@pytest.mark.rule("sharding:B9", "sharding:X4", "sharding:X5", "sharding:X9", "sharding:X10")
@histories.seeds
def test_nothing_stale_nothing_twice_nothing_lost(seeds: range) -> None:
    happened = histories.played(PRODUCT, seeds)
    assert histories.absent(PRODUCT, happened, seeds) == []


TIMED = (24, 38, 80)
"""Seeds in which every kind of wait is judged: what the guards of S4, L1, L2 and L3 are tried with."""


@pytest.mark.rule("sharding:S4", "sharding:L1-L3")
def test_every_kind_of_wait_is_judged_in_a_few_histories() -> None:
    happened = histories.played(PRODUCT, TIMED)
    assert [name for name in FAULTS["judged while all is calm"] if not happened[name]] == []


STALE = (4, 23, 26)
"""Seeds in which a stale write is accepted if neither the clients nor the policy prevents it."""


@pytest.mark.rule("sharding:B3", "sharding:S2")
@pytest.mark.parametrize("seed", STALE)
def test_one_of_the_two_fences_is_needed_and_enough(seed: int) -> None:
    history = generate(seed)
    assert (play(_fenced(history, "none")).breach or "").startswith("S2")
    for fencing in FENCINGS:
        assert play(_fenced(history, fencing)).breach is None


def _fenced(history: ShardingHistory, fencing: Fencing) -> ShardingHistory:
    return msgspec.structs.replace(history, settings=msgspec.structs.replace(history.settings, fencing=fencing))


@pytest.mark.rule("sharding:B3", "sharding:S2")
def test_writes_that_arrive_long_after_their_executors_were_stopped_are_kept_out_by_either() -> None:
    """And by nothing else: the shipped processes, eight of which are stopped with a write under way."""
    pauses = tuple(steps.PauseExecutor(0.0, number, 60.0) for number in range(8))
    stormy: tuple[steps.AnyStep, ...] = (steps.Storm(0.0, "late writes"), *pauses, steps.Calm(0.0))
    told: dict[Fencing, list[str]] = {"none": [], "clients": [], "policy": []}
    for fencing, breaches in told.items():
        for seed in (0, 1):
            history = ShardingHistory(
                seed, ShardingHistorySettings(fencing), (steps.Pass(8.0), *stormy, steps.Pass(40.0))
            )
            breaches.append((play(history).breach or "")[:2])
    assert "S2" in told["none"], "else nothing of this is noticed"
    assert (told["clients"], told["policy"]) == (["", ""], ["", ""])


_STORY = """
from situate.testing.sharding.history import generate
from situate.testing.sharding.run import play
print(play(generate(1, 6)).digest)
"""


@pytest.mark.rule("sharding:B12")
def test_one_seed_gives_one_story_whatever_the_interpreter_hashes_with() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _STORY],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    play(generate(2, 3))
    assert ran.stdout == play(generate(1, 6)).digest + "\n"


def test_a_history_can_be_written_down_and_read_again() -> None:
    history = generate(5)
    assert ShardingHistory.from_json(history.to_json()) == history


def test_no_history_is_without_faults() -> None:
    loads = {"Pass", "Create", "Complete", "DeleteObject", "EditObject", "Cordon", "EndExecutor"}
    for seed in range(2 * SCENES):
        names = [type(step).__name__ for step in PRODUCT.generate(seed).steps]
        assert sum(name not in loads for name in names) >= LEAST_FAULTS
