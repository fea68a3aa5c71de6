"""Implement `situate vpod plan`: the scheduler's decisions now, without writing anything (B13)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import typer

from situate.cli.read_cluster.cluster_source import listed_namespace
from situate.cli.read_cluster.other_namespaces import report_other_namespaces
from situate.cli.terminal.failures import ExitCode, report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.options import ListedNamespaces
from situate.cli.terminal.output import Column, print_answer, print_items
from situate.cli.terminal.progress import progress
from situate.cli.terminal.streams import print_line
from situate.cli.vpod.options import VpodOptions
from situate.cli.vpod.read_cluster import (
    StatefulSetState,
    observe,
    require_statefulsets,
    select_entries,
)
from situate.objects.values.counts import format_count
from situate.vpod.model.vpod import Placement, PlainVPod
from situate.vpod.placement.decide import Decision, commit, decide, retry_order
from situate.vpod.placement.spare_copies import spare_copy_givers
from situate.vpod.scaling.autoscaler import AutoscalerMemory, decide_round
from situate.vpod.state.state import State

_COLUMNS = (
    Column("source", "key"),
    Column("wanted", right=True),
    Column("now", right=True),
    Column("then", right=True),
    Column("left", right=True),
    Column("change", lambda each: each["change"] or "none"),
    Column("placements", lambda each: _placements_text(each["placements"]), wide=True),
)


def show(where: VpodOptions, namespaces: ListedNamespaces, output: Format) -> None:
    """Print the plan; exit with 1 if some vreplicas cannot be placed, or a StatefulSet does not exist."""
    with report_failures():
        entries = select_entries(where)
        listed = listed_namespace(where, namespaces)
        observed = observe(entries, where)
        with progress("deciding"):
            plans = [_plan_data(each) for each in observed]
    others = 0
    for each in plans:
        all_of_it = each["vpods"]
        each["vpods"] = [vpod for vpod in all_of_it if listed in (None, vpod["key"].partition("/")[0])]
        others += len(all_of_it) - len(each["vpods"])
    print_answer(output, lambda: plans, lambda: _print(plans, others, listed, output))
    require_statefulsets(observed)
    if any(vpod["left"] for each in plans for vpod in each["vpods"]):
        raise typer.Exit(ExitCode.NO)


def _print(plans: Iterable[dict[str, Any]], others: int, listed: str | None, output: Format) -> None:
    for each in plans:
        for remark in each["remarks"]:
            print_line(remark)
        print_line(f"StatefulSet {each['statefulSet']}: {_scale_text(each)}")
        print_items(_COLUMNS, each["vpods"], output)
        for decided in each["vpods"]:
            if decided["why"]:
                print_line(f"{decided['key']}: {decided['why']}")
    report_other_namespaces(others, "source", listed)


def _plan_data(observed: StatefulSetState) -> dict[str, Any]:
    """Return the controller's decisions one after the other, followed by one round of the autoscaler."""
    state = observed.state
    decided = {vpod.key: _decide_and_commit(state, vpod) for vpod in observed.vpods}
    if returning := spare_copy_givers(state):
        for vpod in observed.vpods:  # the capacity of spare copies is free only after all decisions are in the statuses
            _apply_decision(state, vpod, decided[vpod.key])
        for key in (*returning, *retry_order(state)):
            decided[key] = _decide_and_commit(state, state.vpods[key].as_vpod())
            _apply_decision(state, state.vpods[key].as_vpod(), decided[key])
    decisions = []
    for vpod in observed.vpods:
        decision = decided[vpod.key]
        decisions.append(
            {
                "key": str(vpod.key),
                "wanted": decision.wanted,
                "now": sum(placement.vreplicas for placement in vpod.placements),
                "then": sum(placement.vreplicas for placement in decision.placements),
                "left": decision.left,
                "placements": [placement.to_json() for placement in decision.placements],
                "change": _change_text(vpod.placements, decision.placements),
                "why": str(decision.shortage) if decision.shortage is not None else "",
            }
        )
    scaled = decide_round(state, AutoscalerMemory(), state.now, may_shrink=False)
    return {
        "statefulSet": state.options.statefulset,
        "exists": observed.exists,
        "remarks": observed.remarks,
        "replicas": state.replicas,
        "needed": scaled.needed,
        "asked": scaled.needed_without_limit,
        "replicasThen": scaled.replicas,
        "vpods": decisions,
    }


def _decide_and_commit(state: State, vpod: PlainVPod) -> Decision:
    decision = decide(state, vpod, state.now)
    commit(state, decision)
    return decision


def _apply_decision(state: State, vpod: PlainVPod, decision: Decision) -> None:
    """Apply a decision as if it were written into the status."""
    state.observe_vpod(replace(vpod, placements=decision.placements), state.now)


def _scale_text(planned: dict[str, Any]) -> str:
    now, then, needed = planned["replicas"], planned["replicasThen"], planned["needed"]
    above = f"; {planned['asked']} are needed, maxReplicas is {needed}" if planned["asked"] > needed else ""
    if then > now:
        on = "" if then == needed else f", and more step by step up to {needed}"
        return f"{format_count(now, 'replica')} now, {then} would be requested at once{on}{above}"
    if needed < now:
        enough = f"{needed} {'is' if needed == 1 else 'are'} enough"
        return (
            f"{format_count(now, 'replica')} now, {enough}; the rest would be emptied and removed after "
            f"stabilization{above}"
        )
    return f"{format_count(now, 'replica')}, {above.removeprefix('; ') or 'as needed'}"


def _placements_text(placements: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{each['podName']}: {each.get('vreplicas', 0)}" for each in placements)


def _change_text(before: tuple[Placement, ...], after: tuple[Placement, ...]) -> str:
    """Return the changes, such as `d-0 +2, d-3 -1`; empty if nothing changes."""
    held: dict[str, int] = {}
    for placement in before:
        held[placement.pod_name] = held.get(placement.pod_name, 0) - placement.vreplicas
    for placement in after:
        held[placement.pod_name] = held.get(placement.pod_name, 0) + placement.vreplicas
    return ", ".join(f"{pod} {number:+d}" for pod, number in held.items() if number)
