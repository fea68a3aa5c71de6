"""kube-scheduler's vectors: which runner each file has. The README beside the vectors defines fields and expectations.

Every case is put to the plugin and to its plain twin.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.conformance import (
    kube_scheduler_filters,
    kube_scheduler_preemption,
    kube_scheduler_scores,
    kube_scheduler_states,
)
from tests.conformance.kube_scheduler_cases import argued
from tests.conformance.outcome import CaseRunner

_CODES = frozenset({"status", "codes"})
_SCORES = frozenset({"scores", "prescore"})
_EXPECTATIONS: Mapping[str, frozenset[str]] = {
    "broken_linear_function.json": frozenset({"value"}),
    "fit_filter.json": _CODES | {"insufficient"},
    "inter_pod_affinity_prefilter_add_remove.json": frozenset({"affinity", "anti_affinity"}),
    "num_feasible_nodes_to_find.json": frozenset({"numNodes"}),
    "pod_topology_spread_prefilter_state.json": frozenset({"critical_paths", "pair_to_match_num", "n_constraints"}),
    "preemption_dry_run.json": frozenset({"candidates_per_incoming_pod", "num_filter_called"}),
    "preemption_nodes_that_might_help.json": frozenset({"nodes"}),
    "preemption_pod_eligible.json": frozenset({"eligible"}),
    "preemption_select_candidate.json": frozenset({"any_of"}),
    "queue_sort.json": frozenset({"p1_less_p2"}),
}
"""By file: what a case may expect, beside an `error`; the others are about codes or scores."""


def _known(file: str) -> frozenset[str]:
    return _EXPECTATIONS.get(file, _CODES if "_filter" in file else _SCORES)


RUNNERS: Mapping[str, CaseRunner] = {
    file: argued(runner, _known(file))
    for runners in (
        kube_scheduler_filters.RUNNERS,
        kube_scheduler_preemption.RUNNERS,
        kube_scheduler_scores.RUNNERS,
        kube_scheduler_states.RUNNERS,
    )
    for file, runner in runners.items()
}
"""By file name; each runs one case."""
