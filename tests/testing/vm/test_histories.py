"""The shipped vm processes under faults on virtual time: I1 to I9 and I11 to I14 after every write and step, and rest.

Two processes, or one, with watches, election, placing, permit port and actuator as they are shipped, a network with
weather, agents, and the stand-in for NeonVM; only the transport is ours. In the end, with all faults gone, every move
is over, every wish answered, nobody moves any more, and a restart books what was booked before.

A failure prints a replayable history, shortened: `python -m situate.testing.vm replay FILE`. More seeds:
`make soak-vm`. Interleavings of the ledger alone, many times as fast, are in `test_interleavings`.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from situate.testing.vm.history import BLOCK, THEMES, VmHistory, generate
from situate.testing.vm.run import PRODUCT
from tests import histories


@pytest.mark.slow
@pytest.mark.rule(*(f"vm:I{number}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14)))
@pytest.mark.rule("vm:F1-F16", "vm:B2", "vm:B7", "vm:B12", "vm:B27", "vm:B43", "vm:B44", "vm:C14", "vm:C28")
@histories.seeds
def test_invariants_hold_under_faults(seeds: range) -> None:
    happened = histories.played(PRODUCT, seeds)
    assert histories.absent(PRODUCT, happened, seeds) == []


_STORY = """
from situate.testing.vm.history import generate
from situate.testing.vm.run import play
print(play(generate(3, 3)).digest)
"""


@pytest.mark.rule("vm:I10")
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
    assert len(stories) == 1


def test_a_history_can_be_written_down_and_read_again() -> None:
    history = generate(5)
    assert VmHistory.from_json(history.to_json()) == history


def test_each_history_is_about_one_thing_and_each_block_about_all_of_them() -> None:
    for first in (0, BLOCK):
        histories = [generate(seed) for seed in range(first, first + BLOCK)]
        assert all(any(about in history.steps for history in histories) for about in THEMES)
        assert all(set(history.steps) & set(THEMES) for history in histories)
