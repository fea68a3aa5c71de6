"""Extenders as the engine sees them: what it asks, in which order, and what it makes of their replies."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.framework.engine.decisions import Asked, Failed, Placed, PlacedRun, Refused
from situate.framework.engine.messages import refusal
from situate.framework.plugin_api.actions import Bind, BindByExtender
from situate.framework.plugin_api.configuration import ManagedResource
from situate.framework.preemption.extenders import (
    ExtenderQuestion,
    ExtenderReply,
    FilterNodes,
    FilterReply,
    NoReply,
    PrioritizeNodes,
    PrioritizeReply,
)
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.pods import Container, ResourceRequirements
from situate.objects.values.quantity import parse_quantity
from tests.framework.extending import (
    GPU,
    Answering,
    by_name,
    carried_out,
    engine_of,
    extender,
    node,
    nowhere,
    passes,
    pod,
    scheduled,
    with_nodes,
)


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
        pytest.param(FilterReply(("z",), {}, {}), "returned node z, which was not in the request", id="stranger"),
        pytest.param(PrioritizeReply(()), "returned PrioritizeReply", id="another question's"),
    ],
)
def test_a_filter_that_fails_fails_the_cycle_by_name_and_the_pod_comes_back(reply: ExtenderReply, problem: str) -> None:
    engine = with_nodes(engine_of(extender()), "a")
    engine.set_pod(pod("p"), 0)
    failed, _ = scheduled(engine, lambda question: reply)
    assert isinstance(failed, Failed)
    assert failed.plugin == "http://one"
    assert failed.error == f"extender http://one at filter: {problem}"
    engine.tick(5)
    placed, _ = scheduled(engine, passes("a"), 5)
    assert isinstance(placed, Placed)


@pytest.mark.parametrize("reply", [NoReply("no route"), FilterReply(("z",), {}, {})])
def test_one_that_may_be_ignored_is_passed_over_when_it_fails(reply: ExtenderReply) -> None:
    engine = with_nodes(engine_of(extender("one", filter_verb="filter", ignorable=True)), "a")
    engine.set_pod(pod("p"), 0)
    placed, _ = scheduled(engine, lambda question: reply)
    assert isinstance(placed, Placed)


def scored(**scores: int) -> Answering:
    return lambda question: PrioritizeReply(tuple(scores.items()))


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
    reply = PrioritizeReply((("z", 10), ("a", 3), ("b", 2), ("b", 2)))
    placed, _ = scheduled(engine, lambda question: reply)
    assert isinstance(placed, Placed)
    assert placed.node == "b"


def test_a_single_node_is_taken_unscored() -> None:
    engine = with_nodes(engine_of(extender(prioritize_verb="prioritize", weight=1)), "a")
    engine.set_pod(pod("p"), 0)
    placed, asked = scheduled(engine, nowhere)
    assert isinstance(placed, Placed)
    assert asked == []


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

    def answer(question: ExtenderQuestion) -> ExtenderReply:
        name = question.extender.url_prefix.removeprefix("http://")
        kind, number = name[0], name[1]
        if kind == "s":
            given_scores = scorers[int(number)][0]
            return NoReply("") if given_scores is None else PrioritizeReply(tuple(given_scores))
        reply = filters[int(number)][0]
        assert isinstance(question, FilterNodes)
        if reply is None:
            return NoReply("")
        kept, failed, unresolvable = reply
        return FilterReply(
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
                text for _, found, _ in decision.diagnosis.refused for text in found.reasons_at(at)
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
