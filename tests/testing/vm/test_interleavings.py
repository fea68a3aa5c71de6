"""Random interleavings of the events of vm's ledger on a few nodes: every invariant after every step, rest in the end.

Only `situate.vm.ledger.step` is played here, with a cluster that is a few dictionaries: what the processes make of it
is in `test_histories_of_the_process`. I6 and I9 are partly beyond the ledger: who is frozen is the stand-in's to end,
and pods of ignored namespaces are left out before it; of I9, what it does itself is looked at. More: `make soak-vm`.
"""

from __future__ import annotations

import pytest

from situate.testing.vm.ledger import PRODUCT, VmLedgerHistory, generate, play
from tests import histories

BLOCK = 238
"""Enough for every fault and every kind of action."""


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
@histories.in_blocks(BLOCK)
def test_whatever_happens_in_whatever_order_every_invariant_holds(seeds: range) -> None:
    """A failure prints a replayable history, shortened: `python -m situate.testing.vm.ledger replay FILE`."""
    happened = histories.played(PRODUCT, seeds)
    assert histories.absent(PRODUCT, happened, seeds) == []


def test_an_interleaving_can_be_written_down_and_read_again() -> None:
    history = generate(5)
    assert VmLedgerHistory.from_json(history.to_json()) == history
    assert play(history).happened == play(VmLedgerHistory.from_json(history.to_json())).happened
