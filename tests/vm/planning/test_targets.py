from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from situate.vm.config.settings import MigrationLimits
from situate.vm.model.migrations import ClaimState, Stage
from situate.vm.model.node_fit import largest_total, score
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState, Waiter
from situate.vm.planning.targets import NO_UID, Targets
from tests.vm.planning.shapes import RULES, claim, cluster, move, node, state, units, vm

WIDE = structs.replace(RULES, calm=MigrationLimits(link="1Ti"))


def promised(rng: Random, seen: LedgerState) -> LedgerState:
    """With claims, moves on their way and room that is saved up, here and there."""
    names, uids = sorted(seen.nodes), sorted(seen.where)
    claims = {
        str(number): replace(
            claim(str(number), rng.choice(names), rng.choice(uids), "gone", units(rng.randint(0, 3))),
            state=rng.choice(list(ClaimState)),
        )
        for number in range(rng.randint(0, 3))
    }
    moves = [
        move(f"m{number}", rng.choice(names), rng.choice(names), rng.randint(1, 3), stage=rng.choice(list(Stage)))
        for number in range(rng.randint(0, 3))
    ]
    waiters = {uid: Waiter(uid, 0.0, held_capacity=units(2)) for uid in rng.sample(uids, min(2, len(uids)))}
    return replace(seen, claims=claims, moves={each.key: each for each in moves}, waiters=waiters)


@pytest.mark.rule("vm:B4", "vm:I4")
@given(st.integers(0, 2**32), st.integers(1, 5))
def test_what_is_available_is_what_the_ledger_says_node_by_node(seed: int, nodes: int) -> None:
    rng = Random(seed)
    seen = promised(rng, cluster(rng, nodes, 3))
    found = Targets.from_state(seen, WIDE)
    assert found.names == tuple(sorted(seen.nodes))
    for index, name in enumerate(found.names):
        assert Amounts(tuple(found.available[:, index].tolist())) == seen.available(name, NO_UID)


@pytest.mark.rule("vm:B13", "vm:C20")
@given(st.integers(0, 2**32), st.integers(2, 5), st.integers(1, 5))
def test_the_best_one_is_the_one_that_the_plugin_scores_best(seed: int, nodes: int, held: int) -> None:
    rng = Random(seed)
    seen = promised(rng, cluster(rng, nodes, 3))
    found = Targets.from_state(seen, WIDE)
    pod = vm("new", held)
    most = largest_total(seen.nodes.values())
    points = {}
    for name, each in seen.nodes.items():
        kept = seen.held_for_others(name, NO_UID) + seen.incoming_amount(name, NO_UID)
        if not (each.reserved + kept).exceeds(each.total):
            points[name] = score(each, pod, most, RULES.scoring, kept).points
    indices = [index for index, name in enumerate(found.names) if name in points]
    order = [found.names[index] for index in found.nodes_by_score(indices, pod.reserved, RULES)]
    assert order == sorted(points, key=lambda name: (-points[name], name))


@pytest.mark.rule("vm:B26")
def test_a_node_to_which_enough_moves_go_is_no_target() -> None:
    coming = (move("x", "n9", "n1", 1), move("y", "n8", "n1", 1))
    found = Targets.from_state(state(node("n1", 10), node("n2", 10), moves=coming), WIDE)
    assert found.fitting_nodes(units(1)).tolist() == [False, True]


@pytest.mark.rule("vm:B13")
def test_a_node_above_its_watermark_or_its_total_takes_nothing_more() -> None:
    nodes = node("n1", 10, vm("a", 9), watermark=0.8), node("n2", 10, vm("b", 11)), node("n3", 10, vm("c", 10))
    found = Targets.from_state(state(*nodes), WIDE)
    assert found.fitting_nodes(Amounts.from_values(0, 0)).tolist() == [False, False, True]
