"""Describe a change of a source's placements: before, after and the reason, for the Event and for the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from situate.objects.values.counts import format_count
from situate.vpod.model.vpod import Placements, total_vreplicas
from situate.vpod.placement.decide import MoveCause

_MOST_PODS: Final = 8
"""The number of Pods that a message lists; a source may be on hundreds."""
_CAUSES: Final[Mapping[MoveCause, str]] = {
    MoveCause.LOSS: "a pod lost its vreplicas",
    MoveCause.DRAIN: "vpod drains pods for a scale-down",
    MoveCause.REBALANCE: "vpod rebalances the source",
    MoveCause.OVERCOMMIT: "a pod was above its capacity",
}


@dataclass(frozen=True, slots=True)
class PlacementChange:
    """The placements in a status before and after a change."""

    before: Placements
    after: Placements
    wanted: int
    least: int
    """`minReplicas`."""
    causes: frozenset[MoveCause] = frozenset()
    """The causes of the moves in this change."""
    evicted: str = ""
    """The Pod whose vreplicas the evictor removed; empty without an eviction."""

    @property
    def reason(self) -> str:
        """The reasons for the change, separated by semicolons."""
        reasons = [f"vpod evicted the placement on pod {self.evicted}"] if self.evicted else []
        reasons += [_CAUSES[cause] for cause in MoveCause if cause in self.causes]
        held, holds = total_vreplicas(self.before), total_vreplicas(self.after)
        if not self.evicted and held != holds:
            if self.wanted <= holds < held <= self.least:
                reasons.append("spare copies free capacity for other sources")
            elif holds > self.wanted:
                reasons.append(f"{self.wanted} wanted, {holds - self.wanted} spare for minReplicas")
            else:
                reasons.append(f"{self.wanted} wanted")
        return "; ".join(reasons) or "vpod corrected status.placements"

    def __str__(self) -> str:
        """Describe the change: `8 vreplicas (web-0: 4, web-1: 4) became 12 (web-0: 6, web-1: 6): 12 wanted`."""
        held, holds = total_vreplicas(self.before), total_vreplicas(self.after)
        before, after = (f" ({placements_text(each)})" if each else "" for each in (self.before, self.after))
        return f"{format_count(held, 'vreplica')}{before} became {holds}{after}: {self.reason}"


def placements_text(placements: Placements) -> str:
    """List placements as `web-0: 4, web-1: 4`; after the first ones, the rest is summed up."""
    text = ", ".join(f"{each.pod_name[:253]}: {each.vreplicas}" for each in placements[:_MOST_PODS])
    rest = placements[_MOST_PODS:]
    return f"{text} and {format_count(len(rest), 'more pod')}: {total_vreplicas(rest)}" if rest else text
