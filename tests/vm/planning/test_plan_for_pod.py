from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from situate.vm.config.settings import MigrationLimits
from situate.vm.model.migrations import BeneficiaryKind, ClaimState, CopyProgress, Stage
from situate.vm.model.node_accounting import recount
from situate.vm.model.pods_and_nodes import Load, Node, Phase, Pod, Ref, Role
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import MigrationFailures, Waiter
from situate.vm.planning.plan import Plan, Way
from situate.vm.planning.plan_for_pod import plan
from tests.vm.planning import twin
from tests.vm.planning.playing import granted, played
from tests.vm.planning.shapes import NOW, RULES, claim, cluster, move, node, plain, state, units, vm

T = TypeVar("T")
A = vm("A", 4, 7, migratable=False)
SIMPLE = state(node("n1", 10, A, vm("B", 6)), node("n2", 10))


def whither(made: Plan) -> list[tuple[str, str]]:
    return [(each.machine.name, each.target_node) for each in made.moves]


def claimed(made: Plan) -> list[tuple[str, Amounts]]:
    return [(each.source_uid, each.amount) for each in made.claims]


def why_not(made: Plan, way: Way) -> str:
    return next(each.why_not for each in made.alternatives if each.kind is way)


@pytest.mark.rule("vm:B1", "vm:N4", "vm:B7")
def test_a_neighbour_leaves_and_its_room_is_claimed_up_to_the_need() -> None:
    made = plan(SIMPLE, "A", NOW, RULES)
    assert (made.way, whither(made), made.moves[0].amount) == (Way.NEIGHBOURS, [("B", "n2")], units(6))
    (only,) = made.claims
    assert (only.node, only.amount, only.source_uid) == ("n1", units(3), "B")
    assert (only.beneficiary.kind, only.beneficiary.ref) == (BeneficiaryKind.VM, Ref("shop", "A", "A"))
    assert only.id == made.moves[0].claim
    assert only.deadline == NOW + 3600 + 60


@pytest.mark.rule("vm:B1")
def test_a_plan_of_two_moves_has_two_claims_for_one_beneficiary() -> None:
    seen = state(node("n1", 10, vm("A", 4, 8, migratable=False), vm("B", 3), vm("C", 3)), node("n2", 10))
    made = plan(seen, "A", NOW, RULES)
    assert whither(made) == [("B", "n2"), ("C", "n2")]
    assert claimed(made) == [("B", units(3)), ("C", units(1))]
    assert len({each.id for each in made.claims}) == 2
    assert {each.beneficiary.ref.uid for each in made.claims} == {"A"}


@pytest.mark.rule("vm:I10", "vm:B42")
def test_ids_follow_from_the_beneficiary_and_the_time() -> None:
    assert plan(SIMPLE, "A", NOW, RULES) == plan(SIMPLE, "A", NOW, RULES)
    assert plan(SIMPLE, "A", NOW, RULES).id != plan(SIMPLE, "A", NOW + 0.001, RULES).id


@pytest.mark.rule("vm:I10", "vm:B18")
@given(st.integers(0, 2**32), st.integers(2, 6), st.integers(2, 14))
def test_the_order_in_which_things_became_known_does_not_matter(seed: int, nodes: int, on_first: int) -> None:
    seen = cluster(Random(seed), nodes, on_first)
    backwards = replace(
        seen,
        nodes={name: replace(each, pods=_reversed(each.pods)) for name, each in _reversed(seen.nodes).items()},
        where=_reversed(seen.where),
    )
    rules = structs.replace(RULES, evict=True)
    one, other = plan(seen, "short", NOW, rules), plan(backwards, "short", NOW, rules)
    assert one == other


def _reversed(entries: Mapping[str, T]) -> dict[str, T]:
    return dict(reversed([*entries.items()]))


