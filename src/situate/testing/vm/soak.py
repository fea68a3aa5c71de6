"""`python -m situate.testing.vm.soak`: interleavings one after the other; a commit's next run goes on where one ended.

The invariants of vm ask for 10^5 of them: `--histories 100000`.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from typing import Annotated, ClassVar

import msgspec
import typer

from situate.testing.soaking import PROGRESS_S, Totals, present_commit
from situate.testing.vm.interleaving import Interleaving, Violation

LENGTH = 120
"""Happenings of one history, before it settles."""


class InterleavingTotals(Totals):
    PREFIX: ClassVar[str] = "vm-interleavings-"

    happened: dict[str, int] = msgspec.field(default_factory=dict)


def main(
    histories: Annotated[int, typer.Option(help="So many of them.")] = 10_000,
    minutes: Annotated[float, typer.Option(help="No longer than this; 0: as long as it takes.")] = 0.0,
) -> None:
    """Ends with 1 at the first invariant that does not hold, and prints its seed and the end of its story."""
    totals = InterleavingTotals.load(present_commit())
    began = told = time.monotonic()
    first = totals.next_seed
    happened = Counter(totals.happened)
    for seed in range(first, first + histories):
        history = Interleaving(seed)
        try:
            history.play(LENGTH)
        except Violation as violation:
            print(violation, file=sys.stderr)
            raise typer.Exit(1) from None
        happened += history.happened
        totals.played(seed)
        now = time.monotonic()
        if now - told >= PROGRESS_S:
            told = now
            print(f"{seed + 1 - first} of {histories} interleavings: every invariant held", flush=True)
        if minutes and now - began >= 60 * minutes:
            break
    totals.happened = dict(happened)
    totals.save()
    print(f"{totals.next_seed} interleavings of {totals.commit}: every invariant held; {dict(happened)}")


if __name__ == "__main__":
    typer.run(main)
