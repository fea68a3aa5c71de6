"""kube-scheduler's metrics under its own names, labels and buckets (upstream pkg/scheduler/metrics/metrics.go)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from situate.framework.engine import Engine
from situate.framework.queue.waiting import Place

SCHEDULED: Final = "scheduled"
UNSCHEDULABLE: Final = "unschedulable"
ERROR: Final = "error"
_MOST_ATTEMPTS: Final = 15
"""The label of attempts ends here, as upstream's."""


def _doubling(first: float, count: int) -> tuple[float, ...]:
    return tuple(first * 2.0**power for power in range(count))


class SchedulerMetrics:
    """One for a process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        seconds = _doubling(0.001, 15)
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
            buckets=_doubling(1, 5),
            registry=registry,
        )
        self._sli_seconds = Histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might "
            "involve multiple scheduling attempts.",
            ("attempts",),
            buckets=_doubling(0.01, 20),
            registry=registry,
        )
        self._preemptions = Counter(
            "scheduler_preemption_attempts", "Total preemption attempts in the cluster till now", registry=registry
        )
        self._victims = Histogram(
            "scheduler_preemption_victims",
            "Number of selected preemption victims",
            buckets=_doubling(1, 7),
            registry=registry,
        )
        self._permit_seconds = Histogram(
            "scheduler_permit_wait_duration_seconds",
            "Duration of waiting on permit.",
            ("result",),
            buckets=seconds,
            registry=registry,
        )
        self._refused = Gauge(
            "situate_scheduler_refused_objects",
            "Objects that exist and whose fields cannot be acted on.",
            ("resource",),
            registry=registry,
        )
        self._profiles: dict[str, _ProfileMetrics] = {}
        self._now = _Now()
        registry.register(self._now)

    def show(self, engine: Callable[[], Engine | None]) -> None:
        """Whose queue and cache are shown; None while this process does not lead."""
        self._now.engine = engine

    def decided(self, seconds: float) -> None:
        """A scheduling cycle has ended."""
        self._algorithm_seconds.observe(seconds)

    def attempt(self, profile: str, result: str, seconds: float) -> None:
        """An attempt has ended: with its cycle, or with its binding."""
        children = self._profiles.get(profile)
        if children is None:
            children = self._profiles[profile] = _ProfileMetrics(profile, self._attempts, self._attempt_seconds)
        children.attempts[result].inc()
        children.seconds[result].observe(seconds)

    def bound(self, attempts: int, seconds: float) -> None:
        """A pod has got its node, so long after it was seen first."""
        self._tries.observe(attempts)
        self._sli_seconds.labels(str(attempts) if attempts < _MOST_ATTEMPTS else f"{_MOST_ATTEMPTS}+").observe(seconds)

    def preempted(self, victims: int) -> None:
        """Room is being made for a pod."""
        self._victims.observe(victims)

    def preemption_attempted(self) -> None:
        """A pod that fits nowhere has been looked at for whom it may push out."""
        self._preemptions.inc()

    def permit_ended(self, result: str, seconds: float) -> None:
        """A pod is held no longer; `result` is a status code, as upstream."""
        self._permit_seconds.labels(result).observe(seconds)

    def refused(self, resource: str, count: int) -> None:
        """So many objects of the resource cannot be acted on now."""
        self._refused.labels(resource).set(count)


class _ProfileMetrics:
    """The children of one profile, looked up once."""

    def __init__(self, profile: str, attempts: Counter, seconds: Histogram) -> None:
        results = (SCHEDULED, UNSCHEDULABLE, ERROR)
        self.attempts = {result: attempts.labels(result, profile) for result in results}
        self.seconds = {result: seconds.labels(result, profile) for result in results}


class _Now(Collector):
    """Read when somebody scrapes."""

    def __init__(self) -> None:
        self.engine: Callable[[], Engine | None] = lambda: None

    def collect(self) -> Iterator[Metric]:
        engine = self.engine()
        pending = GaugeMetricFamily(
            "scheduler_pending_pods",
            "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means "
            "number of pods in backoffQ; 'unschedulable' means number of pods in unschedulablePods that the scheduler "
            "attempted to schedule and failed; 'gated' is the number of unschedulable pods that the scheduler never "
            "attempted to schedule because they are gated.",
            labels=("queue",),
        )
        reasons = GaugeMetricFamily(
            "scheduler_unschedulable_pods",
            "The number of unschedulable pods broken down by plugin name. A pod will increment the gauge for all "
            "plugins that caused it to not schedule and so this metric have meaning only when broken down by plugin.",
            labels=("plugin", "profile"),
        )
        incoming = CounterMetricFamily(
            "scheduler_queue_incoming_pods",
            "Number of pods added to scheduling queues by event and queue type.",
            labels=("queue", "event"),
        )
        size = GaugeMetricFamily(
            "scheduler_cache_size",
            "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
            labels=("type",),
        )
        if engine is not None:
            for queue, count in engine.queue.counts().items():
                pending.add_metric((queue,), count)
            for where, count in engine.queue.incoming.items():
                incoming.add_metric(where, count)
            for (plugin, profile), count in _rejections(engine).items():
                reasons.add_metric((plugin, profile), count)
            size.add_metric(("nodes",), len(engine.cache.nodes))
            size.add_metric(("pods",), len(engine.cache))
        yield from (pending, incoming, reasons, size)


def _rejections(engine: Engine) -> dict[tuple[str, str], int]:
    found: dict[tuple[str, str], int] = {}
    for pod in engine.queue:
        if pod.place is Place.UNSCHEDULABLE:
            for plugin in pod.rejectors | pod.pending:
                key = plugin, pod.info.pod.spec.scheduler_name
                found[key] = found.get(key, 0) + 1
    return found
