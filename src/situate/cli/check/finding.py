"""One line of the output of `situate check`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check."""

    check: str
    ok: bool
    next_step: str = ""
    """Empty if the check passed."""
