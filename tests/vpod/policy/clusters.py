"""Small policy-era clusters: as many pods as nodes are named, and vpods with placements by ordinal."""

from __future__ import annotations

from collections.abc import Mapping

from situate.vpod.knative_era.state import EraCluster
from situate.vpod.model.pod_classes import NodeFacts, PodFacts
from situate.vpod.model.vpod import Key, Placement, PlainVPod

STATEFULSET = "s"


def cluster(zones: str, capacity: int = 10, replicas: int | None = None, annotated: tuple[int, ...] = ()) -> EraCluster:
    """One pod a letter of `zones`, each on its own node in the zone of that name."""
    return EraCluster(
        STATEFULSET,
        len(zones) if replicas is None else replicas,
        capacity,
        tuple(PodFacts(f"s-{i}", f"n{i}", "true" if i in annotated else None) for i in range(len(zones))),
        tuple(NodeFacts(f"n{i}", zone) for i, zone in enumerate(zones)),
    )


def vpod(vreplicas: int, placed: Mapping[int, int] | None = None, name: str = "v") -> PlainVPod:
    return PlainVPod(Key("ns", name), vreplicas, placements(placed or {}))


def placements(placed: Mapping[int, int]) -> tuple[Placement, ...]:
    return tuple(Placement(f"s-{ordinal}", vreplicas) for ordinal, vreplicas in placed.items())
