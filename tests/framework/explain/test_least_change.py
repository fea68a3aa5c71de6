from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from situate.framework.cycle.cycle import PluginFailed
from situate.framework.engine.decisions import Placed, Refused
from situate.framework.engine.engine import Engine
from situate.framework.explain.explain import Explanation, Question, explain
from situate.framework.explain.least_change import LeastChange, SuggestedChange, least_change
from situate.framework.explain.relaxations import Kind, relaxations, toleration_of, toleration_relaxation, with_priority
from situate.framework.plugin_api.actions import Evict
from situate.framework.pod.resources import CPU, PODS, amounts
from situate.framework.results.status import Code
from situate.objects.kinds.nodes import Node, Taint
from situate.objects.kinds.pods import (
    Affinity,
    Container,
    ContainerPort,
    PersistentVolumeClaimSource,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodResourceClaim,
    PodSchedulingGate,
    PodSpec,
    ResourceRequirements,
    TopologySpreadConstraint,
    Volume,
)
from situate.objects.kinds.selectors import LabelSelector
from situate.objects.values.quantity import Quantity, parse_quantity
from tests.framework.clusters import a_node, a_pod, an_engine, random_engine

SEEDS = st.integers(0, 10_000)
GPU = Taint("gpu", "", "NoSchedule")
CORDON = "node.kubernetes.io/unschedulable"


def told_of(engine: Engine, pod: Pod) -> tuple[Explanation, LeastChange]:
    explanation = explain(Question.of(engine, pod))
    return explanation, least_change(explanation)


def readable(engine: Engine) -> Callable[[Pod], bool]:
    """Whether no plugin fails over the pod, as over terms that cannot be read."""

    def holds(pod: Pod) -> bool:
        try:
            explain(Question.of(engine, pod))
        except PluginFailed:
            return False
        return True

    return holds


def fits(engine: Engine, pod: Pod) -> bool:
    """Without ending anybody."""
    branch = engine.branch()
    branch.set_pod(pod, 0.0)
    return isinstance(branch.schedule(0.0), Placed)


def preempts(engine: Engine, pod: Pod) -> bool:
    branch = engine.branch()
    branch.set_pod(pod, 0.0)
    decision = branch.schedule(0.0)
    assert isinstance(decision, Placed | Refused)
    return isinstance(decision, Placed) or bool(decision.post_filter and decision.post_filter.nominate)


def with_room(engine: Engine, name: str, room: dict[str, int]) -> Engine:
    """A branch where the node has so much more."""
    branch = engine.branch()
    node = branch.cache.node(name)
    assert node is not None
    allocatable = dict(node.status.allocatable)
    for resource, more in room.items():
        before = allocatable.get(resource, Quantity(0))
        allocatable[resource] = before + Quantity(more * (10**6 if resource == CPU else 10**9))
    status = msgspec.structs.replace(node.status, allocatable=allocatable)
    branch.set_node(msgspec.structs.replace(node, status=status), 0.0)
    return branch


def opened(engine: Engine, name: str) -> Engine:
    """A branch where the node is not cordoned."""
    branch = engine.branch()
    node = branch.cache.node(name)
    assert node is not None
    taints = tuple(taint for taint in node.spec.taints if taint.key != CORDON)
    spec = msgspec.structs.replace(node.spec, unschedulable=False, taints=taints)
    branch.set_node(msgspec.structs.replace(node, spec=spec), 0.0)
    return branch


def applied(engine: Engine, pod: Pod, change: SuggestedChange) -> tuple[Engine, Pod]:
    match change.kind:
        case Kind.UNCORDON:
            return opened(engine, change.node), pod
        case Kind.CAPACITY:
            return with_room(engine, change.node, dict(change.missing_amounts)), pod
        case Kind.PREEMPTION:
            return engine, pod
        case _:
            assert change.pod is not None
            return engine, change.pod


def nodes_of(engine: Engine) -> Iterator[Node]:
    for name in engine.cache.nodes:
        node = engine.cache.node(name)
        assert node is not None
        yield node


def missing_part(engine: Engine, name: str, pod: Pod) -> tuple[float, dict[str, int]]:
    """What a node lacks, counted plainly, and the largest part of a request that is."""
    info = engine.cache.reader.read(pod)
    node = engine.cache.node(name)
    assert node is not None
    free = amounts(node.status.allocatable)
    for other in engine.snapshot.pods_on(engine.snapshot.nodes.index[name]):
        free[PODS] = free.get(PODS, 0) - 1
        for resource, amount in other.template.request.amounts.items():
            free[resource] = free.get(resource, 0) - amount
    lacks = {}
    part = 0.0
    for resource, asked in (*info.template.request.amounts.items(), (PODS, 1)):
        short = asked - free.get(resource, 0)
        if short > 0:
            lacks[resource] = short
            part = max(part, short / asked)
    return part, lacks


