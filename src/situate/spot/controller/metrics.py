"""Metrics of workloads and moves, exported by the leader only.

The figures are computed after each decision, one workload at a time and only after a change, because a scrape must not
delay admissions. The first `MOST_WORKLOADS` workloads have their own series; the others are summed into one. Rule: B34.
"""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from situate.spot.capacity.headroom import WaveCapacity
from situate.spot.controller.act.attempt import Attempt, AttemptOutcome
from situate.spot.model.actions import Move, Reason
from situate.spot.model.misplaced_pods import Workload
from situate.spot.model.pods_nodes_workloads import Capacity
from situate.spot.nodes.prices import Prices
from situate.spot.rebalance.decide import ClusterView, Decision, Phase, Report
from situate.spot.report.cost_report import WorkloadCost, discount_on, savings, workload_cost

MOST_WORKLOADS: Final = 1000
"""Workloads with their own series."""
_OTHERS: Final = ("", "", "others")
_LONGEST_S: Final = 60.0
"""Longest time counted between two decisions; a longer gap is not time as leader."""
_WORKLOAD: Final = ("kind", "namespace", "name")
_UNCLASSIFIED: Final = "unclassified"
_CLASSES: Final = (str(Capacity.ON_DEMAND), str(Capacity.SPOT), _UNCLASSIFIED)


@dataclass(frozen=True, slots=True)
class _WorkloadFigures:
    """Figures of one workload, valid while nothing about it changes."""

    report: Report
    prices: Prices
    """Prices used for the figures."""
    overall_discount: tuple[float, bool]
    """Discount on all spot nodes used for the figures, and whether it was looked up."""
    classes: Count[str]
    """Live pods."""
    unclassified: frozenset[str]
    """Uids of pods without a class that are not behind a gate."""
    cost: WorkloadCost


@dataclass(frozen=True, slots=True)
class LatestDecision:
    """The latest decision and its inputs."""

    decision: Decision
    view: ClusterView
    decided_at: float
    missing: int
    """Missing on-demand pods, over all workloads."""
    figures: Mapping[str, _WorkloadFigures]
    """By uid, for workloads that take part, in their order."""

    @property
    def workloads(self) -> list[Workload]:
        """Return the workloads that take part."""
        return [_workload_of(self.decision, self.view, uid) for uid in self.figures]


