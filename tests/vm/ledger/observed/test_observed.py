"""What the cluster shows becomes what is booked (C25, C27, B3, D19, D23, I14), and a restart finds it again (B43)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from situate.vm.ledger.step import step
from situate.vm.model.actions import Approve, Condition, StartMove
from situate.vm.model.events import (
    InitialListCompleted,
    NodeObserved,
    NodeRemoved,
    PodObserved,
    PodRemoved,
    PodReserved,
    PodUnreserved,
    ResourcesRequested,
    WriteResult,
)
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.planning.plan import Plan
from tests.vm.town import Town, both, only


@pytest.mark.rule("vm:D19", "vm:C27")
def test_pods_of_a_node_that_is_gone_are_kept_aside_for_its_return() -> None:
    town = Town(n1=10, n2=10)
    town.vm("A", "n1", 4)
    town.plain("P", "n1", 2)
    town.start()
    town.tell(PodReserved(town.world.pod("P"), "n2"))
    node = town.state.nodes["n1"]

    town.tell(NodeRemoved("n1"))
    assert town.state.pod("A") is None
    town.tell(town.world.pod_event("A"))
    town.tell(PodRemoved("P"))
    town.tell(NodeObserved(node))

    assert set(town.state.nodes["n1"].pods) == {"A"}
    assert town.reserved("n1") == 4


@pytest.mark.rule("vm:D19", "vm:F1", "vm:F8", "vm:I8")
def test_what_a_refused_write_was_to_grant_is_written_anew_when_the_node_is_back() -> None:
    """Seed 41150 of the ledger: what its agent had asked for instead was seen while there was no node."""
    town = Town(n1=10)
    town.vm("A", "n1", 3)
    town.start()
    old = list(town.world.request("A", both(1), both(4)))
    (grant,) = only([action for event in old for action in town.tell(event)], Approve)
    asked = list(town.world.request("A", both(1), both(2)))
    town.tell(PodObserved(replace(town.world.pod("A"), requested=both(4)), "n1"))
    node = town.state.nodes["n1"]

    town.tell(NodeRemoved("n1"))
    town.tell(WriteResult(grant, "refused"))
    for event in asked:
        town.tell(event)
    town.tell(NodeObserved(node))
    town.wait(100.0)

    assert town.booked("A") == 4, "nobody knows what its agent was told"
    assert town.world.machines["A"].approved == both(4), "who starts anew books no less"


@pytest.mark.rule("vm:D19", "vm:B42", "vm:F8")
def test_nobody_waits_on_a_node_that_is_not_there_whatever_becomes_of_what_was_written() -> None:
    """Seed 205489 of the ledger: one of two amounts was lowered, and a beat was due at once for ever."""
    town = Town(n1=4)
    town.vm("A", "n1", 4)
    town.start()
    town.world.machines["A"].use = both(1)
    town.tell(town.world.pod_event("A"))
    wish = Amounts((6, 3))
    town.world.request("A", both(1), wish)
    (lower,) = only(town.tell(ResourcesRequested("A", both(1), wish, both(4), lowers_at_once=True)), Approve)
    node = town.state.nodes["n1"]

    town.tell(NodeRemoved("n1"))
    town.tell(WriteResult(lower, "ok"))
    assert town.state.waiters == {}

    town.tell(NodeObserved(node))
    assert set(town.state.waiters) == {"A"}


@pytest.mark.rule("vm:C27", "vm:N23", "vm:I1", "vm:F2")
def test_what_was_reserved_on_a_node_counts_when_it_returns_before_the_binding_shows() -> None:
    town = Town(n1=10)
    town.start()
    town.world.add_pod("P", both(2), "n1")
    town.tell(PodReserved(town.world.pod("P"), "n1"))
    node = town.state.nodes["n1"]
    assert town.pod("P").tentative

    town.tell(NodeRemoved("n1"))
    town.tell(NodeObserved(node))
    assert town.reserved("n1") == 2

    town.tell(NodeRemoved("n1"))
    town.tell(PodUnreserved("P"))
    assert town.state.where == {}


@pytest.mark.rule("vm:C27")
def test_as_the_reference_what_was_only_reserved_on_a_node_goes_with_it() -> None:
    town = Town(Rules(compat=True), n1=10)
    town.start()
    town.world.add_pod("P", both(2), "n1")
    town.tell(PodReserved(town.world.pod("P"), "n1"))

    town.tell(NodeRemoved("n1"))

    assert town.state.where == {}


@pytest.mark.rule("vm:C22", "vm:C25")
def test_a_pod_that_is_seen_to_be_bound_is_not_unreserved_any_more() -> None:
    town = Town(n1=10)
    town.start()
    seen = town.world.add_pod("P", both(2), "n1")
    town.tell(PodReserved(town.world.pod("P"), "n1"))
    town.tell(seen)
    assert not town.pod("P").tentative

    town.tell(PodUnreserved("P"))

    assert town.reserved("n1") == 2


@pytest.mark.rule("vm:D23", "vm:I2")
def test_what_is_used_is_booked_whatever_was_approved() -> None:
    town = Town(n1=10)
    town.vm("A", "n1", 4)
    town.start()
    town.world.machines["A"].use = both(6)

    town.tell(town.world.pod_event("A"))

    assert town.booked("A") == 6


@pytest.mark.rule("vm:I14", "vm:D13")
def test_a_booking_does_not_fall_while_its_machine_is_frozen() -> None:
    town = Town(n1=10, n2=10)
    town.vm("A", "n1", 6)
    town.world.machines["A"].use = both(2)
    town.start()
    town.live(town.world.start_manual_migration("A", town.now))
    (name,) = town.world.migrations
    town.live(town.world.freeze(name))
    town.world.machines["A"].approved = town.world.machines["A"].requested = both(3)

    town.live(town.world.pod_event("A"))
    assert town.booked("A") == 6

    town.live(town.world.fail(name, town.now))
    assert town.booked("A") == 3


@pytest.mark.rule("vm:I2", "vm:F2")
def test_a_copy_is_booked_with_what_its_machine_holds_though_it_shows_less() -> None:
    town = Town(n1=10, n2=10)
    town.vm("A", "n1", 2)
    town.start()
    town.ask("A", 6)
    town.live(town.world.start_manual_migration("A", town.now))
    (name,) = town.world.migrations
    town.live(town.world.freeze(name))
    target = town.world.migrations[name].target
    older = town.world.pod(target)
    town.world.bind(target, "n2")

    town.tell(PodObserved(replace(older, reserved=both(2)), "n2"))

    assert town.booked(target) == 6


@pytest.mark.rule("vm:B43", "vm:I8", "vm:C30")
def test_a_restart_changes_no_grant_loses_no_claim_and_starts_no_second_move() -> None:
    town = Town(n1=10, n2=10)
    town.vm("A", "n1", 4)
    town.vm("B", "n1", 6, migratable=True)
    town.start()
    town.ask("A", 7)
    move = town.made_room("A")
    town.copying(move)
    grants = {uid: town.booked(uid) for uid in town.state.where}
    claims = {each.id: (each.node, each.beneficiary.ref.uid, each.amount) for each in town.state.claims.values()}

    town.restart()

    assert {uid: town.booked(uid) for uid in town.state.where} == grants
    assert {
        each.id: (each.node, each.beneficiary.ref.uid, each.amount) for each in town.state.claims.values()
    } == claims
    assert not only(town.wait(10.0), StartMove)
    assert town.state.moves[move.key].target_counted


@pytest.mark.rule("vm:B43", "vm:B9")
def test_a_claim_of_which_nothing_is_left_is_not_opened_again() -> None:
    """Its move went on because it had come too far; the claim was written down as nothing."""
    town = Town(n1=10, n2=10)
    town.vm("A", "n1", 4)
    town.vm("B", "n1", 3, migratable=True)
    town.plain("P", "n1", 3)
    town.start()
    town.ask("A", 7)
    move = town.made_room("A")
    town.copying(move, 10)
    town.live(town.world.delete_pod("P", town.now))

    town.restart()

    assert town.state.claims == {}


@pytest.mark.rule("vm:C30")
def test_listing_twice_changes_nothing() -> None:
    town = Town(n1=10)
    town.vm("A", "n1", 4)
    town.start()
    before = town.state

    assert town.tell(InitialListCompleted()) == []
    assert town.state == before


@pytest.mark.rule("vm:B50")
def test_it_is_said_once_that_only_another_node_helps_and_once_that_it_is_needed_no_more() -> None:
    town = Town(n1=10)
    town.vm("A", "n1", 4)
    town.plain("P", "n1", 6)
    town.start()
    town.ask("A", 7)
    town.plans(*(Plan(str(number), needs_node=both(7)) for number in range(2)), Plan("none"))

    said = [only(town.wait(5.0), Condition) for _ in range(3)]

    town.plans(Plan("3", needs_node=both(7)))
    town.wait(5.0)
    said.append(only(town.tell(PodRemoved("P")), Condition))

    assert [[(each.type, each.holds) for each in told] for told in said] == [
        [("NeedsNode", True)],
        [],
        [("NeedsNode", False)],
        [("NeedsNode", False)],
    ]


@pytest.mark.rule("vm:I10", "vm:B42")
def test_the_same_input_gives_the_same_decision() -> None:
    town = Town(n1=10)
    town.vm("A", "n1", 4)
    town.start()
    event = ResourcesRequested("A", both(1), both(7), both(4))

    first = step(town.state, event, 1.0, town.rules)

    assert first == step(town.state, event, 1.0, town.rules)
    assert only(first.actions, Approve)
