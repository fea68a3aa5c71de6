"""Metrics of queue and cache, read at each scrape, under kube-scheduler's names."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from situate.framework.engine.engine import Engine
from situate.framework.queue.queued_pod import QueueState

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True, eq=False)
class Evaluations:
    """How often a plugin was evaluated at an extension point, without skipped calls."""

    count: int = 0


class ScrapeCollector(Collector):
    """Metrics read at each scrape."""

    def __init__(self) -> None:
        self.engines: list[Callable[[], Engine | None]] = []
        """One function for each scheduler of the process; their pods are added up."""
        self.evaluations: dict[tuple[str, str, str], Evaluations] = {}
        """By plugin, extension point and profile; since the process began."""

    def collect(self) -> Iterator[Metric]:
        engines = [engine for each in self.engines if (engine := each()) is not None]
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
        events = GaugeMetricFamily(
            "scheduler_inflight_events",
            "Number of events currently tracked in the scheduling queue.",
            labels=("event",),
        )
        asked = CounterMetricFamily(
            "scheduler_plugin_evaluation",
            "Number of attempts to schedule pods by each plugin and the extension point (available only in PreFilter, "
            "Filter, PreScore, and Score).",
            labels=("plugin", "extension_point", "profile"),
        )
        for labels, evaluations in self.evaluations.items():
            asked.add_metric(labels, evaluations.count)
        if engines:
            for queue, count in _sum_counts(each.queue.counts() for each in engines).items():
                pending.add_metric((queue,), count)
            for where, count in _sum_counts(each.queue.incoming for each in engines).items():
                incoming.add_metric(where, count)
            for (plugin, profile), count in _sum_counts(_rejections(each) for each in engines).items():
                reasons.add_metric((plugin, profile), count)
            # schedulers of one process see the same cluster
            size.add_metric(("nodes",), max(len(each.cache.nodes) for each in engines))
            size.add_metric(("pods",), max(len(each.cache) for each in engines))
            size.add_metric(("assumed_pods",), sum(each.queue.being_bound + len(each.permits) for each in engines))
            for event, count in _sum_counts(each.queue.events_in_flight() for each in engines).items():
                events.add_metric((event,), count)
        yield from (pending, incoming, reasons, size, events, asked)


def _sum_counts(counts: Iterable[Mapping[K, int]]) -> dict[K, int]:
    total: dict[K, int] = {}
    for each in counts:
        for key, count in each.items():
            total[key] = total.get(key, 0) + count
    return total


_WAITING_STATES: Final = (QueueState.ACTIVE, QueueState.BACKOFF, QueueState.UNSCHEDULABLE)


def _rejections(engine: Engine) -> dict[tuple[str, str], int]:
    """Count the rejecting plugins of pods that wait, in any part of the queue, until their next cycle begins."""
    found: dict[tuple[str, str], int] = {}
    for pod in engine.queue:
        if pod.place in _WAITING_STATES:
            for plugin in pod.rejectors | pod.pending | ({pod.gate} if pod.gate else set()):
                key = plugin, pod.info.pod.spec.scheduler_name
                found[key] = found.get(key, 0) + 1
    return found
