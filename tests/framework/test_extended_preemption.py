"""What extenders have to say about whom a pod may push out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from situate.framework.engine.decisions import Decision, Failed, Refused
from situate.framework.engine.engine import Engine
from situate.framework.engine.messages import refusal
from situate.framework.plugin_api.actions import Evict
from situate.framework.plugin_api.configuration import Extender
from situate.framework.preemption.extenders import PreemptionReply, ProcessPreemption
from tests.framework.extending import (
    Answering,
    by_name,
    engine_of,
    extender,
    nowhere,
    passes,
    pod,
    scheduled,
    with_nodes,
)


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
    return lambda question: PreemptionReply({name: (tuple(uids), 0) for name, uids in reply.items()})


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
        pytest.param(only({"z": ("a1",)}), "returned node z, which does not exist", id="node"),
        pytest.param(only({"a": ("b1",)}), "returned a pod with uid b1, which is not on node a", id="pod"),
        pytest.param(only({"a": ()}), "returned no victim on node a; allowed: one or more", id="no victim"),
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
