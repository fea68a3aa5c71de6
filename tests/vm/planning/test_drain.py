from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from situate.vm.config.settings import MigrationLimits
from situate.vm.model.migrations import Stage
from situate.vm.model.node_accounting import recount
from situate.vm.model.pods_and_nodes import Load, Node, Pod
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState, Waiter
from situate.vm.planning.drain import plan_drain
from situate.vm.planning.plan import Plan, Way
from tests.vm.planning.playing import moved, played
from tests.vm.planning.shapes import NOW, RULES, cluster, move, node, plain, state, vm

WIDE = structs.replace(RULES, calm=MigrationLimits(link="1Ti"))
THIN = structs.replace(WIDE, consolidate=True)


def whither(made: Plan) -> list[tuple[str, str]]:
    return [(each.machine.name, each.target_node) for each in made.moves]


def drained(name: str, size: int, *pods: Pod) -> Node:
    return replace(node(name, size, *pods), draining=True)


@pytest.mark.rule("vm:B46", "vm:B26")
def test_the_cheapest_go_first_and_as_many_as_may() -> None:
    pods = (vm("big", 5), vm("busy", 1, load=Load(load1=9.0)), vm("small", 1), vm("mid", 2))
    seen = state(drained("n1", 10, *pods), node("n2", 10))
    made = plan_drain(seen, "n1", NOW, WIDE)
    assert (made.way, whither(made), made.claims) == (Way.DRAIN, [("small", "n2"), ("mid", "n2")], ())
    assert made.reasons[0] == "shop/big waits: 2 migrations leave node n1, and at most 2 may"
    assert not made.unsolved, "the others leave when these have left"


@pytest.mark.rule("vm:B46", "vm:B26")
def test_no_more_go_than_the_link_carries_and_others_leave() -> None:
    pods = (vm("a", 1), vm("b", 1), vm("c", 1))
    seen = state(drained("n1", 10, *pods), node("n2", 10))
    assert whither(plan_drain(seen, "n1", NOW, RULES)) == [("a", "n2")], "one uses all that moves may"
    others = {each.key: each for each in (move(f"x{index}", "n3", "n4") for index in range(4))}
    assert whither(plan_drain(replace(seen, moves=others), "n1", NOW, WIDE)) == [("a", "n2")], (
        "the fifth in the cluster"
    )


@pytest.mark.rule("vm:B46")
def test_who_stays_is_explained() -> None:
    pods = (plain("web", 1), vm("fixed", 1, migratable=False), vm("huge", 8), vm("hot", 1, moved_at=(NOW - 1,)))
    seen = state(drained("n1", 20, *pods), node("n2", 5))
    made = plan_drain(seen, "n1", NOW, WIDE)
    assert (made.way, made.moves, made.unsolved) == (None, (), True)
    assert not plan_drain(state(drained("n1", 20, plain("web", 1))), "n1", NOW, WIDE).unsolved, (
        "only machines are to leave"
    )
    assert [reason.split(" ", 1) for reason in made.reasons] == [
        ["shop/web", "is not a VM"],
        ["shop/fixed", "has no label that allows live migration"],
        ["shop/huge", "stays because no schedulable node has capacity for it below the watermark"],
        ["shop/hot", "was migrated, and its cool-down lasts another 599 s"],
    ]


@pytest.mark.rule("vm:B46", "vm:B48")
def test_a_cordoned_node_is_not_emptied() -> None:
    cordoned = replace(node("n1", 10, vm("a", 1)), schedulable=False)
    assert not plan_drain(state(cordoned, node("n2", 10)), "n1", NOW, WIDE)
    assert plan_drain(state(cordoned), "none", NOW, WIDE).reasons == ("node none is not known",)


@pytest.mark.rule("vm:B46")
def test_a_drain_goes_on_until_the_node_is_empty() -> None:
    seen = state(drained("n1", 10, *(vm(f"a{number}", 1) for number in range(7))), node("n2", 4), node("n3", 3))
    for _ in range(4):
        seen = played(seen, plan_drain(seen, "n1", NOW, WIDE))
    assert not seen.nodes["n1"].pods


