"""How many histories of a product the tests play: 50 seeds in `make test`, 950 others in `make verify`.

The seeds are fixed, which keeps a rare find from stopping somebody else's change. `make soak` goes on to new ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TypeVar

import pytest

from situate.testing.histories.play import AnyHistory, Product

H = TypeVar("H", bound=AnyHistory)

MANY = 1000
FEW = 50
"""The last seeds, in `make test`: enough for every row of each product's fault table."""
BLOCK = 100
"""Enough for every name in it. A block runs in one worker of xdist."""


def in_blocks(size: int = BLOCK, many: int = MANY) -> pytest.MarkDecorator:
    """Parametrize a test by `seeds`: the last 50 in `make test`, the others in blocks of `size` in `make verify`.

    The last block also has what is left over, and is played first. The ids: `few`, or the first seed of a block.
    """
    starts = range(0, many - FEW - size + 1, size)
    ends = [*starts[1:], many - FEW]
    blocks = [
        pytest.param(range(first, end), id=f"{first}", marks=pytest.mark.verify)
        for first, end in zip(starts, ends, strict=True)
    ]
    few = pytest.param(range(many - FEW, many), id="few")
    return pytest.mark.parametrize("seeds", [few, *reversed(blocks)])


seeds = in_blocks()


def played(product: Product[H], seeds: Iterable[int]) -> Counter[str]:
    """Play the histories of some seeds and count what happened; fail at the first that does not hold, shortened."""
    happened: Counter[str] = Counter()
    for seed in seeds:
        history = product.generate(seed)
        outcome = product.play(history)
        happened.update(outcome.happened)
        if outcome.breach is not None:
            short = product.shorten(history, most_tries=60)
            last = "\n".join(outcome.last_records)
            pytest.fail(f"seed {seed}: {outcome.breach}\n{last}\nshortened:\n{short.to_json().decode()}")
    print(*product.fault_table(happened), sep="\n")
    return happened


def absent(product: Product[H], happened: Counter[str], seeds: range, *, rare: Iterable[str] = ()) -> list[str]:
    """What did not happen though it should: names of the fault table in a whole block, rows of it in 50 seeds."""
    if len(seeds) == FEW:
        return product.empty_rows(happened)
    return [name for name in product.missing_names(happened) if name not in rare]
