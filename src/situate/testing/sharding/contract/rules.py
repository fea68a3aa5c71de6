"""The rules for an executor on the wire: one line each, in the order of the tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RULES: Final[dict[str, str]] = {
    "lease": "holds a Lease of its own, named, labelled and annotated as supervisors look for it",
    "status": "reports a readable status in the annotation of its Lease",
    "renewal": "renews the Lease at least once in every renew deadline",
    "claim": "begins with an object that is assigned to its id and its UID",
    "others": "works on nothing else: another UID's, another executor's, or completed",
    "ack": "asked to drain, stops and releases: unassigned, the epoch as it is, no drain request",
    "revoke": "stops within the cancel grace when the assignment is taken away, and writes no more",
    "late": "a write that arrives after its assignment has ended is refused",
    "complete": "completes with both terminal marks, and writes nothing after that",
    "loss": "without a renewal it stops by itself before the Lease has run out",
    "forgone": "does not continue the work that it held when it lost the Lease, under the same epoch",
    "sigterm": "at SIGTERM releases its objects and then its Lease, and ends",
    "fenced": "every write of its own that landed is one that the policy admits",
}
"""The rules by name."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result for one rule."""

    rule: str
    kept: bool
    said: str = ""
    """The observed behaviour if the rule is broken. Empty if it is kept."""

    def __str__(self) -> str:
        verdict = "kept  " if self.kept else "BROKEN"
        return f"{verdict} {self.rule:9} {RULES[self.rule]}" + (f"\n       {self.said}" if self.said else "")


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations in seconds, all passed to the executor, in the proportions of the defaults (15, 4, 10, 4)."""

    lease_s: float = 15.0

    @property
    def renew_s(self) -> float:
        return self.lease_s / 6

    @property
    def renew_deadline_s(self) -> float:
        return self.lease_s * 2 / 3

    @property
    def cancel_grace_s(self) -> float:
        return self.lease_s * 4 / 15

    def environment(self) -> dict[str, str]:
        """Return the environment of the executor's process. Durations have the form of the options of `situate`."""
        return {
            "SITUATE_LEASE_DURATION": f"{self.lease_s:g}s",
            "SITUATE_RENEW_INTERVAL": f"{self.renew_s:g}s",
            "SITUATE_RENEW_DEADLINE": f"{self.renew_deadline_s:g}s",
            "SITUATE_CANCEL_GRACE": f"{self.cancel_grace_s:g}s",
        }
