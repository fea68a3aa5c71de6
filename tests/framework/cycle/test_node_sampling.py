"""How many nodes are looked at, and which one is taken where nothing tells them apart (framework.md, 4 step 5, 6)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from situate.framework.cycle.node_sampling import feasible_nodes_to_find, visit
from situate.framework.engine.decisions import Asked, Placed, PlacedRun
from situate.framework.engine.engine import Engine
from situate.framework.explain.explain import Question, explain
from situate.framework.plugin_api.configuration import Extender
from situate.framework.plugin_api.plugin import Scores
from situate.framework.pod.pods import PodInfo
from situate.framework.preemption.extenders import FilterReply
from situate.framework.profile.profile import ALL_NODES, profile_of
from situate.framework.snapshot.snapshot import Snapshot
from situate.plugins.node_resources_fit import NodeResourcesFit
from situate.plugins.priority_sort import PrioritySort
from tests.framework.engine.test_engine import Binder, node, pod

FILTERS = Extender("http://filters.example", filter_verb="filter")
ENDS = Extender("http://ends.example", preempt_verb="preempt", bind_verb="bind")


class Fits:
    """Fit without its scores."""

    name = "Fits"
    reads = NodeResourcesFit.reads

    def __init__(self) -> None:
        fit = NodeResourcesFit()
        self.filter = fit.filter


class Likes:
    """The later, the better."""

    name = "Likes"

    def score(self, state: object, pod: PodInfo, snapshot: Snapshot) -> Scores:
        return np.arange(snapshot.count, dtype=np.int64)


def engine_of(*plugins: Any, percentage: int = ALL_NODES, extenders: tuple[Extender, ...] = ()) -> Engine:
    members = (PrioritySort(), Fits(), *plugins, Binder())
    engine = Engine([profile_of("here", [(each, 1) for each in members], percentage)], extenders=extenders)
    for name in "abcd":
        engine.set_node(node(name), 0)
    return engine


def placed(engine: Engine, *names: str, cpu: str = "100m") -> list[str]:
    found = []
    for name in names:
        engine.set_pod(pod(name, cpu), 0)
        (decision,) = engine.schedule_run(0, 10)
        (one,) = decision if isinstance(decision, PlacedRun) else (decision,)
        assert isinstance(one, Placed)
        found.append(one.node)
    return found


@pytest.mark.parametrize("percentage", [ALL_NODES, 0])
def test_without_scores_the_first_feasible_node_is_taken_round_robin(percentage: int) -> None:
    engine = engine_of(percentage=percentage)
    assert placed(engine, *"123456") == ["a", "b", "c", "d", "a", "b"]


def test_nodes_that_are_refused_on_the_way_count_as_visited() -> None:
    engine = engine_of()
    engine.set_pod(pod("full", "1", on="b"), 0)
    assert placed(engine, *"1234") == ["a", "c", "d", "a"]
    assert engine.next_start("here") == 1


def test_many_equal_pods_are_spread_alike() -> None:
    engine = engine_of()
    for number in range(6):
        engine.set_pod(pod(str(number), "100m"), 0)
    found = [each.node for each in engine.schedule_run(0, 10) if isinstance(each, Placed)]
    assert found == ["a", "b", "c", "d", "a", "b"]


def test_with_scores_all_are_compared() -> None:
    assert placed(engine_of(Likes()), "1", "2") == ["d", "d"]


def test_an_extender_that_filters_is_shown_all_nodes() -> None:
    engine = engine_of(extenders=(FILTERS,))
    engine.set_pod(pod("p", "100m"), 0)
    asked = engine.schedule(0)
    assert isinstance(asked, Asked)
    (question,) = asked.questions
    assert getattr(question, "nodes", ()) == ("a", "b", "c", "d")
    decision = engine.resume([FilterReply(("c", "d"), {}, {})], 0)
    assert isinstance(decision, Placed)
    assert decision.node == "c"


def test_an_extender_that_has_no_say_about_nodes_changes_nothing() -> None:
    engine = engine_of(extenders=(ENDS,))
    assert placed(engine, "1", "2") == ["a", "b"]


def test_an_explanation_names_the_same_node() -> None:
    engine = engine_of()
    placed(engine, "1", "2")
    assert explain(Question.of(engine, pod("3", "100m"))).node == "c"


@pytest.mark.parametrize(
    ("nodes", "percentage", "enough"),
    [(99, 0, 99), (1000, 0, 420), (5000, 0, 500), (6000, 0, 300), (15000, 0, 750), (200, 10, 100), (5000, 30, 1500)],
)
def test_so_many_feasible_nodes_are_enough(nodes: int, percentage: int, enough: int) -> None:
    assert feasible_nodes_to_find(nodes, percentage) == enough


def test_visits_go_round() -> None:
    passes = np.array([True, False, True, True, False])
    nodes, visited = visit(passes, 3, 2)
    assert (nodes.tolist(), visited) == ([0, 3], 3)
