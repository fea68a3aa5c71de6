"""The shipped scheduler under faults on virtual time: killed and paused at any point of binding, with answers lost.

No Pod is bound twice or forgotten, no node holds more than it has, and only the leader writes.

A failure prints a replayable history, shortened: `python -m situate.testing.scheduler replay FILE`.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from situate.testing.scheduler.history import SchedulerHistory, generate
from situate.testing.scheduler.run import PRODUCT, play
from tests import histories

HISTORIES = 450
"""Ten times as many as show every row; a soak goes on to new seeds."""


@pytest.mark.slow
@histories.in_blocks(many=HISTORIES)
def test_invariants_hold_under_faults(seeds: range) -> None:
    happened = histories.played(PRODUCT, seeds)
    assert histories.absent(PRODUCT, happened, seeds) == []


LISTED_BEFORE_ITS_TERM = 308
"""A seed: a standby's first listing begins, the leader binds and hands over, the listing ends in the new term."""


def test_a_first_listing_from_before_the_term_is_not_what_is_decided_on() -> None:
    assert play(generate(LISTED_BEFORE_ITS_TERM)).breach is None


_STORY = """
from situate.testing.scheduler.history import generate
from situate.testing.scheduler.run import play
print(play(generate(3, 15)).digest)
"""


def test_one_seed_gives_one_story_whatever_the_interpreter_hashes_with() -> None:
    stories = {play(generate(3, 15)).digest + "\n"}
    for hashes in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hashes}
        ran = subprocess.run(
            [sys.executable, "-c", _STORY], env=environment, capture_output=True, text=True, check=True
        )
        stories.add(ran.stdout)
    assert len(stories) == 1


def test_a_history_can_be_written_down_and_read_again() -> None:
    history = generate(5)
    assert SchedulerHistory.from_json(history.to_json()) == history
