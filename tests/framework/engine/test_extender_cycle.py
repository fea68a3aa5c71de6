"""What happens while a cycle stands still because extenders are asked, and where it goes on."""

from __future__ import annotations

import msgspec
import pytest

from situate.framework.engine.decisions import Asked, Failed, Placed, Refused
from situate.framework.engine.engine import Engine
from situate.framework.engine.messages import refusal
from situate.framework.preemption.extenders import (
    ExtenderQuestion,
    ExtenderReply,
    FilterNodes,
    PrioritizeNodes,
    PrioritizeReply,
)
from situate.framework.profile.profile import profile_of
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.nodes import Node
from situate.objects.kinds.pods import Pod, TopologySpreadConstraint
from situate.objects.kinds.selectors import LabelSelector
from situate.plugins.default_binder import DefaultBinder
from situate.plugins.pod_topology_spread import PodTopologySpread
from situate.plugins.priority_sort import PrioritySort
from tests.framework.extending import (
    GPU,
    Answering,
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


def test_nothing_else_is_decided_while_a_question_is_open() -> None:
    engine = with_nodes(engine_of(extender()), "a")
    for name in ("p", "q"):
        engine.set_pod(pod(name), 0)
    asked = engine.schedule(0)
    assert isinstance(asked, Asked)
    for again in (lambda: engine.schedule(0), lambda: engine.schedule_run(0, 2)):
        with pytest.raises(RuntimeError, match="the cycle of pod default/p waits for its extenders"):
            again()
    assert isinstance(carried_out(engine, asked, passes("a"))[0], Placed)
    with pytest.raises(RuntimeError, match="no cycle waits for replies"):
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
    placed = engine.resume([PrioritizeReply((("c", 1),))], 3)
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
    assert failed.error == "node a was deleted while the extenders evaluated it"
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
    def answer(question: ExtenderQuestion) -> ExtenderReply:
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
