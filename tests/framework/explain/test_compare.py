from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from situate.framework.cycle.cycle import PluginFailed
from situate.framework.explain.compare import Agreement, compare
from situate.framework.explain.explain import Question, explain
from situate.objects.kinds.nodes import Taint
from tests.framework.clusters import a_node, a_pod, an_engine, random_engine


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(0, 8))
def test_the_comparison_is_what_explain_says_of_both_nodes(seed: int, which: int) -> None:
    engine, pods = random_engine(seed, 1)
    names = (*engine.snapshot.nodes.names, "")
    theirs = names[which % len(names)]
    for pod in pods:
        question = Question.of(engine, pod)
        try:
            told = explain(question)
        except PluginFailed:
            continue
        found = compare(question, theirs)
        assert found.ours == told.node
        feasible = {node for group in told.groups if not group.refusals for node in group.nodes}
        if not theirs or not told.node:
            expected = {
                (False, False): Agreement.SAME,
                (False, True): Agreement.REFUSED_THERE,
                (True, False): Agreement.REFUSED_HERE,
            }[bool(theirs), bool(told.node)]
        elif theirs == told.node:
            expected = Agreement.SAME
        elif theirs not in feasible:
            expected = Agreement.IMPOSSIBLE
        else:
            expected = Agreement.TIE if theirs in told.best_nodes else Agreement.OTHER
        assert found.agreement is expected
        assert bool(found.difference) != found.agreement.agrees


def test_a_worse_node_is_told_with_the_plugins_that_make_it_so() -> None:
    engine = an_engine(a_node("a"), a_node("b", taints=(Taint("slow", "", "PreferNoSchedule"),)))
    found = compare(Question.of(engine, a_pod("web")), "b")
    assert found.agreement is Agreement.OTHER
    assert found.shares == {"TaintToleration": (300, 0)}
    assert found.totals[0] - found.totals[1] == 300
    assert found.difference.endswith(": TaintToleration 300 against 0")


def test_a_node_that_cannot_do_is_told_with_all_that_is_said_of_it() -> None:
    engine = an_engine(a_node("a"), a_node("b", cpu="1", cordoned=True))
    pod = a_pod("web", "2")
    found = compare(Question.of(engine, pod), "b")
    assert found.agreement is Agreement.IMPOSSIBLE
    assert found.difference == "b: NodeUnschedulable: node(s) were unschedulable; NodeResourcesFit: Insufficient cpu"
    assert compare(Question.of(engine, pod), "gone").difference == "gone: the cluster: the node does not exist"


def test_equally_good_nodes_agree() -> None:
    engine = an_engine(a_node("a"), a_node("b"))
    found = compare(Question.of(engine, a_pod("web")), "b")
    assert (found.agreement, found.ours, found.difference) == (Agreement.TIE, "a", "")
    assert found.agreement.agrees


def test_where_nobody_finds_a_node_both_agree() -> None:
    engine = an_engine(a_node("a", cpu="1"))
    assert compare(Question.of(engine, a_pod("web", "2")), "").agreement is Agreement.SAME
    refused = compare(Question.of(engine, a_pod("web", "2")), "a")
    assert (refused.agreement, refused.difference) == (Agreement.REFUSED_HERE, "a: NodeResourcesFit: Insufficient cpu")
    assert compare(Question.of(an_engine(), a_pod("web")), "a").difference == "no nodes available to schedule pods"
