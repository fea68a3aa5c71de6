"""Statistics over the runs of one policy: each figure with its distribution, and readiness over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from statistics import fmean
from typing import Any, Final

from situate.sim.spot.results.account import RunResult, ServiceOutcome

_FIGURES: Final = ("outage_s", "half_s", "pod_s_short", "least_ready")


@dataclass(frozen=True, slots=True)
class Distribution:
    """Distribution of one figure over the runs. Percentiles are nearest-rank."""

    mean: float
    least: float
    p5: float
    p50: float
    p95: float
    most: float

    @classmethod
    def from_values(cls, values: Iterable[float]) -> Distribution:
        ranked = sorted(values)
        p5, p50, p95 = (ranked[max(0, ceil(share * len(ranked)) - 1)] for share in (0.05, 0.5, 0.95))
        return cls(fmean(ranked), ranked[0], p5, p50, p95, ranked[-1])


@dataclass(frozen=True, slots=True)
class Service:
    """Service figures of one workload, or of all together."""

    outage_s: Distribution
    """Seconds without a serving pod."""
    half_s: Distribution
    """Seconds with at most half of the replicas serving."""
    pod_s_short: Distribution
    least_ready: Distribution

    @classmethod
    def from_outcomes(cls, outcomes: Sequence[ServiceOutcome]) -> Service:
        return cls(*(Distribution.from_values(getattr(each, name) for each in outcomes) for name in _FIGURES))


@dataclass(frozen=True, slots=True)
class Band:
    """One figure over time: percentiles of the runs at each moment."""

    low: Sequence[int]
    middle: Sequence[int]
    high: Sequence[int]

    @classmethod
    def from_runs(cls, runs: Sequence[Sequence[int]]) -> Band:
        moments = [sorted(each) for each in zip(*runs, strict=True)]
        last = len(runs) - 1
        low, middle, high = ([moment[round(share * last)] for moment in moments] for share in (0.05, 0.5, 0.95))
        return cls(low, middle, high)


@dataclass(frozen=True, slots=True)
class PolicyReport:
    """The report of one policy."""

    policy: str
    runs: int
    cost: Distribution
    """Cost as a share of the cost of all replicas on demand."""
    restarts: Distribution
    """Number of pods that ended for other causes than scaling or a rollout."""
    together: Service
    """Sums of seconds over the workloads, and the minimum of all their serving pods."""
    workloads: Mapping[str, Service]
    endings: Mapping[str, float]
    """Mean number of ended pods per run, by cause."""
    times: Sequence[float]
    """Sample times of the bands, in seconds."""
    ready: Band
    on_demand: Band

    def as_data(self) -> dict[str, Any]:
        """Return plain data for JSON and YAML."""
        return {
            "policy": self.policy,
            "runs": self.runs,
            "cost": asdict(self.cost),
            "restarts": asdict(self.restarts),
            **_service_data(self.together),
            "workloads": {name: _service_data(each) for name, each in self.workloads.items()},
            "endings": dict(self.endings),
            "series": {"time": list(self.times), "ready": asdict(self.ready), "onDemand": asdict(self.on_demand)},
        }


def build_report(policy: str, played: Sequence[RunResult], samples: Sequence[float]) -> PolicyReport:
    """Build the report of a policy from at least one run."""
    endings: Counter[str] = Counter()
    for run in played:
        endings.update({str(cause): count for cause, count in run.endings.items()})
    return PolicyReport(
        policy,
        len(played),
        Distribution.from_values(run.cost for run in played),
        Distribution.from_values(run.restarts for run in played),
        Service.from_outcomes([run.together for run in played]),
        {name: Service.from_outcomes([run.outcomes[name] for run in played]) for name in played[0].outcomes},
        {cause: count / len(played) for cause, count in sorted(endings.items())},
        samples,
        Band.from_runs([run.ready for run in played]),
        Band.from_runs([run.on_demand for run in played]),
    )


def _service_data(service: Service) -> dict[str, Any]:
    return {
        "outageSeconds": asdict(service.outage_s),
        "halfSeconds": asdict(service.half_s),
        "podSecondsShort": asdict(service.pod_s_short),
        "leastReady": asdict(service.least_ready),
    }
