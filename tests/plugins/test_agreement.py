"""Every plugin says the same as its plain twin, on random clusters."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import NodeAffinity as Wishes
from situate.objects.kinds.pods import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PreferredSchedulingTerm,
    TopologySpreadConstraint,
)
from situate.plugins.image_locality import ImageLocality
from situate.plugins.inter_pod_affinity import InterPodAffinity, InterPodAffinityArgs
from situate.plugins.node_affinity import NodeAffinity, NodeAffinityArgs
from situate.plugins.node_declared_features import NodeDeclaredFeatures
from situate.plugins.node_name import NodeName
from situate.plugins.node_ports import NodePorts
from situate.plugins.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
    NodeResourcesBalancedAllocationArgs,
)
from situate.plugins.node_resources_fit import (
    CapacityRatio,
    NodeResourcesFit,
    NodeResourcesFitArgs,
    ResourceWeight,
    ScoringStrategy,
    ShapePoint,
)
from situate.plugins.node_unschedulable import NodeUnschedulable
from situate.plugins.pod_topology_spread import PodTopologySpread, SpreadState
from situate.plugins.pod_topology_spread_args import PodTopologySpreadArgs
from situate.plugins.taint_toleration import TaintToleration
from tests.plugins.twins import (
    image_locality,
    inter_pod_affinity,
    node_affinity,
    node_declared_features,
    node_name,
    node_ports,
    node_resources_balanced_allocation,
    node_resources_fit,
    node_unschedulable,
    pod_topology_spread,
    taint_toleration,
)
from tests.plugins.twins.world import PASS, Answer, World
from tests.plugins.vector import Vectors
from tests.plugins.worlds import HOSTNAME, ZONE, Case, random_case, worlds

FilterTwin = Callable[[Pod, Node, World], Answer]
ScoreTwin = Callable[[Pod, Sequence[Node], World], list[int] | None]

_TERM = NodeSelectorTerm((NodeSelectorRequirement("kind", "In", ("a",)),))
ADDED = Wishes(NodeSelector((_TERM,)), (PreferredSchedulingTerm(7, _TERM),))
LISTED = (
    TopologySpreadConstraint(max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule"),
    TopologySpreadConstraint(max_skew=2, topology_key=HOSTNAME, when_unsatisfiable="ScheduleAnyway"),
)
GPU = "example.com/gpu"
SHAPE = ((0, 10), (30, 2), (70, 9), (100, 0))
WEIGHTS = (("cpu", 2), ("memory", 1), (GPU, 5))
RESOURCES = tuple(ResourceWeight(name, weight) for name, weight in WEIGHTS)

FILTERS: dict[str, tuple[Any, FilterTwin]] = {
    "fit": (NodeResourcesFit(), node_resources_fit.filter_node),
    "fit, ignoring": (
        NodeResourcesFit(NodeResourcesFitArgs(ignored_resource_groups=("example.com",))),
        lambda pod, node, world: node_resources_fit.filter_node(pod, node, world, (), ("example.com",)),
    ),
    "taints": (TaintToleration(), lambda pod, node, _: taint_toleration.filter_node(pod, node)),
    "node affinity": (NodeAffinity(), lambda pod, node, _: node_affinity.filter_node(pod, node)),
    "node affinity, added": (
        NodeAffinity(NodeAffinityArgs(ADDED)),
        lambda pod, node, _: node_affinity.filter_node(pod, node, ADDED),
    ),
    "node name": (NodeName(), lambda pod, node, _: node_name.filter_node(pod, node)),
    "ports": (NodePorts(), node_ports.filter_node),
    "unschedulable": (NodeUnschedulable(), lambda pod, node, _: node_unschedulable.filter_node(pod, node)),
    "features": (NodeDeclaredFeatures(), lambda pod, node, _: node_declared_features.filter_node(pod, node)),
    "spread": (PodTopologySpread(), pod_topology_spread.filter_node),
    "spread, listed defaults": (
        PodTopologySpread(PodTopologySpreadArgs(LISTED, "List")),
        lambda pod, node, world: pod_topology_spread.filter_node(pod, node, world, LISTED),
    ),
    "affinity": (InterPodAffinity(), inter_pod_affinity.filter_node),
}


def _per_node(score: Callable[[Pod, Node, World], int]) -> ScoreTwin:
    return lambda pod, nodes, world: [score(pod, node, world) for node in nodes]


def _fit(kind: Any) -> NodeResourcesFit:
    ratio = CapacityRatio(tuple(ShapePoint(*point) for point in SHAPE)) if kind == "RequestedToCapacityRatio" else None
    return NodeResourcesFit(NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(kind, RESOURCES, ratio)))


def _balanced(names: Sequence[str]) -> ScoreTwin:
    def score(pod: Pod, nodes: Sequence[Node], world: World) -> list[int] | None:
        if node_resources_balanced_allocation.skips(pod, names):
            return None
        return [node_resources_balanced_allocation.score_node(pod, node, world, names) for node in nodes]

    return score


SCORES: dict[str, tuple[Any, ScoreTwin]] = {
    "least allocated": (
        _fit("LeastAllocated"),
        _per_node(lambda pod, node, world: node_resources_fit.score_node(pod, node, world, WEIGHTS)),
    ),
    "most allocated": (
        _fit("MostAllocated"),
        _per_node(
            lambda pod, node, world: node_resources_fit.score_node(
                pod, node, world, WEIGHTS, node_resources_fit.most_allocated
            )
        ),
    ),
    "requested to capacity": (
        _fit("RequestedToCapacityRatio"),
        _per_node(lambda pod, node, world: node_resources_fit.score_by_ratio(pod, node, world, WEIGHTS, SHAPE)),
    ),
    "balanced": (NodeResourcesBalancedAllocation(), _balanced(("cpu", "memory"))),
    "balanced over three": (
        NodeResourcesBalancedAllocation(
            NodeResourcesBalancedAllocationArgs(tuple(ResourceWeight(name) for name in ("cpu", "memory", GPU)))
        ),
        _balanced(("cpu", "memory", GPU)),
    ),
    "taints": (TaintToleration(), lambda pod, nodes, _: taint_toleration.score_nodes(pod, nodes)),
    "node affinity": (NodeAffinity(), lambda pod, nodes, _: node_affinity.score_nodes(pod, nodes)),
    "node affinity, added": (
        NodeAffinity(NodeAffinityArgs(ADDED)),
        lambda pod, nodes, _: node_affinity.score_nodes(pod, nodes, ADDED),
    ),
    "images": (ImageLocality(), _per_node(image_locality.score_node)),
    "spread": (PodTopologySpread(), pod_topology_spread.score_nodes),
    "spread, listed defaults": (
        PodTopologySpread(PodTopologySpreadArgs(LISTED, "List")),
        lambda pod, nodes, world: pod_topology_spread.score_nodes(pod, nodes, world, LISTED, system=False),
    ),
    "affinity": (InterPodAffinity(), inter_pod_affinity.score_nodes),
    "affinity, heavy": (
        InterPodAffinity(InterPodAffinityArgs(50, ignore_preferred_terms_of_existing_pods=True)),
        lambda pod, nodes, world: inter_pod_affinity.score_nodes(pod, nodes, world, 50, ignore_existing=True),
    ),
}


def by_twin(twin: FilterTwin, pod: Pod, world: World) -> dict[str, Answer]:
    return {node.metadata.name: twin(pod, node, world) for node in world.nodes}


@pytest.mark.parametrize("name", FILTERS)
@given(worlds())
@settings(max_examples=100, deadline=None)
def test_filters(name: str, case: Case) -> None:
    world, pod = case.made
    plugin, twin = FILTERS[name]
    wanted = by_twin(twin, pod, world)
    found = Vectors.of(world).filter(plugin, pod)
    assert (found or dict.fromkeys(wanted, PASS)) == wanted


@pytest.mark.parametrize("name", SCORES)
@given(worlds(), st.integers(0, 2**16))
@settings(max_examples=100, deadline=None)
def test_scores(name: str, case: Case, draw: int) -> None:
    world, pod = case.made
    plugin, twin = SCORES[name]
    feasible = sorted(Random(draw).sample(range(len(world.nodes)), 1 + draw % len(world.nodes)))
    wanted = twin(pod, [world.nodes[index] for index in feasible], world)
    found = Vectors.of(world).scores(plugin, pod, feasible)
    if wanted is None or found is None:  # skipped: every node gets nothing
        assert not any(wanted or found or ())
    else:
        assert found == wanted


@pytest.mark.parametrize("name", ["spread", "affinity"])
@given(worlds(nodes=60, pods=40))
@settings(max_examples=25, deadline=None)
def test_scores_that_few_nodes_differ_in_are_said_once(name: str, case: Case) -> None:
    """With many nodes to a zone, and many of them with as many pods."""
    world, pod = case.made
    plugin, twin = SCORES[name]
    found, wanted = Vectors.of(world).scores(plugin, pod), twin(pod, world.nodes, world)
    assert (found or [0] * len(world.nodes)) == (wanted or [0] * len(world.nodes))


@given(worlds(), st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_the_order_of_the_nodes_changes_nothing(case: Case, random: Random) -> None:
    world, pod = case.made
    order = list(range(len(world.nodes)))
    random.shuffle(order)
    shuffled = World(
        tuple(world.nodes[index] for index in order), world.pods, world.namespaces, world.services, world.owners
    )
    one, other = Vectors.of(world), Vectors.of(shuffled)
    for plugin, _ in FILTERS.values():
        assert one.filter(plugin, pod) == other.filter(plugin, pod)
    for plugin, _ in SCORES.values():
        before, after = one.scores(plugin, pod), other.scores(plugin, pod)
        assert after == (None if before is None else [before[index] for index in order]), plugin.name


RELATIONAL = {name: FILTERS[name] for name in ("spread", "spread, listed defaults", "affinity")}


@pytest.mark.parametrize("name", RELATIONAL)
@given(worlds(), st.integers(0, 2**32 - 1))
@settings(max_examples=100, deadline=None)
def test_a_state_with_a_pod_added_or_removed_is_the_state_of_that_cluster(name: str, case: Case, seed: int) -> None:
    world, pod = case.made
    plugin, twin = RELATIONAL[name]
    vectors = Vectors.of(world)
    info = vectors.read(pod)
    start = plugin.pre_filter(info, vectors.snapshot)
    if start.state is None or any(not rule.constraint.selector.requirements for rule in _rules(start.state)):
        return
    _, stranger = random_case(seed, len(world.nodes), 0)
    index = seed % len(world.nodes)
    stranger = _staying(named(stranger, "stranger", world.nodes[index]))
    other = vectors.read(stranger)
    added = plugin.add_pod(start.state, info, other, index, vectors.snapshot)
    assert vectors.filter_with(plugin, added, info) == by_twin(twin, pod, world.with_pods(stranger))
    restored = plugin.remove_pod(added, info, other, index, vectors.snapshot)
    assert vectors.filter_with(plugin, restored, info) == by_twin(twin, pod, world)
    staying = [each for each in world.pods if each.metadata.deletion_timestamp is None]
    if staying:
        gone = staying[seed % len(staying)]
        at = vectors.snapshot.nodes.index[gone.spec.node_name]
        removed = plugin.remove_pod(start.state, info, vectors.read(gone), at, vectors.snapshot)
        assert vectors.filter_with(plugin, removed, info) == by_twin(twin, pod, world.without(gone))


def _rules(state: Any) -> tuple[Any, ...]:
    """Of PodTopologySpread, which as upstream adds and removes what an empty selector means, and never counts it.

    The same with pods that are terminating: neither is asked about here.
    """
    return state.rules if isinstance(state, SpreadState) else ()


def _staying(pod: Pod) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=None)
    return msgspec.structs.replace(pod, metadata=metadata)


@given(worlds(), st.lists(st.integers(0, 2**32 - 1), max_size=6))
@settings(max_examples=100, deadline=None)
def test_counts_follow_pods_that_come_and_go(case: Case, seeds: list[int]) -> None:
    """What was counted once is moved by every placement, and still says what a fresh count would."""
    world, pod = case.made
    vectors = Vectors.of(world)
    for number, seed in enumerate(seeds):
        for plugin, twin in RELATIONAL.values():
            found = vectors.filter(plugin, pod)
            wanted = by_twin(twin, pod, world)
            assert (found or dict.fromkeys(wanted, PASS)) == wanted
        for plugin, score in (SCORES["spread"], SCORES["affinity"]):
            scored, expected = vectors.scores(plugin, pod), score(pod, world.nodes, world)
            assert (scored or [0] * len(world.nodes)) == (expected or [0] * len(world.nodes))
        _, stranger = random_case(seed, len(world.nodes), 0)
        if seed % 3 and world.pods:
            gone = world.pods[seed % len(world.pods)]
            world = world.without(gone)
            snapshot = vectors.snapshot.forget(vectors.read(gone))
        else:
            index = seed % len(world.nodes)
            stranger = named(stranger, f"stranger-{number}", world.nodes[index])
            world = world.with_pods(stranger)
            snapshot = vectors.snapshot.assume(vectors.read(stranger), index)
        vectors = Vectors(snapshot, vectors.reader)


@given(worlds(), st.sampled_from("xy"), st.sampled_from("xy"))
@settings(max_examples=100)
def test_labels_of_namespaces_are_heeded_once_they_change(case: Case, east: str, west: str) -> None:
    world, pod = case.made
    plugin, twin = FILTERS["affinity"]
    vectors = Vectors.of(world)
    vectors.filter(plugin, pod)
    changed = dataclasses.replace(world, namespaces={"east": {"team": east}, "west": {"team": west}})
    catalog = dataclasses.replace(vectors.snapshot.catalog, namespaces=changed.namespaces)
    vectors = Vectors(vectors.snapshot.with_catalog(catalog), vectors.reader)
    wanted = by_twin(twin, pod, changed)
    assert (vectors.filter(plugin, pod) or dict.fromkeys(wanted, PASS)) == wanted
    plugin, score = SCORES["affinity"]
    scored, expected = vectors.scores(plugin, pod), score(pod, changed.nodes, changed)
    assert (scored or [0] * len(world.nodes)) == (expected or [0] * len(world.nodes))


def named(pod: Pod, name: str, node: Node) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, name=name, uid=name)
    spec = msgspec.structs.replace(pod.spec, node_name=node.metadata.name)
    return msgspec.structs.replace(pod, metadata=metadata, spec=spec)