@pytest.mark.rule("vm:B18", "vm:B17", "vm:B13")
@given(st.integers(0, 2**32), st.integers(2, 5), st.integers(2, 9))
def test_it_is_the_best_of_all_sets_up_to_three(seed: int, nodes: int, on_first: int) -> None:
    seen = cluster(Random(seed), nodes, on_first)
    made = plan(seen, "short", NOW, RULES)
    best = twin.neighbours(seen, "short", NOW, RULES)
    costs = {each.kind: each.cost for each in made.alternatives}
    price = made.cost if made.way is Way.NEIGHBOURS else costs.get(Way.NEIGHBOURS)
    if best is None:
        assert price is None or len(made.moves) > 3
    else:
        assert price is not None
        assert round(price * 1e6) <= best.price + 3, "rounded one by one there, and in all here"
        if made.way is Way.NEIGHBOURS and len(made.moves) <= 3:
            assert tuple(each.source.uid for each in made.moves) == best.uids
            assert tuple(each.target_node for each in made.moves) == best.targets


@pytest.mark.rule("vm:B18", "vm:B19", "vm:I12", "vm:I13", "vm:B30")
@given(st.integers(0, 2**32), st.integers(2, 6), st.integers(2, 14))
def test_a_plan_that_goes_well_gives_what_it_promises(seed: int, nodes: int, on_first: int) -> None:
    seen = cluster(Random(seed), nodes, on_first)
    before = granted(seen, "short")
    made = plan(seen, "short", NOW, structs.replace(RULES, evict=True))
    after = granted(played(seen, made), "short")
    if made.way in (Way.NEIGHBOURS, Way.ITSELF, Way.CHAIN, Way.EVICTION):
        assert after.reserved == after.requested
    elif made.way is Way.PART:
        assert after.reserved != before.reserved
        assert before.reserved.fits_within(after.reserved)
    else:
        assert not made.moves


@pytest.mark.rule("vm:B16")
@pytest.mark.parametrize(
    ("asks", "overcommit", "claims"),
    [
        pytest.param(
            Amounts.from_values(5500, 4 * 2**30), 1000, Amounts.from_values(2000, 0), id="a half unit takes a whole one"
        ),
        pytest.param(units(8), 2000, units(2), id="half counts, of what is overcommitted twice"),
        pytest.param(
            units(8), 3000, Amounts.from_values(1334, 1431655766), id="rounded up, or it would not be granted"
        ),
    ],
)
def test_the_need_is_in_whole_units_as_it_counts_on_the_node(asks: Amounts, overcommit: int, claims: Amounts) -> None:
    asker = vm("A", 4, asks, migratable=False, overcommit=overcommit)
    booked = asker.counted_amount(asker.reserved)
    seen = state(node("n1", booked + units(4), asker, vm("B", 4)), node("n2", 10))
    assert [amount for _, amount in claimed(plan(seen, "A", NOW, RULES))] == [claims]


@pytest.mark.rule("vm:B16", "vm:B5")
def test_what_moves_under_way_will_leave_is_not_made_twice() -> None:
    one = claim("1", "n1", "A", "B", units(3))
    seen = replace(SIMPLE, moves={"shop/schedplugin-B": move("B", "n1", "n2", 6, claim="1")}, claims={"1": one})
    assert plan(seen, "A", NOW, RULES).way is None
    gone = state(node("n1", 10, A), node("n2", 10, vm("B", 6)), claims=(replace(one, state=ClaimState.FREED),))
    assert plan(gone, "A", NOW, RULES).way is None, "it is granted, not planned for"


