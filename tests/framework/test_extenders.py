"""Extenders as the engine sees them: what it asks, in which order, and what it makes of their replies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.framework.actions import Bind, BindByExtender, Evict
from situate.framework.configuration import Extender, ManagedResource
from situate.framework.decisions import Asked, Decision, Failed, Placed, PlacedRun, Refused
from situate.framework.engine import Engine
from situate.framework.extenders import (
    Filtered,
    FilterNodes,
    NoReply,
    Preempted,
    Prioritized,
    PrioritizeNodes,
    ProcessPreemption,
    Question,
    Reply,
)
from situate.framework.messages import refusal
from situate.framework.profile import profile_of
from situate.framework.queue.scheduling import QueueSettings
from situate.objects.meta import ObjectMeta
from situate.objects.nodes import Node, NodeStatus
from situate.objects.pods import (
    Container,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    TopologySpreadConstraint,
)
from situate.objects.quantity import parse_quantity
from situate.objects.selectors import LabelSelector
from situate.plugins.default_binder import DefaultBinder
from situate.plugins.default_preemption import DefaultPreemption
from situate.plugins.node_resources_fit import NodeResourcesFit
from situate.plugins.pod_topology_spread import PodTopologySpread
from situate.plugins.priority_sort import PrioritySort

Answering = Callable[[Question], Reply]
GPU = "example.com/gpu"


def extender(name: str = "one", **settings: Any) -> Extender:
    verbs = settings or {"filter_verb": "filter"}
    return Extender(f"http://{name}", **verbs)


def engine_of(*extenders: Extender, score: bool = False) -> Engine:
    plugins: list[tuple[Any, int]] = [(PrioritySort(), 0), (DefaultPreemption(), 0), (DefaultBinder(), 0)]
    profile = profile_of("here", plugins + ([(NodeResourcesFit(), 1)] if score else [(FitOnly(), 0)]))
    return Engine([profile], QueueSettings(pop_from_backoff=False), extenders=extenders)


class FitOnly:
    """Room, without an opinion on which node is better."""

    name = "NodeResourcesFit"

    def __init__(self) -> None:
        fit = NodeResourcesFit()
        self.filter = fit.filter
        self.needs = fit.needs
        self.events = fit.events


def node(name: str, cpu: str = "1") -> Node:
    room = {"cpu": parse_quantity(cpu), "memory": parse_quantity("1Gi"), "pods": parse_quantity("10")}
    return Node(ObjectMeta(name=name), status=NodeStatus(allocatable={**room, GPU: parse_quantity("4")}))


def pod(
    name: str, cpu: str = "600m", *, on: str = "", priority: int = 0, gpu: bool = False, nominated: str = ""
) -> Pod:
    requests = {"cpu": parse_quantity(cpu)} | ({GPU: parse_quantity("1")} if gpu else {})
    spec = PodSpec(
        scheduler_name="here",
        node_name=on,
        priority=priority,
        containers=(Container(resources=ResourceRequirements(requests=requests)),),
    )
    meta = ObjectMeta(name=name, namespace="default", uid=name)
    return Pod(meta, spec, PodStatus(nominated_node_name=nominated))


def with_nodes(engine: Engine, *names: str) -> Engine:
    for name in names:
        engine.set_node(node(name), 0)
    return engine


def carried_out(engine: Engine, decision: Any, answer: Answering, now: float = 0) -> tuple[Any, list[Question]]:
    """The decision in the end, with all that was asked for it."""
    asked: list[Question] = []
    while isinstance(decision, Asked):
        asked += decision.questions
        decision = engine.resume([answer(question) for question in decision.questions], now)
    return decision, asked


def scheduled(engine: Engine, answer: Answering, now: float = 0) -> tuple[Decision | None, list[Question]]:
    decision, asked = carried_out(engine, engine.schedule(now), answer, now)
    return decision, asked


def passes(*names: str, failed: dict[str, str] | None = None, unresolvable: dict[str, str] | None = None) -> Answering:
    """An extender that lets these of the nodes pass that it is asked about."""

    def answer(question: Question) -> Reply:
        assert isinstance(question, FilterNodes)
        return Filtered(tuple(each for each in question.nodes if each in names), failed or {}, unresolvable or {})

    return answer


def by_name(**answers: Answering) -> Answering:
    return lambda question: answers[question.extender.url_prefix.removeprefix("http://")](question)


def nowhere(question: Question) -> Reply:
    return NoReply("it took more than 5 s")


# Filter


def test_filters_are_asked_one_after_the_other_about_what_is_left() -> None:
    engine = with_nodes(engine_of(extender("one"), extender("two")), "a", "b", "c")
    engine.set_pod(pod("p"), 0)
    placed, asked = scheduled(engine, by_name(one=passes("b", "c"), two=passes("a", "c")))
    assert isinstance(placed, Placed)
    assert placed.node == "c"
    assert [each.nodes for each in asked if isinstance(each, FilterNodes)] == [("a", "b", "c"), ("b", "c")]


def test_those_that_may_be_ignored_come_last() -> None:
    lenient = extender("lenient", filter_verb="filter", ignorable=True)
    engine = with_nodes(engine_of(lenient, extender("strict")), "a")
    engine.set_pod(pod("p"), 0)
    _, asked = scheduled(engine, passes("a"))
    assert [each.extender.url_prefix for each in asked] == ["http://strict", "http://lenient"]


def test_only_nodes_that_the_plugins_pass_are_asked_about() -> None:
    engine = with_nodes(engine_of(extender()), "a", "b")
    engine.set_pod(pod("there", on="a"), 0)
    engine.set_pod(pod("p"), 0)
    _, asked = scheduled(engine, passes("b"))
    assert isinstance(asked[0], FilterNodes)
    assert asked[0].nodes == ("b",)


def test_nobody_is_asked_about_no_node() -> None:
    engine = with_nodes(engine_of(extender()), "a")
    engine.set_pod(pod("p", cpu="2"), 0)
    refused, asked = scheduled(engine, passes("a"))
    assert isinstance(refused, Refused)
    assert asked == []


def test_a_refusal_says_what_the_extenders_said_and_unresolvable_goes_first() -> None:
    engine = with_nodes(engine_of(extender()), "a", "b", "c", "d")
    engine.set_pod(pod("p"), 0)
    answer = passes(failed={"a": "no licence", "b": "no licence"}, unresolvable={"b": "wrong site"})
    refused, _ = scheduled(engine, answer)
    assert isinstance(refused, Refused)
    assert refusal(refused).startswith("0/4 nodes are available: 1 no licence, 1 wrong site. preemption: ")
    names = refused.diagnosis.snapshot.nodes.names
    codes = dict(zip(names, refused.diagnosis.codes().tolist(), strict=True))
    assert codes == {"a": 2, "b": 3, "c": 3, "d": 3}
    assert refused.diagnosis.rejectors == {"Extender"}


def test_an_extender_need_not_say_why() -> None:
    engine = with_nodes(engine_of(extender()), "a")
    engine.set_pod(pod("p"), 0)
    refused, _ = scheduled(engine, passes())
    assert isinstance(refused, Refused)
    assert refusal(refused).startswith("0/1 nodes are available: preemption: ")


def test_what_plugins_refused_keeps_their_reasons() -> None:
    engine = with_nodes(engine_of(extender()), "a", "b")
    engine.set_pod(pod("there", on="a"), 0)
    engine.set_pod(pod("p"), 0)
    refused, _ = scheduled(engine, passes(failed={"a": "not asked about", "b": "no licence"}))
    assert isinstance(refused, Refused)
    assert refusal(refused).startswith("0/2 nodes are available: 1 Insufficient cpu, 1 no licence. ")
    assert refused.diagnosis.rejectors == {"Extender", "NodeResourcesFit"}


def test_any_event_wakes_a_pod_that_an_extender_refused() -> None:
    engine = with_nodes(engine_of(extender()), "a")
    engine.set_pod(pod("p"), 0)
    scheduled(engine, passes(failed={"a": "no licence"}))
    assert engine.schedule(100) is None
    changed = msgspec.structs.replace(node("a"), metadata=ObjectMeta(name="a", annotations={"licence": "new"}))
    engine.set_node(changed, 100)
    placed, _ = scheduled(engine, passes("a"), 101)
    assert isinstance(placed, Placed)


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        pytest.param(NoReply("it took more than 5 s"), "it took more than 5 s", id="none"),
        pytest.param(Filtered(("z",), {}, {}), "passes node z, which it was not asked about", id="stranger"),
        pytest.param(Prioritized(()), "answered Prioritized", id="another question's"),
    ],
)
def test_a_filter_that_fails_fails_the_cycle_by_name_and_the_pod_comes_back(reply: Reply, problem: str) -> None:
    engine = with_nodes(engine_of(extender()), "a")
    engine.set_pod(pod("p"), 0)
    failed, _ = scheduled(engine, lambda question: reply)
    assert isinstance(failed, Failed)
    assert failed.plugin == "http://one"
    assert failed.error == f"extender http://one at filter: {problem}"
    engine.tick(5)
    placed, _ = scheduled(engine, passes("a"), 5)
    assert isinstance(placed, Placed)


@pytest.mark.parametrize("reply", [NoReply("no route"), Filtered(("z",), {}, {})])
def test_one_that_may_be_ignored_is_passed_over_when_it_fails(reply: Reply) -> None:
    engine = with_nodes(engine_of(extender("one", filter_verb="filter", ignorable=True)), "a")
    engine.set_pod(pod("p"), 0)
    placed, _ = scheduled(engine, lambda question: reply)
    assert isinstance(placed, Placed)


# Prioritize


def scored(**scores: int) -> Answering:
    return lambda question: Prioritized(tuple(scores.items()))


def test_scores_are_asked_for_at_once_and_count_tenfold_by_weight() -> None:
    one = extender("one", prioritize_verb="prioritize", weight=1)
    two = extender("two", prioritize_verb="prioritize", weight=3)
    engine = with_nodes(engine_of(one, two, score=True), "a", "b")
    engine.set_pod(pod("there", cpu="100m", on="b"), 0)  # a is the better one by 10, which is one point here
    engine.set_pod(pod("p", cpu="100m"), 0)
    asked = engine.schedule(0)
    assert isinstance(asked, Asked)
    assert [type(each) for each in asked.questions] == [PrioritizeNodes] * 2
    placed, _ = carried_out(engine, asked, by_name(one=scored(a=10), two=scored(b=5)))
    assert placed.node == "b"


@pytest.mark.parametrize("failing", [nowhere, scored(b=2**62)], ids=["none", "nonsense"])
def test_one_that_does_not_score_is_passed_over(failing: Answering) -> None:
    one = extender("one", prioritize_verb="prioritize", weight=1)
    two = extender("two", prioritize_verb="prioritize", weight=1)
    engine = with_nodes(engine_of(one, two), "a", "b", "c")
    engine.set_pod(pod("p"), 0)
    placed, _ = scheduled(engine, by_name(one=failing, two=scored(c=1)))
    assert isinstance(placed, Placed)
    assert placed.node == "c"


def test_scores_of_strangers_are_passed_over_and_those_of_one_node_add_up() -> None:
    engine = with_nodes(engine_of(extender(prioritize_verb="prioritize", weight=1)), "a", "b")
    engine.set_pod(pod("p"), 0)
    reply = Prioritized((("z", 10), ("a", 3), ("b", 2), ("b", 2)))
    placed, _ = scheduled(engine, lambda question: reply)
    assert isinstance(placed, Placed)
    assert placed.node == "b"


def test_a_single_node_is_taken_unscored() -> None:
    engine = with_nodes(engine_of(extender(prioritize_verb="prioritize", weight=1)), "a")
    engine.set_pod(pod("p"), 0)
    placed, asked = scheduled(engine, nowhere)
    assert isinstance(placed, Placed)
    assert asked == []


# Whom it concerns


def test_pods_that_no_extender_manages_go_their_way_unasked_and_together() -> None:
    managing = extender("one", filter_verb="filter", managed_resources=(ManagedResource(GPU),))
    engine = with_nodes(engine_of(managing, score=True), "a", "b")
    for number in range(4):
        engine.set_pod(pod(f"p{number}", cpu="100m"), 0)
    decisions = engine.schedule_run(0, 10)
    assert [type(each) for each in decisions] == [PlacedRun]
    engine.set_pod(pod("with-gpu", cpu="100m", gpu=True), 0)
    placed, asked = scheduled(engine, passes("b"))
    assert isinstance(placed, Placed)
    assert placed.node == "b"
    assert len(asked) == 1


def test_pods_that_an_extender_manages_are_not_placed_as_a_run() -> None:
    engine = with_nodes(engine_of(extender(), score=True), "a", "b")
    for number in range(2):
        engine.set_pod(pod(f"p{number}", cpu="100m"), 0)
    (asked,) = engine.schedule_run(0, 10)
    assert isinstance(asked, Asked)
    placed, _ = carried_out(engine, asked, passes("b"))
    assert placed.node == "b"


def test_a_limit_or_an_init_container_makes_an_extender_interested() -> None:
    managing = extender("one", filter_verb="filter", managed_resources=(ManagedResource(GPU),))
    engine = with_nodes(engine_of(managing), "a")
    limited = Container(resources=ResourceRequirements(limits={GPU: parse_quantity("1")}))
    for field in ("containers", "init_containers"):
        each = pod(field, cpu="1m")
        spec = msgspec.structs.replace(each.spec, **{field: (limited,)})
        engine.set_pod(msgspec.structs.replace(each, spec=spec), 0)
        _, asked = scheduled(engine, passes("a"))
        assert len(asked) == 1


# While a question is open


def test_nothing_else_is_decided_while_a_question_is_open() -> None:
    engine = with_nodes(engine_of(extender()), "a")
    for name in ("p", "q"):
        engine.set_pod(pod(name), 0)
    asked = engine.schedule(0)
    assert isinstance(asked, Asked)
    for again in (lambda: engine.schedule(0), lambda: engine.schedule_run(0, 2)):
        with pytest.raises(RuntimeError, match="pod default/p: its extenders have been asked"):
            again()
    assert isinstance(carried_out(engine, asked, passes("a"))[0], Placed)
    with pytest.raises(RuntimeError, match="no cycle has asked"):
        engine.resume([], 0)


def test_what_happens_meanwhile_does_not_move_the_ground_under_the_cycle() -> None:
    engine = with_nodes(engine_of(extender("one", filter_verb="f", prioritize_verb="p", weight=1)), "a", "b", "c")
    engine.set_pod(pod("p"), 0)
    asked = engine.schedule(0)
    engine.set_pod(pod("other", on="b"), 1)
    engine.set_node(node("d"), 1)
    engine.remove_node("a", 1)
    assert isinstance(asked, Asked)
    asked = engine.resume([passes("a", "b", "c")(asked.questions[0])], 2)
    assert isinstance(asked, Asked)
    assert isinstance(asked.questions[0], PrioritizeNodes)
    assert asked.questions[0].nodes == ("a", "b", "c")
    placed = engine.resume([Prioritized((("c", 1),))], 3)
    assert isinstance(placed, Placed)
    assert placed.node == "c"
    snapshot = engine.snapshot
    assert {snapshot.name(at): int(used) for at, used in enumerate(snapshot.requested(0))} == {
        "b": 600,
        "c": 600,
        "d": 0,
    }


def test_a_node_that_goes_meanwhile_is_not_bound_to() -> None:
    engine = with_nodes(engine_of(extender()), "a", "b")
    engine.set_pod(pod("p"), 0)
    asked = engine.schedule(0)
    assert isinstance(asked, Asked)
    engine.remove_node("a", 1)
    failed = engine.resume([passes("a")(asked.questions[0])], 2)
    assert isinstance(failed, Failed)
    assert failed.error == "node a has gone while extenders were asked about it"
    engine.tick(10)
    placed, _ = scheduled(engine, passes("b"), 10)
    assert isinstance(placed, Placed)


@pytest.mark.parametrize("deleted", [True, False])
def test_a_pod_that_goes_meanwhile_is_let_go(deleted: bool) -> None:
    engine = with_nodes(engine_of(extender()), "a", "b")
    engine.set_pod(pod("p"), 0)
    asked = engine.schedule(0)
    if deleted:
        engine.remove_pod("p", 1)
    else:
        engine.set_pod(pod("p", on="b"), 1)  # somebody else has bound it
    assert isinstance(asked, Asked)
    assert engine.resume([passes("a")(asked.questions[0])], 2) is None
    engine.tick(100)
    assert engine.schedule(100) is None
    assert sum(engine.snapshot.requested(0).tolist()) == (0 if deleted else 600)


# Nominations


def promised(engine: Engine) -> Engine:
    with_nodes(engine, "a", "b")
    engine.set_pod(pod("p", nominated="b"), 0)
    return engine


def test_the_promised_node_is_asked_about_alone_and_taken() -> None:
    placed, asked = scheduled(promised(engine_of(extender())), passes("a", "b"))
    assert isinstance(placed, Placed)
    assert placed.node == "b"
    assert [each.nodes for each in asked if isinstance(each, FilterNodes)] == [("b",)]


@pytest.mark.parametrize("first", [passes("a"), nowhere], ids=["refuses", "fails"])
def test_all_nodes_are_asked_about_where_the_promised_one_will_not_do(first: Answering) -> None:
    def answer(question: Question) -> Reply:
        assert isinstance(question, FilterNodes)
        return (first if question.nodes == ("b",) else passes("a"))(question)

    placed, asked = scheduled(promised(engine_of(extender())), answer)
    assert isinstance(placed, Placed)
    assert placed.node == "a"
    assert [each.nodes for each in asked if isinstance(each, FilterNodes)] == [("b",), ("a", "b")]


def test_where_an_extender_refused_the_last_node_all_that_promised_nodes_lack_is_told() -> None:
    """Upstream asks about a promised node with the pods that it is promised to, and counts what is lacking then."""
    engine = with_nodes(engine_of(extender()), "a", "b")
    engine.set_pod(pod("a0", on="a"), 0)
    for number in range(1, 4):
        engine.set_pod(pod(f"a{number}", cpu="1m", on="a", gpu=True), 0)
    engine.set_pod(pod("p", gpu=True), 0)
    engine.set_pod(pod("other", cpu="1m", gpu=True, nominated="a"), 1)
    refused, _ = scheduled(engine, passes(unresolvable={"b": "no licence"}), 1)
    assert isinstance(refused, Refused)
    assert refused.pod.info.name == "p"
    assert refusal(refused).startswith(
        f"0/2 nodes are available: 1 Insufficient cpu, 1 Insufficient {GPU}, 1 no licence. preemption: "
    )


# Preemption


def crowded(*extenders: Extender) -> Engine:
    """Two nodes, each with two small pods; the victims on node b matter less."""
    engine = with_nodes(engine_of(*extenders), "a", "b")
    for name, on, priority in (("a1", "a", 5), ("a2", "a", 4), ("b1", "b", 1), ("b2", "b", 1)):
        engine.set_pod(pod(name, cpu="500m", on=on, priority=priority), 0)
    engine.set_pod(pod("p", priority=10), 0)
    return engine


def preempting(name: str = "one", *, ignorable: bool = False) -> Extender:
    return extender(name, preempt_verb="preempt", ignorable=ignorable)


def victims(refused: Decision | None) -> list[str]:
    assert isinstance(refused, Refused)
    return [action.uid for action in refused.actions if isinstance(action, Evict)]


def only(reply: dict[str, Sequence[str]]) -> Answering:
    return lambda question: Preempted({name: (tuple(uids), 0) for name, uids in reply.items()})


def test_candidates_are_shown_to_the_extender_and_it_shrinks_them() -> None:
    engine = crowded(preempting())
    refused, asked = scheduled(engine, only({"a": ("a1", "a2")}))
    (question,) = asked
    assert isinstance(question, ProcessPreemption)
    shown = {name: [each.name for each in found.pods] for name, found in question.victims.items()}
    assert shown == {"a": ["a1", "a2"], "b": ["b1", "b2"]}
    assert victims(refused) == ["a1", "a2"]
    assert engine.nominations.node_of("p") == "a"


def test_extenders_see_what_those_before_them_have_left() -> None:
    engine = crowded(preempting("one"), preempting("two"))
    answer = by_name(one=only({"a": ("a2", "a1")}), two=only({"a": ("a1", "a2")}))
    refused, asked = scheduled(engine, answer)
    assert [sorted(each.victims) for each in asked if isinstance(each, ProcessPreemption)] == [["a", "b"], ["a"]]
    assert victims(refused) == ["a1", "a2"]


def test_without_a_candidate_left_nobody_is_ended() -> None:
    refused, _ = scheduled(crowded(preempting()), only({}))
    assert victims(refused) == []
    assert isinstance(refused, Refused)
    assert refusal(refused) == (
        "0/2 nodes are available: 2 Insufficient cpu. preemption: no candidate node for preemption"
    )


def judged(**nodes: str) -> Engine:
    """On each of them a pod of lower priority, beside which there is room for another that an extender judges."""
    engine = with_nodes(engine_of(extender()), *nodes)
    for name, cpu in nodes.items():
        engine.set_pod(pod(f"{name}1", cpu=cpu, on=name), 0)
    engine.set_pod(pod("p", cpu="500m", priority=10), 0)
    return engine


def test_nobody_is_ended_on_a_node_that_only_the_extender_refused() -> None:
    for order in ({"a": "100m", "b": "100m"}, {"a": "100m"}):
        refused, _ = scheduled(judged(**order), passes(failed=dict.fromkeys(order, "later")))
        assert victims(refused) == []
        assert isinstance(refused, Refused)
        errors = [f'expected at least one victim pod on node "{name}"' for name in order]
        told = errors[0] if len(errors) == 1 else f"[{', '.join(sorted(errors))}]"
        count = len(order)
        found = refusal(refused).replace(f"[{', '.join(sorted(errors, reverse=True))}]", told)
        assert found == f"0/{count} nodes are available: {count} later. preemption: {told}"


def test_but_where_filters_refused_it_as_well_as_before() -> None:
    refused, _ = scheduled(judged(a="100m", b="900m"), passes(failed={"a": "later"}))
    assert victims(refused) == ["b1"]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        pytest.param(nowhere, "it took more than 5 s", id="none"),
        pytest.param(only({"z": ("a1",)}), "names node z, which there is not", id="node"),
        pytest.param(only({"a": ("b1",)}), "names a pod with uid b1, which is not on node a", id="pod"),
        pytest.param(only({"a": ()}), "names no victim on node a; needed: one or more", id="no victim"),
    ],
)
def test_an_extender_that_fails_at_preemption_ends_nobody(answer: Answering, problem: str) -> None:
    failed, _ = scheduled(crowded(preempting()), answer)
    assert isinstance(failed, Failed)
    assert failed.error == f"extender http://one at preempt: {problem}"


@pytest.mark.parametrize("answer", [nowhere, only({"z": ("a1",)})], ids=["none", "stranger"])
def test_one_that_may_be_ignored_has_no_say_in_preemption_when_it_fails(answer: Answering) -> None:
    refused, _ = scheduled(crowded(preempting(ignorable=True)), answer)
    assert victims(refused) == ["b1", "b2"]


def test_a_node_without_victims_is_passed_over_if_the_extender_may_be_ignored() -> None:
    refused, _ = scheduled(crowded(preempting(ignorable=True)), only({"a": ("a1", "a2"), "b": ()}))
    assert victims(refused) == ["a1", "a2"]


# Bind


def test_the_extender_that_binds_goes_before_the_plugins() -> None:
    binder = extender("one", bind_verb="bind")
    engine = with_nodes(engine_of(binder), "a")
    engine.set_pod(pod("p"), 0)
    placed = engine.schedule(0)
    assert isinstance(placed, Placed)  # nothing had to be asked
    assert engine.binding(placed).bind == (BindByExtender(("default", "p"), "p", "a", binder),)


def test_the_plugins_bind_after_one_that_may_be_ignored() -> None:
    binder = extender("one", bind_verb="bind", ignorable=True)
    engine = with_nodes(engine_of(binder), "a")
    engine.set_pod(pod("p"), 0)
    placed = engine.schedule(0)
    assert isinstance(placed, Placed)
    key = ("default", "p")
    assert engine.binding(placed).bind == (BindByExtender(key, "p", "a", binder, (Bind(key, "p", "a"),)),)


def test_it_binds_only_what_it_manages() -> None:
    binder = extender("one", bind_verb="bind", managed_resources=(ManagedResource(GPU),))
    engine = with_nodes(engine_of(binder), "a")
    engine.set_pod(pod("p"), 0)
    placed = engine.schedule(0)
    assert isinstance(placed, Placed)
    assert engine.binding(placed).bind == (Bind(("default", "p"), "p", "a"),)


# The twin: node by node, in plain words

NODES = tuple("abcdef")
_names = st.sampled_from(NODES)
_replies = st.one_of(
    st.just(None),
    st.tuples(st.sets(_names), st.dictionaries(_names, st.sampled_from(["x", "y"])), st.sets(_names)),
)
_scores = st.one_of(st.just(None), st.lists(st.tuples(_names, st.integers(0, 10)), max_size=8))


@given(
    filters=st.lists(st.tuples(_replies, st.booleans()), max_size=3),
    scorers=st.lists(st.tuples(_scores, st.integers(1, 5)), max_size=3),
)
def test_filtering_and_scoring_agree_with_a_plain_twin(
    filters: list[tuple[tuple[set[str], dict[str, str], set[str]] | None, bool]],
    scorers: list[tuple[list[tuple[str, int]] | None, int]],
) -> None:
    extenders = [
        extender(f"f{number}", filter_verb="filter", ignorable=ignorable)
        for number, (_, ignorable) in enumerate(filters)
    ]
    extenders += [
        extender(f"s{number}", prioritize_verb="score", weight=weight) for number, (_, weight) in enumerate(scorers)
    ]

    def answer(question: Question) -> Reply:
        name = question.extender.url_prefix.removeprefix("http://")
        kind, number = name[0], name[1]
        if kind == "s":
            given_scores = scorers[int(number)][0]
            return NoReply("") if given_scores is None else Prioritized(tuple(given_scores))
        reply = filters[int(number)][0]
        assert isinstance(question, FilterNodes)
        if reply is None:
            return NoReply("")
        kept, failed, unresolvable = reply
        return Filtered(
            tuple(name for name in question.nodes if name in kept), failed, dict.fromkeys(unresolvable, "z")
        )

    engine = with_nodes(engine_of(*extenders), *NODES)
    engine.set_pod(pod("p"), 0)
    decision, _ = scheduled(engine, answer)

    left = list(NODES)
    reasons: dict[str, list[str]] = {}
    for reply, ignorable in sorted(filters, key=lambda each: each[1]):
        if not left:
            break
        if reply is None:
            if not ignorable:
                assert isinstance(decision, Failed)
                return
            continue
        kept, failed, unresolvable = reply
        for name in left:
            if name not in kept:
                reasons[name] = ["z"] if name in unresolvable else [failed[name]] if name in failed else []
        left = [name for name in left if name in kept]
    if not left:
        assert isinstance(decision, Refused)
        told = {
            decision.diagnosis.snapshot.name(at): [
                text for _, found, _ in decision.diagnosis.refused for text in found.of(at)
            ]
            for at in range(len(NODES))
        }
        assert told == reasons
        return
    totals = {
        name: sum(
            score * weight * 10
            for given_scores, weight in scorers
            for host, score in given_scores or []
            if host == name
        )
        for name in left
    }
    assert isinstance(decision, Placed)
    assert decision.node == max(left, key=lambda name: (totals[name], -NODES.index(name)))


def test_a_cycle_that_stood_still_leaves_no_count_behind_that_has_become_wrong() -> None:
    def rack(name: str, value: str) -> Node:
        return msgspec.structs.replace(node(name, cpu="100"), metadata=ObjectMeta(name=name, labels={"rack": value}))

    def spread(name: str, on: str = "") -> Pod:
        each = pod(name, cpu="1m", on=on)
        meta = msgspec.structs.replace(each.metadata, labels={"app": "x"})
        constraint = TopologySpreadConstraint(1, "rack", "ScheduleAnyway", LabelSelector(match_labels={"app": "x"}))
        spec = msgspec.structs.replace(each.spec, topology_spread_constraints=(constraint,))
        return msgspec.structs.replace(each, metadata=meta, spec=spec)

    profile = profile_of("here", [(PrioritySort(), 0), (PodTopologySpread(), 1), (DefaultBinder(), 0)])
    engine = Engine([profile], extenders=[extender()])
    for name, value in (("a", "1"), ("b", "1"), ("c", "2")):
        engine.set_node(rack(name, value), 0)
    for number, on in enumerate(("a", "b", "b", "b", "c", "c")):
        engine.set_pod(spread(f"there-{number}", on), 0)
    engine.set_pod(spread("first"), 0)
    asked = engine.schedule(0)
    engine.set_node(rack("b", "2"), 1)  # four against two before, one against five now
    everywhere = passes("a", "b", "c")
    first, _ = carried_out(engine, asked, everywhere, 1)
    assert first.node == "c", "decided by what it saw"
    engine.set_pod(spread("second"), 2)
    second, _ = scheduled(engine, everywhere, 2)
    assert isinstance(second, Placed)
    assert second.node == "a"