def test_each_change_suffices_and_nothing_smaller_of_its_kind_does() -> None:
    rare = {Kind.GATE, Kind.VOLUME, Kind.HOST_PORT, Kind.ANTI_AFFINITY}  # which tests below are about
    expected = set(Kind) - rare
    seen: set[Kind] = set()
    for seed in range(600):
        engine, pods = random_engine(seed, 1)
        for pod in filter(readable(engine), pods):
            seen |= {change.kind for change in check_changes(engine, pod).changes} - rare
        if seed >= 80 and seen == expected:
            break
    assert seen == expected


def check_changes(engine: Engine, pod: Pod) -> LeastChange:
    explanation, told = told_of(engine, pod)
    if explanation.node:
        assert told == LeastChange()
    order = list(Kind)
    kinds = [change.kind for change in told.changes]
    assert kinds == sorted(kinds, key=order.index)
    for change in told.changes:
        changed, then = applied(engine, pod, change)
        if change.kind in (Kind.PREEMPTION, Kind.PRIORITY):
            assert preempts(changed, then)
        else:
            assert fits(changed, then), change.text
        if change.kind is Kind.CAPACITY:
            check_least_room(engine, pod, change)
        if change.kind is Kind.SPREAD and "maxSkew" in change.text:
            check_least_skew(engine, pod, change)
        if change.kind is Kind.PRIORITY:
            check_least_priority(engine, pod, change)
    return told


def check_least_room(engine: Engine, pod: Pod, change: SuggestedChange) -> None:
    for resource in change.missing_amounts:
        less = {name: amount - (name == resource) for name, amount in change.missing_amounts.items()}
        assert not fits(with_room(engine, change.node, less), pod)
    part, lacks = missing_part(engine, change.node, pod)
    assert lacks == dict(change.missing_amounts)
    for name in engine.cache.nodes:
        smaller, there = missing_part(engine, name, pod)
        if there and smaller < part:
            assert not fits(with_room(engine, name, there), pod)


def check_least_skew(engine: Engine, pod: Pod, change: SuggestedChange) -> None:
    assert change.pod is not None
    before, after = pod.spec.topology_spread_constraints, change.pod.spec.topology_spread_constraints
    (number,) = (place for place, (one, other) in enumerate(zip(before, after, strict=True)) if one != other)
    for skew in range(before[number].max_skew, after[number].max_skew):
        less = list(after)
        less[number] = msgspec.structs.replace(after[number], max_skew=skew)
        spec = msgspec.structs.replace(pod.spec, topology_spread_constraints=tuple(less))
        assert not fits(engine, msgspec.structs.replace(pod, spec=spec))


def check_least_priority(engine: Engine, pod: Pod, change: SuggestedChange) -> None:
    assert change.pod is not None
    assert change.pod.spec.priority is not None
    own = pod.spec.priority or 0
    for level in {0, 1, 10, 11, 100, 101}:
        if own <= level < change.pod.spec.priority:
            assert not preempts(engine, with_priority(level).apply_to(pod))


@settings(max_examples=20)
@given(SEEDS)
def test_where_no_change_is_told_none_suffices(seed: int) -> None:
    engine, pods = random_engine(seed, 1, nodes=4)
    assume(list(filter(readable(engine), pods)))
    pod = pods[0]
    explanation, told = told_of(engine, pod)
    assume(not explanation.node and not told.changes)
    tried = [each.apply_to(pod) for each in relaxations(pod.spec)]
    tried += [
        msgspec.structs.replace(
            pod, spec=msgspec.structs.replace(pod.spec, tolerations=(*pod.spec.tolerations, toleration_of(taint)))
        )
        for node in nodes_of(engine)
        for taint in node.spec.taints
    ]
    assert not any(fits(engine, each) for each in tried)
    assert not any(fits(opened(engine, name), pod) for name in engine.cache.nodes)
    assert not any(
        fits(with_room(engine, name, missing_part(engine, name, pod)[1]), pod) for name in engine.cache.nodes
    )
    assert not any(preempts(engine, with_priority(level).apply_to(pod)) for level in (1, 11, 101))
    if told.together:
        check_together(engine, pod, told.together)


def check_together(engine: Engine, pod: Pod, changes: tuple[SuggestedChange, ...]) -> None:
    """All of them open the node that they are about, and none can be left out."""
    (name,) = {change.node for change in changes}
    node = engine.cache.node(name)
    assert node is not None
    assert len(changes) > 1
    known = [*relaxations(pod.spec), *(toleration_relaxation(toleration_of(taint)) for taint in node.spec.taints)]
    by_text = {each.text: each for each in known}
    for left_out in (None, *changes):
        changed, then = engine, pod
        for change in changes:
            if change is not left_out and change.text in by_text:
                then = by_text[change.text].apply_to(then)
            elif change is not left_out:
                changed, then = applied(changed, then, change)
        nodes = [group.nodes for group in explain(Question.of(changed, then)).groups if group.code is Code.SUCCESS]
        assert any(name in each for each in nodes) == (left_out is None)


