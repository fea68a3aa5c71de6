from __future__ import annotations

import random

import msgspec
import pytest

from situate.framework.class_cache.switches import NO_SHORTCUTS, Shortcuts
from situate.framework.cycle import cycle
from situate.framework.engine.decisions import Placed, PlacedRun
from situate.framework.engine.engine import Engine
from situate.framework.engine.messages import no_node_message
from situate.framework.preemption.nominations import Nominations
from situate.framework.profile.profile import Profile, profile_of
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node, NodeSpec, NodeStatus, Taint
from situate.objects.kinds.pods import (
    Affinity,
    Container,
    ContainerPort,
    NodeAffinity,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PodStatus,
    PreferredSchedulingTerm,
    ResourceRequirements,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from situate.objects.kinds.selectors import LabelSelector
from situate.objects.values.quantity import parse_quantity
from situate.plugins import node_affinity
from situate.plugins.image_locality import ImageLocality
from situate.plugins.inter_pod_affinity import InterPodAffinity
from situate.plugins.node_name import NodeName
from situate.plugins.node_ports import NodePorts
from situate.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from situate.plugins.node_resources_fit import NodeResourcesFit
from situate.plugins.node_unschedulable import NodeUnschedulable
from situate.plugins.pod_topology_spread import PodTopologySpread
from situate.plugins.priority_sort import PrioritySort
from situate.plugins.scheduling_gates import SchedulingGates
from situate.plugins.taint_toleration import TaintToleration


def profile(local: int = 1, beyond: int = 1) -> Profile:
    """`local`, `beyond`: how many times the usual weights plugins have that look at a node alone, or at others."""
    return profile_of(
        "here",
        [
            (SchedulingGates(), 0),
            (PrioritySort(), 0),
            (NodeUnschedulable(), 0),
            (NodeName(), 0),
            (TaintToleration(), 3 * local),
            (node_affinity.NodeAffinity(), 2 * local),
            (NodePorts(), 0),
            (NodeResourcesFit(), local),
            (PodTopologySpread(), 2 * beyond),
            (InterPodAffinity(), 2 * beyond),
            (NodeResourcesBalancedAllocation(), local),
            (ImageLocality(), local),
        ],
    )


def a_node(number: int, rng: random.Random) -> Node:
    taints = [Taint("team", "a", effect) for effect in ("NoSchedule", "PreferNoSchedule") if rng.random() < 0.3]
    room = {"cpu": f"{rng.choice((1, 2, 4))}", "memory": f"{rng.choice((1, 2, 8))}Gi", "pods": f"{rng.choice((3, 8))}"}
    return Node(
        ObjectMeta(
            name=f"node-{number}",
            labels={"disk": rng.choice(("ssd", "hdd")), "zone": rng.choice("abc"), "host": f"node-{number}"},
        ),
        NodeSpec(unschedulable=rng.random() < 0.1, taints=tuple(taints)),
        NodeStatus(allocatable={name: parse_quantity(value) for name, value in room.items()}),
    )


def a_spec(rng: random.Random) -> PodSpec:
    requests = {
        name: parse_quantity(value)
        for name, value in (("cpu", f"{rng.randrange(600)}m"), ("memory", f"{rng.randrange(900)}Mi"))
        if rng.random() < 0.8
    }
    wish = PreferredSchedulingTerm(
        rng.randrange(1, 100), NodeSelectorTerm((NodeSelectorRequirement("disk", "In", ("ssd",)),))
    )
    return PodSpec(
        scheduler_name="here",
        containers=(
            Container(
                resources=ResourceRequirements(requests=requests),
                ports=(ContainerPort(host_port=80),) if rng.random() < 0.1 else (),
            ),
        ),
        node_selector={"zone": rng.choice("abc")} if rng.random() < 0.3 else {},
        affinity=Affinity(
            NodeAffinity(preferred=(wish,)) if rng.random() < 0.4 else None,
            *(neighbours(rng) if rng.random() < 0.2 else None for _ in ("affinity", "anti-affinity")),
        ),
        topology_spread_constraints=(a_constraint(rng),) if rng.random() < 0.2 else (),
        tolerations=(Toleration(operator="Exists"),) if rng.random() < 0.3 else (),
    )


def neighbours(rng: random.Random) -> PodAffinity:
    """One term towards pods of an app, required or preferred."""
    term = PodAffinityTerm(rng.choice(("zone", "host")), an_app(rng))
    return PodAffinity((term,)) if rng.random() < 0.5 else PodAffinity((), (WeightedPodAffinityTerm(7, term),))


def a_constraint(rng: random.Random) -> TopologySpreadConstraint:
    unsatisfiable = rng.choice(("DoNotSchedule", "ScheduleAnyway"))
    return TopologySpreadConstraint(rng.randrange(1, 3), rng.choice(("zone", "host")), unsatisfiable, an_app(rng))


def an_app(rng: random.Random) -> LabelSelector:
    return LabelSelector({"app": rng.choice("xy")})


def a_pod(number: int, spec: PodSpec, app: str, priority: int = 0, nominated: str = "") -> Pod:
    meta = ObjectMeta(name=f"pod-{number}", namespace="default", uid=str(number), labels={"app": app})
    return Pod(meta, msgspec.structs.replace(spec, priority=priority), PodStatus(nominated_node_name=nominated))


def story(seed: int, shortcuts: Shortcuts, ties: int | None, local: int = 1, beyond: int = 1) -> list[tuple[str, str]]:
    """What a scheduler decides in a small cluster in which nodes and pods come and go."""
    rng = random.Random(seed)
    engine = Engine([profile(local, beyond)], shortcuts=shortcuts, seed=ties)
    for number in range(rng.randrange(1, 12)):
        engine.cache.set_node(a_node(number, rng))
    specs = [a_spec(rng) for _ in range(4)]
    promising = rng.random() < 0.3
    told: list[tuple[str, str]] = []
    placed: list[str] = []
    for number in range(60):
        pod = a_pod(number, rng.choice(specs), rng.choice("xyz"))
        engine.queue.add(engine.cache.reader.read(pod), float(number))
        if promising and rng.random() < 0.3:
            other = a_pod(1000 + number, rng.choice(specs), rng.choice("xyz"), rng.choice((0, 5)))
            engine.nominations.nominate(engine.cache.reader.read(other), rng.choice(engine.cache.nodes))
        decision = engine.schedule(float(number))
        assert decision is not None
        if isinstance(decision, Placed):
            told.append((pod.metadata.name, decision.node))
            placed.append(pod.metadata.uid)
        else:
            told.append((pod.metadata.name, type(decision).__name__))
        if placed and rng.random() < 0.2:
            engine.cache.remove_pod(placed.pop(rng.randrange(len(placed))))
        if rng.random() < 0.05:
            engine.cache.set_node(a_node(rng.randrange(15), rng))
        if rng.random() < 0.02 and len(engine.cache.nodes) > 1:
            engine.cache.remove_node(rng.choice(engine.cache.nodes))
    return told


@pytest.mark.parametrize("seeds", [range(18), pytest.param(range(18, 60), marks=pytest.mark.verify)], ids=str)
@pytest.mark.parametrize("ties", [None, 7])
def test_what_is_known_per_class_changes_no_placement(ties: int | None, seeds: range) -> None:
    stories = []
    for seed in seeds:
        plain = story(seed, Shortcuts(classes=False), ties)
        shortcuts = Shortcuts(evaluators=seed % 3 > 0)
        assert story(seed, shortcuts, ties) == plain, f"seed {seed}"
        stories.append(plain)
    decided = [outcome for each in stories for _, outcome in each]
    assert 0.1 < decided.count("Refused") / len(decided) < 0.6  # both kinds of answer were compared


@pytest.mark.parametrize(("local", "beyond"), [(10, 20), (10, 100), (100, 20)])
def test_heavy_weights_change_no_placement(local: int, beyond: int) -> None:
    """Sums of scores just fit the narrow type, or either of them does not."""
    for seed in range(15):
        plain = story(seed, Shortcuts(classes=False), None, local, beyond)
        assert story(seed, Shortcuts(), None, local, beyond) == plain, f"seed {seed}"


def run_story(seed: int, shortcuts: Shortcuts, most: int) -> tuple[list[tuple[str, str]], int]:
    """What a scheduler decides about many pods that wait at once; and the length of the longest run."""
    rng = random.Random(seed)
    engine = Engine([profile()], shortcuts=shortcuts)
    for number in range(rng.randrange(1, 20)):
        engine.cache.set_node(a_node(number, rng))
    specs = [a_spec(rng) for _ in range(3)]
    together = rng.choice((1, 10, 40))
    for number in range(80):
        spec = specs[number // together % 3]
        pod = a_pod(number, spec, "xyz"[number // together % 3])
        engine.queue.add(engine.cache.reader.read(pod), 0.0)
    told: dict[str, str] = {}
    longest = 0
    while decisions := engine.schedule_run(0.0, most):
        for decision in decisions:
            if isinstance(decision, PlacedRun):
                longest = max(longest, len(decision))
                told |= {each.pod.info.name: each.node for each in decision}
            else:
                told[decision.pod.info.name] = decision.node if isinstance(decision, Placed) else "Refused"
    return sorted(told.items()), longest


def test_heeding_all_promises_at_once_says_the_same_as_one_after_the_other() -> None:
    crowded = 0
    for seed in range(80):
        rng = random.Random(seed)
        engine = Engine([profile()])
        for number in range(12):
            engine.cache.set_node(a_node(number, rng))
        reader = engine.cache.reader
        for number in range(15):
            other = reader.read(a_pod(number, a_spec(rng), rng.choice("xyz"), rng.choice((0, 5))))
            engine.nominations.nominate(other, rng.choice(engine.cache.nodes))
        pod = reader.read(a_pod(99, a_spec(rng), "x", rng.choice((0, 3))))
        snapshot = engine.cache.snapshot()
        promised = engine.nominations.competing_pods(pod, snapshot.nodes.index)
        at_once = cycle.find_feasible(profile(), pod, snapshot, promised)
        one_by_one = cycle.find_feasible(profile(), pod, snapshot, dict(promised))
        assert at_once.passes.tolist() == one_by_one.passes.tolist(), f"seed {seed}"
        assert no_node_message(at_once.diagnosis()) == no_node_message(one_by_one.diagnosis()), f"seed {seed}"
        free = cycle.find_feasible(profile(), pod, snapshot)
        crowded += int(free.passes.sum() - at_once.passes.sum())
        for node in range(snapshot.count):
            assert cycle.fits(profile(), pod, snapshot, promised, node) == at_once.passes[node], f"seed {seed}"
    assert crowded > 20


def test_promises_that_come_and_go_are_counted_as_those_that_are_there_from_the_start() -> None:
    rng = random.Random(1)
    kept, names = Nominations(), [f"node-{number}" for number in range(6)]
    index = {name: place for place, name in enumerate(names)}
    reader = Engine([profile()]).cache.reader
    pods = [reader.read(a_pod(number, a_spec(rng), "x", rng.choice((0, 5)))) for number in range(20)]
    for _ in range(200):
        kept.nominate(rng.choice(pods), rng.choice((*names, "", "elsewhere")))
        asking = rng.choice(pods)
        found = kept.competing_pods(asking, index)
        fresh = kept.branch().competing_pods(asking, index)
        assert {node: set(map(str, others)) for node, others in found.items()} == {
            node: set(map(str, others)) for node, others in fresh.items()
        }
        assert found.pod_count.tolist() == fresh.pod_count.tolist()
        assert all(
            found.requested_amounts(column).tolist() == fresh.requested_amounts(column).tolist() for column in range(3)
        )


def test_placing_a_run_at_once_changes_no_placement() -> None:
    lengths = []
    outcomes = []
    for seed in range(60):
        plain, alone = run_story(seed, NO_SHORTCUTS, 1)
        at_once, longest = run_story(seed, Shortcuts(stretches=False), 1000)
        assert at_once == plain, f"seed {seed}"
        assert alone == 0
        lengths.append(longest)
        outcomes += [outcome for _, outcome in plain]
    assert sum(length >= 10 for length in lengths) > 10
    assert 0.1 < outcomes.count("Refused") / len(outcomes) < 0.9


def test_placing_different_pods_in_one_go_changes_no_placement() -> None:
    """The pods of the story differ, or come in runs; some concern others, and some find no node."""
    lengths = []
    for seed in range(60):
        plain, _ = run_story(seed, NO_SHORTCUTS, 1)
        in_one_go, longest = run_story(seed, Shortcuts(batches=seed % 2 > 0), 1000)
        assert in_one_go == plain, f"seed {seed}"
        lengths.append(longest)
    assert sum(length >= 10 for length in lengths) > 10
