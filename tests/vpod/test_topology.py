"""B8: vreplicas over zones or nodes first, then over their pods."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.testing.vpod.builders import amounts, make_placements, pod, schedule, state, vpod
from situate.vpod.model.options import Topology
from situate.vpod.model.pod_classes import NodeFacts
from situate.vpod.placement.decide import decide
from situate.vpod.scaling.autoscaler import AutoscalerMemory, decide_round
from situate.vpod.state.fairness_limits import Rule


def plain_topology(capacity: int, zones: list[str], used: list[int], own: list[int], missing: int) -> list[int]:
    """One at a time: the fewest own in the zone, then on the pod, then the lowest ordinal; while there is room."""
    own = list(own)
    for _ in range(missing):
        free = [o for o in range(len(own)) if used[o] + own[o] < capacity]
        if not free:
            break
        in_zone = Counter(dict.fromkeys(zones, 0))
        for ordinal, held in enumerate(own):
            in_zone[zones[ordinal]] += held
        own[min(free, key=lambda o: (in_zone[zones[o]], own[o], o))] += 1
    return own


@given(
    st.integers(1, 9),
    st.lists(
        st.tuples(st.sampled_from("xyz"), st.integers(0, 9), st.integers(0, 3)),
        min_size=1,
        max_size=9,
    ),
    st.integers(0, 40),
)
@pytest.mark.rule("vpod:B8")
def test_zones_as_the_plain_twin_says(capacity: int, pods: list[tuple[str, int, int]], more: int) -> None:
    zones = [zone for zone, _, _ in pods]
    own = [min(held, capacity) for _, _, held in pods]
    used = [min(load, capacity - held) for (_, load, _), held in zip(pods, own, strict=True)]
    kept = state(
        len(pods), capacity, [vpod("a/others", sum(used), make_placements(*used))], zones=zones, topology=Topology.ZONE
    )
    subject = vpod("a/b", sum(own) + more, make_placements(*own))
    kept.observe_vpod(subject, 0.0)
    kept.reserve_from_status()
    found = decide(kept, subject, 0.0)
    assert amounts(found.placements, len(pods)) == plain_topology(capacity, zones, used, own, more)


@given(st.lists(st.sampled_from("xyz"), min_size=1, max_size=9), st.integers(0, 30))
@pytest.mark.rule("vpod:B8")
def test_from_nothing_zones_and_their_pods_are_even(zones: list[str], wanted: int) -> None:
    kept = state(len(zones), 100, zones=zones, topology=Topology.ZONE)
    found = amounts(schedule(kept, vpod("a/b", wanted)).placements, len(zones))
    by_zone: dict[str, list[int]] = {}
    for zone, held in zip(zones, found, strict=True):
        by_zone.setdefault(zone, []).append(held)
    sums = [sum(held) for held in by_zone.values()]
    assert max(sums) - min(sums) <= 1
    assert all(max(held) - min(held) <= 1 for held in by_zone.values())
    assert max(sums) <= -(-wanted // len(sums)), "losing a zone costs more than its share"


@pytest.mark.rule("vpod:B8")
def test_nodes_may_be_the_domains() -> None:
    kept = state(4, 10, topology=Topology.NODE)
    for ordinal in (1, 2, 3):
        kept.observe_pod(pod(ordinal, node="node-1"), 0.0)
    assert schedule(kept, vpod("a/b", 6)).placements == make_placements(3, 1, 1, 1)


@pytest.mark.rule("vpod:B8")
def test_a_full_zone_never_blocks_unless_it_is_asked_to() -> None:
    full = vpod("a/full", 4, make_placements(0, 4))
    soft = state(2, 4, [full], zones=["x", "y"], topology=Topology.ZONE)
    assert schedule(soft, vpod("a/b", 3)).placements == make_placements(3)
    hard = state(2, 4, [full], zones=["x", "y"], topology=Topology.ZONE, topology_required=True)
    decision = schedule(hard, vpod("a/b", 3))
    assert (decision.placements, decision.left) == (make_placements(1), 2)
    assert decision.shortage is not None
    assert decision.shortage.limit is not None
    assert decision.shortage.limit.rule is Rule.TOPOLOGY


@pytest.mark.rule("vpod:B8")
def test_a_zone_without_pods_is_waited_for_one_pod_at_a_time() -> None:
    kept = state(2, 10, zones=["x", "y", "z"], topology=Topology.ZONE, topology_required=True)
    assert schedule(kept, vpod("a/b", 9)).placements == make_placements(1, 1)
    decided = decide_round(kept, AutoscalerMemory(), 1.0, True)
    assert decided.replicas == 3
    kept.observe_replicas(3, 2.0, ours=True)
    assert decide_round(kept, decided.memory, 3.0, True).replicas == 3, "the last one has not come yet"
    kept.observe_pod(pod(2), 4.0)
    assert schedule(kept, vpod("a/b", 9, make_placements(1, 1)), 5.0).placements == make_placements(3, 3, 3)
    assert decide_round(kept, decided.memory, 6.0, True).replicas == 3


@pytest.mark.rule("vpod:B8", "vpod:B3")
def test_a_lost_zone_is_no_domain_any_more() -> None:
    held = make_placements(2, 2, 2)
    kept = state(3, 10, [vpod("a/b", 6, held)], zones=["x", "y", "z"], topology=Topology.ZONE, topology_required=True)
    for node in [name for name, facts in kept.nodes.items() if facts.zone == "z"]:
        kept.observe_node(NodeFacts(node, "z", ready=False), 0.0)
    assert not decide(kept, vpod("a/b", 6, held), 59.0).changed
    decision = schedule(kept, vpod("a/b", 6, held), 60.0)
    assert (decision.placements, decision.left) == (make_placements(3, 3), 0)
