"""Implement `situate spot status`: workloads with their floors, nodes with a problem, cost and capacity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from situate.cli.read_cluster.cluster_source import listed_namespace
from situate.cli.read_cluster.other_namespaces import report_other_namespaces
from situate.cli.spot.read_cluster import SpotClusterState, observe, read_settings
from situate.cli.spot.reports import (
    blocked_text,
    capacity_data,
    capacity_line,
    cost_data,
    cost_lines,
    current_workloads,
    interruptions_line,
    node_data,
    notices_data,
    workload_data,
    workloads_cost,
)
from situate.cli.terminal.failures import report_failures
from situate.cli.terminal.formats import Format
from situate.cli.terminal.options import InstallationOptions, ListedNamespaces
from situate.cli.terminal.output import Column, print_answer, print_items
from situate.cli.terminal.progress import progress
from situate.cli.terminal.streams import print_line
from situate.cli.terminal.watch import show_status
from situate.objects.values.counts import format_count
from situate.spot.capacity.headroom import displaced_pods, wave_capacity
from situate.spot.model.pods_nodes_workloads import Capacity, NodeState
from situate.spot.rebalance.decide import Phase, decide

_NODES = (
    Column("node"),
    Column("capacity"),
    Column("state"),
    Column("pods", right=True),
    Column("left", lambda node: "-" if node["secondsLeft"] is None else f"{node['secondsLeft']} s", right=True),
    Column("why", lambda node: node["why"] or ("no capacity label" if _has_unknown_capacity(node) else "-")),
    Column("pool", lambda node: node["pool"] or "-", wide=True),
)


def show(where: InstallationOptions, namespaces: ListedNamespaces, output: Format, *, watch: bool) -> None:
    """Print the status, with `watch` again at each change."""

    def once() -> None:
        with report_failures():
            settings = read_settings(where)
            listed = listed_namespace(where, namespaces)
            observed = observe(settings, where)
            with progress("counting"):
                told, lines = _as_data(observed)
        every = told["workloads"]
        told["workloads"] = [each for each in every if listed in (None, each["namespace"])]
        told["notices"] = notices_data(told["notices"], observed, listed)
        print_answer(
            output,
            lambda: told,
            lambda: _print(told, every, lines, output, observed.now, listed),
            observed.remarks,
        )

    show_status(once, output, watch=watch)


def _as_data(observed: SpotClusterState) -> tuple[dict[str, Any], list[str]]:
    """Return the data of all namespaces, with unformatted `notices`, and sentences about cost and capacity."""
    situation = observed.view
    decision = decide(observed.state, situation, observed.now)
    every = current_workloads(observed)
    managed = [each for each in every if decision.reports[each.owner.uid].phase is not Phase.UNMANAGED]
    cost = workloads_cost(observed, managed)
    room = wave_capacity(
        displaced_pods(managed, situation.cluster.nodes, observed.history.largest_wave), observed.scheduler_capacity
    )
    on_node = Counter(pod.node for each in every for pod in each.live_pods if pod.node)
    nodes = sorted(situation.cluster.nodes.values(), key=lambda node: (-node.state, node.name))
    spot_nodes = sum(node.capacity is Capacity.SPOT for node in nodes)
    lease = observed.lease
    told = {
        "leader": lease.spec.holder_identity if lease is not None else "",
        "readOnly": observed.settings.read_only,
        "wave": decision.wave,
        "workloads": [workload_data(each.owner, decision.reports[each.owner.uid], each, observed) for each in every],
        "nodes": [node_data(node, on_node[node.name], observed.now) for node in nodes],
        "notices": decision.notices,
        "cost": cost_data(cost, observed),
        "headroom": capacity_data(room, observed.history, spot_nodes, observed.now),
        "remarks": list(observed.remarks),
    }
    return told, [
        *cost_lines(cost, observed),
        capacity_line(room, observed.history),
        interruptions_line(observed.history),
    ]


def _print(
    told: dict[str, Any],
    every: Sequence[dict[str, Any]],
    lines: Iterable[str],
    form: Format,
    now: float,
    listed: str | None,
) -> None:
    """`every` holds the workloads of all namespaces. `listed_namespace` is the namespace to show, None for all."""
    part = [each for each in every if each["phase"] != Phase.UNMANAGED]
    held = sum(each["need"] <= 0 for each in part)
    led = f"led by {told['leader']}" if told["leader"] else "no leader"
    read_only = "; readOnly: no Pod is moved" if told["readOnly"] else ""
    print_line(
        f"{held} of {format_count(len(part), 'workload')} have the on-demand Pods they ask for; {led}{read_only}"
    )
    if told["wave"]:
        print_line("a wave is running: spot nodes are ending, and no Pod is moved by policy")
    candidates = every if form is Format.WIDE else part
    shown = [each for each in candidates if listed in (None, each["namespace"])]
    if shown:
        shares = {line["object"]: line["share"] for line in told["cost"]["workloads"]}
        print_items(_workload_columns(shares, now), shown, form)
    report_other_namespaces(len(candidates) - len(shown), "workload", listed)
    nodes = told["nodes"] if form is Format.WIDE else [each for each in told["nodes"] if _is_remarkable(each)]
    if nodes:
        print_line()
        print_items(_NODES, nodes, form)
    counts = Counter(each["capacity"] for each in told["nodes"])
    print_line()
    print_line("nodes: " + ", ".join(f"{counts[str(capacity)]} {capacity}" for capacity in Capacity))
    for line in lines:
        print_line(line)
    for notice in told["notices"]:
        print_line(f"{notice['object']}: {notice['reason']}: {notice['message']}")


def _workload_columns(shares: dict[str, float], now: float) -> tuple[Column, ...]:
    def cost(each: dict[str, Any]) -> str:
        name = _workload_name(each)
        return f"{shares[name]:.0%}" if name in shares else "-"

    return (
        Column("workload", _workload_name),
        Column("phase"),
        Column("replicas", right=True),
        Column("target", right=True),
        Column("on-demand", "onDemand", right=True),
        Column("spot", right=True),
        Column("elsewhere", lambda each: each["unknown"] + each["ending"], right=True),
        Column("ready", right=True),
        Column("moves", right=True),
        Column("cost", cost, right=True),
        Column("blocked", lambda each: blocked_text(each, now)),
        Column("policy", wide=True),
        Column("policy-from", _policy_source, wide=True),
    )


def _workload_name(each: dict[str, Any]) -> str:
    return f"{each['kind']} {each['namespace']}/{each['name']}"


def _policy_source(each: dict[str, Any]) -> object:
    return each["policySource"] if each["phase"] != Phase.UNMANAGED else each["partSource"]


def _is_remarkable(node: dict[str, Any]) -> bool:
    return bool(node["state"] != str(NodeState.OK) or _has_unknown_capacity(node))


def _has_unknown_capacity(node: dict[str, Any]) -> bool:
    return bool(node["capacity"] == Capacity.UNKNOWN)
