"""The results of one reconciliation: success, or one of three kinds of failure.

A failure of the cluster or network is `Retriable` or `Terminal`. The code that detects it raises it, and only
`situate.runtime.reconcile.reconciler` handles it. A defect of this program is `BrokenInvariant`. All other exceptions
are unexpected, and the key is retried with back-off.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """The work is done as far as possible now."""

    requeue_after: float | None = None
    """Seconds until the key is reconciled again without an event; None if only an event triggers it."""


DONE = Result()


class Retriable(Exception):
    """A retry may succeed; the message names the attempt and the object."""

    def __init__(self, message: str, after_s: float | None = None) -> None:
        """`after_s`: the delay; None for the key's own growing back-off."""
        super().__init__(message)
        self.after_s = after_s


class Terminal(Exception):
    """A retry succeeds only after a change: the key waits for its next event."""


class BrokenInvariant(Exception):
    """A defect of this program: continuing could do damage, so the process stops with this message."""
