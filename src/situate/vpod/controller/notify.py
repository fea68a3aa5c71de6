"""Report the work of vpod: Events on the objects concerned, metrics and log lines. This module decides nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram

from situate.kube.events import NORMAL, WARNING, RecordEvent
from situate.objects.kinds.events import ObjectReference
from situate.objects.values.counts import format_count
from situate.vpod.controller.state_metrics import StateGauges
from situate.vpod.model.options import Options
from situate.vpod.model.records import DrainGoal
from situate.vpod.model.vpod import Key, Placements
from situate.vpod.placement.decide import Decision, MoveCause
from situate.vpod.placement.placement_change import PlacementChange, placements_text
from situate.vpod.placement.shortage import missing_statefulset_message
from situate.vpod.scaling.autoscaler import RoundDecision
from situate.vpod.scaling.drain import Eviction
from situate.vpod.state.ordered_ready import BlockingPod
from situate.vpod.state.state import State

KNATIVE_LATENCY_MS: Final = (10.0, 100.0, 1000.0, 10000.0, 30000.0, 60000.0)
"""Bounds of `kn.eventing.schedule.latency`, in milliseconds."""
_LABELS: Final = ("statefulset",)


class VPodMetrics:
    """The metrics that all StatefulSets of the process share; the label is `namespace/name` of the set."""

    def __init__(self, registry: CollectorRegistry, stopwatch: Callable[[], float] = time.perf_counter) -> None:
        """Register the metrics. `stopwatch` returns seconds; a simulated loop's clock does not advance during a
        decision.
        """

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"situate_vpod_{name}", text, (*_LABELS, *labels), registry=registry)

        self.schedule_seconds = Histogram(
            "situate_vpod_schedule_seconds",
            "Time to decide for one vpod",
            _LABELS,
            registry=registry,
            buckets=(1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0),
        )
        self.moves = counter("moves", "Vreplicas that lost their place", "cause")
        self.evictions = counter("evictions", "Placements removed by the evictor")
        self.scale_writes = counter("scale_writes", "Writes of the scale", "direction")
        self.failed_beats = counter("failed_beats", "Failed rounds of the autoscaler")
        self.repairs = counter("state_repairs", "Times the state in memory differed from the cluster")
        self.knative_latency = Histogram(
            "kn_eventing_schedule_latency_milliseconds",
            "Time to schedule a vpod and write its placements, with Knative's metric name",
            _LABELS,
            registry=registry,
            buckets=KNATIVE_LATENCY_MS,
        )
        self.gauges = StateGauges()
        registry.register(self.gauges)
        self.stopwatch = stopwatch

    def initialize(self, name: str) -> None:
        """Show every counter of a StatefulSet as 0 from the start: a rate needs a sample before the first count."""
        for counter in (self.evictions, self.failed_beats, self.repairs):
            counter.labels(name)
        for direction in ("up", "down"):
            self.scale_writes.labels(name, direction)
        for cause in MoveCause:
            self.moves.labels(name, str(cause))


class Notifier:
    """The Events, metrics and log lines of one StatefulSet."""

    def __init__(self, options: Options, metrics: VPodMetrics, record: RecordEvent) -> None:
        self._name = options.statefulset
        self._metrics = metrics
        self._record = record
        self._short: dict[Key, str] = {}
        self._causes: dict[Key, set[MoveCause]] = {}  # of moves that are not in a status yet
        self._blocking: tuple[BlockingPod, float] | None = None
        self.blocked = ""
        """The reason why a Pod blocks the Pods above it, once that is reported; empty if no Pod does."""
        self._log = structlog.get_logger().bind(controller="vpod", statefulset=options.statefulset)
        self.stopwatch = metrics.stopwatch
        metrics.initialize(self._name)
        self._schedule_seconds = metrics.schedule_seconds.labels(self._name)
        self._knative_latency = metrics.knative_latency.labels(self._name)

    def set_state_source(self, state: Callable[[], State | None]) -> None:
        """Set the source of the gauges: `state` returns the present State, or None while this process does not lead."""
        self._metrics.gauges.set_state_source(self._name, state)

    def notify_decision(self, regarding: ObjectReference, decision: Decision, seconds: float) -> None:
        """Report that a vpod was scheduled. A shortage is reported when it begins or changes, and its end once.

        If the placements change as the shortage ends, only Event PlacementChanged reports the end.
        """
        self._schedule_seconds.observe(seconds)
        self.count_moves(decision.moves)
        if causes := [cause for cause, vreplicas in decision.moves.items() if vreplicas]:
            self._causes.setdefault(decision.key, set()).update(causes)
        for notice in decision.notices:
            self._record(regarding, WARNING, notice.reason, notice.message)
        message = str(decision.shortage) if decision.shortage is not None else ""
        before = self._short.get(decision.key, "")
        if decision.shortage is not None and message != before:
            self._short[decision.key] = message
            self._record(regarding, WARNING, decision.shortage.reason, message)
        elif before and not message:
            del self._short[decision.key]
            if not decision.changed:
                where = format_count(len(decision.placements), "pod")
                placed = format_count(decision.wanted, "vreplica is", "vreplicas are")
                self._record(regarding, NORMAL, "Scheduled", f"{placed} placed on {where}, and none is missing")

    def notify_placements(self, regarding: ObjectReference, before: Placements, decision: Decision, least: int) -> None:
        """Report that the status has other placements now. `least` is `minReplicas`."""
        causes = frozenset(self._causes.pop(decision.key, ()))
        change = PlacementChange(before, decision.placements, decision.wanted, least, causes)
        self._notify_placement_change(regarding, decision.key, change)

    def _notify_placement_change(self, regarding: ObjectReference, key: Key, change: PlacementChange) -> None:
        self._record(regarding, NORMAL, "PlacementChanged", str(change))
        before, after = placements_text(change.before) or "none", placements_text(change.after) or "none"
        self._log.info("placement changed", key=str(key), before=before, after=after, reason=change.reason)

    def count_moves(self, moves: Mapping[MoveCause, int]) -> None:
        """Count vreplicas that lost their place."""
        for cause, vreplicas in moves.items():
            self._metrics.moves.labels(self._name, str(cause)).inc(vreplicas)

    def observe_write_latency(self, milliseconds: float) -> None:
        """Observe the time from the start of the schedule until the placements were in the status."""
        self._knative_latency.observe(milliseconds)

    def forget(self, key: Key) -> None:
        """Forget a vpod that is gone."""
        self._short.pop(key, None)
        self._causes.pop(key, None)

    def notify_unserved(self, regarding: ObjectReference, key: Key, message: str) -> None:
        """Report that no scheduler serves this kind of source, after its status was updated."""
        self._record(regarding, WARNING, "NoSchedulerFound", message)
        self._log.warning("no scheduler for this kind of source", key=str(key), reason=message)

    def notify_drift(self, regarding: ObjectReference, decided: Placements) -> None:
        """Report that another client wrote placements, which count from now on."""
        ours = ", ".join(f"{placement.pod_name}: {placement.vreplicas}" for placement in decided) or "none"
        message = f"another client changed status.placements; vpod adopts this in place of its own placements ({ours})"
        self._record(regarding, WARNING, "PlacementDrift", message)

    def notify_replicas_reset(self, regarding: ObjectReference, before: int, after: int) -> None:
        """Report that another client lowered `spec.replicas`."""
        self._log.warning("spec.replicas lowered by another client", before=before, after=after)
        message = (
            f"another client lowered spec.replicas from {before} to {after}; vpod requests the scale again, and "
            "vreplicas on the missing pods stay placed for podGrace"
        )
        self._record(regarding, WARNING, "ReplicasReset", message)

    def notify_blocking_pod(
        self, regarding: ObjectReference, found: BlockingPod | None, now: float, grace: float
    ) -> None:
        """Report a Pod that prevents the creation of the Pods above it, once this has lasted for `grace` seconds."""
        if found is None or self._blocking is None or self._blocking[0].ordinal != found.ordinal:
            self._blocking = (found, now) if found is not None else None
            self.blocked = ""
        elif now >= self._blocking[1] + grace:
            if not self.blocked:
                self._record(regarding, WARNING, "OrdinalBlocks", str(found))
                self._log.warning("pod blocks the creation of the pods above it", pod=found.pod, reason=str(found))
            self.blocked = str(found)

    def notify_missing_statefulset(self) -> None:
        """Report a missing StatefulSet.

        The caller reports it once, until the StatefulSet has existed again. Rule D20.
        """
        namespace, _, name = self._name.partition("/")
        regarding = ObjectReference("apps/v1", "StatefulSet", namespace, name)
        self._record(regarding, WARNING, "StatefulSetMissing", missing_statefulset_message(self._name))
        self._log.warning(
            "StatefulSet does not exist, waiting for it",
            next_step="create the StatefulSet, or correct its name in the configuration",
        )

    def report_round(self, state: State, decided: RoundDecision, drain_before: DrainGoal | None) -> None:
        """Report the decision of one round of the autoscaler."""
        for notice in decided.notices:
            self._log.info("report of the autoscaler", reason=notice.reason, note=notice.message)
        if state.drain is not None and state.drain != drain_before:
            self._log.info("drain started", target=state.drain.target, replicas=state.replicas)
        self._metrics.gauges.set_needed_pods(self._name, decided.needed)

    def count_failed_round(self) -> None:
        self._metrics.failed_beats.labels(self._name).inc()

    def notify_scale(self, before: int, decided: RoundDecision) -> None:
        self._metrics.scale_writes.labels(self._name, "up" if decided.replicas > before else "down").inc()

    def count_eviction(self) -> None:
        self._metrics.evictions.labels(self._name).inc()

    def notify_eviction(self, regarding: ObjectReference, before: Placements, wanted: int, eviction: Eviction) -> None:
        """Report that the evictor removed a placement from the status."""
        pod = eviction.placement.pod_name
        after = tuple(each for each in before if each.pod_name != pod)
        self._notify_placement_change(regarding, eviction.key, PlacementChange(before, after, wanted, 0, evicted=pod))

    def log_repair(self, differences: list[str]) -> None:
        """Report that the state differed from the listings and was replaced."""
        self._metrics.repairs.labels(self._name).inc()
        self._log.error("state differed from the cluster, replaced", differences=differences[:20])
