"""The shipped controller and webhook under faults on virtual time: I1 to I15 after every step, write and answer.

A failure prints a replayable history, shortened: `python -m situate.testing.spot replay FILE`. More seeds:
`make soak-spot`.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from situate.testing.spot.generate import generate
from situate.testing.spot.history import SpotHistory
from situate.testing.spot.run import PRODUCT, play
from tests import histories


@pytest.mark.slow
@pytest.mark.rule("spot:I1-I6", "spot:I10-I15", "spot:F1-F17", "spot:B28", "spot:P29")
@pytest.mark.rule("spot:B13", "spot:B14", "spot:B42", "spot:B45", "spot:P1", "spot:P7", "spot:P8")
@histories.seeds
def test_invariants_hold_under_faults(seeds: range) -> None:
    happened = histories.played(PRODUCT, seeds)
    assert PRODUCT.empty_rows(happened) == []


_STORY = """
from situate.testing.spot.generate import generate
from situate.testing.spot.run import play
print(play(generate(3, 10)).digest)
"""


@pytest.mark.rule("spot:I12")
def test_one_seed_gives_one_story_whatever_the_interpreter_hashes_with() -> None:
    stories = set()
    for hashes in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "-c", _STORY],
            env={**os.environ, "PYTHONHASHSEED": hashes},
            capture_output=True,
            text=True,
            check=True,
        )
        stories.add(ran.stdout)
    stories.add(play(generate(3, 10)).digest + "\n")
    assert len(stories) == 1


def test_a_history_can_be_written_down_and_read_again() -> None:
    history = generate(5)
    assert SpotHistory.from_json(history.to_json()) == history
    assert len({type(step) for step in history.steps}) >= 10
