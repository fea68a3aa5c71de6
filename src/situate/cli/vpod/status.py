"""Implement `situate vpod status`: the Pods with their load, and the vpods with their shortages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from situate.cli.read_cluster.cluster_source import listed_namespace
from situate.cli.read_cluster.other_namespaces import report_other_namespaces
from situate.cli.terminal.failures import report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.options import ListedNamespaces
from situate.cli.terminal.output import Column, print_answer, print_items
from situate.cli.terminal.streams import print_line
from situate.cli.terminal.watch import show_status
from situate.cli.vpod.options import VpodOptions
from situate.cli.vpod.read_cluster import (
    StatefulSetState,
    observe,
    require_statefulsets,
    select_entries,
)
from situate.objects.values.counts import format_count
from situate.vpod.explain import ordinals_to_show

_PODS = (
    Column("pod", "name"),
    Column("class"),
    Column("cause"),
    Column("used", right=True),
    Column("capacity", right=True),
    Column("sources", "vpods", right=True),
    Column("node", wide=True),
    Column("placed", wide=True),
)
_VPODS = (
    Column("source", "key"),
    Column("wanted", right=True),
    Column("placed", right=True),
    Column("pods", right=True),
    Column("placements", "text", wide=True),
)


def show(where: VpodOptions, namespaces: ListedNamespaces, output: Format, *, watch: bool) -> None:
    """Print the status, with `watch` again at each change; exit with 1 if a StatefulSet does not exist."""

    def once() -> None:
        with report_failures():
            entries = select_entries(where)
            listed = listed_namespace(where, namespaces)
            observed = observe(entries, where)
        data = [_as_data(each, listed) for each in observed]
        print_answer(output, lambda: data, lambda: _print(data, observed, listed, output))
        require_statefulsets(observed)

    show_status(once, output, watch=watch)


def _print(
    every: Sequence[dict[str, Any]], observed: Sequence[StatefulSetState], listed: str | None, form: Format
) -> None:
    for data, state in zip(every, observed, strict=True):
        _print_statefulset(data, form)
        report_other_namespaces(len(state.vpods) - len(data["vpods"]), "source", listed)


def _print_statefulset(data: dict[str, Any], form: Format) -> None:
    for remark in data["remarks"]:
        print_line(remark)
    placed = f"{data['placed']} of {format_count(data['wanted'], 'vreplica')} placed"
    print_line(f"StatefulSet {data['statefulSet']}: {format_count(data['replicas'], 'replica')}, {placed}")
    print_items(_PODS, data["pods"], form)
    unlisted = data["replicas"] - sum(pod["ordinal"] < data["replicas"] for pod in data["pods"])
    if unlisted:
        print_line(
            f"and {format_count(unlisted, 'more pod')}, all missing" if unlisted > 1 else "and 1 more pod, missing"
        )
    print_line()
    print_items(_VPODS, data["vpods"], form)
    for vpod in data["vpods"]:
        for fault in vpod["faults"]:
            print_line(f"{vpod['key']}: {fault}")


def _as_data(observed: StatefulSetState, listed: str | None) -> dict[str, Any]:
    """Return the data with the vpods of one namespace; None: with all."""
    state = observed.state
    vpods = []
    for vpod in observed.vpods:
        if listed not in (None, vpod.key.namespace):
            continue
        entry = state.vpods[vpod.key]
        vpods.append(
            {
                "key": str(vpod.key),
                "wanted": entry.wanted,
                "placed": entry.status_total,
                "pods": len(entry.status),
                "placements": [placement.to_json() for placement in vpod.placements],
                "text": ", ".join(f"{p.pod_name}: {p.vreplicas}" for p in vpod.placements),
                "faults": list(vpod.faults),
            }
        )
    pods = []
    for ordinal in ordinals_to_show(state):
        slot = state.slots.get(ordinal)
        verdict = state.verdict(ordinal)
        on_it = {str(key): entry.status[ordinal] for key, entry in state.vpods.items() if entry.status.get(ordinal)}
        pods.append(
            {
                "name": f"{observed.settings.stateful_set_name}-{ordinal}",
                "ordinal": ordinal,
                "class": str(verdict.pod_class),
                "cause": str(verdict.cause),
                "node": slot.pod.node if slot is not None and slot.pod is not None else "",
                "used": slot.committed if slot is not None else 0,
                "capacity": state.options.capacity,
                "vpods": len(on_it),
                "placed": ", ".join(f"{key}: {vreplicas}" for key, vreplicas in on_it.items()),
            }
        )
    return {
        "statefulSet": state.options.statefulset,
        "exists": observed.exists,
        "remarks": observed.remarks,
        "replicas": state.replicas,
        "wanted": sum(entry.wanted for entry in state.vpods.values()),
        "placed": sum(entry.status_total for entry in state.vpods.values()),
        "pods": pods,
        "vpods": vpods,
    }
