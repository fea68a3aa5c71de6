"""Random interleavings of the events of vm's ledger on a few nodes: every invariant after every step, rest in the end.

Only `situate.vm.step` is played here, with a cluster that is a few dictionaries: what the processes make of it is in
`test_histories_of_the_process`. I6 and I9 are partly beyond the ledger: who is frozen is the stand-in's to end, and
pods of ignored namespaces are left out before it; of I9, what it does itself is looked at. More: `make soak-vm`.
"""

from __future__ import annotations

import pytest

from situate.testing.vm.ledger import PRODUCT, LedgerHistory, generate, play
from tests import histories

BLOCK = 250
"""So many show every fault and every kind of action."""
BLOCKS = 4
"""Workers of xdist share them."""


@pytest.mark.slow
@pytest.mark.rule(*(f"vm:I{number}" for number in (1, 2, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14)))
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
    "vm:F7",
    "vm:F8",
    "vm:F9",
    "vm:F10",
    "vm:F11",
    "vm:F12",
)
@pytest.mark.parametrize(
    "first", [0, *(pytest.param(first, marks=pytest.mark.verify) for first in range(BLOCK, BLOCKS * BLOCK, BLOCK))]
)
def test_whatever_happens_in_whatever_order_every_invariant_holds(first: int) -> None:
    """A failure prints a replayable history, shortened: `python -m situate.testing.vm.ledger replay FILE`."""
    assert PRODUCT.missing(histories.played(PRODUCT, range(first, first + BLOCK))) == []


def test_an_interleaving_can_be_written_down_and_read_again() -> None:
    history = generate(5)
    assert LedgerHistory.from_json(history.to_json()) == history
    assert play(history).happened == play(LedgerHistory.from_json(history.to_json())).happened
