"""Metrics of the ledger and its writes, under vm's own names, with `compat` also under upstream's (C32).

A scrape reads the values of nodes from the ledger. A process that does not lead shows none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from situate.vm.ledger.ledger import Ledger
from situate.vm.model.pods_and_nodes import Node
from situate.vm.model.resource_amounts import RESOURCES, Amounts
from situate.vm.model.state import LedgerState

METRIC_PREFIX: Final = "situate_vm_"
NEON_METRIC_PREFIX: Final = "autoscaling_plugin_"
_FIELDS: Final[tuple[tuple[str, Callable[[Node, LedgerState], Amounts]], ...]] = (
    ("Total", lambda node, _: node.total),
    ("Watermark", lambda node, _: node.watermark),
    ("Reserved", lambda node, _: node.reserved),
    ("Committed", lambda node, _: node.committed),
    ("Migrating", lambda node, _: node.migrating),
)
_OWN_FIELDS: Final[tuple[tuple[str, Callable[[Node, LedgerState], Amounts]], ...]] = (
    *_FIELDS,
    ("Held", lambda node, state: state.held_for_others(node.name, "")),
    ("Incoming", lambda node, state: state.incoming_amount(node.name, "")),
)
_SHORT: Final = ("cpu", "mem")


class VmMetrics:
    """Counters of one process. `set_ledger` sets the ledger to show."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        compat: bool,
        node_labels: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`node_labels`: labels on metrics of nodes, and the labels of nodes that give the values (C31)."""
        self._prefixes = (METRIC_PREFIX, NEON_METRIC_PREFIX) if compat else (METRIC_PREFIX,)
        self._ops = [
            Counter(
                f"{prefix}k8s_ops",
                "Writes to the API server, by operation, kind and outcome.",
                ("op", "kind", "outcome"),
                registry=registry,
            )
            for prefix in self._prefixes
        ]
        self._waits = [
            Histogram(
                f"{prefix}reconcile_queue_wait_durations",
                "Seconds that a write waited in the queue.",
                registry=registry,
            )
            for prefix in self._prefixes
        ]
        self._durations = [
            Histogram(f"{prefix}reconcile_duration_seconds", "Seconds that a write took.", registry=registry)
            for prefix in self._prefixes
        ]
        self._events = Counter(
            f"{METRIC_PREFIX}events", "Recorded decisions, by reason of their Event.", ("reason",), registry=registry
        )
        self._actions = Counter(f"{METRIC_PREFIX}actions", "Decided actions, by kind.", ("kind",), registry=registry)
        self._collector = _LedgerCollector(self._prefixes, node_labels)
        registry.register(self._collector)

    def set_ledger(self, ledger: Ledger, leads: Callable[[], bool], failing: Callable[[], int]) -> None:
        self._collector.ledger, self._collector.leads, self._collector.failing = ledger, leads, failing

    def count_action(self, kind: str) -> None:
        self._actions.labels(kind).inc()

    def count_event(self, reason: str) -> None:
        self._events.labels(reason).inc()
        if reason == "ClaimBroken":
            self._collector.broken += 1

    def observe_queue_wait(self, waited_s: float) -> None:
        for each in self._waits:
            each.observe(waited_s)

    def observe_duration(self, seconds: float) -> None:
        for each in self._durations:
            each.observe(seconds)

    def count_write(self, op: str, kind: str, outcome: str) -> None:
        for each in self._ops:
            each.labels(op, kind, outcome).inc()

    def count_panic(self) -> None:
        """Count an internal error."""
        self._collector.panics += 1


class _LedgerCollector(Collector):
    def __init__(self, prefixes: tuple[str, ...], node_labels: Mapping[str, str]) -> None:
        self._node_labels = node_labels
        self.ledger: Ledger | None = None
        self.leads: Callable[[], bool] = lambda: False
        self.failing: Callable[[], int] = lambda: 0
        self.panics = 0
        self.broken = 0
        self._prefixes = prefixes

    def collect(self) -> Iterator[Metric]:
        for prefix in self._prefixes:
            yield from self._node_metrics(prefix, _FIELDS if prefix == NEON_METRIC_PREFIX else _OWN_FIELDS)
            yield from self._call_metrics(prefix)
        yield from self._ledger_metrics()

    def _node_metrics(
        self, prefix: str, fields: tuple[tuple[str, Callable[[Node, LedgerState], Amounts]], ...]
    ) -> Iterator[Metric]:
        units = {"cpu": 1000, "mem": 1}
        for resource, short in enumerate(_SHORT):
            name, what = f"{prefix}node_{short}_resources_current", RESOURCES[resource]
            family = GaugeMetricFamily(
                name,
                f"Amount of {what} on a node in the ledger, by field.",
                labels=("node", *self._node_labels, "field"),
            )
            if self.ledger is not None and self.leads():
                state = self.ledger.state
                for node in state.nodes.values():
                    shown = (node.name, *(node.labels.get(key, "") for key in self._node_labels.values()))
                    for field, of in fields:
                        family.add_metric((*shown, field), of(node, state)[resource] / units[short])
            yield family

    def _call_metrics(self, prefix: str) -> Iterator[Metric]:
        calls = CounterMetricFamily(
            f"{prefix}extension_calls", "Calls of the plugin, by method.", labels=("method", "ignored")
        )
        fails = CounterMetricFamily(
            f"{prefix}extension_call_fails",
            "Calls of the plugin that rejected the Pod or failed, by method.",
            labels=("method", "ignored"),
        )
        deny = CounterMetricFamily(
            f"{prefix}reserve_should_deny", "Pods reserved on a node with too little free capacity."
        )
        failing = GaugeMetricFamily(f"{prefix}reconcile_failing_objects", "Objects with a failed last write.")
        panics = GaugeMetricFamily(f"{prefix}reconcile_panics_count", "Internal errors.")
        if self.ledger is not None:
            counts = self.ledger.counts
            for family, counted in ((calls, counts.calls), (fails, counts.failures)):
                for (method, ignored), count in counted.items():
                    family.add_metric((method, str(ignored).lower()), count)
            deny.add_metric((), counts.should_deny)
            failing.add_metric((), self.failing())
            panics.add_metric((), self.panics)
        yield from (calls, fails, deny, failing, panics)

    def _ledger_metrics(self) -> Iterator[Metric]:
        sizes = GaugeMetricFamily(f"{METRIC_PREFIX}ledger_entries", "Entries in the ledger, by kind.", labels=("kind",))
        broken = CounterMetricFamily(f"{METRIC_PREFIX}claim_broken", "Claims that lost capacity to another Pod.")
        broken.add_metric((), self.broken)
        if self.ledger is not None and self.leads():
            state = self.ledger.state
            kinds = {
                "node": state.nodes,
                "pod": state.where,
                "move": state.moves,
                "claim": state.claims,
                "waiter": state.waiters,
            }
            for kind, entries in kinds.items():
                sizes.add_metric((kind,), len(entries))
        yield from (sizes, broken)
