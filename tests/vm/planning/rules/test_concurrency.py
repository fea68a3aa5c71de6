from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from situate.vm.config.settings import MigrationLimits
from situate.vm.model.migrations import Beneficiary, BeneficiaryKind, Claim, ClaimState, Move, Stage
from situate.vm.model.pods_and_nodes import Ref
from situate.vm.model.policy import GIB
from situate.vm.model.state import LedgerState
from situate.vm.planning.rules.concurrency import limit_reason, startable_migrations, unlimited_rules
from situate.vm.planning.rules.migration_cost import bandwidth
from tests.vm.planning.shapes import NOW, RULES, claim, move, node, state, units, vm

WIDE = structs.replace(RULES, calm=MigrationLimits(link="1Ti"))


def with_moves(*moves: Move, claims: tuple[Claim, ...] = ()) -> LedgerState:
    pods = tuple(vm(f"p{priority}", 1, priority=priority) for priority in range(4))
    return state(node("n1", 99, *pods, *(vm(each.source.uid, 1) for each in moves)), moves=moves, claims=claims)


def waiting(name: str, source: str = "n1", target: str = "n2", *, created: float = 0.0, claim: str = "") -> Move:
    return move(name, source, target, stage=Stage.PLANNED, created=created, claim=claim)


def names(state: LedgerState) -> list[str]:
    return [each.machine.name for each in startable_migrations(state, WIDE)]


@pytest.mark.rule("vm:B26")
@pytest.mark.parametrize(
    ("moves", "told"),
    [
        pytest.param([("a", "b")] * 4, "", id="four in the cluster"),
        pytest.param([("a", "b")] * 5, "5 migrations are in progress, and at most 5 may be", id="five in the cluster"),
        pytest.param([("n1", "b")], "", id="one leaves the node"),
        pytest.param([("n1", "b")] * 2, "2 migrations leave node n1, and at most 2 may", id="two leave it"),
        pytest.param([("a", "n2")] * 2, "2 migrations go to node n2, and at most 2 may", id="two go to the other"),
        pytest.param([("a", "n1")] * 2 + [("n2", "b")] * 2, "", id="the other way round they do not count"),
    ],
)
def test_so_many_moves_at_a_time(moves: list[tuple[str, str]], told: str) -> None:
    there = [move(f"m{number}", *ends) for number, ends in enumerate(moves)]
    assert limit_reason(there, "n1", "n2", WIDE) == told


@pytest.mark.finding("N9")
@pytest.mark.parametrize(
    ("ends", "told"),
    [
        (("n1", "b"), "1 migration leaves node n1, and at most 1 may"),
        (("a", "n2"), "1 migration goes to node n2, and at most 1 may"),
        (("a", "b"), "1 migration is in progress, and at most 1 may be"),
    ],
)
def test_one_move_is_no_moves(ends: tuple[str, str], told: str) -> None:
    most = 1 if ends == ("a", "b") else 5
    calm = structs.replace(WIDE.calm, moves_in_cluster=most, moves_out_of_node=1, moves_into_node=1)
    assert limit_reason([move("m", *ends)], "n1", "n2", structs.replace(WIDE, calm=calm)) == told


@pytest.mark.rule("vm:B26")
@pytest.mark.parametrize(
    ("link", "bandwidth", "begins"),
    [
        pytest.param(2 * GIB, GIB, False, id="one uses it all"),
        pytest.param(4 * GIB, GIB, True, id="two use half the link"),
        pytest.param(4 * GIB, GIB + 1, False, id="a little more than that"),
        pytest.param(2 * GIB, 0, False, id="one made by hand counts as using what it may"),
        pytest.param(GIB // 2, GIB // 4, False, id="a slow link"),
    ],
)
@pytest.mark.parametrize("ends", [("n1", "x"), ("x", "n1"), ("n2", "x"), ("x", "n2")])
def test_moves_use_at_most_half_the_link_of_each_node(
    link: int, bandwidth: int, begins: bool, ends: tuple[str, str]
) -> None:
    there = [replace(move("a", *ends), bandwidth=bandwidth)]
    rules = structs.replace(RULES, calm=MigrationLimits(link=str(link)))
    assert (limit_reason(there, "n1", "n2", rules) == "") is begins


@pytest.mark.rule("vm:B26")
def test_the_first_move_of_a_slow_link_may_begin() -> None:
    assert limit_reason([], "n1", "n2", structs.replace(RULES, calm=MigrationLimits(link="1"))) == ""


@pytest.mark.rule("vm:B26")
def test_moves_that_wait_begin_as_far_as_there_are_places() -> None:
    assert names(with_moves(*(waiting(name) for name in "abc"))) == ["a", "b"]
    begun = replace(waiting("a"), requested_at=NOW)
    assert names(with_moves(begun, waiting("b"), waiting("c"))) == ["b"]
    over = move("a", "n1", "n2", stage=Stage.DONE)
    assert names(with_moves(over, waiting("b"), waiting("c"))) == ["b", "c"]
    ending = move("a", "n1", "n2", stage=Stage.ENDING)
    assert names(with_moves(ending, waiting("b"), waiting("c"))) == ["b"]


@pytest.mark.rule("vm:B26")
def test_one_that_finds_no_place_keeps_none_from_others() -> None:
    both = move("a", "n1", "n3"), move("b", "n1", "n4")
    assert names(with_moves(*both, waiting("c", "n1"), waiting("d", "n5", "n6"))) == ["d"]


@pytest.mark.rule("vm:B26")
def test_plans_wait_by_the_priority_of_whom_they_are_for_and_then_by_age() -> None:
    def plan(name: str, whom: str, created: float) -> tuple[Move, Claim]:
        made = replace(waiting(name, f"n{name}", f"t{name}", created=created, claim=name), plan=name)
        return made, replace(claim(name, f"n{name}", whom, name, units(1)), plan=name)

    plans = [plan("a", "p1", 1.0), plan("b", "p3", 3.0), plan("c", "p1", 0.0), plan("d", "p2", 9.0)]
    moves, claims = zip(*plans, strict=True)
    assert names(with_moves(*moves, claims=claims)) == ["b", "d", "c", "a"]


@pytest.mark.rule("vm:B19")
def test_a_move_waits_for_the_room_that_is_made_for_it() -> None:
    second = waiting("b", claim="2")
    whom = Beneficiary(BeneficiaryKind.TARGET, Ref("shop", second.name))
    room = replace(claim("1", "n2", "", "a", units(1)), beneficiary=whom)
    assert names(with_moves(second, claims=(room,))) == []
    assert names(with_moves(second, claims=(replace(room, state=ClaimState.MOVING),))) == []
    assert names(with_moves(second, claims=(replace(room, state=ClaimState.FREED),))) == ["b"]
    elsewhere = replace(room, beneficiary=Beneficiary(BeneficiaryKind.TARGET, Ref("other", second.name)))
    assert names(with_moves(second, claims=(elsewhere,))) == ["b"]
    assert names(with_moves(second)) == ["b"]


@pytest.mark.rule("vm:B26")
def test_without_limits_there_is_a_place_for_all_and_moves_are_no_faster() -> None:
    there = [move(f"m{number}", "n1", "n2") for number in range(99)]
    slow = structs.replace(RULES, calm=MigrationLimits(link="1Gi"))
    assert limit_reason(there, "n1", "n2", unlimited_rules(slow)) == ""
    assert bandwidth(unlimited_rules(slow)) == bandwidth(slow) == GIB // 2
