from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from situate.vm.model.migrations import BeneficiaryKind, ClaimState
from situate.vm.model.node_accounting import recount
from situate.vm.model.state import LedgerState
from situate.vm.planning.plan import Plan, Way
from situate.vm.planning.plan_for_pod import plan
from situate.vm.planning.rules.concurrency import startable_migrations
from tests.vm.planning import twin
from tests.vm.planning.playing import granted, played
from tests.vm.planning.shapes import NOW, RULES, node, state, units, vm

FULL_N3 = node("n3", 10, vm("H", 7, migratable=False))
TWO_STEPS = state(
    node("n1", 10, vm("A", 4, 7, migratable=False), vm("B", 6, created=1)),
    node("n2", 10, vm("F", 3, created=2), vm("G", 3, created=3, migratable=False)),
    FULL_N3,
)


def whither(made: Plan) -> list[tuple[str, str]]:
    return [(each.machine.name, each.target_node) for each in made.moves]


@pytest.mark.rule("vm:B19", "vm:B1")
def test_room_on_the_target_is_made_first_and_claimed_by_the_move_that_needs_it() -> None:
    made = plan(TWO_STEPS, "A", NOW, RULES)
    assert (made.way, whither(made)) == (Way.CHAIN, [("F", "n3"), ("B", "n2")])
    first, second = made.claims
    assert (first.node, first.amount, first.source_uid) == ("n2", units(2), "F")
    assert first.beneficiary.kind is BeneficiaryKind.TARGET
    assert (first.beneficiary.ref.namespace, first.beneficiary.ref.name) == ("shop", made.moves[1].name)
    assert (second.node, second.amount, second.beneficiary.ref.uid) == ("n1", units(3), "A")
    assert [each.claim for each in made.moves] == [first.id, second.id]


@pytest.mark.rule("vm:B19", "vm:B12")
def test_the_second_link_begins_when_the_first_has_left() -> None:
    made = plan(TWO_STEPS, "A", NOW, RULES)
    wide = structs.replace(RULES, calm=structs.replace(RULES.calm, link="1Ti"))
    begun = replace(
        TWO_STEPS, moves={each.key: each for each in made.moves}, claims={each.id: each for each in made.claims}
    )
    assert [each.machine.name for each in startable_migrations(begun, wide)] == ["F"]
    freed = replace(made.claims[0], state=ClaimState.FREED)
    left = replace(begun, claims={**begun.claims, freed.id: freed})
    assert "B" in [each.machine.name for each in startable_migrations(left, wide)]


@pytest.mark.rule("vm:B19")
def test_no_chain_where_one_step_is_enough_or_chains_are_off() -> None:
    easy = replace(TWO_STEPS, nodes={**TWO_STEPS.nodes, "n4": node("n4", 6)})
    assert whither(plan(easy, "A", NOW, RULES)) == [("B", "n4")]
    off = plan(TWO_STEPS, "A", NOW, structs.replace(RULES, chain_depth=1))
    assert off.way is None
    assert any(each.why_not == "chains are disabled (chainDepth)" for each in off.alternatives)


@pytest.mark.rule("vm:B19", "vm:B17")
def test_nobody_of_higher_priority_leaves_a_target_and_nobody_goes_to_the_node_that_is_short() -> None:
    high = node("n2", 10, vm("F", 3, priority=1), vm("G", 3, migratable=False))
    assert plan(replace(TWO_STEPS, nodes={**TWO_STEPS.nodes, "n2": high}), "A", NOW, RULES).way is None
    full = node("n3", 10, vm("H", 10, migratable=False))
    roomy = node("n1", 13, vm("A", 4, 10, migratable=False), vm("B", 6))
    assert plan(replace(TWO_STEPS, nodes={**TWO_STEPS.nodes, "n3": full, "n1": roomy}), "A", NOW, RULES).way is None


@pytest.mark.rule("vm:B19", "vm:B18")
def test_others_leave_beside_the_one_whose_target_is_made_ready() -> None:
    first = node("n1", 12, vm("A", 4, 12, migratable=False), vm("B", 6), vm("C", 2))
    seen = replace(TWO_STEPS, nodes={**TWO_STEPS.nodes, "n1": first, "n4": node("n4", 2)})
    seen = replace(seen, where={**seen.where, "C": "n1"})
    made = plan(seen, "A", NOW, RULES)
    assert (made.way, whither(made)) == (Way.CHAIN, [("F", "n3"), ("B", "n2"), ("C", "n4")])
    assert sum(each.amount.cpu for each in made.claims if each.node == "n1") == 8000


@pytest.mark.rule("vm:B19", "vm:I12", "vm:I13")
@given(st.integers(0, 2**32))
def test_a_chain_costs_no_more_than_the_best_of_two_moves_and_comes_true(seed: int) -> None:
    seen = crowded(Random(seed))
    made = plan(seen, "A", NOW, RULES)
    best = best_of_two(seen)
    if twin.neighbours(seen, "A", NOW, RULES, most=4) is not None:
        assert made.way is not Way.CHAIN
    elif best is not None:
        assert made.way is Way.CHAIN
        assert round(made.cost * 1e6) <= best + 3
    if made.way is Way.CHAIN:
        after = granted(played(seen, made), "A")
        assert after.reserved == after.requested


def crowded(rng: Random) -> LedgerState:
    """Nodes that are nearly full, with a little room here and there."""
    nodes = []
    for number in range(rng.randint(3, 5)):
        left = 10 - rng.choice((0, 1, 2, 3, 4))
        pods = [vm("A", 2, 4, migratable=False)] if number == 0 else []
        left -= 2 if number == 0 else 0
        index = 0
        while left > 0:
            held = min(left, rng.randint(1, 5))
            left -= held
            pods.append(vm(f"p{number}{index}", held, created=rng.randint(0, 3), priority=rng.choice((0, 0, 0, -1, 1))))
            index += 1
        nodes.append(node(f"n{number}", 10, *pods, watermark=rng.choice((1.0, 0.9))))
    wants = 2 + rng.randint(1, 5) + (nodes[0].total - nodes[0].reserved).cpu // 1000
    on_first = {**nodes[0].pods, "A": vm("A", 2, wants, migratable=False)}
    return state(recount(replace(nodes[0], pods=on_first)), *nodes[1:])


def best_of_two(seen: LedgerState) -> int | None:
    """The least price of one neighbour that leaves all that is missing, for a node that one other leaves first."""
    asker = seen.pod("A")
    assert asker is not None
    need = twin.missing(seen, asker)
    found = []
    for pod in seen.nodes["n0"].pods.values():
        if pod.uid == "A" or pod.priority > asker.priority or not need.fits_within(pod.reserved):
            continue
        own = round(twin.cost(seen, pod, "n0", need, NOW, RULES) * 1e6)
        for name in seen.nodes.keys() - {"n0"}:
            target = seen.nodes[name]
            for maker in target.pods.values():
                after = target.reserved - maker.reserved + pod.reserved
                lacks = (pod.reserved + target.reserved - target.watermark).positive_part()
                goes = [
                    other
                    for other in seen.nodes.keys() - {"n0", name}
                    if (seen.nodes[other].reserved + maker.reserved).fits_within(seen.nodes[other].watermark)
                ]
                if maker.priority <= asker.priority and after.fits_within(target.watermark) and goes:
                    found.append(own + round(twin.cost(seen, maker, name, lacks, NOW, RULES) * 1e6))
    return min(found, default=None)
