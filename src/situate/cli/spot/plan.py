"""Implement `situate spot plan`: the moves that the controller would make, and the cost before and after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import msgspec
import typer

from situate import __version__
from situate.cli.read_cluster.cluster_source import listed_namespace
from situate.cli.read_cluster.other_namespaces import report_other_namespaces
from situate.cli.spot.options import PlanOptions
from situate.cli.spot.read_cluster import SpotClusterState, observe, read_settings
from situate.cli.spot.reports import (
    ASSUMED_DISCOUNT,
    capacity_data,
    capacity_line,
    current_workloads,
    interruptions_line,
    notices_data,
)
from situate.cli.terminal.failures import ExitCode, report_failures
from situate.cli.terminal.formats import DataFormat, Format
from situate.cli.terminal.options import InstallationOptions, ListedNamespaces
from situate.cli.terminal.output import Column, print_answer, print_items, print_objects
from situate.cli.terminal.progress import progress
from situate.cli.terminal.streams import print_error, print_line
from situate.objects.values.counts import format_count
from situate.objects.values.quantity import Quantity
from situate.spot.capacity.headroom import WaveCapacity, balloon_objects, displaced_pods, wave_capacity
from situate.spot.model.misplaced_pods import Workload
from situate.spot.model.pods_nodes_workloads import Capacity
from situate.spot.nodes.known_signals import on_demand_requirement
from situate.spot.rebalance.decide import Phase, decide
from situate.spot.report.alternatives import MixingMethod, compare_methods
from situate.spot.report.plan import Plan
from situate.spot.report.plan import plan as planned
from situate.spot.report.target_advice import Advice, advise_target
from situate.spot.workloads.cluster_objects import NO_MEMORY, target_of
from situate.spot.workloads.on_demand_target import IMPORT_KEYS, TargetRules, resolve_target

_MOVES = (
    Column("#", lambda move: move.number, right=True),
    Column("workload", lambda move: move.owner),
    Column("pod", lambda move: move.pod.name),
    Column("reason", lambda move: move.reason),
    Column("how", lambda move: move.how.lower()),
    Column("class-after", lambda move: move.comes_back),
    Column("node-after", lambda move: move.to or "no node"),
    Column("leaves", lambda move: move.leaves or "-", wide=True),
)
_MEANS = (
    Column("workload", lambda each: each.workload.owner),
    Column("by", lambda each: each.method.name),
    Column("on-demand", lambda each: each.method.on_demand, right=True),
    Column("at-twice-the-replicas", lambda each: each.method.on_demand_doubled, right=True),
    Column(
        "placed-without-spot",
        lambda each: f"{each.method.placed_without_spot} of {each.workload.owner.replicas}",
        right=True,
    ),
    Column("remark", lambda each: each.method.remark, wide=True),
)
_ADVICE = (
    Column("workload", lambda each: each.workload.owner),
    Column("asked", lambda each: each.advice.asked, right=True),
    Column("enough", lambda each: each.advice.on_demand, right=True),
    Column("waves-too-large", lambda each: f"{each.advice.too_few} of {each.advice.waves}", right=True),
    Column("seconds-short-per-month", lambda each: f"{each.advice.short_s_per_month:.0f}", right=True),
)


class _Comparison(NamedTuple):
    workload: Workload
    method: MixingMethod


class _AdvisedTarget(NamedTuple):
    workload: Workload
    advice: Advice


def show(where: InstallationOptions, namespaces: ListedNamespaces, extras: PlanOptions, output: Format) -> None:
    """Print the plan; exit with 1 if a listed workload lacks on-demand Pods, is blocked, or has a Pod without node."""
    with report_failures():
        settings = read_settings(where)
        listed = listed_namespace(where, namespaces)
        observed = observe(settings, where)
        with progress("deciding"):
            everywhere = planned(observed.state, observed.view, observed.scheduler_capacity, observed.now)
            managed = _managed_workloads(observed)
            going = displaced_pods(managed, observed.view.cluster.nodes, observed.history.largest_wave)
            room = wave_capacity(going, observed.scheduler_capacity)
    for remark in observed.remarks:
        print_error(remark)
    if extras.balloons:
        image = extras.image or f"situate:{__version__}"
        _print_balloons(room, observed, where.installation, image, output)
        return
    found = everywhere if listed is None else _plan_of_namespace(everywhere, listed)
    waiting = _unplaced_pods(found, _workloads_in(listed, managed))
    print_answer(
        output,
        lambda: _as_data(found, managed, waiting, room, observed, listed),
        lambda: _print(found, managed, waiting, room, observed, listed, output, compare=extras.compare),
    )
    if output in (Format.TABLE, Format.WIDE):
        report_other_namespaces(len(everywhere.moves) - len(found.moves), "move", listed)
    if found.short or found.blocked or waiting:
        raise typer.Exit(ExitCode.NO)


def _unplaced_pods(found: Plan, chosen: Iterable[Workload]) -> list[str]:
    """Return the names of the workloads' Pods that would have no node after all moves."""
    pods = (pod for each in chosen for pod in found.after.pods.get(each.owner.uid, ()))
    return sorted(str(pod.key) for pod in pods if pod.live and not pod.node)


