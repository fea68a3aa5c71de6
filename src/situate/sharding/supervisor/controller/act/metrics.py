"""Expose the metrics of sharding to Prometheus, computed at each scrape from the supervisor's state.

Executors are shown by name, because there are only as many as replicas. Objects are never shown by name (B11).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from situate.sharding.model.executors import ExecutorStatus, Members


@dataclass(slots=True)
class Counts:
    """Totals since the start of the process, over all terms."""

    assigned: int = 0
    moves: Counter[str] = field(default_factory=Counter)
    """Assignments of objects that had a holder before, by cause."""
    revoked: Counter[str] = field(default_factory=Counter)
    """Revoked objects, by cause."""
    rejected: int = 0
    """Writes that failed with a conflict, because the object had changed."""
    archived: int = 0
    """Objects whose archive record was read back."""
    archive_failures: int = 0
    writes: int = 0
    """Writes that the API server has carried out."""
    fence_refusals: int = 0
    """Writes that a fencing policy refused."""
    refusal: str = ""
    """Why a fencing policy refuses this supervisor's writes, and the next step; empty after a successful write."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The state at one moment."""

    members: Members
    now: float
    open: dict[str, int]
    """Weight of open objects, by UID of the executor."""
    unassigned: int
    orphan_age_s: float
    """Age of the oldest orphan: the seconds since its holder was removed; 0: no orphan."""
    archiving: int = 0
    """Number of objects that are being archived."""
    archive_lag_s: float = 0.0
    """How long the oldest archiving has been in progress; 0: none is."""
    desired_executors: int | None = None
    """Number of executors that the open work needs; None: the sizing is not configured."""
    table_version: int | None = None
    """Confirmed version of the table of partitions; None: no version is confirmed."""


class MetricsSource(Protocol):
    counts: Counts

    def figures(self) -> Figures | None:
        """Return the figures; None: nothing to show yet."""


class ShardMetrics(Collector):
    """The metrics of one supervisor."""

    def __init__(self, shown: MetricsSource, supervisor: str) -> None:
        """`supervisor`: the label value that distinguishes several supervisors in one process."""
        self._shown = shown
        self._label = supervisor

    def collect(self) -> Iterator[Metric]:
        yield from self._totals()
        figures = self._shown.figures()
        if figures is not None:
            yield from self._gauges(figures)

    def describe(self) -> Iterator[Metric]:
        """Return nothing: the metrics are unknown before the start."""
        return iter(())

    def _totals(self) -> Iterator[Metric]:
        counts = self._shown.counts
        for name, said, value in (
            ("assigned", "Assignments of objects.", counts.assigned),
            ("writes", "Successful writes of objects.", counts.writes),
            ("epoch_rejections", "Writes that were refused because they came too late.", counts.rejected),
            ("fence_refusals", "Writes that the fencing policy refused.", counts.fence_refusals),
            ("archived", "Objects that were archived and verified.", counts.archived),
            ("archive_failures", "Failed calls of the archive.", counts.archive_failures),
        ):
            total = CounterMetricFamily(f"situate_shard_{name}", said, labels=("supervisor",))
            total.add_metric((self._label,), value)
            yield total
        for name, said, values in (
            ("moves", "Assignments that moved an object from another executor.", counts.moves),
            ("revocations", "Objects that were revoked from their holder without its consent.", counts.revoked),
        ):
            total = CounterMetricFamily(f"situate_shard_{name}", said, labels=("supervisor", "cause"))
            for cause, value in sorted(values.items()):
                total.add_metric((self._label, cause), value)
            yield total

    def _gauges(self, figures: Figures) -> Iterator[Metric]:
        living = sorted(figures.members.living.values(), key=lambda each: (each.id, each.uid))
        weights = [figures.open.get(each.uid, 0) for each in living]
        mean = sum(weights) / len(weights) if weights else 0.0
        for name, said, value in (
            ("unassigned", "Open objects without a holder.", figures.unassigned),
            (
                "imbalance",
                "Open work of the fullest executor, divided by the mean.",
                max(weights) / mean if mean else 1.0,
            ),
            (
                "orphan_age_seconds",
                "Longest wait of an object since its holder was lost, in seconds.",
                figures.orphan_age_s,
            ),
            ("archive_pending", "Objects that are being archived.", figures.archiving),
            (
                "archive_lag_seconds",
                "Longest time that an object has been in archiving, in seconds.",
                figures.archive_lag_s,
            ),
            ("desired_executors", "Number of executors that the open work needs.", figures.desired_executors),
            ("table_version", "Confirmed version of the partition table.", figures.table_version),
        ):
            if value is not None:
                gauge = GaugeMetricFamily(f"situate_shard_{name}", said, labels=("supervisor",))
                gauge.add_metric((self._label,), value)
                yield gauge
        of_each = ("supervisor", "executor")
        opened = GaugeMetricFamily("situate_shard_open", "Open work of an executor.", labels=of_each)
        ages = GaugeMetricFamily(
            "situate_shard_lease_age_seconds",
            "Time since the last seen change of the executor's Lease, in seconds.",
            labels=of_each,
        )
        for executor, weight in zip(living, weights, strict=True):
            opened.add_metric((self._label, executor.id), weight)
            ages.add_metric((self._label, executor.id), max(0.0, figures.now - executor.expires_at + executor.lease_s))
        yield opened
        yield ages
        statuses = Counter(each.status for each in living)
        executors = GaugeMetricFamily(
            "situate_shard_executors", "Number of executors by status.", labels=("supervisor", "status")
        )
        for status in ExecutorStatus:
            executors.add_metric((self._label, str(status)), statuses[status])
        executors.add_metric((self._label, "Removed"), len(figures.members.removed))
        yield executors