@pytest.mark.rule("vm:B17", "vm:D6")
@pytest.mark.parametrize(
    "stays",
    [
        pytest.param(vm("B", 6, own=False), id="another scheduler's"),
        pytest.param(vm("B", 6, migratable=False), id="not migratable"),
        pytest.param(vm("B", 6, role=Role.SOURCE), id="moving already"),
        pytest.param(vm("B", 6, role=Role.TARGET), id="moved here at this very moment"),
        pytest.param(vm("B", 6, phase=Phase.FROZEN), id="frozen"),
        pytest.param(vm("B", 6, phase=Phase.OTHER), id="not running"),
        pytest.param(vm("B", 6, priority=1), id="of higher priority"),
        pytest.param(vm("B", 6, moved_at=(NOW - 599,)), id="cooling down"),
        pytest.param(vm("B", 6, load=Load(dirty_rate=0.9 * 2**30)), id="dirtier than can be copied"),
        pytest.param(replace(vm("B", 6), tentative=True), id="not bound yet"),
        pytest.param(replace(vm("B", 6), ignored=True), id="of an ignored namespace"),
        pytest.param(plain("B", 6), id="a plain pod"),
    ],
)
def test_who_is_no_candidate_does_not_move(stays: Pod) -> None:
    seen = state(node("n1", 10, A, stays), node("n2", 10))
    made = plan(seen, "A", NOW, RULES)
    assert (made.way, made.moves) == (None, ())
    assert made.reasons


@pytest.mark.rule("vm:B25")
def test_only_for_higher_priority_a_machine_moves_on_while_it_cools_down() -> None:
    arrived = vm("B", 6, moved_at=(NOW - 60,))
    low = state(node("n1", 10, A, arrived), node("n2", 10))
    high = state(node("n1", 10, replace(A, priority=1), arrived), node("n2", 10))
    assert plan(low, "A", NOW, RULES).way is None
    assert whither(plan(high, "A", NOW, RULES)) == [("B", "n2")]


@pytest.mark.rule("vm:B17")
def test_post_copy_moves_what_is_written_too_fast_where_it_is_allowed() -> None:
    seen = state(node("n1", 10, A, vm("B", 6, load=Load(dirty_rate=2.0 * 2**30))), node("n2", 10))
    allowed = structs.replace(RULES, costs=structs.replace(RULES.costs, post_copy=True))
    assert plan(seen, "A", NOW, RULES).way is None
    assert whither(plan(seen, "A", NOW, allowed)) == [("B", "n2")]


@pytest.mark.rule("vm:B13", "vm:D5", "vm:I13")
@pytest.mark.parametrize(
    ("target", "taken"),
    [
        pytest.param(node("n2", 10, vm("x", 3), watermark=0.9), True, id="at its watermark with it"),
        pytest.param(node("n2", 10, vm("x", 4), watermark=0.9), False, id="above it"),
        pytest.param(replace(node("n2", 10), schedulable=False), False, id="cordoned"),
        pytest.param(replace(node("n2", 10), draining=True), False, id="drained"),
        pytest.param(node("n2", 5), False, id="too small"),
    ],
)
def test_a_target_has_room_for_it_below_its_own_watermark(target: Node, taken: bool) -> None:
    seen = state(node("n1", 10, A, vm("B", 6)), target)
    assert bool(plan(seen, "A", NOW, RULES)) is taken


@pytest.mark.rule("vm:D7")
def test_what_counts_of_a_machine_decides_and_not_what_it_has() -> None:
    half = vm("B", 12, overcommit=2000)
    seen = state(node("n1", 10, A, half), node("n2", 8))
    assert whither(plan(seen, "A", NOW, RULES)) == [("B", "n2")]


@pytest.mark.rule("vm:B4", "vm:I4")
def test_no_target_is_chosen_in_room_that_is_held_or_reserved() -> None:
    held = replace(claim("1", "n2", "x", "gone", units(5)), state=ClaimState.FREED)
    assert plan(replace(SIMPLE, claims={"1": held}), "A", NOW, RULES).way is None
    coming = replace(SIMPLE, moves={"shop/schedplugin-y": move("y", "n3", "n2", 5)})
    assert plan(coming, "A", NOW, structs.replace(RULES, calm=MigrationLimits(link="1Ti"))).way is None
    saved = state(node("n1", 10, A, vm("B", 6)), node("n2", 10, vm("x", 0, 5)))
    saved = replace(saved, waiters={"x": Waiter("x", 0.0, overtaken_count=3, held_capacity=units(5))})
    assert plan(saved, "A", NOW, RULES).way is None


