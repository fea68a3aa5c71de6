"""What one reconciliation comes to: a result, or one of three kinds of failure.

*The world failed* is `Retriable` or `Terminal`, raised where it is known and handled in
`situate.runtime.reconcile.reconciler` alone; *we are wrong* is `BrokenInvariant`. Anything else that is raised is
unexpected and tried again with back-off.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """The work is done as far as it can be now."""

    requeue_after: float | None = None
    """Seconds until the key wants to be seen again without any event; None if only an event calls for it."""


DONE = Result()


class Retriable(Exception):
    """Trying again may help; the message says what was attempted, on which object."""

    def __init__(self, message: str, after_s: float | None = None) -> None:
        """`after_s`: when; None for the key's own growing back-off."""
        super().__init__(message)
        self.after_s = after_s


class Terminal(Exception):
    """Trying again helps only after somebody has changed something: the key rests until its next event."""


class BrokenInvariant(Exception):
    """We are wrong: going on could do damage, so the process stops with this story."""
