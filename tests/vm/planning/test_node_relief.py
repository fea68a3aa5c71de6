from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from situate.vm.config.settings import MigrationLimits
from situate.vm.model.migrations import Stage
from situate.vm.model.pods_and_nodes import Role
from situate.vm.model.state import Permit, Waiter
from situate.vm.planning.node_relief import excess, plan_relief
from situate.vm.planning.plan import Plan, Way
from tests.vm.planning.playing import played
from tests.vm.planning.shapes import NOW, RULES, cluster, move, node, plain, state, units, vm


def whither(made: Plan) -> list[tuple[str, str]]:
    return [(each.machine.name, each.target_node) for each in made.moves]


@pytest.mark.rule("vm:B24")
@pytest.mark.parametrize(
    ("held", "leave"),
    [
        pytest.param(80, 0, id="at its watermark"),
        pytest.param(81, 6, id="above it: down to a twentieth of Total below"),
        pytest.param(76, 0, id="between the two, coming from below"),
    ],
)
def test_relief_starts_above_the_watermark_and_stops_a_little_below(held: int, leave: int) -> None:
    seen = state(node("n1", 100, vm("a", held), watermark=0.8))
    assert excess(seen, "n1", RULES) == units(leave)


@pytest.mark.rule("vm:B24", "vm:B18", "vm:B1")
def test_the_cheapest_leave_and_nobody_claims_it() -> None:
    pods = (vm("a", 1), vm("b", 2), vm("c", 6), vm("d", 28, migratable=False), vm("e", 44, migratable=False))
    made = plan_relief(state(node("n1", 100, *pods, watermark=0.8), node("n2", 100, watermark=0.8)), "n1", NOW, RULES)
    assert (made.way, whither(made), made.claims) == (Way.RELIEF, [("c", "n2")], ())


@pytest.mark.rule("vm:B24", "vm:B27")
def test_it_goes_to_the_watermark_where_no_more_can_leave_and_else_as_near_as_it_can() -> None:
    just = state(node("n1", 100, vm("a", 3), plain("p", 80), watermark=0.8), node("n2", 100))
    assert whither(plan_relief(just, "n1", NOW, RULES)) == [("a", "n2")]
    little = state(node("n1", 100, vm("a", 3), vm("b", 2), plain("p", 90), watermark=0.8), node("n2", 100))
    assert sorted(whither(plan_relief(little, "n1", NOW, RULES))) == [("a", "n2"), ("b", "n2")]
    one = replace(little, nodes={**little.nodes, "n2": node("n2", 3)})
    assert whither(plan_relief(one, "n1", NOW, RULES)) == [("a", "n2")]


@pytest.mark.rule("vm:D7")
def test_a_machine_above_the_watermark_goes_to_a_node_that_is_larger_and_stays_otherwise() -> None:
    big = node("n1", 10, vm("big", 9), watermark=0.8)
    same, larger = node("n2", 10, watermark=0.8), node("n2", 40, watermark=0.8)
    assert plan_relief(state(big, same), "n1", NOW, RULES).moves == ()
    assert whither(plan_relief(state(big, larger), "n1", NOW, RULES)) == [("big", "n2")]


@pytest.mark.rule("vm:C29", "vm:I9", "vm:C28")
def test_what_leaves_already_and_what_is_ignored_does_not_press() -> None:
    pods = (vm("a", 10), vm("b", 80))
    begun = state(node("n1", 100, *pods, watermark=0.8), moves=(move("a", "n1", "n2", 10, stage=Stage.PLANNED),))
    assert not excess(begun, "n1", RULES)
    source = state(node("n1", 100, replace(vm("a", 10, role=Role.SOURCE)), vm("b", 80), watermark=0.8))
    assert not excess(source, "n1", RULES)
    ignored = state(node("n1", 100, replace(plain("o", 10), ignored=True), vm("b", 80), watermark=0.8))
    assert not excess(ignored, "n1", RULES)


@pytest.mark.rule("vm:B25")
def test_nobody_leaves_for_relief_while_it_cools_down() -> None:
    arrived = vm("a", 10, moved_at=(NOW - 60,))
    seen = state(node("n1", 100, arrived, plain("p", 80), watermark=0.8), node("n2", 100))
    made = plan_relief(seen, "n1", NOW, RULES)
    assert made.moves == ()
    assert made.reasons[0] == "shop/a was migrated, and its cool-down lasts another 540 s"
    assert made.unsolved


@pytest.mark.rule("vm:B24", "vm:B17")
@pytest.mark.parametrize(
    ("after", "leaves"), [pytest.param(9.9, "a", id="at once"), pytest.param(10.0, "c", id="late")]
)
def test_one_who_is_about_to_use_what_it_was_granted_is_not_frozen_for_the_nodes_sake(
    after: float, leaves: str
) -> None:
    """It were short for as long as its move takes, and the node is over its watermark because of its growth."""
    grown = replace(vm("c", 8), used=units(5))
    pods = (vm("a", 9), grown, plain("p", 65))
    seen = state(node("n1", 100, *pods, watermark=0.8), node("n2", 100, watermark=0.8))
    seen = replace(seen, permits={"c": Permit(units(8), NOW + 60, raised_at=NOW - after)})
    assert whither(plan_relief(seen, "n1", NOW, RULES)) == [(leaves, "n2")]


@pytest.mark.rule("vm:B24", "vm:B1")
@pytest.mark.parametrize(
    ("other", "leaves"), [pytest.param(8, ["a"], id="enough"), pytest.param(1, ["a", "c"], id="too little")]
)
def test_those_who_wait_are_moved_for_the_nodes_sake_only_if_the_others_are_not_enough(
    other: int, leaves: list[str]
) -> None:
    pods = (vm("a", other), vm("c", 6, 9), plain("p", 76 - other))
    seen = state(node("n1", 100, *pods, watermark=0.8), node("n2", 100, watermark=0.8))
    seen = replace(seen, waiters={"c": Waiter("c", NOW)})
    assert [who for who, _ in whither(plan_relief(seen, "n1", NOW, RULES))] == leaves


@pytest.mark.rule("vm:B26")
def test_no_relief_while_no_move_may_leave() -> None:
    moves = (move("x", "n1", "n3"), move("y", "n1", "n4"))
    pods = (vm("a", 10), vm("b", 80))
    seen = state(node("n1", 100, *pods, watermark=0.8), node("n2", 100), moves=moves)
    made = plan_relief(seen, "n1", NOW, structs.replace(RULES, calm=MigrationLimits(link="1Ti")))
    assert (made.reasons, made.unsolved) == (("2 migrations leave node n1, and at most 2 may",), False)
    assert plan_relief(seen, "none", NOW, RULES).reasons == ("node none is not known",)


@pytest.mark.rule("vm:I13", "vm:I12", "vm:B27")
@given(st.integers(0, 2**32), st.integers(2, 5), st.integers(2, 14))
def test_relief_never_lifts_a_target_above_its_watermark_and_is_over_in_one_go(
    seed: int, nodes: int, pods: int
) -> None:
    seen = cluster(Random(seed), nodes, pods, watermark=0.8)
    low = seen.nodes["n000"]
    seen = replace(seen, nodes={**seen.nodes, "n000": replace(low, watermark=units(6))})
    made = plan_relief(seen, "n000", NOW, RULES)
    after = played(seen, made)
    if not excess(after, "n000", RULES):
        assert not plan_relief(after, "n000", NOW, RULES)
