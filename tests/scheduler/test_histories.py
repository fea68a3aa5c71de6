"""The shipped scheduler under faults on virtual time: killed and paused at any point of binding, with answers lost.

No pod is bound twice, none is forgotten, no node holds more than it has, and nobody writes who does not lead.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from situate.testing.scheduler.history import generate
from situate.testing.scheduler.run import play, shortened

SEEDS = 40
"""So many show every kind of trouble."""

MUST_HAPPEN = (
    "victim deleted",
    "bound by somebody else",
    "stale leader woke up",
    "request lost",
    "answer lost",
    "request refused",
    "write in conflict",
    "event delayed",
    "watch cut",
    "binding written answered 409",
    *(
        f"leader {what} {when}"
        for what in ("killed", "paused")
        for when in (
            "before its binding left",
            "before the answer to its binding",
            "before its status left",
            "before the answer to its status",
            "before the answer to its delete",
        )
    ),
)


@pytest.mark.slow
def test_invariants_hold_under_faults() -> None:
    happened: Counter[str] = Counter()
    for seed in range(SEEDS):
        history = generate(seed)
        played = play(seed, history)
        happened.update(played.happened)
        if played.breach is not None:
            short = "\n".join(map(repr, shortened(seed, history, most_tries=60)))
            pytest.fail(f"seed {seed}: {played.breach}\nshortened:\n{short}")
    for what, count in sorted(happened.items()):
        print(f"{count:8} {what}")
    assert not [what for what in MUST_HAPPEN if not happened[what]]


_STORY = """
from situate.testing.scheduler.history import generate
from situate.testing.scheduler.run import play
print(play(3, generate(3, 30)).story)
"""


def test_one_seed_gives_one_story_whatever_the_interpreter_hashes_with() -> None:
    stories = {play(3, generate(3, 30)).story + "\n"}
    for hashes in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hashes}
        ran = subprocess.run(
            [sys.executable, "-c", _STORY], env=environment, capture_output=True, text=True, check=True
        )
        stories.add(ran.stdout)
    assert len(stories) == 1
