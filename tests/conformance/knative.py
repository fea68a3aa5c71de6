"""Knative's vectors: which runner each file has. The README beside the vectors defines fields and expectations."""

from __future__ import annotations

from collections.abc import Mapping

from tests.conformance import knative_main, knative_policy, knative_traces
from tests.conformance.outcome import CaseRunner, by_action

RUNNERS: Mapping[str, CaseRunner] = {
    "autoscaler.json": by_action({"autoscale": knative_main.autoscale, "constants": knative_main.constants}),
    "compactor.json": by_action({"may_compact": knative_main.may_compact}),
    "golden_traces.json": knative_traces.replay,
    "placement_helpers.json": by_action(
        {
            "total_vreplicas": knative_main.total,
            "placement_for_pod": knative_main.for_pod,
            "pod_count": knative_main.count_pods,
        }
    ),
    "scheduler.json": by_action({"schedule": knative_main.schedule}),
    "state.json": by_action({"build_state": knative_main.build_state}),
    **knative_policy.RUNNERS,
}
"""By file name; each runs one case (a trace is one case)."""
