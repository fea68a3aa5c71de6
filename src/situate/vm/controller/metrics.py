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
from situate.vm.model.state import State

OWN: Final = "situate_vm_"
REFERENCE: Final = "autoscaling_plugin_"
_FIELDS: Final[tuple[tuple[str, Callable[[Node, State], Amounts]], ...]] = (
    ("Total", lambda node, _: node.total),
    ("Watermark", lambda node, _: node.watermark),
    ("Reserved", lambda node, _: node.reserved),
    ("Committed", lambda node, _: node.committed),
    ("Migrating", lambda node, _: node.migrating),
)
_OWN_FIELDS: Final[tuple[tuple[str, Callable[[Node, State], Amounts]], ...]] = (
    *_FIELDS,
    ("Held", lambda node, state: state.held(node.name, "")),
    ("Incoming", lambda node, state: state.incoming(node.name, "")),
)
_SHORT: Final = ("cpu", "mem")


class VmMetrics:
    """Counters of one process. `show` sets the ledger to show."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        compat: bool,
        node_labels: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """`node_labels`: labels on metrics of nodes, and the labels of nodes that give the values (C31)."""
        self._prefixes = (OWN, REFERENCE) if compat else (OWN,)
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
        self._told = Counter(
            f"{OWN}events", "Recorded decisions, by reason of their Event.", ("reason",), registry=registry
        )
        self._actions = Counter(f"{OWN}actions", "Decided actions, by kind.", ("kind",), registry=registry)
        self._now = _Now(self._prefixes, node_labels)
        registry.register(self._now)

    def show(self, ledger: Ledger, leads: Callable[[], bool], failing: Callable[[], int]) -> None:
        self._now.ledger, self._now.leads, self._now.failing = ledger, leads, failing

    def decided(self, kind: str) -> None:
        self._actions.labels(kind).inc()

    def told(self, reason: str) -> None:
        self._told.labels(reason).inc()
        if reason == "ClaimBroken":
            self._now.broken += 1

    def began(self, waited_s: float) -> None:
        for each in self._waits:
            each.observe(waited_s)

    def ended(self, seconds: float) -> None:
        for each in self._durations:
            each.observe(seconds)

    def sent(self, op: str, kind: str, outcome: str) -> None:
        for each in self._ops:
            each.labels(op, kind, outcome).inc()

    def panicked(self) -> None:
        """Count an internal error."""
        self._now.panics += 1


class _Now(Collector):
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
            yield from self._nodes(prefix, _FIELDS if prefix == REFERENCE else _OWN_FIELDS)
            yield from self._calls(prefix)
        yield from self._ledger()

    def _nodes(self, prefix: str, fields: tuple[tuple[str, Callable[[Node, State], Amounts]], ...]) -> Iterator[Metric]:
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

    def _calls(self, prefix: str) -> Iterator[Metric]:
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

    def _ledger(self) -> Iterator[Metric]:
        sizes = GaugeMetricFamily(f"{OWN}ledger_entries", "Entries in the ledger, by kind.", labels=("kind",))
        broken = CounterMetricFamily(f"{OWN}claim_broken", "Claims that lost capacity to another Pod.")
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
