"""What a scrape shows of workloads and moves while this process leads (B34). A standby shows none of it.

Numbers of workloads are read off the last decision when somebody scrapes; only what adds up over time is counted as it
happens. So many workloads are shown by name; the others are added up as one.
"""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from situate.spot.actions import Move, Reason
from situate.spot.controller.attempting import Attempt, Outcome
from situate.spot.costs import cost_report
from situate.spot.decide import Decision, Phase, Situation
from situate.spot.evictions import Workload
from situate.spot.headroom import WaveRoom
from situate.spot.model import Capacity

MOST_WORKLOADS: Final = 1000
"""That are shown by name."""
_OTHERS: Final = ("", "", "others")
_LONGEST_S: Final = 60.0
"""Between two decisions; what lies further apart was no time of leading."""
_WORKLOAD: Final = ("kind", "namespace", "name")
_CLASSES: Final = (str(Capacity.ON_DEMAND), str(Capacity.SPOT), "unclassified")


@dataclass(frozen=True, slots=True)
class Observed:
    """The last decision, and what it was made on."""

    decision: Decision
    situation: Situation
    at: float
    missing: int
    """On-demand pods that are lacking, over all workloads."""

    @property
    def workloads(self) -> list[Workload]:
        """Those that take part."""
        cluster, reports = self.situation.cluster, self.decision.reports
        return [
            Workload(cluster.owners[uid], reports[uid].asked, cluster.pods.get(uid, ()))
            for uid in _managed(self.decision)
            if uid in cluster.owners
        ]


class MoveMetrics(Collector):
    """`observed` and `attempted` are told of what happens, `ended` of the end of a term."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.last: Observed | None = None
        """None while this process does not lead, and before its first decision."""
        self._room: WaveRoom | None = None
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
            "situate_spot_deficit_seconds", "On-demand pods that were lacking, times seconds", registry=registry
        )
        self.unclassified = Counter(
            "situate_spot_unclassified", "Pods of workloads that take part and have no class", registry=registry
        )
        for reason in Reason:
            self.evictions.labels(str(reason))
        for outcome in Outcome:
            if outcome is not Outcome.DONE:
                self.refused.labels(str(outcome))
        registry.register(self)

    def observed(self, decision: Decision, situation: Situation, now: float) -> None:
        """After each decision; `now` in seconds of any clock."""
        last = self.last
        if last is not None:
            self.deficit_seconds.inc(last.missing * min(_LONGEST_S, max(0.0, now - last.at)))
        managed = _managed(decision)
        missing = sum(max(0, decision.reports[uid].need) for uid in managed)
        without = frozenset(
            pod.uid
            for uid in managed
            for pod in situation.cluster.pods.get(uid, ())
            if pod.pod_class is None and pod.live and not pod.gated
        )
        self.unclassified.inc(len(without - self._unclassified))
        self._unclassified = without
        self.last = Observed(decision, situation, now, missing)

    def attempted(self, attempt: Attempt) -> None:
        action = attempt.action
        if not isinstance(action, Move):
            return
        if attempt.outcome is not Outcome.DONE:
            self.refused.labels(str(attempt.outcome)).inc()
            return
        self.evictions.labels(str(action.reason)).inc()
        if action.reason is Reason.REPAIR:
            self.repairs.inc()

    def foreseen(self, room: WaveRoom) -> None:
        """What a wave would need."""
        self._room = room

    def ended(self) -> None:
        """This process leads no more."""
        self.last, self._unclassified, self._room = None, frozenset(), None

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Nothing: what is there depends on who leads."""
        return iter(())

    def collect(self) -> Iterator[GaugeMetricFamily]:
        last = self.last
        if last is None:
            return
        yield from _workload_gauges(last)
        yield _gauge("wave_active", "1 while nodes are ending", float(last.decision.wave))
        report = cost_report(last.workloads, last.situation.cluster.nodes, last.situation.prices)
        yield _gauge("saving_ratio", "Of the cost of all on demand, the part that is saved", report.saving)
        yield _gauge("saving_achievable_ratio", "The same with each target met exactly", report.achievable)
        if self._room is not None:
            yield _gauge("wave_displaced_pods", "Pods that the largest known wave would displace", self._room.displaced)
            yield _gauge("wave_missing_pods", "Of these, pods without room on demand", self._room.missing)


def _managed(decision: Decision) -> list[str]:
    return [uid for uid, report in decision.reports.items() if report.phase is not Phase.UNMANAGED]


def _workload_gauges(last: Observed) -> Iterator[GaugeMetricFamily]:
    """By name, in the order of namespace and name; the last ones together."""
    numbers: dict[str, Count[tuple[str, str, str]]] = {"target": Count(), "od_effective": Count()}
    pods: Count[tuple[str, str, str, str]] = Count()
    for position, workload in enumerate(last.workloads):
        owner = workload.owner
        labels = (owner.kind, owner.namespace, owner.name) if position < MOST_WORKLOADS else _OTHERS
        report = last.decision.reports[owner.uid]
        numbers["target"][labels] += report.target.on_demand
        numbers["od_effective"][labels] += report.on_demand
        for name in _CLASSES:
            pods[*labels, name] += 0
        for pod in workload.live:
            pods[*labels, str(pod.pod_class) if pod.pod_class is not None else "unclassified"] += 1
    texts = {"target": "Pods that have to be on demand", "od_effective": "Pods that effectively are"}
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