@pytest.mark.rule("vm:B12", "vm:D3")
def test_a_node_that_the_filters_refuse_is_no_target() -> None:
    seen = state(node("n1", 10, A, vm("B", 6)), node("n2", 10), node("n3", 10))
    asked = []

    def fits(uid: str, name: str) -> bool:
        asked.append((uid, name))
        return name == "n3"

    assert whither(plan(seen, "A", NOW, RULES, fits)) == [("B", "n3")]
    assert ("B", "n1") not in asked, "its own node is not even asked for"
    assert plan(seen, "A", NOW, RULES, lambda _uid, _name: False).way is None


@pytest.mark.rule("vm:B12", "vm:B18")
@given(st.integers(0, 2**32), st.integers(2, 9), st.integers(2, 9))
def test_filters_that_refuse_nothing_change_nothing(seed: int, nodes: int, on_first: int) -> None:
    seen = cluster(Random(seed), nodes, on_first)
    assert plan(seen, "short", NOW, RULES, lambda _uid, _name: True) == plan(seen, "short", NOW, RULES)


@pytest.mark.rule("vm:B12", "vm:B19")
def test_filters_are_asked_about_few_nodes_of_many() -> None:
    machines = [vm(f"b{number}", 1, created=number) for number in range(6)]
    seen = state(node("n1", 10, A, *machines), *(node(f"t{number:02}", 10) for number in range(80)))
    asked = []

    def fits(uid: str, name: str) -> bool:
        asked.append((uid, name))
        return int(name[1:]) % 2 == 0

    assert len(plan(seen, "A", NOW, RULES, fits).moves) == 3
    assert len(asked) <= 6 * 2 * 7 + 3 * 2 * 3, "not 6 machines times 80 nodes"


@pytest.mark.rule("vm:B25", "vm:D4")
def test_a_target_where_it_failed_lately_is_avoided() -> None:
    seen = state(node("n1", 10, A, vm("B", 6)), node("n2", 10, vm("x", 1)), node("n3", 10))
    assert whither(plan(seen, "A", NOW, RULES)) == [("B", "n2")]
    failed = replace(seen, failures={("vm-B", "n2"): MigrationFailures(1, NOW + 1)})
    assert whither(plan(failed, "A", NOW, RULES)) == [("B", "n3")]
    assert whither(plan(failed, "A", NOW + 1, RULES)) == [("B", "n2")]


@pytest.mark.rule("vm:B18", "vm:D4")
def test_ties_go_to_the_older_machine_and_then_to_the_lower_uid() -> None:
    young, old = vm("a", 3, created=2.0), vm("z", 3, created=1.0)
    assert whither(plan(state(node("n1", 10, A, young, old), node("n2", 10)), "A", NOW, RULES)) == [("z", "n2")]
    alike = state(node("n1", 10, A, vm("b", 3), vm("a", 3)), node("n2", 10))
    assert whither(plan(alike, "A", NOW, RULES)) == [("a", "n2")]


@pytest.mark.rule("vm:B13")
def test_the_best_score_takes_it_and_of_equals_the_first_by_name() -> None:
    seen = state(node("n1", 10, A, vm("B", 6)), node("n4", 10), node("n3", 10), node("n2", 10, vm("x", 1)))
    assert whither(plan(seen, "A", NOW, RULES)) == [("B", "n2")]
    empty = state(node("n1", 10, A, vm("B", 6)), node("n4", 10), node("n3", 10))
    assert whither(plan(empty, "A", NOW, RULES)) == [("B", "n3")]


