from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from situate.framework.cycle.cycle import PluginFailed
from situate.framework.engine.decisions import Failed, Placed, Refused
from situate.framework.engine.engine import Engine
from situate.framework.engine.messages import no_node_message
from situate.framework.explain.explain import Explanation, FilterLine, Question, Share, explain
from situate.framework.results.status import Code
from situate.objects.kinds.nodes import Taint
from situate.objects.kinds.pods import Pod, PodSchedulingGate, PodSpec
from tests.framework.clusters import a_node, a_pod, an_engine, random_engine

SEEDS = st.integers(0, 10_000)
GPU = Taint("gpu", "", "NoSchedule")


def explained(engine: Engine, pod: Pod) -> Explanation | None:
    """None where a plugin cannot say, as of terms that cannot be read."""
    try:
        return explain(Question.of(engine, pod))
    except PluginFailed:
        return None


@settings(max_examples=30)
@given(SEEDS)
def test_what_is_explained_is_what_the_engine_decides(seed: int) -> None:
    engine, pods = random_engine(seed, 3)
    for pod in pods:
        told = explained(engine, pod)
        engine.set_pod(pod, 0.0)
        decision = engine.schedule(0.0)
        if told is None:
            assert isinstance(decision, Failed)
            engine.remove_pod(pod.metadata.uid, 0.0)
        elif isinstance(decision, Placed):
            assert told.node == decision.node
            assert told.best_nodes[0] == told.node or told.scores[0].total == told.scores[1].total
            assert not told.message
        else:
            assert isinstance(decision, Refused)
            assert not told.node
            assert told.message == no_node_message(decision.diagnosis)
            assert told.diagnosis.rejectors == decision.diagnosis.rejectors
            engine.remove_pod(pod.metadata.uid, 0.0)


@settings(max_examples=30)
@given(SEEDS)
def test_every_node_is_in_one_group_and_every_total_is_the_sum_of_its_shares(seed: int) -> None:
    engine, pods = random_engine(seed, 2)
    for pod in pods:
        told = explained(engine, pod)
        if told is None:
            continue
        grouped = [node for group in told.groups for node in group.nodes]
        assert sorted(grouped) == (sorted(engine.snapshot.nodes.names) if told.groups else [])
        assert sum(len(group.nodes) for group in told.groups if group.code is Code.SUCCESS) == told.feasible
        assert sum(line.refused for line in told.filters) <= engine.snapshot.count - told.feasible
        for score in told.scores:
            assert score.total == sum(share.weighted for share in score.shares.values())


def test_a_pod_in_place_is_explained_as_if_it_were_not() -> None:
    engine = an_engine(a_node("a"), a_node("b"), pods=(a_pod("web", "4", node="b"), a_pod("other", "1", node="a")))
    told = explain(Question.of(engine, a_pod("web", "4", node="b")))
    assert told.node == "b"
    assert [(group.nodes, group.refusals) for group in told.groups] == [
        (("b",), ()),
        (("a",), (("NodeResourcesFit", ("Insufficient cpu",)),)),
    ]
    assert len(engine.snapshot.placed) == 2


def test_nodes_of_equal_answers_are_told_together_with_all_that_is_said_of_them() -> None:
    nodes = [a_node(f"gpu-{number}", taints=(GPU,), cordoned=True) for number in range(3)]
    told = explain(Question.of(an_engine(*nodes, a_node("small", cpu="1")), a_pod("web", "2")))
    assert [(group.nodes, group.code) for group in told.groups] == [
        (("gpu-0", "gpu-1", "gpu-2"), Code.UNRESOLVABLE),
        (("small",), Code.UNRESOLVABLE),
    ]
    assert told.groups[0].refusals == (
        ("NodeUnschedulable", ("node(s) were unschedulable",)),
        ("TaintToleration", ("node(s) had untolerated taint(s)",)),
    )
    by_plugin = {line.plugin: line for line in told.filters}
    assert by_plugin["NodeUnschedulable"].reasons == {"node(s) were unschedulable": 3}
    assert by_plugin["TaintToleration"] == FilterLine("TaintToleration", True, 0, 3, {})
    assert not by_plugin["InterPodAffinity"].concerned
    assert told.message == "0/4 nodes are available: 1 Insufficient cpu, 3 node(s) were unschedulable."


def test_scores_are_told_plugin_by_plugin() -> None:
    engine = an_engine(a_node("a"), a_node("b"), pods=(a_pod("other", "2", node="a"),))
    told = explain(Question.of(engine, a_pod("web", "1")))
    assert [score.node for score in told.scores] == ["b", "a"]
    by_node = {score.node: score.shares for score in told.scores}
    assert by_node["b"]["TaintToleration"] == Share(0, 100, 300)
    assert by_node["a"]["NodeResourcesFit"].raw < by_node["b"]["NodeResourcesFit"].raw
    assert told.best_nodes == ("b",)


def test_a_gated_pod_is_explained_as_if_the_gate_were_open() -> None:
    gated = a_pod("web", spec=PodSpec(scheduling_gates=(PodSchedulingGate("example.com/quota"),)))
    told = explain(Question.of(an_engine(a_node("a")), gated))
    assert told.gate is not None
    assert (told.gate.plugin, told.gate.message) == (
        "SchedulingGates",
        "waiting for scheduling gates: [example.com/quota]",
    )
    assert told.node == "a"


def test_a_node_that_was_promised_is_taken_without_a_comparison() -> None:
    engine = an_engine(a_node("a"), a_node("b", cpu="1"))
    pod = a_pod("web", "500m")
    engine.set_pod(pod, 0.0)
    engine.nominations.nominate(engine.cache.reader.read(pod), "b")
    told = explain(Question.of(engine, pod))
    assert (told.node, told.uses_nomination) == ("b", True)
    decision = engine.schedule(0.0)
    assert isinstance(decision, Placed)
    assert decision.node == "b"


def test_without_nodes_there_is_nothing_to_say_but_that() -> None:
    told = explain(Question.of(an_engine(), a_pod("web")))
    assert told.message == "no nodes available to schedule pods"
    assert told.groups == ()