def _managed_workloads(observed: SpotClusterState) -> list[Workload]:
    """Return the workloads that spot manages."""
    reports = decide(observed.state, observed.view, observed.now).reports
    return [each for each in current_workloads(observed) if reports[each.owner.uid].phase is not Phase.UNMANAGED]


def _workloads_in(namespace: str | None, listed: Iterable[Workload]) -> list[Workload]:
    return [each for each in listed if namespace in (None, each.owner.namespace)]


def _plan_of_namespace(found: Plan, namespace: str) -> Plan:
    """Return the plan of one namespace. Capacity and cost stay those of the cluster, which its workloads share."""

    def here(workload: str) -> bool:
        return workload.partition(" ")[2].startswith(f"{namespace}/")

    return replace(
        found,
        moves=tuple(move for move in found.moves if move.pod.namespace == namespace),
        restarts={workload: count for workload, count in found.restarts.items() if here(workload)},
        blocked={workload: why for workload, why in found.blocked.items() if here(workload)},
        short=frozenset(filter(here, found.short)),
    )


def _print(
    found: Plan,
    managed: Sequence[Workload],
    waiting: Sequence[str],
    room: WaveCapacity,
    observed: SpotClusterState,
    namespace: str | None,
    form: Format,
    *,
    compare: bool,
) -> None:
    moves = found.moves
    touched = len({move.owner for move in moves})
    more = "" if found.complete else ", and more after them"
    print_line(f"{format_count(len(moves), 'Pod')} of {format_count(touched, 'workload')} would be moved{more}")
    if moves:
        print_items(_MOVES, moves, form)
        restarts = ", ".join(f"{owner} {count}" for owner, count in sorted(found.restarts.items()))
        print_line(f"restarts: {restarts}")
    print_line(f"additional on-demand capacity needed: {format_count(found.extra_on_demand_places, 'Pod')}")
    cost = f"{found.share_before:.0%} now, {found.share_after:.0%} after"
    print_line(f"cost, where all on demand is 100%: {cost}{_price_basis(observed)}")
    for owner, why in sorted(found.blocked.items()):
        print_line(f"{owner} is blocked: {why}")
    if waiting:
        print_line(f"{format_count(len(waiting), 'Pod')} would have no node: {', '.join(waiting)}")
    for notice in notices_data(found.notices, observed, namespace):
        print_line(f"{notice['object']}: {notice['reason']}: {notice['message']}")
    for line in (capacity_line(room, observed.history), interruptions_line(observed.history)):
        print_line(line)
    chosen = _workloads_in(namespace, managed)
    for line in _unread_annotations(chosen, observed):
        print_line(line)
    advised = _advised_targets(chosen, observed)
    if advised:
        print_line()
        print_items(_ADVICE, advised, form)
    if compare and chosen:
        print_line()
        print_items(_MEANS, _compare_methods(chosen, observed), form)


def _price_basis(observed: SpotClusterState) -> str:
    prices = observed.view.prices
    return (
        f" (prices of {prices.date})" if prices.date else f" ({ASSUMED_DISCOUNT.format(part=prices.default_discount)})"
    )


def _advised_targets(chosen: Iterable[Workload], observed: SpotClusterState) -> list[_AdvisedTarget]:
    found = ((each, advise_target(each, observed.history, observed.now)) for each in chosen)
    return [_AdvisedTarget(each, advice) for each, advice in found if advice is not None]


