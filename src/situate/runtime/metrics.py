"""The metrics of a process, on its own registry, with names that begin with `situate_`.

Labels come from closed sets (controllers, resources, Leases of the configuration, enum values), never from names of
objects. Queues, reflectors and the event recorder keep plain totals, which a scrape reads; none of them knows
Prometheus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from situate.kube.election.election import ElectionChange, ElectionEvent
from situate.kube.events import EventRecorder
from situate.kube.watch.reflector import Reflector, WatchOutcome
from situate.runtime.reconcile.reconciler import Attempt
from situate.runtime.reconcile.workqueue import WorkQueue

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
SECONDS: Final = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0)


class _MergingRegistry(CollectorRegistry):
    """A registry that shows each name once, even if several instances of a product each have a collector."""

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for family in super().collect():
            first = families.setdefault(family.name, family)
            if first is not family:
                first.samples.extend(family.samples)
        return iter(families.values())


class Metrics:
    """All metrics of one process. Its `observe_…` methods are the observers of queues, elections and watches."""

    def __init__(self) -> None:
        self.registry: CollectorRegistry = _MergingRegistry(auto_describe=False)
        """Products register their own metrics here."""
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._totals = _Totals()
        self.registry.register(self._totals)
        self._reconciliations = Counter(
            "situate_reconciliations",
            "Attempts to reconcile a key, by verdict.",
            ("controller", "verdict"),
            registry=self.registry,
        )
        self._durations = Histogram(
            "situate_reconciliation_duration_seconds",
            "Duration of one attempt to reconcile a key, in seconds.",
            ("controller",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self._elections = Counter(
            "situate_election_changes",
            "Changes in leader elections, by kind.",
            ("lease", "change"),
            registry=self.registry,
        )
        self._leading = Gauge(
            "situate_leading", "1 while this process is the leader, else 0.", ("lease",), registry=self.registry
        )
        self._connections = Counter(
            "situate_watch_connections",
            "Watch connections that ended, by outcome.",
            ("resource", "outcome"),
            registry=self.registry,
        )
        self._reloads = Counter(
            "situate_configuration_reloads",
            "Changes of the configuration file, by outcome.",
            ("outcome",),
            registry=self.registry,
        )
        self._reload_rejected = Gauge(
            "situate_configuration_rejected",
            "1 while the current content of the configuration file is rejected, else 0.",
            registry=self.registry,
        )

    def render(self) -> bytes:
        """Return the text of a scrape, with content type `CONTENT_TYPE`."""
        return generate_latest(self.registry)

    def observe_attempts(self, controller: str) -> Callable[[Attempt[Any]], None]:
        """Return an observer for `Reconciler(observe=…)`."""

        def observe(attempt: Attempt[Any]) -> None:
            self._reconciliations.labels(controller, attempt.verdict.value).inc()
            self._durations.labels(controller).observe(attempt.seconds)

        return observe

    def observe_election(self, news: ElectionEvent) -> None:
        """Observe an election, for `Elector(observe=…)`."""
        lease = str(news.lease)
        self._elections.labels(lease, news.change.value).inc()
        if news.change is not ElectionChange.FAILED:
            leads = news.change in (ElectionChange.ACQUIRED, ElectionChange.RENEWED)
            self._leading.labels(lease).set(1 if leads else 0)

    def observe_watch(self, resource: str) -> Callable[[WatchOutcome], None]:
        """Return an observer for `Reflector(observe=…)`."""
        return lambda outcome: self._connections.labels(resource, outcome.value).inc()

    def observe_reload(self, *, accepted: bool) -> None:
        """Count a change of the configuration file."""
        self._reloads.labels("accepted" if accepted else "rejected").inc()
        self._reload_rejected.set(0 if accepted else 1)

    def add_queue(self, name: str, queue: WorkQueue[Any]) -> None:
        """Show a work queue's totals."""
        self._totals.queues[name] = queue

    def add_reflector(self, reflector: Reflector[Any]) -> None:
        """Show the state of a reflector's store; several reflectors of one resource are summed."""
        self._totals.reflectors.append(reflector)

    def add_events(self, recorder: EventRecorder) -> None:
        """Show the counts of recorded Events."""
        self._totals.recorder = recorder


