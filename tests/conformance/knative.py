"""Knative's vectors: which runner each file has. The README beside the vectors defines fields and expectations."""

from __future__ import annotations

from collections.abc import Mapping

from tests.conformance import knative_main, knative_policy
from tests.conformance.outcome import CaseRunner, by_action

RUNNERS: Mapping[str, CaseRunner] = {
    "scheduler.json": by_action({"schedule": knative_main.schedule}),
    "placement_helpers.json": by_action(
        {
            "total_vreplicas": knative_main.total,
            "placement_for_pod": knative_main.for_pod,
            "pod_count": knative_main.count_pods,
        }
    ),
    **knative_policy.RUNNERS,
}
"""By file name; each runs one case (a trace is one case)."""
