"""Reports on workloads, nodes, cost and capacity, as plain data for every form of output."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any, Final

from situate.cli.spot.read_cluster import SpotClusterState
from situate.objects.values.durations import human_duration
from situate.objects.values.timestamps import rfc3339
from situate.spot.capacity.headroom import WaveCapacity
from situate.spot.model.misplaced_pods import Workload
from situate.spot.model.pods_nodes_workloads import Capacity, NodeFacts, Owner
from situate.spot.model.pools import pods_by_pool
from situate.spot.nodes.interruptions import InterruptionHistory
from situate.spot.rebalance.decide import Notice, Report
from situate.spot.report.cost_report import CostReport, cost_report
from situate.spot.report.wave_impact import WaveLoss
from situate.spot.workloads.cluster_objects import NO_MEMORY, workload_of

ASSUMED_DISCOUNT: Final = "no prices are known, so spot is assumed to cost {part:.0%} less than on demand"
_OLD_DAYS: Final = 90
"""Age in days from which prices are reported as old."""


def current_workloads(observed: SpotClusterState) -> list[Workload]:
    """Return the workloads in their current state, including those that spot does not manage."""
    cluster, rules, memories = observed.view.cluster, observed.view.rules, observed.state.memories
    return [workload_of(cluster, owner, rules, memories.get(owner.uid, NO_MEMORY)) for owner in observed.owners]


def workload_data(owner: Owner, report: Report, workload: Workload, observed: SpotClusterState) -> dict[str, Any]:
    placements = report.placements
    classes = Counter(str(pod.pod_class) if pod.pod_class else "unclassified" for pod in workload.live_pods)
    return {
        "kind": owner.kind,
        "namespace": owner.namespace,
        "name": owner.name,
        "phase": str(report.phase),
        "replicas": owner.replicas,
        "target": report.target.on_demand,
        "askedNow": report.effective_target,
        "onDemand": report.on_demand,
        "spot": placements.get(Capacity.SPOT, 0),
        "unknown": placements.get(Capacity.UNKNOWN, 0),
        "ending": placements.get(None, 0),
        "ready": sum(pod.ready for pod in workload.live_pods),
        "need": report.need,
        "moves": report.total,
        "blocked": str(report.blocked) if report.blocked is not None else "",
        "blockedUntil": None if report.until is None else moment_text(report.until),
        "waiting": report.waiting,
        "policy": str(report.target.policy),
        "policySource": report.target.source,
        "partSource": report.source,
        "classes": dict(sorted(classes.items())),
        "pools": dict(sorted(pods_by_pool(workload.live_pods, observed.view.cluster.nodes).items())),
        "gated": sum(pod.gated for pod in workload.live_pods),
        "conflict": owner.conflict,
    }


def blocked_text(each: dict[str, Any], now: float) -> str:
    """Return the reason that blocks a workload, with the remaining time if it is known."""
    if each["blockedUntil"] is None:
        return each["blocked"] or "-"
    left = datetime.fromisoformat(each["blockedUntil"]).timestamp() - now
    return f"{each['blocked']}, {human_duration(max(1, math.ceil(left)))} left"


def node_data(node: NodeFacts, pods: int, now: float) -> dict[str, Any]:
    return {
        "node": node.name,
        "capacity": str(node.capacity),
        "state": str(node.state),
        "why": node.why,
        "deadline": None if node.deadline is None else moment_text(node.deadline),
        "secondsLeft": None if node.deadline is None else round(node.deadline - now),
        "cordoned": node.cordoned,
        "pool": node.pool,
        "pods": pods,
    }


def notices_data(
    notices: Iterable[Notice], observed: SpotClusterState, namespace: str | None = None
) -> list[dict[str, str]]:
    """Return the notices about workloads of the namespace; None: of all namespaces."""
    owners = observed.view.cluster.owners
    about = [(owners[notice.owner], notice) for notice in notices if notice.owner in owners]
    return [
        {"object": str(owner), "reason": notice.reason, "message": notice.message}
        for owner, notice in about
        if namespace in (None, owner.namespace)
    ]


def workloads_cost(observed: SpotClusterState, chosen: Iterable[Workload]) -> CostReport:
    """Return the cost report.

    The expected rate of losing all spot nodes is the recorded rate of such waves.
    """
    history = observed.history
    whole = sum(wave.share >= 1 for wave in history.waves)
    months = max(history.months(observed.now), 1.0)
    return cost_report(chosen, observed.view.cluster.nodes, observed.view.prices, whole / months)


def cost_data(report: CostReport, observed: SpotClusterState) -> dict[str, Any]:
    prices = observed.view.prices
    return {
        "saving": round(report.saving, 4),
        "achievable": round(report.achievable, 4),
        "nodesPerHour": report.nodes_per_hour,
        "nodesOnDemandPerHour": report.nodes_on_demand_per_hour,
        "currency": report.currency,
        "pricesOf": report.date,
        "assumedDiscount": None if report.date else prices.default_discount,
        "unpricedInstanceTypes": list(report.unpriced),
        "priceMistakes": [str(mistake) for mistake in observed.price_mistakes],
        "workloads": [
            {
                "object": str(line.owner),
                "share": round(line.share, 4),
                "shareAtTarget": round(line.share_at_target, 4),
                "discount": round(line.discount, 4),
                "discountIsAssumed": not line.priced,
                "outageSecondsPerMonth": round(line.outage_s_per_month, 1),
                "oneMoreOnDemandPerMonth": line.one_more,
            }
            for line in report.workloads
        ],
    }


def cost_lines(report: CostReport, observed: SpotClusterState) -> list[str]:
    """Return sentences for people. Each figure names its basis."""
    prices = observed.view.prices
    assumed = "" if report.date else f"; {ASSUMED_DISCOUNT.format(part=prices.default_discount)}"
    lines = [f"saving: {report.saving:.0%} of all on demand, {report.achievable:.0%} achievable{assumed}"]
    if report.nodes_per_hour is not None and report.nodes_on_demand_per_hour is not None:
        lines.append(
            f"nodes: {report.nodes_per_hour:.2f} {report.currency} an hour, all on demand "
            f"{report.nodes_on_demand_per_hour:.2f}; prices of {report.date}{_age_text(report.date, observed.now)}"
        )
    if report.date and report.unpriced:
        lines.append(
            f"without a price: {', '.join(report.unpriced)}; "
            f"{prices.default_discount:.0%} less for spot is assumed there"
        )
    return lines + [f"invalid price: {mistake}" for mistake in observed.price_mistakes]


def _age_text(text: str, now: float) -> str:
    try:
        days = (datetime.fromtimestamp(now, UTC).date() - date.fromisoformat(text)).days
    except ValueError:
        return ""
    return f", {days} days old" if days > _OLD_DAYS else ""


def capacity_data(room: WaveCapacity, history: InterruptionHistory, nodes: int, now: float) -> dict[str, Any]:
    share = history.ended_share_per_month(nodes, now)
    return {
        "largestWave": history.largest_wave,
        "wavesRecorded": len(history.waves),
        "recordedSince": None if history.since is None else moment_text(history.since),
        "spotNodesEndedPerMonth": None if share is None else round(share, 4),
        "displaced": room.displaced,
        "fit": room.placed_count,
        "missing": room.missing,
        "missingFor": dict(room.missing_for),
    }


def capacity_line(room: WaveCapacity, history: InterruptionHistory) -> str:
    """Return whether on-demand nodes have the capacity for the Pods that a wave would displace."""
    wave = (
        "if all spot nodes ended" if history.largest_wave is None else f"in a wave of {history.largest_wave} spot nodes"
    )
    if not room.displaced:
        return f"{wave}: no Pod would need another node"
    if not room.missing:
        return f"{wave}: on-demand nodes fit all {room.displaced} Pods"
    return (
        f"{wave}: on-demand nodes fit {room.placed_count} of {room.displaced} Pods, {room.missing} would wait; "
        "`situate spot plan --balloons` prints Pods that reserve the capacity"
    )


def loss_data(loss: WaveLoss) -> dict[str, Any]:
    return {
        "stay": loss.stay,
        "of": loss.replicas,
        "outageSeconds": loss.outage_s,
        "secondsUnderQuorum": loss.under_quorum_s,
        "fitOnDemand": loss.placeable,
    }


def interruptions_line(history: InterruptionHistory) -> str:
    """Return the interruptions of spot nodes that the leader has recorded."""
    if history.since is None:
        return "interruptions: none recorded; the leader writes them on its Lease"
    since = f"since {moment_text(history.since)}"
    if not history.waves:
        return f"interruptions: none {since}"
    worst = max(history.waves, key=lambda wave: wave.share)
    return (
        f"interruptions {since}: {len(history.waves)}, at most {history.largest_wave} nodes at once, "
        f"the worst took {worst.nodes} of {worst.of} spot nodes, the last began {moment_text(history.waves[-1].began)}"
    )


def moment_text(at: float) -> str:
    return rfc3339(datetime.fromtimestamp(int(at), UTC))
