"""Knative's vectors: which runner each file has. The README beside the vectors defines fields and expectations."""

from __future__ import annotations

from collections.abc import Mapping

from tests.conformance import knative_clients, knative_divergences, knative_main, knative_policy, knative_traces
from tests.conformance.outcome import CaseRunner, by_action

RUNNERS: Mapping[str, CaseRunner] = {
    "autoscaler.json": by_action(
        {"autoscale": knative_main.autoscale, "constants": knative_main.constants, "run_loop": knative_clients.run_loop}
    ),
    "compactor.json": by_action({"may_compact": knative_main.may_compact}),
    "divergences.json": by_action({"scenario": knative_divergences.scenario}),
    "evictor.json": by_action({"evict": knative_clients.evict}),
    "golden_traces.json": knative_traces.replay,
    "placement_helpers.json": by_action(
        {
            "total_vreplicas": knative_main.total,
            "placement_for_pod": knative_main.for_pod,
            "pod_count": knative_main.count_pods,
            "scheduler_func": knative_clients.scheduler_func,
        }
    ),
    "reserve_placements.json": by_action({"reserve": knative_clients.reserve}),
    "scale_cache.json": by_action({"sequence": knative_clients.cache_sequence, "defaults": knative_clients.defaults}),
    "scheduler.json": by_action({"schedule": knative_main.schedule}),
    "state.json": by_action({"build_state": knative_main.build_state}),
    "vpod_adapters.json": by_action({"vreplicas": knative_clients.vreplicas}),
    **knative_policy.RUNNERS,
}
"""By file name; each runs one case (a trace is one case)."""
