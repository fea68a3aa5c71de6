"""A history of spot: the configuration of the processes, and the steps, drawn from a seed or read from a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from situate.testing.histories.steps import StoredHistory
from situate.testing.spot.steps import AnyStep
from situate.testing.spot.world.initial_objects import FURTHER_WORKLOADS, WORKLOADS, WorkloadPlan


class SpotHistorySettings(msgspec.Struct, frozen=True, rename="camel"):
    """Configuration of the processes, as far as histories vary it."""

    degrade: bool = False
    """Whether on-demand pods without capacity run on spot nodes after a while (B18)."""
    make_before_break: bool = True
    short_certificates: bool = False
    """Whether certificates are renewed every forty seconds."""
    events: bool = False
    """Whether Kubernetes' controllers record refused creations as Events (P21). Half of the seeds record none."""
    strict: Literal["", "webhook", "policy"] = ""
    """How spot's gate is set, behind which pods wait until the leader classes them (P7). Empty: no gate."""
    windows: bool = False
    """Whether policy moves pods only in the first five of every ten minutes (B13)."""
    further: bool = False
    """Whether there are also workloads of further kinds (B42)."""

    @property
    def workloads(self) -> Sequence[WorkloadPlan]:
        """Return the workloads at the start. Steps name them by their number."""
        return FURTHER_WORKLOADS if self.further else WORKLOADS

    def changed_names(self) -> list[str]:
        """Return the names of the settings that differ from the defaults, for counting."""
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


class SpotHistory(StoredHistory, frozen=True):
    """A history that can be replayed."""

    settings: SpotHistorySettings
    steps: tuple[AnyStep, ...]