THINLY: dict[str, LedgerState] = {
    "thin": state(node("n1", 10, vm("a", 1), vm("b", 1)), node("n2", 10, vm("c", 5))),
    "not thin": state(node("n1", 10, vm("a", 3)), node("n2", 10, vm("c", 5))),
    "nobody fuller": state(node("n1", 10, vm("a", 2)), node("n2", 10, vm("c", 1))),
    "no room": state(node("n1", 10, vm("a", 2)), node("n2", 10, vm("c", 9))),
    "something stays": state(node("n1", 10, vm("a", 1), plain("p", 1)), node("n2", 10, vm("c", 5))),
    "empty": state(node("n1", 10), node("n2", 10, vm("c", 5))),
}


@pytest.mark.rule("vm:B46")
@pytest.mark.parametrize("case", THINLY)
def test_a_thin_node_is_emptied_into_fuller_ones_where_that_is_allowed(case: str) -> None:
    made = plan_drain(THINLY[case], "n1", NOW, THIN)
    assert whither(made) == ([("a", "n2"), ("b", "n2")] if case == "thin" else [])
    assert made.way is (Way.CONSOLIDATION if case == "thin" else None)
    assert made or made.reasons
    assert not plan_drain(THINLY[case], "n1", NOW, WIDE), "off by default"


@pytest.mark.rule("vm:B45", "vm:B46")
def test_a_resource_of_which_a_node_has_nothing_does_not_keep_it_from_being_emptied() -> None:
    assert plan_drain(with_disk(THINLY["thin"]), "n1", NOW, structs.replace(THIN, further_resources=("disk",)))


def with_disk(seen: LedgerState) -> LedgerState:
    """Of which nobody has any."""

    def one_more(amounts: Amounts, of_it: int = 0) -> Amounts:
        return Amounts((*amounts, of_it))

    def on(entry: Node) -> dict[str, Pod]:
        return {
            uid: replace(
                each,
                reserved=one_more(each.reserved),
                requested=one_more(each.requested),
                used=one_more(each.used),
                factor=one_more(each.factor),
                overcommit=one_more(each.overcommit, 1000),
            )
            for uid, each in entry.pods.items()
        }

    nodes = {
        name: recount(replace(each, total=one_more(each.total), watermark=one_more(each.watermark), pods=on(each)))
        for name, each in seen.nodes.items()
    }
    return replace(seen, nodes=nodes, resources=3)


@pytest.mark.rule("vm:B46")
def test_nothing_is_consolidated_while_somebody_waits() -> None:
    waits = replace(THINLY["thin"], waiters={"c": Waiter("c", 0.0)})
    assert not plan_drain(waits, "n1", NOW, THIN)


@pytest.mark.rule("vm:B46")
def test_what_is_on_its_way_does_not_keep_a_thin_node_from_being_emptied() -> None:
    going = replace(THINLY["thin"], moves={"shop/schedplugin-a": move("a", "n1", "n2", stage=Stage.COPYING)})
    assert whither(plan_drain(going, "n1", NOW, THIN)) == [("b", "n2")]


@pytest.mark.rule("vm:B46", "vm:B27", "vm:I7")
@given(st.integers(0, 2**32), st.integers(2, 5))
def test_consolidation_comes_to_an_end(seed: int, nodes: int) -> None:
    rng = Random(seed)
    made = [node(f"n{at}", 10, *(vm(f"p{at}{i}", 1) for i in range(rng.randint(0, 3)))) for at in range(nodes)]
    seen, moves = state(*made), 0
    for _ in range(4 * nodes):
        for name in seen.nodes:
            found = plan_drain(seen, name, NOW, THIN)
            for each in found.moves:
                seen = moved(seen, each.source.uid, each.target_node)
                moves += 1
    assert moves <= nodes * 3 * nodes
    assert not any(plan_drain(seen, name, NOW, THIN) for name in seen.nodes)


@pytest.mark.rule("vm:I12", "vm:I13")
@given(st.integers(0, 2**32), st.integers(2, 5), st.integers(1, 9))
def test_a_drain_keeps_targets_under_their_watermarks(seed: int, nodes: int, pods: int) -> None:
    seen = cluster(Random(seed), nodes, pods)
    seen = replace(seen, nodes={**seen.nodes, "n000": replace(seen.nodes["n000"], draining=True)})
    played(seen, plan_drain(seen, "n000", NOW, WIDE))


def test_a_machine_of_absurd_size_stays_and_the_others_go() -> None:
    absurd = Amounts.from_values(2**63, 2**73)
    seen = state(drained("n1", 10, vm("a", absurd), vm("b", 1)), node("n2", absurd))
    assert whither(plan_drain(seen, "n1", NOW, WIDE)) == [("b", "n2")]
