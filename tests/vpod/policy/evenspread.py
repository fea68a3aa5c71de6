"""EvenSpread of 2021, over zones or over nodes: an oracle to measure zone spread against, not a policy on offer.

Reference section 5.4. Domains are those of all nodes that count, in name order, with or without pods.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Mapping

from situate.vpod.knative_era.state import EraCluster, EraState, Reservations, era_state
from situate.vpod.model.vpod import Placement, VPod, pod_name


class SpreadOver(enum.Enum):
    ZONES = "zones"
    NODES = "nodes"


def even_spread(
    cluster: EraCluster, vpod: VPod, over: SpreadOver, reserved: Reservations
) -> tuple[tuple[Placement, ...], int]:
    """The placements by ordinal, and how many vreplicas found no place. Only schedulable pods take part."""
    state, _ = era_state(cluster, [vpod], reserved)
    pods_of: dict[str, list[int]] = defaultdict(list)
    for ordinal in state.schedulable_pods:
        node = state.node_of_pod[ordinal]
        pods_of[state.zone_of_node[node] if over is SpreadOver.ZONES else node].append(ordinal)
    names = state.zone_of_node.values() if over is SpreadOver.ZONES else state.zone_of_node
    domains = [pods_of[name] for name in sorted(set(names))]
    own = dict(state.pod_spread[vpod.key])
    missing = vpod.vreplicas - sum(own.values())
    if missing > 0:
        missing = _top_up(state, domains, own, vpod.vreplicas, missing)
    elif missing < 0:
        _take_away(domains, own, vpod.vreplicas, -missing)
    return _placements(cluster, own), max(0, missing)


def _top_up(state: EraState, domains: list[list[int]], own: dict[int, int], wanted: int, missing: int) -> int:
    """First the pods that hold some, domain by domain, then the others by ordinal, each domain up to its limit.

    Returns what is left.
    """
    if not domains:
        return missing
    limit = -(-wanted // len(domains))
    domain_of = {ordinal: domain for domain in domains for ordinal in domain}
    for ordinal in (*(each for each in domain_of if each in own), *sorted(domain_of.keys() - own.keys())):
        below_limit = limit - sum(own.get(pod, 0) for pod in domain_of[ordinal])
        amount = max(0, min(state.free_at(ordinal), below_limit, missing))
        own[ordinal] = own.get(ordinal, 0) + amount
        state.free[ordinal] = state.free_at(ordinal) - amount
        missing -= amount
    return missing


def _take_away(domains: list[list[int]], own: dict[int, int], wanted: int, surplus: int) -> None:
    """Each domain keeps its floor; the highest ordinals give first."""
    floor = wanted // len(domains)
    for domain in domains:
        for ordinal in reversed(domain):
            above_floor = sum(own.get(pod, 0) for pod in domain) - floor
            amount = max(0, min(surplus, own.get(ordinal, 0), above_floor))
            own[ordinal] = own.get(ordinal, 0) - amount
            surplus -= amount


def _placements(cluster: EraCluster, own: Mapping[int, int]) -> tuple[Placement, ...]:
    return tuple(Placement(pod_name(cluster.statefulset, o), own[o]) for o in sorted(own) if own[o] > 0)