@pytest.mark.rule("vm:B18")
def test_a_set_whose_targets_do_not_fit_together_is_not_chosen() -> None:
    cheap = [vm("b", 3, created=1.0), vm("c", 3, created=2.0)]
    first = node("n1", 16, vm("A", 4, 10, migratable=False), *cheap, vm("d", 6, load=Load(load1=60.0)))

    def fits(uid: str, name: str) -> bool:
        return (uid == "d") == (name == "n3")

    both = state(first, node("n2", 6), node("n3", 6))
    assert whither(plan(both, "A", NOW, RULES, fits)) == [("b", "n2"), ("c", "n2")]
    one = state(first, node("n2", 5), node("n3", 6))
    assert whither(plan(one, "A", NOW, RULES, fits)) == [("d", "n3")]


@pytest.mark.rule("vm:B19")
def test_it_moves_itself_where_that_costs_less_and_ties_prefer_neighbours() -> None:
    movable = vm("A", 4, 7)
    busy = state(node("n1", 10, movable, vm("B", 6, load=Load(load1=60.0))), node("n2", 10))
    made = plan(busy, "A", NOW, RULES)
    assert (made.way, whither(made), made.claims) == (Way.ITSELF, [("A", "n2")], ())
    assert made.moves[0].amount == units(7), "what it will hold is reserved there"
    assert why_not(made, Way.NEIGHBOURS) == "costs more"
    free = Load(memory_used=1)
    same = state(node("n1", 10, vm("A", 4, 7, load=free), vm("B", 6, load=free)), node("n2", 10))
    no_surplus = structs.replace(RULES, costs=structs.replace(RULES.costs, surplus=0.0))
    assert plan(same, "A", NOW, no_surplus).way is Way.NEIGHBOURS
    small = state(node("n1", 10, movable, vm("B", 6, migratable=False)), node("n2", 6))
    assert plan(small, "A", NOW, RULES).way is None


@pytest.mark.rule("vm:B19", "vm:B6")
def test_it_waits_where_a_move_under_way_will_soon_leave_what_nobody_claims() -> None:
    leaving = replace(move("B", "n1", "n3", 3), progress=CopyProgress(remaining=1, total=100, changed_at=NOW))
    pods = (A, vm("B", 3, role=Role.SOURCE, phase=Phase.FROZEN), vm("C", 3))
    seen = state(node("n1", 10, *pods), node("n2", 10), node("n3", 10), moves=(leaving,))
    wide = structs.replace(RULES, calm=MigrationLimits(link="1Ti"))
    made = plan(seen, "A", NOW, wide)
    assert (made.way, made.moves) == (Way.WAITING, ())
    promised = replace(seen, moves={leaving.key: replace(leaving, claim="1")})
    promised = replace(promised, claims={"1": claim("1", "n1", "x", "B", units(3))})
    assert whither(plan(promised, "A", NOW, wide)) == [("C", "n3")], "fuller, with what is on its way"


@pytest.mark.rule("vm:B19")
def test_where_not_all_can_be_had_most_whole_units_are() -> None:
    seen = state(node("n1", 20, vm("A", 4, 14, migratable=False), vm("B", 2), vm("C", 5), plain("p", 9)), node("n2", 7))
    made = plan(seen, "A", NOW, RULES)
    assert (made.way, whither(made)) == (Way.PART, [("B", "n2"), ("C", "n2")])
    assert made.unsolved, "it stays short of the rest"
    assert sum((amount.cpu for _, amount in claimed(made)), 0) == 7000
    tight = replace(seen, nodes={**seen.nodes, "n2": node("n2", 5)})
    assert whither(plan(tight, "A", NOW, RULES)) == [("C", "n2")]


@pytest.mark.rule("vm:B19")
def test_less_than_a_unit_moves_nobody() -> None:
    small = vm("B", Amounts.from_values(500, 2**29))
    seen = state(node("n1", Amounts.from_values(4500, 9 * 2**29), A, small), node("n2", 10))
    made = plan(seen, "A", NOW, RULES)
    assert made.way is None
    assert why_not(made, Way.PART) == "the capacity for one more unit cannot be freed"


