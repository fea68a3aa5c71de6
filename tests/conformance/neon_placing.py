"""Neon's files about placing pods and relieving nodes: Score, Filter, NormalizeScore and the choice of who leaves."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from situate.vm.config.settings import Scoring
from situate.vm.ledger.neon_compat.relief import select_relief
from situate.vm.model.node_fit import fit, score
from situate.vm.model.node_score import randomize_scores
from situate.vm.model.resource_amounts import Amounts
from tests.conformance.neon_cases import node, node_of_pods, pod, with_rest
from tests.conformance.outcome import Case, Outcome, UnknownOperationError, compared, failed

Json = Any
TOLERANCE: Final = 1e-9
SEED: Final = 7
LEAST_RUNS: Final = 50
"""All are within the ranges; a small score may well come out as it was, once."""


def schedule_and_migrate(case: Case) -> Outcome:
    match case["list"]:
        case "score":
            return _score(case)
        case "filter":
            return _filter(case)
        case "migration_selection":
            return _selection(case)
        case unknown:
            raise UnknownOperationError(f"list {unknown!r}")


def _score(case: Case) -> Outcome:
    state = case["state"]
    wire = state["scoring"]
    scoring = Scoring(
        min_usage_score=wire["minUsageScore"], max_usage_score=wire["maxUsageScore"], score_peak=wire["scorePeak"]
    )
    most = Amounts.from_values(state["max_node_cpu_milli"], state["max_node_mem_bytes"])
    made = score(node(state["node"]), pod(_only(case, "score")), most, scoring)
    cpu, memory = made.fractions if made.fractions is not None else (None, None)
    expected = case["expected"]
    if unknown := expected.keys() - {"score", "cpu_fraction", "mem_fraction"}:
        raise UnknownOperationError(f"expected {sorted(unknown)}")
    for name, fraction in (("cpu_fraction", cpu), ("mem_fraction", memory)):
        wanted = expected.get(name)
        near = fraction is not None and wanted is not None and math.isclose(fraction, wanted, abs_tol=TOLERANCE)
        if name in expected and not near and not (fraction is None and wanted is None):
            return failed(f"{name}: expected {wanted}, got {fraction}")
    return compared({"score": made.points}, {"score": expected.get("score", made.points)})


def _filter(case: Case) -> Outcome:
    state = case["state"]
    local = node_of_pods(state["node"], [pod(each) for each in state.get("local_pods") or ()])
    proposed = [pod(each) for each in state.get("proposed_pods") or ()]
    tried = fit(local, proposed, pod(_only(case, "filter")))
    expected = {key: sorted(value) if isinstance(value, list) else value for key, value in case["expected"].items()}
    actual = {
        "status": "success" if tried.fits else "Unschedulable",
        "local_not_proposed": list(tried.local_not_proposed),
        "proposed_not_local": list(tried.proposed_not_local),
    }
    return compared(actual, expected)


def _selection(case: Case) -> Outcome:
    if case["action"] != "balance_node":
        raise UnknownOperationError(f"action {case['action']!r}; known: balance_node")
    state = case["state"]
    full = with_rest(state["node"], [pod(each) for each in state.get("pods") or ()])
    chosen = select_relief(full, frozenset(state.get("already_requested") or ()))
    actual = {
        "new_migrations_in_order": list(chosen.selected_pods),
        "skipped_too_big": list(chosen.skipped_pods),
        "enough": chosen.enough,
    }
    return compared(actual, case["expected"])


def normalize_score(case: Case) -> Outcome:
    """With a seeded generator: ranges are checked, and that something changes."""
    action = case["action"]
    if action != "normalize_score" and set(action) != {"normalize_score"}:
        raise UnknownOperationError(f"action {action!r}; known: normalize_score")
    asked = {} if action == "normalize_score" else action["normalize_score"] or {}
    scores, expected = case["state"]["scores"], case["expected"]
    known = {"status", "range_inclusive", "at_least_one_changed", "distinct_values_at_least", "runs"}
    if unknown := expected.keys() - known:
        raise UnknownOperationError(f"expected {sorted(unknown)}")
    count = next((each["runs"] for each in (expected, asked, case, case["state"]) if "runs" in each), 1)
    raw = np.array(list(scores.values()), dtype=np.int64)
    runs = [
        dict(zip(scores, randomize_scores(raw, (SEED, run)).tolist(), strict=True))
        for run in range(max(count, LEAST_RUNS))
    ]
    for node_name, (least, most) in expected.get("range_inclusive", {}).items():
        if any(not least <= run[node_name] <= most for run in runs):
            return failed(f"{node_name}: {[run[node_name] for run in runs]} is not within [{least}, {most}]")
    if expected.get("at_least_one_changed") and all(run == scores for run in runs):
        return failed("no score has changed")
    distinct = expected.get("distinct_values_at_least", {})
    varied = (
        (name for name, points in scores.items() if points >= max(distinct, 2)) if isinstance(distinct, int) else ()
    )
    wanted = dict.fromkeys(varied, distinct) if isinstance(distinct, int) else distinct
    for node_name, least in wanted.items():
        if len({run[node_name] for run in runs[:count]}) < least:
            return failed(f"{node_name}: fewer than {least} values in {count} runs")
    return compared({"status": "success"}, {"status": expected.get("status", "success")})


def _only(case: Case, action: str) -> Json:
    if set(case["action"]) != {action}:
        raise UnknownOperationError(f"action {sorted(case['action'])}; known: {action}")
    return case["action"][action]