def test_room_is_told_where_the_smallest_part_of_the_request_is_missing() -> None:
    engine = an_engine(
        a_node("a", cpu="1"), a_node("b", cpu="2"), a_node("c", cpu="3"), pods=(a_pod("x", "2", node="c"),)
    )
    _, told = told_of(engine, a_pod("web", "2300m"))
    assert [(change.text, change.node) for change in told.changes] == [
        ("b lacks 300m cpu", "b"),
        ("raise the priority to 1, so that it preempts 1 pod on c", "c"),
    ]
    assert told.changes[0].missing_amounts == {CPU: 300}


@pytest.mark.parametrize(
    ("spec", "text", "nodes"),
    [
        pytest.param(PodSpec(node_selector={"disk": "ssd"}), "drop nodeSelector disk=ssd", 4, id="a label"),
        pytest.param(PodSpec(), "tolerate taint gpu:NoSchedule", 4, id="a taint"),
    ],
)
def test_one_demand_may_be_all_that_is_in_the_way(spec: PodSpec, text: str, nodes: int) -> None:
    taints = (GPU,) if not spec.node_selector else ()
    engine = an_engine(*(a_node(f"n{number}", taints=taints) for number in range(4)))
    _, told = told_of(engine, a_pod("web", "1", spec=spec))
    assert [(change.text, change.nodes) for change in told.changes] == [(text, nodes)]


def test_a_taint_of_two_effects_takes_the_wider_toleration() -> None:
    engine = an_engine(a_node("a", taints=(GPU, Taint("gpu", "", "NoExecute"))))
    _, told = told_of(engine, a_pod("web"))
    assert [change.text for change in told.changes] == ["tolerate taint gpu with any value and effect"]


@pytest.mark.finding("N15")
def test_a_request_that_no_empty_node_meets_asks_for_a_larger_node() -> None:
    engine = an_engine(a_node("a", cpu="30"), a_node("b", cpu="32"), pods=(a_pod("x", "2", node="b"),))
    _, told = told_of(engine, a_pod("web", "100"))
    assert [change.text for change in told.changes] == ["add a node with 100 cpu: larger than any node (32 cpu)"]
    assert (told.changes[0].node, told.changes[0].missing_amounts) == ("a", {CPU: 70_000})


@pytest.mark.finding("N15")
def test_a_resource_that_no_node_has_is_told_as_that() -> None:
    wants = Container(resources=ResourceRequirements({"example.com/gpu": parse_quantity("1")}))
    _, told = told_of(an_engine(a_node("a")), a_pod("web", spec=PodSpec(containers=(wants,))))
    assert [change.text for change in told.changes] == ["add a node with 1 example.com/gpu: no node has any"]


@pytest.mark.finding("N9")
def test_an_amount_that_is_cut_is_not_shown_as_exact() -> None:
    _, told = told_of(an_engine(a_node("a", cpu="32")), a_pod("web", "1e30"))
    (text,) = [change.text for change in told.changes]
    assert text == "add a node with more than 4503599627370 cpu: larger than any node (32 cpu)"


@pytest.mark.finding("N15")
@pytest.mark.parametrize(
    ("gates", "text"), [(("a/x",), "remove gate a/x"), (("a/x", "b/y"), "remove gates a/x, b/y")], ids=["one", "two"]
)
def test_a_gate_is_told_by_its_name(gates: tuple[str, ...], text: str) -> None:
    gated = PodSpec(scheduling_gates=tuple(map(PodSchedulingGate, gates)))
    _, told = told_of(an_engine(a_node("a")), a_pod("web", spec=gated))
    assert [(change.kind, change.text) for change in told.changes] == [(Kind.GATE, text)]


def test_the_change_that_asks_least_comes_first() -> None:
    low = tuple(a_pod(f"low-{number}", "2", node="a") for number in range(2))
    engine = an_engine(a_node("a"), a_node("b", taints=(GPU,)), a_node("c", cordoned=True), pods=low)
    _, told = told_of(engine, a_pod("web", "3", spec=PodSpec(priority=5)))
    assert [change.kind for change in told.changes] == [Kind.PREEMPTION, Kind.UNCORDON, Kind.CAPACITY, Kind.TOLERATION]
    first = told.changes[0]
    assert first.text == "preempting 2 pods of lower priority on a, which the scheduler does by itself"
    assert set(first.victims) == {("default", "low-0"), ("default", "low-1")}
    assert told.changes[1].text == "uncordon c"