class _Totals(Collector):
    """Totals of other parts, read at each scrape."""

    def __init__(self) -> None:
        self.queues: dict[str, WorkQueue[Any]] = {}
        self.reflectors: list[Reflector[Any]] = []
        self.recorder: EventRecorder | None = None

    def collect(self) -> Iterator[Metric]:
        yield from self._queue_metrics()
        yield from self._reflector_metrics()
        if self.recorder is not None:
            counts = self.recorder.counts
            events = CounterMetricFamily("situate_events", "Kubernetes Events, by outcome.", labels=("fate",))
            events.add_metric(("recorded",), counts.recorded)
            events.add_metric(("written",), counts.written)
            events.add_metric(("dropped_full",), counts.dropped_full)
            events.add_metric(("dropped_refused",), counts.dropped_refused)
            events.add_metric(("dropped_failed",), counts.dropped_failed)
            yield events

    def _queue_metrics(self) -> Iterator[Metric]:
        keys = GaugeMetricFamily(
            "situate_workqueue_keys", "Keys in the work queue, by state.", labels=("queue", "state")
        )
        oldest = GaugeMetricFamily(
            "situate_workqueue_oldest_wait_seconds",
            "How long the oldest queued key has waited, in seconds.",
            labels=("queue",),
        )
        added = CounterMetricFamily("situate_workqueue_added", "Keys added to the work queue.", labels=("queue",))
        retries = CounterMetricFamily("situate_workqueue_retries", "Retries of failed keys.", labels=("queue",))
        waited = CounterMetricFamily(
            "situate_workqueue_waited_seconds",
            "Total time that keys waited in the work queue, in seconds.",
            labels=("queue",),
        )
        handed_out = CounterMetricFamily(
            "situate_workqueue_handed_out", "Keys passed from the work queue to workers.", labels=("queue",)
        )
        for name, queue in self.queues.items():
            now = queue.statistics()
            for state in ("queued", "processing", "delayed", "failing"):
                keys.add_metric((name, state), getattr(now, state))
            oldest.add_metric((name,), now.oldest_wait_s)
            added.add_metric((name,), now.added_total)
            retries.add_metric((name,), now.retries_total)
            waited.add_metric((name,), now.waited_total_s)
            handed_out.add_metric((name,), now.handed_out_total)
        yield from (keys, oldest, added, retries, waited, handed_out)

    def _reflector_metrics(self) -> Iterator[Metric]:
        gauges: dict[str, dict[str, float]] = {"objects": {}, "unreadable": {}, "interrupted": {}}
        counters: dict[str, dict[str, float]] = {"events": {}, "bookmarks": {}, "listings": {}, "stale": {}}
        failures: dict[str, float] = {}
        for each in self.reflectors:
            resource = each.scope.resource.group_resource
            _add(gauges["objects"], resource, len(each.store))
            _add(gauges["unreadable"], resource, len(each.malformed))
            _add(gauges["interrupted"], resource, 0 if each.problem is None else 1)
            for name in counters:
                _add(counters[name], resource, getattr(each.counts, name))
            _add(failures, resource, each.store.handler_failures)
        help_of = {
            "objects": "Objects in the local store of the watch.",
            "unreadable": "Existing objects that cannot be decoded.",
            "interrupted": "Interrupted watches with objects that may be out of date.",
            "events": "Changes received.",
            "bookmarks": "Bookmarks received.",
            "listings": "Complete listings received.",
            "stale": "Received changes that were older than the known state.",
        }
        for name, values in gauges.items():
            yield _family(GaugeMetricFamily(f"situate_watch_{name}", help_of[name], labels=("resource",)), values)
        for name, values in counters.items():
            yield _family(CounterMetricFamily(f"situate_watch_{name}", help_of[name], labels=("resource",)), values)
        handler_failures = CounterMetricFamily(
            "situate_watch_handler_failures", "Exceptions raised by handlers of changes.", labels=("resource",)
        )
        yield _family(handler_failures, failures)


def _add(values: dict[str, float], resource: str, amount: float) -> None:
    values[resource] = values.get(resource, 0) + amount


def _family(family: Any, values: dict[str, float]) -> Metric:
    for resource, value in values.items():
        family.add_metric((resource,), value)
    made: Metric = family
    return made
