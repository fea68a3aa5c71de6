"""The shipped vm processes under faults on virtual time: I1 to I14 after every write and step, and rest in the end.

A failure prints a replayable history, shortened: `python -m situate.testing.vm replay FILE`. More seeds:
`make soak-vm`. Histories of the ledger alone, many times as fast, are in `test_interleavings`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from situate.testing.vm.history import History, generate
from situate.testing.vm.product import PRODUCT
from situate.testing.vm.run import play

SEEDS = 20
"""Of which each row of the fault table has some."""


@pytest.mark.slow
@pytest.mark.rule(*(f"vm:I{number}" for number in (1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 13, 14)))
@pytest.mark.rule("vm:F1-F16", "vm:B2", "vm:B7", "vm:B12", "vm:B27", "vm:B43", "vm:B44", "vm:C14")
def test_invariants_hold_under_faults() -> None:
    happened: Counter[str] = Counter()
    for seed in range(SEEDS):
        history = generate(seed)
        played = play(history)
        happened.update(played.happened)
        if played.breach is not None:
            short = PRODUCT.shortened(history, most_tries=60)
            last = "\n".join(played.last)
            pytest.fail(f"seed {seed}: {played.breach}\n{last}\nshortened:\n{short.to_json().decode()}")
    print(*PRODUCT.table(happened), sep="\n")
    assert PRODUCT.empty(happened) == [], f"rows of which nothing happened in seeds 0 to {SEEDS - 1}"


_STORY = """
from situate.testing.vm.history import generate
from situate.testing.vm.run import play
print(play(generate(3, 15)).story)
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
    assert History.from_json(history.to_json()) == history
    assert len({type(step) for step in history.steps}) >= 10
