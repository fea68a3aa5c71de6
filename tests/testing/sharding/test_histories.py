"""1,000 histories of what sharding decides, under faults: no stale write is accepted, nothing runs twice, nothing is
lost, with the clients' checks alone, with the policy alone, and with both.

A failure prints a replayable history, shortened: `python -m situate.testing.sharding replay FILE`. More seeds: `make
soak-shard`. Stories of the shipped supervisor and executors are in `tests/sharding/controller`.
"""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from situate.testing.sharding.history import Fencing, History, generate
from situate.testing.sharding.run import play
from situate.testing.sharding.soak import PRODUCT

BLOCK = 250
"""So many seeds show every row of the fault table."""
BLOCKS = 4
"""Workers of xdist share them: some 65 s of one processor in all."""


@pytest.mark.slow
@pytest.mark.rule("sharding:B3", "sharding:S1-S3", "sharding:S5-S11", "sharding:L2", "sharding:L3", "sharding:L6")
@pytest.mark.rule("sharding:B9", "sharding:X4", "sharding:X5", "sharding:X9", "sharding:X10")
@pytest.mark.parametrize("first", range(0, BLOCKS * BLOCK, BLOCK))
def test_nothing_stale_nothing_twice_nothing_lost(first: int) -> None:
    happened: Counter[str] = Counter()
    for seed in range(first, first + BLOCK):
        history = generate(seed)
        played = play(history)
        happened.update(played.happened)
        if played.breach is not None:
            short = PRODUCT.shortened(history, most_tries=60)
            pytest.fail(f"seed {seed}: {played.breach}\nshortened:\n{short.to_json().decode()}")
    print(*PRODUCT.table(happened), sep="\n")
    never = PRODUCT.missing(happened)
    assert not never, f"these never happened in seeds {first} to {first + BLOCK - 1}: {never}"


@pytest.mark.rule("sharding:B3")
@pytest.mark.parametrize("fencing", ["clients", "policy"])
def test_one_of_the_two_is_enough_and_needed(fencing: Fencing) -> None:
    """Histories in which stale writes are accepted if nothing keeps them out."""
    stale = []
    for seed in range(3, 60):
        history = generate(seed)
        bare = msgspec.structs.replace(history, settings=msgspec.structs.replace(history.settings, fencing="none"))
        if (play(bare).breach or "").startswith("S2"):
            stale.append(history)
        if len(stale) == 3:
            break
    assert len(stale) == 3
    for history in stale:
        settings = msgspec.structs.replace(history.settings, fencing=fencing)
        assert play(msgspec.structs.replace(history, settings=settings)).breach is None


@pytest.mark.rule("sharding:B12")
def test_one_seed_gives_one_story_whatever_was_played_before() -> None:
    first = play(generate(1)).story
    play(generate(2))
    again = History.from_json(generate(1).to_json())
    assert play(again).story == first
