"""The rules for an executor on the wire: one line each, in the order of the tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

RULES: Final[dict[str, str]] = {
    "lease": "holds its own Lease, with the name, labels and annotations that supervisors expect",
    "status": "reports a readable status in the annotation of its Lease",
    "renewal": "renews the Lease at least once in every renew deadline",
    "claim": "starts an object that is assigned to its id and its UID",
    "others": "starts no other object: of another UID or executor, or completed",
    "ack": "stops and releases on a drain request: unassigned, same epoch, no drain request",
    "revoke": "stops within the cancel grace when the assignment is revoked, and writes nothing later",
    "late": "has every write refused that arrives after the end of its assignment",
    "complete": "completes with both terminal marks, and writes nothing later",
    "loss": "stops by itself before the Lease expires without a renewal",
    "forgone": "does not continue objects under the epoch in which it lost its Lease",
    "sigterm": "releases its objects, then its Lease, and ends at SIGTERM",
    "fenced": "makes only writes that the fencing policy admits",
}
"""The rules by name."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result for one rule."""

    rule: str
    satisfied: bool
    message: str = ""
    """The observed behaviour if the rule is broken. Empty if it is kept."""

    def __str__(self) -> str:
        verdict = "kept  " if self.satisfied else "BROKEN"
        return f"{verdict} {self.rule:9} {RULES[self.rule]}" + (f"\n       {self.message}" if self.message else "")


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
