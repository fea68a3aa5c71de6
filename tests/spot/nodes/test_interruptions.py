"""The history of spot nodes that ended, and what is advised after it (B24, B30, B44)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from situate.spot.model.pods_nodes_workloads import Capacity, NodeFacts, NodeState
from situate.spot.nodes.interruptions import (
    MOST_RETURNS,
    MOST_WAVES,
    RETURN_S,
    InterruptionHistory,
    Return,
    Wave,
    from_text,
    observe_nodes,
    to_text,
)
from situate.spot.nodes.savings import HOURS_PER_MONTH
from situate.spot.report.target_advice import Advice, advise_target
from tests.spot.builders import NOW, OD, SPOT, workload

MONTH_S = HOURS_PER_MONTH * 3600


def nodes(names: Iterable[str], capacity: Capacity = SPOT, **more: Any) -> dict[str, NodeFacts]:
    return {name: NodeFacts(name, capacity, pool=f"m5/{name[0]}", **more) for name in names}


def wave(nodes: int, of: int, began: float = NOW) -> Wave:
    return Wave(began, began, nodes, of)


@pytest.mark.rule("spot:B44", "spot:B24")
def test_nodes_that_end_together_are_one_wave() -> None:
    history = observe_nodes(InterruptionHistory(), nodes(["a1", "a2", "b1", "b2"]), NOW)
    assert (history.since, history.waves, history.largest_wave) == (NOW, (), None)
    assert observe_nodes(history, nodes(["a1", "a2", "b1", "b2"]), NOW + 1) is history
    history = observe_nodes(history, nodes(["a1", "a2"]), NOW + 60)
    history = observe_nodes(history, nodes(["a1", "a2"], state=NodeState.DOOMED, deadline=NOW + 200), NOW + 100)
    (one,) = history.waves
    assert (one.began, one.last, one.nodes, one.of, one.pools) == (NOW + 60, NOW + 100, 4, 4, {"m5/a": 2, "m5/b": 2})
    history = observe_nodes(history, nodes(["c1"]), NOW + 900)
    history = observe_nodes(history, nodes([]), NOW + 1000)
    assert [each.nodes for each in history.waves] == [4, 1]
    assert history.largest_wave == 4


def test_on_demand_nodes_that_go_and_a_new_process_end_nothing() -> None:
    history = observe_nodes(InterruptionHistory(), nodes(["od"], OD), NOW)
    assert observe_nodes(history, {}, NOW + 5).waves == ()
    read = from_text(to_text(observe_nodes(InterruptionHistory(), nodes(["a"]), NOW)))
    assert observe_nodes(read, nodes(["b"]), NOW + 9).waves == (), "what was there before is not known"


def test_the_oldest_waves_are_forgotten_and_the_history_begins_later() -> None:
    history = InterruptionHistory(NOW)
    for number in range(MOST_WAVES + 2):
        at = NOW + 1000 * number
        history = observe_nodes(observe_nodes(history, nodes(["a"]), at), {}, at + 1)
    assert len(history.waves) == MOST_WAVES
    assert history.since == NOW + 1000 + 1


@pytest.mark.rule("spot:B27")
def test_nodes_that_come_back_are_remembered_by_node_and_pool() -> None:
    history = observe_nodes(observe_nodes(InterruptionHistory(), nodes(["a1", "b1"]), NOW), nodes(["b1"]), NOW + 60)
    history = observe_nodes(history, nodes(["b1", "b2", "a2"]), NOW + 240)
    assert history.returns == (Return(NOW + 240, "a2", "m5/a"),), "nothing of b has ended"
    assert observe_nodes(history, nodes(["b1", "b2", "a2"]), NOW + 250) is history
    both = observe_nodes(history, nodes(["b1", "b2", "a3"]), NOW + 500)
    assert [each.node for each in both.returns] == ["a2", "a3"], "one for the other in one look"
    late = observe_nodes(history, nodes(["b1", "b2", "a2", "a3"]), NOW + 60 + RETURN_S)
    assert late.returns == history.returns
    for number in range(MOST_RETURNS):
        history = observe_nodes(history, nodes([f"a{number}x"]), NOW + 300 + number)
    assert len(history.returns) == MOST_RETURNS
    assert from_text(to_text(history)).returns == history.returns


@given(st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 9), st.integers(1, 9)), max_size=5))
def test_a_history_survives_being_written(given_waves: list[tuple[int, int, int]]) -> None:
    waves = tuple(Wave(at, at + 60, of, of + more, {"p": of}) for at, of, more in sorted(given_waves))
    history = InterruptionHistory(5.0, waves)
    assert from_text(to_text(history)) == history


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"since":1,"waves":[]}', '{"since":"2026-01-01T00:00:00Z","waves":[1]}']
)
def test_what_cannot_be_read_is_no_history(text: str) -> None:
    assert from_text(text) == InterruptionHistory()


@pytest.mark.rule("spot:B30")
def test_the_share_that_ends_in_a_month() -> None:
    history = InterruptionHistory(NOW - MONTH_S, (wave(1, 10), wave(2, 10)))
    assert history.ended_share_per_month(10, NOW) == pytest.approx(0.3)
    assert history.ended_share_per_month(0, NOW) is None
    assert InterruptionHistory().ended_share_per_month(10, NOW) is None


@pytest.mark.rule("spot:B44", "spot:S31")
@pytest.mark.parametrize(
    ("waves", "replicas", "kind", "asked", "want"),
    [
        pytest.param([wave(5, 5)], 10, "Deployment", 0, (1, 1), id="all spot went: one must stay"),
        pytest.param([wave(2, 4)], 10, "Deployment", 0, (0, 0), id="half of spot went: five stayed"),
        pytest.param([wave(5, 5)], 5, "StatefulSet", 3, (3, 0), id="the majority was enough"),
        pytest.param([wave(5, 5), wave(1, 5)], 5, "StatefulSet", 1, (3, 1), id="in one of two it was not"),
        pytest.param([wave(1, 5)], 5, "StatefulSet", 1, (0, 0), id="one of five never takes the majority"),
        pytest.param([wave(3, 3)], 1, "StatefulSet", 1, (1, 0), id="an only pod"),
        pytest.param([wave(5, 5)], 2**31 - 1, "StatefulSet", 2**31 - 1, (2**30, 0), id="as many as there can be"),
    ],
)
def test_the_least_that_every_recorded_wave_would_have_left_enough_of(
    waves: list[Wave], replicas: int, kind: str, asked: int, want: tuple[int, int]
) -> None:
    found = advise_target(
        workload(asked, "", replicas, kind=kind), InterruptionHistory(NOW - MONTH_S, tuple(waves)), NOW
    )
    assert found is not None
    assert (found.on_demand, found.too_few) == want
    assert found.short_s_per_month == pytest.approx(80 * want[1])


@pytest.mark.rule("spot:B44")
def test_without_a_record_nothing_is_advised() -> None:
    assert advise_target(workload(0, "", 3), InterruptionHistory(NOW - 10), NOW) is None
    assert advise_target(workload(0, "", 0), InterruptionHistory(NOW - 10, (wave(1, 1),)), NOW) is None
    soon = advise_target(workload(0, "", 3), InterruptionHistory(NOW - 10, (wave(1, 1),)), NOW)
    assert soon == Advice(1, 0, 1, 1, 1.0, 80.0)
