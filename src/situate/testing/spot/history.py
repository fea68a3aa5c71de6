"""A history of spot: what the processes are set to, and what happens, drawn from a seed or read from a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from situate.testing.spot.steps import AnyStep
from situate.testing.spot.world.initial_objects import FURTHER, WORKLOADS, WorkloadPlan


class Settings(msgspec.Struct, frozen=True, rename="camel"):
    """What the processes are configured with, as far as histories vary it."""

    degrade: bool = False
    """On-demand pods without room run on spot after a while (B18)."""
    make_before_break: bool = True
    short_certificates: bool = False
    """They are renewed every forty seconds."""
    events: bool = False
    """Kubernetes' controllers tell of refused creations; half of the time they are simply not heard."""
    strict: Literal["", "webhook", "policy"] = ""
    """Pods wait behind our gate until the leader has classed them (P7), and who sets it; empty: none does."""
    windows: bool = False
    """Policy moves pods in the first five of every ten minutes alone (B13)."""
    further: bool = False
    """Workloads of further kinds beside (B42)."""

    @property
    def workloads(self) -> Sequence[WorkloadPlan]:
        """That it begins with; steps name them by their number."""
        return FURTHER if self.further else WORKLOADS

    def names(self) -> list[str]:
        """What is not as usual, for counting."""
        found = {
            "degrade": self.degrade,
            "no make-before-break": not self.make_before_break,
            "short certificates": self.short_certificates,
            "events": self.events,
            "strict by webhook": self.strict == "webhook",
            "strict by policy": self.strict == "policy",
            "windows": self.windows,
            "further kinds": self.further,
        }
        return [name for name, is_so in found.items() if is_so]


class History(msgspec.Struct, frozen=True, rename="camel"):
    """A replayable run."""

    seed: int
    settings: Settings
    steps: tuple[AnyStep, ...]

    def to_json(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=1)

    @classmethod
    def from_json(cls, data: bytes) -> History:
        """Raises `msgspec.ValidationError` for anything that `to_json` did not write."""
        return msgspec.json.decode(data, type=cls)