@pytest.mark.rule("vm:B19", "vm:B38")
def test_eviction_is_the_last_way_and_only_under_its_switch() -> None:
    low, same = plain("low", 3, priority=-1, created=1.0), plain("same", 3, created=5.0)
    seen = state(node("n1", 10, A, low, same), node("n2", 10))
    assert plan(seen, "A", NOW, RULES).evictions == ()
    allowed = structs.replace(RULES, evict=True)
    made = plan(seen, "A", NOW, allowed)
    assert (made.way, made.evictions, made.moves) == (Way.EVICTION, (low.ref,), ())
    assert plan(state(node("n1", 10, A, same)), "A", NOW, allowed).evictions == (), "only of lower priority"
    movable = state(node("n1", 10, A, plain("low", 3, priority=-1), vm("B", 3)), node("n2", 10))
    assert whither(plan(movable, "A", NOW, allowed)) == [("B", "n2")], "not where a move helps"
    assert plan(state(node("n1", 10, A, vm("B", 3, priority=-1))), "A", NOW, allowed).evictions == (), "it may be moved"


@pytest.mark.rule("vm:B19")
def test_nobody_is_evicted_who_is_not_needed() -> None:
    pods = (plain("a", 1, priority=-3), plain("b", 2, priority=-2), plain("c", 3, priority=-1))
    seen = state(node("n1", 10, A, *pods))
    assert plan(seen, "A", NOW, structs.replace(RULES, evict=True)).evictions == (pods[0].ref, pods[1].ref)
    more = state(node("n1", 11, vm("A", 4, 8, migratable=False), *pods, plain("d", 1)))
    assert plan(more, "A", NOW, structs.replace(RULES, evict=True)).evictions == (pods[0].ref, pods[2].ref)


@pytest.mark.rule("vm:B50")
def test_where_no_move_helps_it_says_how_big_a_node_would() -> None:
    seen = state(node("n1", 10, A, vm("B", 6)), node("n2", 5))
    made = plan(seen, "A", NOW, RULES)
    assert (made.way, made.needs_node, made.unsolved) == (None, units(6), True)
    bigger = replace(seen, nodes={**seen.nodes, "new": node("new", units(6))})
    solved = plan(bigger, "A", NOW, RULES)
    assert (solved.way, solved.unsolved) == (Way.NEIGHBOURS, False)
    nobody = state(node("n1", 10, A, plain("p", 6)), node("n2", 5))
    assert plan(nobody, "A", NOW, RULES).needs_node is None
    alone = state(node("n1", 10, vm("A", 4, 7), plain("p", 6)), node("n2", 5))
    assert plan(alone, "A", NOW, RULES).needs_node == units(7)


@pytest.mark.rule("vm:B26")
def test_no_plan_is_made_while_no_move_may_leave() -> None:
    moves = (move("x", "n1", "n3", stage=Stage.STARTING), move("y", "n1", "n4", stage=Stage.STARTING))
    seen = replace(SIMPLE, moves={each.key: each for each in moves})
    wide = structs.replace(RULES, calm=MigrationLimits(link="1Ti"))
    made = plan(seen, "A", NOW, wide)
    assert made.reasons == ("2 migrations leave node n1, and at most 2 may",)
    assert not made.unsolved, "a move that ends is all that it waits for"
    done = replace(seen, moves={each.key: replace(each, stage=Stage.DONE) for each in moves})
    assert whither(plan(done, "A", NOW, wide)) == [("B", "n2")]


