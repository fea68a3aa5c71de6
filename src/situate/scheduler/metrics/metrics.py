"""kube-scheduler's metrics under its own names, labels and buckets (upstream pkg/scheduler/metrics/metrics.go)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from situate.framework.engine.engine import Engine
from situate.scheduler.metrics.scrape_collector import Evaluations, ScrapeCollector

SCHEDULED: Final = "scheduled"
UNSCHEDULABLE: Final = "unschedulable"
ERROR: Final = "error"
_MOST_ATTEMPTS: Final = 15
"""The highest number in the label of attempts, as upstream."""


def _doubling_buckets(first: float, count: int) -> tuple[float, ...]:
    return tuple(first * 2.0**power for power in range(count))


class SchedulerMetrics:
    """The scheduler metrics of one process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        seconds = _doubling_buckets(0.001, 15)
        self._attempts = Counter(
            "scheduler_schedule_attempts",
            "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, "
            "while 'error' means an internal scheduler problem.",
            ("result", "profile"),
            registry=registry,
        )
        self._attempt_seconds = Histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Scheduling attempt latency in seconds (scheduling algorithm + binding)",
            ("result", "profile"),
            buckets=seconds,
            registry=registry,
        )
        self._algorithm_seconds = Histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Scheduling algorithm latency in seconds",
            buckets=seconds,
            registry=registry,
        )
        self._tries = Histogram(
            "scheduler_pod_scheduling_attempts",
            "Number of attempts to successfully schedule a pod.",
            buckets=_doubling_buckets(1, 5),
            registry=registry,
        )
        self._sli_seconds = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might "
            "involve multiple scheduling attempts.",
            ("attempts",),
            buckets=_doubling_buckets(0.01, 20),
            registry=registry,
        )
        self._preemptions = Counter(
            "scheduler_preemption_attempts", "Total preemption attempts in the cluster till now", registry=registry
        )
        self._victims = Histogram(
            "scheduler_preemption_victims",
            "Number of selected preemption victims",
            buckets=_doubling_buckets(1, 7),
            registry=registry,
        )
        self._permit_seconds = Histogram(
            "scheduler_permit_wait_duration_seconds",
            "Duration of waiting on permit.",
            ("result",),
            buckets=seconds,
            registry=registry,
        )
        self._after_flush = Counter(
            "scheduler_pod_scheduled_after_flush",
            "Number of pods that were successfully scheduled after being flushed from unschedulablePods due to "
            "timeout. This metric helps detect potential queueing hint misconfigurations or event handling issues.",
            registry=registry,
        )
        self._point_seconds = Histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Latency for running all plugins of a specific extension point.",
            ("extension_point", "status", "profile"),
            buckets=_doubling_buckets(0.0001, 12),
            registry=registry,
        )
        self._plugin_seconds = Histogram(
            "scheduler_plugin_execution_duration_seconds",
            "Duration for running a plugin at a specific extension point.",
            ("plugin", "extension_point", "status"),
            buckets=tuple(0.00001 * 1.5**power for power in range(20)),
            registry=registry,
        )
        self._refused_objects = Gauge(
            "situate_scheduler_refused_objects",
            "Existing objects with fields that the scheduler cannot use, by resource.",
            ("resource",),
            registry=registry,
        )
        self._profiles: dict[str, _ProfileMetrics] = {}
        self._points: _Children = {}
        self._plugins: _Children = {}
        self._scrape_collector = ScrapeCollector()
        registry.register(self._scrape_collector)

    def add_engine(self, engine: Callable[[], Engine | None]) -> None:
        """Show the queue and cache of an engine, added to other engines; None while this process does not lead."""
        self._scrape_collector.engines.append(engine)

    def record_decision(self, seconds: float) -> None:
        """Record the end of a scheduling cycle."""
        self._algorithm_seconds.observe(seconds)

    def record_attempt(self, profile: str, result: str, seconds: float) -> None:
        """Record the end of an attempt: with its cycle, or with its binding."""
        children = self._profiles.get(profile)
        if children is None:
            children = self._profiles[profile] = _ProfileMetrics(profile, self._attempts, self._attempt_seconds)
        children.attempts[result].inc()
        children.seconds[result].observe(seconds)

    def record_binding(self, attempts: int, seconds: float, *, flushed: bool) -> None:
        """Record a binding, `seconds` after the pod was first seen; `flushed`: it was retried without an event."""
        if flushed:
            self._after_flush.inc()
        self._tries.observe(attempts)
        self._sli_seconds.labels(str(attempts) if attempts < _MOST_ATTEMPTS else f"{_MOST_ATTEMPTS}+").observe(seconds)

    def evaluations(self, plugin: str, point: str, profile: str) -> Evaluations:
        """Return the counter of a plugin's evaluations, which the caller increments."""
        return self._scrape_collector.evaluations.setdefault((plugin, point, profile), Evaluations())

    def record_plugin_call(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """Record one call of a plugin in a sampled cycle; `status` is a status code, as upstream."""
        _observe(self._plugin_seconds, self._plugins, (plugin, point, status), seconds)

    def record_extension_point(self, point: str, status: str, profile: str, seconds: float) -> None:
        """Record that an extension point has run, or that its requested actions are done."""
        _observe(self._point_seconds, self._points, (point, status, profile), seconds)

    def record_victims(self, victims: int) -> None:
        """Record the number of victims that a preemption selected."""
        self._victims.observe(victims)

    def record_preemption_attempt(self) -> None:
        """Record an attempt to preempt for a pod that fits no node."""
        self._preemptions.inc()

    def record_permit_wait(self, result: str, seconds: float) -> None:
        """Record the end of a Permit wait; `result` is a status code, as upstream."""
        self._permit_seconds.labels(result).observe(seconds)

    def set_refused_objects(self, resource: str, count: int) -> None:
        """Set the number of objects of a resource that cannot be used now."""
        self._refused_objects.labels(resource).set(count)


class _ProfileMetrics:
    """The label children of one profile, looked up once."""

    def __init__(self, profile: str, attempts: Counter, seconds: Histogram) -> None:
        results = (SCHEDULED, UNSCHEDULABLE, ERROR)
        self.attempts = {result: attempts.labels(result, profile) for result in results}
        self.seconds = {result: seconds.labels(result, profile) for result in results}


_Children: TypeAlias = dict[tuple[str, str, str], Histogram]
"""Label children, looked up once."""


def _observe(histogram: Histogram, children: _Children, labels: tuple[str, str, str], seconds: float) -> None:
    child = children.get(labels)
    if child is None:
        child = children[labels] = histogram.labels(*labels)
    child.observe(seconds)