def _compare_methods(chosen: Iterable[Workload], observed: SpotClusterState) -> Iterator[_Comparison]:
    situation = observed.view
    for each in chosen:
        owner = each.owner
        memory = observed.state.memories.get(owner.uid, NO_MEMORY)
        policy = target_of(situation.cluster, owner, situation.rules, memory).policy
        safe = situation.rules.safe_deployments
        for method in compare_methods(policy, owner.replicas, stateful=owner.stateful, safe_deployments=safe):
            yield _Comparison(each, method)


def _unread_annotations(chosen: Iterable[Workload], observed: SpotClusterState) -> list[str]:
    """Return a sentence for each workload with annotations of other tools that spot does not read."""
    situation = observed.view
    if situation.rules.import_keys:
        return []
    found = []
    for each in chosen:
        keys = sorted(IMPORT_KEYS & each.owner.annotations.keys())
        if keys:
            rules = TargetRules(situation.rules.mode, situation.rules.policies, situation.rules.safe_deployments, True)
            then = resolve_target(each.owner, situation.cluster.namespace(each.owner.namespace), rules)
            found.append(
                f"{each.owner} has {', '.join(keys)}, which spot ignores; "
                f"with spot.importKeys the workload would ask for {then.on_demand} on demand"
            )
    return found


def _as_data(
    found: Plan,
    managed: Sequence[Workload],
    waiting: Sequence[str],
    room: WaveCapacity,
    observed: SpotClusterState,
    namespace: str | None,
) -> dict[str, Any]:
    chosen = _workloads_in(namespace, managed)
    prices = observed.view.prices
    nodes = observed.view.cluster.nodes.values()
    spot_nodes = sum(node.capacity is Capacity.SPOT for node in nodes)
    return {
        "moves": [
            {
                "number": move.number,
                "workload": move.owner,
                "pod": str(move.pod),
                "reason": str(move.reason),
                "how": move.how,
                "class": str(move.comes_back),
                "leaves": move.leaves,
                "to": move.to,
            }
            for move in found.moves
        ],
        "complete": found.complete,
        "restarts": dict(sorted(found.restarts.items())),
        "onDemandRoomNeeded": found.extra_on_demand_places,
        "costShareBefore": round(found.share_before, 4),
        "costShareAfter": round(found.share_after, 4),
        "pricesOf": prices.date,
        "assumedDiscount": None if prices.date else prices.default_discount,
        "blocked": dict(sorted(found.blocked.items())),
        "withoutNode": list(waiting),
        "notices": notices_data(found.notices, observed, namespace),
        "headroom": capacity_data(room, observed.history, spot_nodes, observed.now),
        "unreadKeys": _unread_annotations(chosen, observed),
        "advice": [
            {"workload": str(each.workload.owner), **msgspec.to_builtins(each.advice)}
            for each in _advised_targets(chosen, observed)
        ],
        "comparison": [
            {"workload": str(each.workload.owner), **msgspec.to_builtins(each.method)}
            for each in _compare_methods(chosen, observed)
        ],
        "remarks": list(observed.remarks),
    }


def _print_balloons(room: WaveCapacity, observed: SpotClusterState, namespace: str, image: str, form: Format) -> None:
    """Print one Pod for each missing one, each as large as the largest Pod that would wait."""
    if not room.missing:
        print_error(capacity_line(room, observed.history))
        return
    largest: dict[str, Quantity] = {}
    for each in room.unplaced_pods:
        for name, amount in _sum_requests(observed, each.uid).items():
            largest[name] = max(largest.get(name, amount), amount)
    term = {"matchExpressions": [msgspec.to_builtins(on_demand_requirement(observed.settings.table))]}
    requests = {name: str(amount) for name, amount in sorted(largest.items())}
    objects = balloon_objects(namespace, room.missing, requests, term, image)
    print_objects(objects, DataFormat.JSON if form is Format.JSON else DataFormat.YAML)


def _sum_requests(observed: SpotClusterState, uid: str) -> dict[str, Quantity]:
    """Return the sum of the requests of the Pod's containers."""
    total: dict[str, Quantity] = {}
    for container in observed.pods[uid].spec.containers:
        for name, amount in container.resources.requests.items():
            total[name] = total[name] + amount if name in total else amount
    return total
