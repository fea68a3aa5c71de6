"""Random histories on a few nodes: every invariant after every step (I1 to I14), and rest in the end."""

from __future__ import annotations

from collections import Counter

import pytest

from situate.testing.vm.interleaving import Interleaving

SEEDS = 120
EACH = 40
"""In one test: enough that everything happens in each."""
LENGTH = 120


@pytest.mark.rule(*(f"vm:I{number}" for number in (1, 2, 3, 4, 5, 7, 8, 10, 11, 12, 13, 14)))
@pytest.mark.rule(
    "vm:B3",
    "vm:B7",
    "vm:B14",
    "vm:B22",
    "vm:B27",
    "vm:F1",
    "vm:F2",
    "vm:F3",
    "vm:F5",
    "vm:F6",
    "vm:F8",
    "vm:F9",
    "vm:F10",
    "vm:F11",
)
@pytest.mark.parametrize("first", range(0, SEEDS, EACH))
def test_whatever_happens_in_whatever_order_every_invariant_holds(first: int) -> None:
    """What is broken is printed with its seed: `Interleaving(seed).play(120)` plays it again."""
    happened: Counter[str] = Counter()
    for seed in range(first, first + EACH):
        history = Interleaving(seed)
        history.play(LENGTH)
        happened += history.happened
    rare = {kind for kind in ("Approve", "StartMove", "CancelMove", "HandOver", "granted") if not happened[kind]}
    assert not rare, happened
