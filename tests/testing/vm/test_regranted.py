"""What interleavings excuse of a new leader: that it grants what was saved up for one who was often overtaken (I8)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from situate.testing.vm.invariants.rules import regrant_differences
from situate.vm.model.node_accounting import with_pod
from situate.vm.model.pods_and_nodes import Phase, Role
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState
from tests.vm.town import Town, both


def saved_up() -> tuple[Town, LedgerState]:
    """2 of n1 are free and saved up for A, who needs 4 at once; B waits for 2, and C for nothing."""
    town = Town(n1=10)
    for name, size in (("A", 4), ("B", 2), ("C", 2)):
        town.vm(name, "n1", size)
    town.start()
    town.world.machines["A"].unit = both(4)
    town.ask("A", 8)
    waiter = replace(town.state.waiters["A"], held_capacity=both(4), overtaken_count=3)
    town.state = replace(town.state, waiters={"A": waiter})
    town.ask("B", 4)
    assert (town.booked("B"), list(town.state.waiters)) == (2, ["A", "B"])
    return town, town.state


def booked(state: LedgerState, uid: str, amount: int) -> LedgerState:
    node = state.nodes["n1"]
    grown = with_pod(node, replace(node.pods[uid], reserved=both(amount)))
    return replace(state, nodes={**state.nodes, "n1": grown})


@pytest.mark.rule("vm:B31")
def test_a_new_leader_does_not_know_who_was_overtaken() -> None:
    town, before = saved_up()
    town.restart()
    assert (town.booked("A"), town.booked("B")) == (4, 4), "and serves who is in line"
    assert list(regrant_differences(before, town.state)) == []


@pytest.mark.parametrize(
    ("uid", "amount"),
    [
        pytest.param("B", 1, id="less than it had"),
        pytest.param("B", 5, id="more than it asked for"),
        pytest.param("C", 3, id="one who waits for nothing"),
        pytest.param("A", 8, id="more than was free"),
        pytest.param("A", 5, id="the one for whom it was saved up"),
    ],
)
def test_nothing_else_is_excused(uid: str, amount: int) -> None:
    _, before = saved_up()
    assert list(regrant_differences(before, booked(before, uid, amount)))


def test_nothing_is_excused_where_nothing_was_saved_up() -> None:
    _, before = saved_up()
    waiters = {uid: replace(waiter, held_capacity=None) for uid, waiter in before.waiters.items()}
    assert list(regrant_differences(replace(before, waiters=waiters), booked(before, "B", 3)))


@pytest.mark.parametrize(("shown", "excused"), [(4, True), (5, False)])
def test_what_is_booked_less_of_a_pod_that_was_left_may_be_granted_there(shown: int, excused: bool) -> None:
    """Seed 6201984 of the ledger: nobody deletes A's pod, which shows less than its machine was granted in it."""
    town = Town(n1=10)
    for name, size in (("A", 6), ("B", 4)):
        town.vm(name, "n1", size)
    town.start()
    town.ask("B", 6)
    left = town.pod("A")
    assert left.machine is not None
    frozen = replace(left, machine=replace(left.machine, phase=Phase.FROZEN, role=Role.SOURCE))
    node = with_pod(town.state.nodes["n1"], frozen)
    before = replace(town.state, nodes={**town.state.nodes, "n1": node})

    after = booked(booked(before, "A", shown), "B", 6)

    assert (list(regrant_differences(before, after)) == []) is excused


def test_one_that_waits_for_one_resource_may_be_giving_back_another() -> None:
    """Seed 11656 of the ledger."""
    town = Town(n1=10)
    for name, size in (("A", 6), ("B", 4)):
        town.vm(name, "n1", size)
    town.start()
    town.ask("B", Amounts.from_values(6, 1))
    left = town.pod("A")
    assert left.machine is not None
    frozen = replace(left, machine=replace(left.machine, phase=Phase.FROZEN, role=Role.SOURCE))
    before = replace(town.state, nodes={**town.state.nodes, "n1": with_pod(town.state.nodes["n1"], frozen)})
    lower = booked(before, "A", 4)
    grown = replace(town.pod("B"), reserved=Amounts.from_values(6, town.pod("B").reserved[1]))
    after = replace(lower, nodes={**lower.nodes, "n1": with_pod(lower.nodes["n1"], grown)})

    assert town.pod("B").reserved == both(4), "it uses as much"
    assert list(regrant_differences(before, after)) == []
