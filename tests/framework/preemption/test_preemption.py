"""The dry run against a plain twin, on random clusters with every filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from random import Random

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.framework.cycle.cycle import find_feasible
from situate.framework.preemption import preemption
from situate.framework.preemption.costs import checks_of
from situate.framework.preemption.nominations import Nominations
from situate.framework.profile.profile import profile_of
from situate.framework.results.status import Code
from situate.framework.snapshot.snapshot import Snapshot
from situate.framework.volumes.catalog import Budget
from situate.objects.kinds.meta import Condition, ObjectMeta
from situate.objects.kinds.nodes import Node, NodeStatus
from situate.objects.kinds.pods import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from situate.objects.kinds.selectors import LabelSelector
from situate.objects.selection.label_selectors import selector_of
from situate.objects.values.quantity import parse_quantity
from situate.plugins.inter_pod_affinity import InterPodAffinity
from situate.plugins.node_affinity import NodeAffinity
from situate.plugins.node_declared_features import NodeDeclaredFeatures
from situate.plugins.node_ports import NodePorts
from situate.plugins.node_resources_fit import NodeResourcesFit
from situate.plugins.node_unschedulable import NodeUnschedulable
from situate.plugins.pod_topology_spread import PodTopologySpread
from situate.plugins.priority_sort import PrioritySort
from tests.plugins.twins import (
    inter_pod_affinity,
    node_affinity,
    node_ports,
    node_resources_fit,
    pod_topology_spread,
)
from tests.plugins.twins import preemption as twin
from tests.plugins.twins.world import PASS, UNSCHEDULABLE, Answer, World
from tests.plugins.vector import Vectors
from tests.plugins.worlds import NAMESPACES, Case, random_case, worlds

PROFILE = profile_of(
    "default-scheduler",
    [
        (plugin(), 1)
        for plugin in (PrioritySort, NodeAffinity, NodePorts, NodeResourcesFit, PodTopologySpread, InterPodAffinity)
    ],
)


def answer(pod: Pod, node: Node, world: World) -> Answer:
    """Of the first filter that refuses."""
    for found in (
        node_affinity.filter_node(pod, node),
        node_ports.filter_node(pod, node, world),
        node_resources_fit.filter_node(pod, node, world),
        pod_topology_spread.filter_node(pod, node, world),
        inter_pod_affinity.filter_node(pod, node, world),
    ):
        if found != PASS:
            return found
    return PASS


def fits(pod: Pod, node: Node, world: World) -> bool:
    return answer(pod, node, world) == PASS


def important(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=50, node_name=""))


def budgets(random: Random) -> list[twin.Budget]:
    return [
        twin.Budget(
            random.choice(NAMESPACES[:2]),
            random.choice((LabelSelector({"app": "a"}), LabelSelector({"tier": "c"}), LabelSelector(), None)),
            random.randrange(2),
            frozenset(random.sample([f"pod-{number}" for number in range(6)], random.randrange(3))),
        )
        for _ in range(random.randrange(4))
    ]


def with_budgets(snapshot: Snapshot, plain: Sequence[twin.Budget]) -> Snapshot:
    by_namespace: dict[str, tuple[Budget, ...]] = {}
    for number, each in enumerate(plain):
        budget = Budget(f"pdb-{number}", selector_of(each.selector), each.allowed, each.disrupted)
        by_namespace[each.namespace] = (*by_namespace.get(each.namespace, ()), budget)
    return snapshot.with_catalog(replace(snapshot.catalog, budgets=by_namespace))


@given(worlds(nodes=4), st.integers(0, 2**32 - 1))
@settings(max_examples=150)
def test_victims_are_those_of_the_plain_twin(case: Case, seed: int) -> None:
    world, pod = case.made
    pod = important(pod)
    plain = budgets(Random(seed))
    vectors = Vectors.of(world)
    snapshot = with_budgets(vectors.snapshot, plain)
    info = vectors.read(pod)
    found = find_feasible(PROFILE, info, snapshot)
    nodes = preemption.nodes_that_might_help(found.diagnosis().codes())
    assert [snapshot.name(node) for node in nodes.tolist()] == [
        node.metadata.name for node in world.nodes if answer(pod, node, world).code == UNSCHEDULABLE
    ]
    candidates = preemption.find_candidates(PROFILE, info, found.prepared, snapshot, nodes).candidates
    by_node = {
        snapshot.name(each.node): (sorted(victim.name for victim in each.victims), each.violations)
        for each in candidates
    }
    runs = [twin.dry_run(pod, world.nodes[node], world, fits, plain) for node in nodes.tolist()]
    expected = [each for each in runs if each is not None]
    assert by_node == {
        each.node: (sorted(victim.metadata.name for victim in each.victims), each.violations) for each in expected
    }
    if expected:
        assert snapshot.name(preemption.cheapest_candidate(candidates).node) == twin.best(expected)[0]


BY_AMOUNT = profile_of(
    "default-scheduler",
    [
        (plugin(), 1)
        for plugin in (PrioritySort, NodeUnschedulable, NodeAffinity, NodeResourcesFit, NodeDeclaredFeatures)
    ],
)


PROFILES = {"by amounts": BY_AMOUNT, "by more": PROFILE}


@pytest.mark.parametrize("decided", PROFILES)
@given(worlds(nodes=5, pods=25), st.integers(0, 2**32 - 1))
@settings(max_examples=200)
def test_comparing_all_nodes_at_once_finds_what_trying_each_of_them_finds(decided: str, case: Case, seed: int) -> None:
    profile = PROFILES[decided]
    random = Random(seed)
    world, pod = case.made
    pod = important(pod)
    vectors = Vectors.of(world)
    snapshot = with_budgets(vectors.snapshot, budgets(random))
    info = vectors.read(pod)
    promised = {}
    if random.random() < 0.4:
        _, other = random_case(seed, 1, 0)
        promised[random.randrange(len(world.nodes))] = (vectors.read(other),)
    found = find_feasible(profile, info, snapshot)
    nodes = preemption.nodes_that_might_help(found.diagnosis().codes())
    if profile is BY_AMOUNT and len(nodes):
        assert checks_of(profile, info, found.prepared, snapshot).complete, "the slow path was taken"
    fast = preemption.find_cheapest(profile, info, found.prepared, snapshot, nodes, promised)
    plain = preemption.find_candidates(profile, info, found.prepared, snapshot, nodes, promised)
    assert plain.candidates or fast.reasons == plain.reasons
    assert bool(fast.candidates) == bool(plain.candidates)
    if plain.candidates:
        (one,), other_one = (
            fast.candidates,
            preemption.cheapest_candidate(sorted(plain.candidates, key=lambda each: each.node)),
        )
        assert (one.node, one.victims, one.violations) == (other_one.node, other_one.victims, other_one.violations)


def crowd(random: Random, number: int) -> Pod:
    """One of many on nodes of four cpus."""
    requests = {"cpu": parse_quantity(random.choice(("500m", "1", "2")))}
    return Pod(
        ObjectMeta(
            name=f"pod-{number}",
            namespace="east",
            uid=f"pod-{number}",
            labels={"app": random.choice("ab"), "tier": "c"},
        ),
        PodSpec(
            containers=(Container(resources=ResourceRequirements(requests=requests)),), priority=random.randrange(3)
        ),
        PodStatus(start_time=datetime(2026, 1, random.randrange(1, 4), tzinfo=UTC)),
    )


@given(st.integers(0, 2**32 - 1), st.integers(2, 14), st.integers(1, 25))
@settings(max_examples=60, deadline=None)
def test_what_is_remembered_of_costs_is_what_they_are(seed: int, count: int, steps: int) -> None:
    """Pods come and go, budgets and promises change; two kinds of pods ask again and again."""
    random = Random(seed)
    room = {"cpu": parse_quantity("4"), "pods": parse_quantity("5")}
    nodes = tuple(
        Node(ObjectMeta(name=f"node-{number}"), status=NodeStatus(allocatable=room)) for number in range(count)
    )
    vectors = Vectors.of(World(nodes))
    snapshot, nominations = vectors.snapshot, Nominations()
    for number in range(count * 4):
        snapshot = snapshot.assume(vectors.read(crowd(random, number)), random.randrange(count))
    asking = [vectors.read(msgspec.structs.replace(crowd(random, number), spec=_asking(number))) for number in (1, 2)]
    for number in range(steps):
        other, node = vectors.read(crowd(random, 1000 + number)), random.randrange(count)
        match random.randrange(4):
            case 0:
                snapshot = snapshot.forget(random.choice([info for info, _ in snapshot.placed]))
            case 1:
                snapshot = with_budgets(snapshot, budgets(random))
            case 2:
                nominations.nominate(vectors.read(urgent(other.pod)), f"node-{node}")
            case _:
                snapshot = snapshot.assume(other, node)
        info = random.choice(asking)
        promised = nominations.competing_pods(info, snapshot.nodes.index)
        found = find_feasible(BY_AMOUNT, info, snapshot)
        helpful = np.arange(count)[: random.randrange(1, count + 1)]
        fast = preemption.find_cheapest(BY_AMOUNT, info, found.prepared, snapshot, helpful, promised)
        plain = preemption.find_candidates(BY_AMOUNT, info, found.prepared, snapshot, helpful, promised)
        assert plain.candidates or fast.reasons == plain.reasons
        assert [_told(each) for each in fast.candidates] == (
            [_told(preemption.cheapest_candidate(sorted(plain.candidates, key=lambda each: each.node)))]
            if plain.candidates
            else []
        )


def urgent(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, priority=50))


def _asking(cpus: int) -> PodSpec:
    requests = {"cpu": parse_quantity(f"{cpus * 1000 + 500}m")}
    return PodSpec(containers=(Container(resources=ResourceRequirements(requests=requests)),), priority=cpus)


def _told(candidate: preemption.Candidate) -> tuple[int, list[str], int]:
    return candidate.node, [victim.name for victim in candidate.victims], candidate.violations


@pytest.mark.parametrize(
    ("nodes", "percentage", "absolute", "enough"),
    [
        pytest.param(5000, 10, 100, 500, id="a tenth"),
        pytest.param(500, 10, 100, 100, id="at least so many"),
        pytest.param(50, 10, 100, 50, id="no more than there are"),
    ],
)
def test_so_many_candidates_are_enough(nodes: int, percentage: int, absolute: int, enough: int) -> None:
    assert preemption.candidates_to_find(nodes, percentage, absolute) == enough


LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
ENDED = Condition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
EVICTED = Condition(type="DisruptionTarget", status="True", reason="EvictionByEvictionAPI")


@pytest.mark.parametrize(
    ("policy", "nominated", "code", "ended", "reason"),
    [
        pytest.param("", "", Code.SUCCESS, ENDED, "", id="nothing was promised"),
        pytest.param("Never", "", Code.SUCCESS, ENDED, preemption.PREEMPTION_NEVER, id="it is told not to"),
        pytest.param(
            "", "node", Code.UNSCHEDULABLE, ENDED, preemption.VICTIMS_TERMINATING, id="its victim is still leaving"
        ),
        pytest.param("", "node", Code.UNRESOLVABLE, ENDED, "", id="what was promised is of no use any more"),
        pytest.param("", "node", Code.UNSCHEDULABLE, EVICTED, "", id="somebody else ended that pod"),
        pytest.param("", "gone", Code.SUCCESS, ENDED, "", id="what was promised is gone"),
    ],
)
def test_who_may_preempt(policy: str, nominated: str, code: Code, ended: Condition, reason: str) -> None:
    leaving = Pod(
        ObjectMeta(name="victim", uid="victim", deletion_timestamp=LONG_AGO),
        PodSpec(node_name="node", priority=1),
        PodStatus(conditions=(ended,)),
    )
    pod = Pod(
        ObjectMeta(name="new", uid="new"),
        PodSpec(priority=2, preemption_policy=policy),
        PodStatus(nominated_node_name=nominated),
    )
    vectors = Vectors.of(World((Node(ObjectMeta(name="node")),), (leaving,)))
    assert preemption.ineligibility_reason(vectors.read(pod), vectors.snapshot, code) == reason
