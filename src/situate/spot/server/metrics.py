"""Metrics of the webhook. Label values come from closed sets.

Rule: B34.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.3, 1.0, 2.0)
OUTCOMES: Final = ("on-demand", "spot", "gated", "passed", "not-leading", "failed")
"""Outcome of an admission: the class, or the reason why there is none."""


class AdmissionMetrics:
    def __init__(self, registry: CollectorRegistry, stopwatch: Callable[[], float] = time.perf_counter) -> None:
        """`stopwatch`: seconds, finer than the loop's clock, which does not advance during a decision."""
        self.seconds = Histogram(
            "situate_spot_admission_seconds",
            "Time to answer the creation of a pod",
            ("outcome",),
            registry=registry,
            buckets=SECONDS,
        )
        self.live_reads = Counter(
            "situate_spot_live_reads",
            "Reads from the server, because the watch could not be current",
            ("outcome",),
            registry=registry,
        )
        self.reservations = Gauge(
            "situate_spot_reservations", "Answered pods that have not been observed yet", registry=registry
        )
        self.gated = Gauge("situate_spot_gated_pods", "Pods behind the gate of strict mode", registry=registry)
        self.gated_overdue = Gauge(
            "situate_spot_gated_overdue_pods", "Gated pods that have waited 15 s or longer", registry=registry
        )
        self.placement_seconds = Histogram(
            "situate_spot_placement_seconds",
            "Time from the first observation of a gated pod until its gate was removed",
            registry=registry,
            buckets=SECONDS,
        )
        self.lease_held = Gauge("situate_spot_lease_held", "1 while this process leads and answers", registry=registry)
        self.certificate_ends = Gauge(
            "situate_spot_certificate_end_seconds",
            "End of the served certificate, in seconds since the epoch",
            registry=registry,
        )
        self.webhook_installed = Gauge(
            "situate_spot_webhook_installed",
            "1 if API servers have the webhook configuration, 0 if it is missing and new pods get no class",
            registry=registry,
        )
        self.registry = registry
        self.stopwatch = stopwatch
        for outcome in OUTCOMES:
            self.seconds.labels(outcome)
        for outcome in ("read", "unreadable"):
            self.live_reads.labels(outcome)