@pytest.mark.rule("vm:B26", "vm:B50")
def test_who_waits_for_a_place_needs_no_node_and_who_would_need_one_needs_it_all_the_same() -> None:
    arriving = (move("x", "n8", "n2", stage=Stage.STARTING), move("y", "n9", "n2", stage=Stage.STARTING))
    wide = structs.replace(RULES, calm=MigrationLimits(link="1Ti"))
    made = plan(replace(SIMPLE, moves={each.key: each for each in arriving}), "A", NOW, wide)
    assert (made.way, made.needs_node, made.unsolved) == (None, None, False)
    assert made.reasons == ("all possible targets have the maximum number of incoming migrations",)
    many = {each.key: each for each in (move(f"m{number}", "n8", "n9") for number in range(5))}
    full = state(node("n1", 10, A, vm("B", 6)), node("n2", 5))
    assert plan(replace(full, moves=many), "A", NOW, wide).needs_node == units(6)


def test_nothing_is_planned_for_a_frozen_machine_or_one_that_wants_nothing() -> None:
    frozen = vm("A", 4, 7, phase=Phase.FROZEN)
    assert plan(state(node("n1", 10, frozen, vm("B", 6)), node("n2", 10)), "A", NOW, RULES).way is None
    leaving = state(node("n1", 10, vm("A", 4, 7), vm("B", 6)), node("n2", 10), moves=(move("A", "n1", "n3", 7),))
    assert plan(leaving, "A", NOW, structs.replace(RULES, calm=MigrationLimits(link="1Ti"))).way is None
    assert plan(SIMPLE, "B", NOW, RULES).way is None
    assert plan(SIMPLE, "unknown", NOW, RULES).reasons == ("no pod with uid unknown is on a known node",)


@pytest.mark.rule("vm:B45")
def test_further_resources_count_as_cpu_and_memory_do() -> None:
    def with_disk(pod: Pod, disk: int, wants: int) -> Pod:
        return replace(
            pod,
            reserved=Amounts((*pod.reserved, disk)),
            requested=Amounts((*pod.requested, wants)),
            used=Amounts((*pod.used, disk)),
            factor=Amounts((*pod.factor, 1)),
            overcommit=Amounts((1000, 1000, 1000)),
        )

    def three(name: str, disk: int, *pods: Pod) -> Node:
        nothing, size = Amounts.zero(3), Amounts((*units(10), disk))
        return recount(Node(name, size, size, nothing, nothing, nothing, {pod.uid: pod for pod in pods}))

    first = three("n1", 10, with_disk(vm("A", 1, migratable=False), 4, 7), with_disk(vm("B", 1), 6, 6))
    seen = replace(state(first, three("n2", 5), three("n3", 6)), resources=3)
    made = plan(seen, "A", NOW, Rules(further_resources=("disk",)))
    assert whither(made) == [("B", "n3")]
    assert claimed(made) == [("B", Amounts((0, 0, 3)))]


@pytest.mark.rule("vm:B35", "vm:B38", "vm:B1")
def test_a_neighbour_leaves_for_a_plain_pod_whose_resize_was_put_off() -> None:
    asker = replace(plain("A", 6), used=units(2), deferred=True)
    made = plan(state(node("n1", 10, asker, vm("B", 7)), node("n2", 10)), "A", NOW, RULES)
    assert (whither(made), claimed(made)) == ([("B", "n2")], [("B", units(3))])
    assert made.claims[0].beneficiary.kind is BeneficiaryKind.POD


ABSURD = Amounts.from_values(2**63, 2**73)


@pytest.mark.rule("vm:F5")
@pytest.mark.parametrize(
    "first",
    [
        pytest.param(node("n1", 10, replace(A, requested=ABSURD), vm("B", 6)), id="asked for"),
        pytest.param(node("n1", 10, A, vm("B", ABSURD), vm("C", 3)), id="held by a neighbour"),
        pytest.param(node("n1", 10, A, vm("B", 3), plain("p", 3)), id="held elsewhere"),
    ],
)
def test_absurd_amounts_of_one_machine_stop_no_plan(first: Node) -> None:
    seen = state(first, node("n2", 10), node("n3", 10, vm("x", ABSURD)), node("n4", ABSURD, vm("y", 1)))
    made = plan(seen, "A", NOW, RULES)
    assert "n3" not in [each.target_node for each in made.moves]