def test_a_pod_that_may_not_preempt_is_told_what_would_happen_if_it_might() -> None:
    engine = an_engine(
        a_node("a"), pods=(a_pod("low", "2", node="a"), a_pod("high", "1", node="a", spec=PodSpec(priority=9)))
    )
    pod = a_pod("web", "3", spec=PodSpec(priority=5, preemption_policy="Never"))
    _, told = told_of(engine, pod)
    assert [change.text for change in told.changes] == [
        "a lacks 2 cpu",
        "raise the priority to 5, so that it preempts 1 pod on a",
    ]


def test_other_pods_may_be_in_the_way() -> None:
    term = PodAffinityTerm("kubernetes.io/hostname", LabelSelector({"app": "web"}))
    spread = TopologySpreadConstraint(1, "kubernetes.io/hostname", "DoNotSchedule", LabelSelector({"app": "web"}))
    there = tuple(a_pod(f"web-{number}", "3", node="a", labels={"app": "web"}) for number in range(1))
    apart = PodSpec(affinity=Affinity(pod_anti_affinity=PodAffinity((term,))))
    engine = an_engine(a_node("a", cpu="64"), pods=there)
    told = check_changes(engine, a_pod("new", "1", spec=apart, labels={"app": "web"}))
    assert [change.text for change in told.changes] == [
        "drop required pod anti-affinity to app=web by kubernetes.io/hostname",
        "raise the priority to 1, so that it preempts 1 pod on a",
    ]
    engine.set_node(a_node("b", taints=(GPU,)), 0.0)
    engine.set_pod(a_pod("web-1", node="a", labels={"app": "web"}), 0.0)
    _, told = told_of(
        engine, a_pod("new", "1", spec=PodSpec(topology_spread_constraints=(spread,)), labels={"app": "web"})
    )
    assert "raise maxSkew from 1 to 3 of the spread of app=web over kubernetes.io/hostname" in [
        each.text for each in told.changes
    ]


def test_a_port_of_the_host_may_be_in_the_way() -> None:
    spec = PodSpec(containers=(Container(ports=(ContainerPort(80, 80),)),))
    engine = an_engine(a_node("a"), pods=(a_pod("there", node="a", spec=spec),))
    told = check_changes(engine, a_pod("web", spec=spec))
    assert told.changes[0].text == "drop host port 80/TCP"


def test_a_volume_may_be_in_the_way() -> None:
    volume = Volume("data", PersistentVolumeClaimSource("no-such-claim"))
    told = check_changes(an_engine(a_node("a")), a_pod("web", spec=PodSpec(volumes=(volume,))))
    assert [(change.kind, change.text) for change in told.changes] == [(Kind.VOLUME, "drop volume data")]


def test_where_no_change_is_of_use_none_is_told() -> None:
    engine = an_engine()
    assert told_of(engine, a_pod("web"))[1] == LeastChange()
    claims = (PodResourceClaim("gpu"),)
    assert told_of(an_engine(a_node("a")), a_pod("web", spec=PodSpec(resource_claims=claims)))[1] == LeastChange()


def test_where_it_takes_several_changes_they_are_told_together() -> None:
    engine = an_engine(a_node("a", cpu="2", taints=(GPU,), cordoned=True), a_node("b", cpu="1", taints=(GPU,)))
    pod = a_pod("web", "1500m", spec=PodSpec(node_selector={"disk": "ssd"}))
    explanation, told = told_of(engine, pod)
    assert not explanation.node
    assert told.changes == ()
    assert [change.text for change in told.together] == [
        "uncordon a",
        "tolerate taint gpu:NoSchedule",
        "drop nodeSelector disk=ssd",
    ]


def test_a_gate_is_all_that_is_in_the_way_of_a_pod_that_would_fit() -> None:
    gated = a_pod("web", spec=PodSpec(scheduling_gates=(PodSchedulingGate("example.com/quota"),)))
    _, told = told_of(an_engine(a_node("a")), gated)
    assert [(change.kind, change.node) for change in told.changes] == [(Kind.GATE, "a")]


def test_a_pod_that_fits_needs_no_change() -> None:
    assert told_of(an_engine(a_node("a")), a_pod("web"))[1] == LeastChange()


def test_asking_leaves_everything_as_it_is() -> None:
    engine = an_engine(a_node("a", cpu="2", taints=(GPU,), cordoned=True), pods=(a_pod("x", "1", node="a"),))
    before = engine.snapshot
    requested = before.requested(0).copy()
    told_of(engine, a_pod("web", "3", spec=PodSpec(priority=3)))
    assert engine.snapshot is before
    assert np.array_equal(before.requested(0), requested)
    assert not any(isinstance(action, Evict) for action in engine.take_requested_actions())
