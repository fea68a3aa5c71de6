"""Tells what vpod does: Events on the objects concerned, metrics, log lines. Decides nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Histogram

from situate.kube.events import NORMAL, WARNING
from situate.objects.kinds.events import ObjectReference
from situate.objects.values.counts import counted
from situate.vpod.controller.state_metrics import StateGauges
from situate.vpod.model.options import Options
from situate.vpod.model.records import DrainGoal
from situate.vpod.model.vpod import Key, Placements
from situate.vpod.placement.decide import Decision, MoveCause
from situate.vpod.placement.placement_change import PlacementChange, listed
from situate.vpod.placement.shortage import missing_statefulset
from situate.vpod.scaling.autoscaler import Beat
from situate.vpod.scaling.drain import Eviction
from situate.vpod.state.ordered_ready import Blocked
from situate.vpod.state.state import State

KNATIVE_LATENCY_MS: Final = (10.0, 100.0, 1000.0, 10000.0, 30000.0, 60000.0)
"""Bounds of `kn.eventing.schedule.latency`."""
_LABELS: Final = ("statefulset",)

Record = Callable[[ObjectReference, str, str, str], None]
"""Writes an Event: object, `Normal` or `Warning`, reason, message. Never blocks and never raises."""


class VPodMetrics:
    """Shared by every StatefulSet of the process; the label is `namespace/name` of the set."""

    def __init__(self, registry: CollectorRegistry, stopwatch: Callable[[], float] = time.perf_counter) -> None:
        """`stopwatch`: seconds, finer than a clock of the loop, which stands still while something is decided."""

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
        self.evictions = counter("evictions", "Placements taken away by the evictor")
        self.scale_writes = counter("scale_writes", "Writes of the scale", "direction")
        self.failed_beats = counter("failed_beats", "Beats of the autoscaler that failed")
        self.repairs = counter("state_repairs", "Times the kept state differed from the rebuilt one")
        self.knative_latency = Histogram(
            "kn_eventing_schedule_latency_milliseconds",
            "Time to schedule a vpod and write its placements, under Knative's name",
            _LABELS,
            registry=registry,
            buckets=KNATIVE_LATENCY_MS,
        )
        self.gauges = StateGauges()
        registry.register(self.gauges)
        self.stopwatch = stopwatch

    def begin(self, name: str) -> None:
        """Shows every counter of a StatefulSet as 0 from the start: a rate needs a sample before the first count."""
        for counter in (self.evictions, self.failed_beats, self.repairs):
            counter.labels(name)
        for direction in ("up", "down"):
            self.scale_writes.labels(name, direction)
        for cause in MoveCause:
            self.moves.labels(name, str(cause))


class Reporter:
    """One StatefulSet's voice."""

    def __init__(self, options: Options, metrics: VPodMetrics, record: Record) -> None:
        self._name = options.statefulset
        self._metrics = metrics
        self._record = record
        self._short: dict[Key, str] = {}
        self._causes: dict[Key, set[MoveCause]] = {}  # of moves that no status says yet
        self._blocking: tuple[Blocked, float] | None = None
        self.blocked = ""
        """Why no pod above a certain one is created, once that has been told."""
        self._log = structlog.get_logger().bind(controller="vpod", statefulset=options.statefulset)
        self.stopwatch = metrics.stopwatch
        metrics.begin(self._name)
        self._schedule_seconds = metrics.schedule_seconds.labels(self._name)
        self._knative_latency = metrics.knative_latency.labels(self._name)

    def follow(self, state: Callable[[], State | None]) -> None:
        """Whose numbers a scrape shows: `state` gives the present one, None while this process does not lead."""
        self._metrics.gauges.follow(self._name, state)

    def decided(self, regarding: ObjectReference, decision: Decision, seconds: float) -> None:
        """A vpod was scheduled. A shortage is told when it begins or changes, and its end once.

        Where the end comes with another placement, that tells it.
        """
        self._schedule_seconds.observe(seconds)
        self.moved(decision.moves)
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
                where = counted(len(decision.placements), "pod")
                placed = counted(decision.wanted, "vreplica is", "vreplicas are")
                self._record(regarding, NORMAL, "Scheduled", f"{placed} placed on {where}: all that are wanted")

    def placed(self, regarding: ObjectReference, before: Placements, decision: Decision, least: int) -> None:
        """The status says another placement now; `least`: `minReplicas`."""
        causes = frozenset(self._causes.pop(decision.key, ()))
        change = PlacementChange(before, decision.placements, decision.wanted, least, causes)
        self._placement_changed(regarding, decision.key, change)

    def _placement_changed(self, regarding: ObjectReference, key: Key, change: PlacementChange) -> None:
        self._record(regarding, NORMAL, "PlacementChanged", str(change))
        before, after = listed(change.before) or "none", listed(change.after) or "none"
        self._log.info("the placement is changed", key=str(key), before=before, after=after, reason=change.reason)

    def moved(self, moves: Mapping[MoveCause, int]) -> None:
        """Vreplicas lost their place."""
        for cause, vreplicas in moves.items():
            self._metrics.moves.labels(self._name, str(cause)).inc(vreplicas)

    def written(self, milliseconds: float) -> None:
        """Placements are in the status, so long after the schedule began."""
        self._knative_latency.observe(milliseconds)

    def forget(self, key: Key) -> None:
        """The vpod is gone."""
        self._short.pop(key, None)
        self._causes.pop(key, None)

    def nobodys(self, regarding: ObjectReference, key: Key, message: str) -> None:
        """Nobody schedules this kind of source, and its status says so now."""
        self._record(regarding, WARNING, "NoSchedulerFound", message)
        self._log.warning("nobody schedules this kind of source", key=str(key), reason=message)

    def drifted(self, regarding: ObjectReference, decided: Placements) -> None:
        """Somebody else wrote placements; they count from now on."""
        ours = ", ".join(f"{placement.pod_name}: {placement.vreplicas}" for placement in decided) or "none"
        message = f"status.placements was changed by someone else and is adopted; ours were: {ours}"
        self._record(regarding, WARNING, "PlacementDrift", message)

    def replicas_reset(self, regarding: ObjectReference, before: int, after: int) -> None:
        """Somebody else lowered spec.replicas."""
        self._log.warning("spec.replicas was lowered by someone else", before=before, after=after)
        message = (
            f"spec.replicas was lowered from {before} to {after} by someone else; vreplicas on the missing pods "
            "stay placed for podGrace while the scale is asked for again"
        )
        self._record(regarding, WARNING, "ReplicasReset", message)

    def blocking(self, regarding: ObjectReference, found: Blocked | None, now: float, grace: float) -> None:
        """A pod keeps those above it from being created. Told once it has done so for `grace` seconds."""
        if found is None or self._blocking is None or self._blocking[0].ordinal != found.ordinal:
            self._blocking = (found, now) if found is not None else None
            self.blocked = ""
        elif now >= self._blocking[1] + grace:
            if not self.blocked:
                self._record(regarding, WARNING, "OrdinalBlocks", str(found))
                self._log.warning("a pod keeps those above it from being created", pod=found.pod, reason=str(found))
            self.blocked = str(found)

    def statefulset_missing(self) -> None:
        """Told once, until it has existed again (D20)."""
        namespace, _, name = self._name.partition("/")
        regarding = ObjectReference("apps/v1", "StatefulSet", namespace, name)
        self._record(regarding, WARNING, "StatefulSetMissing", missing_statefulset(self._name))
        self._log.warning("the StatefulSet does not exist; waiting for it", next_step="create it, or correct the name")

    def beat(self, state: State, decided: Beat, drain_before: DrainGoal | None) -> None:
        """One beat of the autoscaler has decided."""
        for notice in decided.notices:
            self._log.info("the autoscaler reports", reason=notice.reason, note=notice.message)
        if state.drain is not None and state.drain != drain_before:
            self._log.info("pods are emptied to be cut", target=state.drain.target, replicas=state.replicas)
        self._metrics.gauges.needed(self._name, decided.needed)

    def beat_failed(self) -> None:
        self._metrics.failed_beats.labels(self._name).inc()

    def scaled(self, before: int, decided: Beat) -> None:
        self._metrics.scale_writes.labels(self._name, "up" if decided.replicas > before else "down").inc()

    def evicted(self) -> None:
        self._metrics.evictions.labels(self._name).inc()

    def left(self, regarding: ObjectReference, before: Placements, wanted: int, eviction: Eviction) -> None:
        """The evictor has taken a placement out of the status."""
        pod = eviction.placement.pod_name
        after = tuple(each for each in before if each.pod_name != pod)
        self._placement_changed(regarding, eviction.key, PlacementChange(before, after, wanted, 0, evicted=pod))

    def repaired(self, differences: list[str]) -> None:
        """The state was not what the listings say; it is now."""
        self._metrics.repairs.labels(self._name).inc()
        self._log.error("the kept state differed from the rebuilt one and was replaced", differences=differences[:20])
