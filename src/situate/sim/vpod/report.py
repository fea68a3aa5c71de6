"""The result of a simulation: the cost, moves and shortage of a variant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from situate.sim.vpod.ledger import Ledger, Series, Shortage
from situate.sim.vpod.loop import ActionCounts
from situate.sim.vpod.scenario import Variant, VPodScenario

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class VariantReport:
    """The report of one variant."""

    variant: str
    wanted_hours: float
    """Wanted vreplica-hours."""
    pod_hours: float
    node_hours: float
    """Hours of nodes while they had a pod of the set."""
    cost: float
    utilisation: float
    """Share of the pods' capacity that placements used."""
    moves: Mapping[str, int]
    """Vreplicas that lost their place, by cause."""
    short_seconds: float
    """Vreplica-seconds that were wanted and did not run."""
    unplaced_seconds: float
    """The part of them without a place. The rest waited for its pod."""
    longest: Shortage | None
    scale_ups: int
    scale_downs: int
    status_writes: int
    peak_pods: int
    mean_pods: float
    skew: float
    """Maximum minus minimum vreplicas of a source on a running pod: mean over sources and samples."""
    most_skewed: int
    zone_share: float
    """Share of a source in its fullest zone: mean over sources and samples."""
    series: Series

    @property
    def all_moves(self) -> int:
        return sum(self.moves.values())

    @property
    def available_share(self) -> float:
        """Return the share of the demand that ran."""
        return 1 - self.short_seconds / _HOUR_S / self.wanted_hours if self.wanted_hours else 1.0

    def as_data(self) -> dict[str, Any]:
        """Return plain data for programs: camel case, with seconds and hours as the names say."""
        longest = self.longest
        return {
            "variant": self.variant,
            "wantedHours": round(self.wanted_hours, 3),
            "podHours": round(self.pod_hours, 3),
            "nodeHours": round(self.node_hours, 3),
            "cost": round(self.cost, 2),
            "utilisation": round(self.utilisation, 4),
            "moves": {"total": self.all_moves, **dict(sorted(self.moves.items()))},
            "shortSeconds": round(self.short_seconds, 3),
            "unplacedSeconds": round(self.unplaced_seconds, 3),
            "available": round(self.available_share, 6),
            "longestShortage": None
            if longest is None
            else {"source": str(longest.key), "since": round(longest.since, 3), "seconds": round(longest.seconds, 3)},
            "scaleUps": self.scale_ups,
            "scaleDowns": self.scale_downs,
            "statusWrites": self.status_writes,
            "peakPods": self.peak_pods,
            "meanPods": round(self.mean_pods, 2),
            "skew": round(self.skew, 3),
            "mostSkewed": self.most_skewed,
            "zoneShare": round(self.zone_share, 4),
            "series": {name: getattr(self.series, name) for name in Series.__dataclass_fields__},
        }


def build_report(variant: Variant, scenario: VPodScenario, ledger: Ledger, deeds: ActionCounts) -> VariantReport:
    """Build the report of a whole run."""
    cluster, duration = scenario.settings.cluster, scenario.settings.duration
    pod_hours, node_hours = ledger.pods / _HOUR_S, ledger.nodes / _HOUR_S
    return VariantReport(
        variant=variant.name,
        wanted_hours=ledger.wanted / _HOUR_S,
        pod_hours=pod_hours,
        node_hours=node_hours,
        cost=pod_hours * cluster.pod_price_per_hour + node_hours * cluster.node_price_per_hour,
        utilisation=ledger.units / ledger.room if ledger.room else 0.0,
        moves=dict(deeds.moves),
        short_seconds=ledger.short,
        unplaced_seconds=ledger.unplaced,
        longest=ledger.longest,
        scale_ups=deeds.scale_ups,
        scale_downs=deeds.scale_downs,
        status_writes=deeds.status_writes,
        peak_pods=ledger.peak_pods,
        mean_pods=ledger.pods / duration,
        skew=_mean(ledger.skew),
        most_skewed=ledger.most_skewed,
        zone_share=_mean(ledger.zone_share),
        series=ledger.series,
    )


def time_text(seconds: float) -> str:
    """Format seconds for people: `45s`, `22m23s`, `2h40m`."""
    whole = round(seconds)
    parts = ((whole // 3600, "h"), (whole % 3600 // 60, "m"), (whole % 60, "s"))
    return "".join(f"{amount}{unit}" for amount, unit in parts if amount) or "0"


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
