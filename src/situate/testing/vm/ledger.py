"""Run `python -m situate.testing.vm.ledger`: random interleavings of the events of vm's ledger alone.

An interleaving is fifty times as fast as a history of the processes. So 10^5 of them are played: `soak --histories
100000`.
"""

from __future__ import annotations

from random import Random
from typing import Final

from situate.testing.histories.play import HistoryResult, Product, command_line
from situate.testing.histories.steps import StoredHistory
from situate.testing.virtual_time.isolation import disable_collector
from situate.testing.vm.interleavings.events import InterleavingStep, draw_step
from situate.testing.vm.interleavings.interleaving import Interleaving
from situate.testing.vm.interleavings.ledger_run import Violation

LENGTH: Final = 120
"""Number of steps before the interleaving settles."""
FAULTS: Final[dict[str, tuple[str, ...]]] = {
    "F1 write lost, applied but not answered, refused, late": (
        "write lost",
        "write unknown",
        "write refused",
        "write late",
    ),
    "F2 watch delayed, repeated": ("told", "told twice"),
    "F3 kill between any two events": ("restart",),
    "F5 agents repeat": ("ask again",),
    "F6 target refused, cordoned": ("refuse a target", "cordon a node"),
    "F7 migration fails": ("fail a migration",),
    "F8 node lost": ("lose a node",),
    "F9 pod deleted": ("delete a pod",),
    "F10 another scheduler binds": ("bound by others",),
    "F11 node resized": ("resize a node",),
    "F12 migrations deleted and made by hand": ("delete a migration", "migrate by hand"),
    "N9 target bound to the node that it is to leave": ("target bound at home",),
    "B48 machines evicted": ("evict a machine",),
    "what is done": (
        "Approve",
        "StartMove",
        "CancelMove",
        "HandOver",
        "EndMove",
        "NoteMoved",
        "Retarget",
        "ShrinkClaim",
        "granted",
        "failed",
        "link of a chain",
    ),
}
"""Faults that can affect a ledger. The histories of the processes play the others."""


class VmLedgerHistory(StoredHistory, frozen=True):
    """A history that can be replayed."""

    steps: tuple[InterleavingStep, ...]


def generate(seed: int, length: int = LENGTH) -> VmLedgerHistory:
    """Generate the history of a seed."""
    rng = Random(f"ledger {seed}")
    return VmLedgerHistory(seed, tuple(draw_step(rng) for _ in range(length)))


def play(history: VmLedgerHistory) -> HistoryResult:
    """Play a history. Equal histories run equally."""
    interleaving, played = Interleaving(history.seed), HistoryResult()
    course = interleaving.run
    with disable_collector():
        try:
            interleaving.play(history.steps)
        except Violation as violation:
            played.breach = str(violation)
            played.last_records = course.story_lines()[-40:]
    played.at_step = course.at_step
    played.happened.update(course.happened)
    played.writes = sum(course.happened[f"write {outcome}"] for outcome in ("ok", "unknown"))
    played.virtual_s = course.now
    return played


PRODUCT: Final = Product("situate.testing.vm.ledger", generate, VmLedgerHistory.from_json, play, FAULTS, "vm-ledger-")
app = command_line(PRODUCT)

if __name__ == "__main__":
    app()
