"""Builders of small StatefulSets for tests: the caller gives only the values that matter."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from situate.vpod.model.options import Options
from situate.vpod.model.pod_classes import NodeFacts, PodFacts
from situate.vpod.model.vpod import Key, Placement, Placements, PlainVPod
from situate.vpod.placement.decide import Decision, commit, decide
from situate.vpod.state.state import State

SET = "set"


def make_placements(*amounts: int) -> Placements:
    """Return placements with these vreplicas on ordinals 0, 1, 2 …, without the zeros."""
    return tuple(Placement(f"{SET}-{ordinal}", n) for ordinal, n in enumerate(amounts) if n)


def amounts(placements: Iterable[Placement], pods: int) -> list[int]:
    """Return vreplicas by ordinal, the inverse of `make_placements`."""
    found = [0] * pods
    for placement in placements:
        found[int(placement.pod_name.rpartition("-")[2])] += placement.vreplicas
    return found


def pod(ordinal: int, **changes: Any) -> PodFacts:
    return PodFacts(**{"name": f"{SET}-{ordinal}", "node": f"node-{ordinal}", **changes})


def vpod(name: str, vreplicas: int, placements: Placements = (), **changes: Any) -> PlainVPod:
    """Build a vpod. `name` is namespace/name."""
    return PlainVPod(Key.parse(name), vreplicas, placements, **changes)


def options(capacity: int, **changes: Any) -> Options:
    """Build options. They have no upper limits unless a test sets some."""
    return Options("ns", SET, capacity, **{"max_replicas": None, "max_scale_up_step": None, **changes})


def state(
    pods: int,
    capacity: int,
    vpods: Iterable[PlainVPod] = (),
    zones: Iterable[str] | None = None,
    **changes: Any,
) -> State:
    """Build a state with healthy pods, one per node. `zones` are the zones of the nodes, repeated in turn."""
    names = list(zones or ["zone"])
    # more nodes than pods, so that a set can grow
    nodes = [NodeFacts(f"node-{o}", names[o % len(names)]) for o in range(max(pods, 256))]
    return State.rebuild(options(capacity, **changes), pods, map(pod, range(pods)), vpods, 0.0, nodes)


def schedule(on: State, subject: PlainVPod, now: float = 0.0, written: bool = True) -> Decision:
    """Schedule one vpod. If `written`, the state then observes its status with the result."""
    on.observe_vpod(subject, now)
    decision = decide(on, subject, now)
    commit(on, decision)
    if written:
        on.observe_vpod(with_placements(subject, decision.placements), now)
    return decision


def with_placements(subject: PlainVPod, placements: Placements) -> PlainVPod:
    return PlainVPod(
        subject.key,
        subject.vreplicas,
        placements,
        deletion_timestamp=subject.deletion_timestamp,
        weight=subject.weight,
        priority=subject.priority,
    )