class MoveMetrics(Collector):
    """Metrics of moves: `observe_decision` and `count_attempt` record them, `clear` ends a term."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.last: LatestDecision | None = None
        """None while this process does not lead, and before its first decision."""
        self._wave_capacity: WaveCapacity | None = None
        self._unclassified: frozenset[str] = frozenset()
        self.evictions = Counter(
            "situate_spot_evictions", "Pods that were evicted, deleted or released", ("reason",), registry=registry
        )
        self.repairs = Counter(
            "situate_spot_repairs", "Pods moved because they were admitted without a class", registry=registry
        )
        self.refused = Counter(
            "situate_spot_moves_refused", "Moves that were not carried out", ("outcome",), registry=registry
        )
        self.deficit_seconds = Counter(
            "situate_spot_deficit_seconds", "Missing on-demand pods, times seconds", registry=registry
        )
        self.unclassified = Counter(
            "situate_spot_unclassified", "Pods of managed workloads without a class", registry=registry
        )
        for reason in Reason:
            self.evictions.labels(str(reason))
        for outcome in AttemptOutcome:
            if outcome is not AttemptOutcome.DONE:
                self.refused.labels(str(outcome))
        registry.register(self)

    def observe_decision(self, decision: Decision, situation: ClusterView, now: float) -> Generator[None, None, None]:
        """Compute the figures after a decision, in steps of one workload. `now`: seconds of any clock.

        Figures of workloads that the decision did not re-evaluate are reused.
        """
        last = self.last
        known = last.figures if last is not None else {}
        everywhere = discount_on(situation.cluster.nodes.values(), situation.prices)
        figures: dict[str, _WorkloadFigures] = {}
        for uid in _managed_workloads(decision):
            if uid not in situation.cluster.owners:
                continue
            before = known.get(uid)
            report = decision.reports[uid]
            same = before is not None and before.prices is situation.prices and before.overall_discount == everywhere
            if before is not None and same and before.report is report:
                figures[uid] = before
                continue
            figures[uid] = _compute_figures(_workload_of(decision, situation, uid), report, situation, everywhere)
            yield
        if last is not None:
            self.deficit_seconds.inc(last.missing * min(_LONGEST_S, max(0.0, now - last.decided_at)))
        without = frozenset().union(*(each.unclassified for each in figures.values()))
        self.unclassified.inc(len(without - self._unclassified))
        self._unclassified = without
        missing = sum(max(0, each.report.need) for each in figures.values())
        self.last = LatestDecision(decision, situation, now, missing, figures)

    def count_attempt(self, attempt: Attempt) -> None:
        action = attempt.action
        if not isinstance(action, Move):
            return
        if attempt.outcome is not AttemptOutcome.DONE:
            self.refused.labels(str(attempt.outcome)).inc()
            return
        self.evictions.labels(str(action.reason)).inc()
        if action.reason is Reason.REPAIR:
            self.repairs.inc()

    def set_wave_capacity(self, room: WaveCapacity) -> None:
        """Record the on-demand capacity for the largest wave."""
        self._wave_capacity = room

    def clear(self) -> None:
        """Remove the figures after the end of a term."""
        self.last, self._unclassified, self._wave_capacity = None, frozenset(), None

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Describe nothing: the metrics depend on leadership."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        last = self.last
        if last is None:
            return
        yield from _workload_gauges(last)
        yield _gauge("wave_active", "1 while nodes are ending", float(last.decision.wave))
        saving, achievable = savings(each.cost for each in last.figures.values())
        yield _gauge("saving_ratio", "Saved part of the cost of all pods on demand", saving)
        yield _gauge("saving_achievable_ratio", "Saved part of the cost if each target were met exactly", achievable)
        if self._wave_capacity is not None:
            yield _gauge(
                "wave_displaced_pods", "Pods that the largest known wave would displace", self._wave_capacity.displaced
            )
            yield _gauge(
                "wave_missing_pods", "Displaced pods without free on-demand capacity", self._wave_capacity.missing
            )


def _managed_workloads(decision: Decision) -> list[str]:
    return [uid for uid, report in decision.reports.items() if report.phase is not Phase.UNMANAGED]


def _workload_of(decision: Decision, situation: ClusterView, uid: str) -> Workload:
    cluster = situation.cluster
    return Workload(cluster.owners[uid], decision.reports[uid].effective_target, cluster.pods.get(uid, ()))


def _compute_figures(
    workload: Workload, report: Report, situation: ClusterView, everywhere: tuple[float, bool]
) -> _WorkloadFigures:
    live, prices = workload.live_pods, situation.prices
    return _WorkloadFigures(
        report,
        prices,
        everywhere,
        Count(str(pod.pod_class) if pod.pod_class is not None else _UNCLASSIFIED for pod in live),
        frozenset(pod.uid for pod in live if pod.pod_class is None and not pod.gated),
        workload_cost(workload, situation.cluster.nodes, prices, everywhere),
    )


def _workload_gauges(last: LatestDecision) -> Iterator[GaugeMetricFamily]:
    """Yield gauges per workload, in the order of namespace and name; the last workloads are summed."""
    numbers: dict[str, Count[tuple[str, str, str]]] = {"target": Count(), "od_effective": Count()}
    pods: Count[tuple[str, str, str, str]] = Count()
    for position, figures in enumerate(last.figures.values()):
        owner, report = figures.cost.owner, figures.report
        labels = (owner.kind, owner.namespace, owner.name) if position < MOST_WORKLOADS else _OTHERS
        numbers["target"][labels] += report.target.on_demand
        numbers["od_effective"][labels] += report.on_demand
        for name in _CLASSES:
            pods[*labels, name] += figures.classes[name]
    texts = {"target": "Pods that must be on demand", "od_effective": "Pods that count as on demand"}
    for name, by_workload in numbers.items():
        family = GaugeMetricFamily(f"situate_spot_{name}", texts[name], labels=_WORKLOAD)
        for labels, number in by_workload.items():
            family.add_metric(labels, number)
        yield family
    family = GaugeMetricFamily("situate_spot_pods", "Live pods by class", labels=(*_WORKLOAD, "class"))
    for key, number in pods.items():
        family.add_metric(key, number)
    yield family


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"situate_spot_{name}", text, value=value)
