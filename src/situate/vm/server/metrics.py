"""Counters of the permit port, with `compat` also under upstream's names (C32). Labels come from closed sets."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from situate.vm.controller.metrics import METRIC_PREFIX, NEON_METRIC_PREFIX

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
NO_NODE: Final = ""


class PermitMetrics:
    def __init__(self, registry: CollectorRegistry, *, compat: bool) -> None:
        prefixes = (METRIC_PREFIX, NEON_METRIC_PREFIX) if compat else (METRIC_PREFIX,)
        self._requests = [
            Counter(f"{prefix}resource_requests", "Requests for permits, by status code.", ("code",), registry=registry)
            for prefix in prefixes
        ]
        self._results = [
            Counter(
                f"{prefix}resource_requests_results",
                "Requests for permits, by status code and node.",
                ("code", "node"),
                registry=registry,
            )
            for prefix in prefixes
        ]
        self._reasons = Counter(
            f"{METRIC_PREFIX}permits", "Answers to agents, by reason.", ("reason",), registry=registry
        )
        self._seconds = Histogram(
            f"{METRIC_PREFIX}answer_seconds",
            "Seconds from the complete request to its answer, by path.",
            ("path",),
            registry=registry,
            buckets=SECONDS,
        )

    def count_permit(self, code: int, node: str, reason: str) -> None:
        """`node`: of the Pod; `reason`: as in B28, empty if there is none."""
        for each in self._requests:
            each.labels(str(code)).inc()
        for each in self._results:
            each.labels(str(code), node).inc()
        if reason:
            self._reasons.labels(reason).inc()

    def observe_answer(self, path: str, seconds: float) -> None:
        self._seconds.labels(path).observe(seconds)
