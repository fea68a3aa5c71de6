"""Random views, and the same views as plain dicts for the per-pod twins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from situate.vpod.policy.view import UNKNOWN_DOMAIN, Domains, PolicyView


@dataclass(frozen=True)
class PlainPod:
    ordinal: int
    schedulable: bool
    free: int
    own: int
    in_spread: bool
    node: str | None
    zone: str | None


@dataclass(frozen=True)
class PlainView:
    """What upstream's state says about one vpod, as maps by name."""

    replicas: int
    pods: tuple[PlainPod, ...]
    node_zone: dict[str, str]
    node_spread: dict[str, int]
    zone_spread: dict[str, int]


def plain_view(
    replicas: int, pods: tuple[PlainPod, ...], node_zone: dict[str, str], zeros: tuple[str, ...] = ()
) -> PlainView:
    """Spreads follow from the pods; `zeros` are nodes with an entry of zero."""
    node_spread = dict.fromkeys(zeros, 0)
    for pod in pods:
        if pod.node is not None and pod.in_spread:
            node_spread[pod.node] = node_spread.get(pod.node, 0) + pod.own
    zone_spread: dict[str, int] = {}
    for node, vreplicas in node_spread.items():
        zone_spread[node_zone[node]] = zone_spread.get(node_zone[node], 0) + vreplicas
    return PlainView(replicas, pods, node_zone, node_spread, zone_spread)


def arrays(plain: PlainView, weight: int = 1) -> PolicyView:
    nodes = sorted(plain.node_zone)
    zones = sorted(set(plain.node_zone.values()))

    def domains(of_pod: list[str | None], names: list[str], spread: dict[str, int]) -> Domains:
        return Domains(
            np.array([UNKNOWN_DOMAIN if name is None else names.index(name) for name in of_pod], dtype=np.int64),
            np.array([spread.get(name, 0) for name in names], dtype=np.int64),
            np.array([name in spread for name in names], dtype=np.bool_),
        )

    pods = plain.pods
    return PolicyView(
        replicas=plain.replicas,
        ordinals=np.array([pod.ordinal for pod in pods], dtype=np.int64),
        schedulable=np.array([pod.schedulable for pod in pods], dtype=np.bool_),
        free=np.array([pod.free for pod in pods], dtype=np.int64),
        own=np.array([pod.own for pod in pods], dtype=np.int64),
        in_spread=np.array([pod.in_spread for pod in pods], dtype=np.bool_),
        nodes=domains([pod.node for pod in pods], nodes, plain.node_spread),
        zones=domains([pod.zone for pod in pods], zones, plain.zone_spread),
        weight=weight,
    )


@st.composite
def plain_views(draw: st.DrawFn, unknown_nodes: bool = True, min_pods: int = 0) -> PlainView:
    node_zone = draw(st.dictionaries(st.sampled_from([f"n{i}" for i in range(6)]), st.sampled_from("abc"), min_size=1))
    ordinals = sorted(draw(st.sets(st.integers(0, 25), min_size=min_pods, max_size=8)))
    pods = []
    for ordinal in ordinals:
        own = draw(st.integers(0, 4) | st.integers(0, 2**31 - 1))
        node = draw(st.sampled_from(sorted(node_zone)) | (st.none() if unknown_nodes else st.nothing()))
        pods.append(
            PlainPod(
                ordinal,
                draw(st.sampled_from([True, True, True, False])),
                draw(st.integers(-2, 6)),
                own,
                own > 0 or draw(st.booleans()),
                node,
                None if node is None else node_zone[node],
            )
        )
    replicas = draw(st.sampled_from([26, 26, 26, 0]))
    zeros = tuple(draw(st.sets(st.sampled_from(sorted(node_zone)), max_size=2)))
    return plain_view(replicas, tuple(pods), node_zone, zeros)
