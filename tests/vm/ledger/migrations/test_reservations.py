"""Claims: room that a move makes is kept for the one for whom it is made, and every claim ends (B1 to B8)."""

from __future__ import annotations

import pytest
from msgspec import structs

from situate.vm.config.settings import MigrationLimits
from situate.vm.model.actions import CancelMove, Notify, ShrinkClaim, StartMove
from situate.vm.model.events import PodReserved, PodUnreserved
from situate.vm.model.migrations import BeneficiaryKind, ClaimState
from situate.vm.model.policy import Rules
from situate.vm.planning.plan import Plan
from tests.vm.town import Town, both, claim_on, move_of, only, outcomes


def short_of_three() -> Town:
    """A wants 3 more than it has; B could leave for n2."""
    town = Town(n1=10, n2=10)
    town.vm("A", "n1", 4)
    town.vm("B", "n1", 6, migratable=True)
    town.start()
    town.ask("A", 7)
    return town


@pytest.mark.rule("vm:B1", "vm:B2", "vm:B12", "vm:N4")
def test_a_move_is_created_together_with_its_one_claim_and_its_target() -> None:
    town = short_of_three()

    (start,) = only(town.wait(5.0), StartMove)

    assert start.claim is not None
    assert (start.claim.beneficiary.kind, start.claim.beneficiary.ref.uid) == (BeneficiaryKind.VM, "A")
    assert (start.claim.source_uid, start.claim.node, start.claim.amount) == ("B", "n1", both(3))
    assert (start.move.claim, start.move.target_node) == (start.claim.id, "n2")
    assert town.state.incoming_amount("n2", "") == both(6)


@pytest.mark.rule("vm:B16")
def test_nobody_is_moved_before_a_wish_has_stood_for_a_while() -> None:
    town = short_of_three()

    assert not only(town.wait(4.9), StartMove)
    assert town.wake_at == pytest.approx(town.now + 0.1)
    assert only(town.wait(0.1), StartMove)


@pytest.mark.rule("vm:B3")
def test_a_source_that_is_only_about_to_go_frees_nothing() -> None:
    town = short_of_three()
    move = town.made_room("A")
    town.moved(move)

    assert [claim.state for claim in town.state.claims.values()] == [ClaimState.MOVING]
    assert town.reserved("n1") == 10
    assert town.booked("A") == 4


@pytest.mark.rule("vm:B4", "vm:I4")
def test_freed_room_is_nobody_elses_while_its_beneficiary_cannot_use_it() -> None:
    """A may not grow as long as it is moved by somebody else itself; what was freed for it is kept meanwhile."""
    town = short_of_three()
    move = town.made_room("A")
    town.moved(move)
    town.live(town.world.start_manual_migration("A", town.now))
    town.live(town.world.freeze(next(name for name in town.world.migrations if name.startswith("by-hand"))))

    town.gone("B")

    (claim,) = town.state.claims.values()
    assert claim.state is ClaimState.FREED
    assert town.state.available("n1", "A") == both(6)
    assert town.state.available("n1", "somebody") == both(0)
    assert claim.held_amount == both(6), "what was freed beyond the claim is nobody's until it is closed (B6)"


@pytest.mark.rule("vm:B5")
def test_a_source_that_shrinks_before_it_is_frozen_shrinks_its_claim() -> None:
    town = Town(n1=10, n2=10)
    town.vm("A", "n1", 3)
    town.vm("B", "n1", 7, migratable=True)
    town.start()
    town.ask("A", 9)
    move = move_of(town, "B", "n2", "c")
    town.plans(Plan("plan", moves=(move,), claims=(claim_on(move, town.pod("A"), 6),)))
    town.wait(5.0)
    town.world.machines["B"].use = both(5)

    town.ask("B", 5)

    assert town.booked("A") == 5, "what B gives back goes to A at once"
    assert town.claims() == {"A": 4}
    written = town.world.migrations[move.name].claim
    assert written is not None
    assert written.amount == both(4)


@pytest.mark.rule("vm:B6", "vm:D16")
def test_what_a_move_frees_beyond_its_claim_goes_to_those_who_wait_in_the_same_decision() -> None:
    town = Town(n1=10, n2=10)
    town.vm("A", "n1", 2)
    town.vm("B", "n1", 6, migratable=True)
    town.vm("D", "n1", 2)
    town.start()
    town.ask("A", 5)
    move = town.made_room("A")
    town.ask("D", 4)
    town.moved(move)

    town.gone("B")

    assert (town.booked("A"), town.booked("D")) == (5, 4)


@pytest.mark.rule("vm:B7", "vm:N11", "vm:D1")
def test_room_made_for_one_is_not_given_to_another_who_asked_earlier() -> None:
    town = Town(n1=10, n2=20)
    town.rules = Rules(calm=MigrationLimits(link="1Ti"))
    for name, held, migratable in (("A", 2, False), ("B", 2, True), ("D", 3, False), ("E", 3, True)):
        town.vm(name, "n1", held, migratable=migratable)
    town.start()
    town.ask("A", 4)
    town.ask("D", 6)
    for_a, for_d = move_of(town, "B", "n2", "a"), move_of(town, "E", "n2", "d")
    claims = (claim_on(for_a, town.pod("A"), 2), claim_on(for_d, town.pod("D"), 3))
    town.plans(Plan("plan", moves=(for_a, for_d), claims=claims))
    town.wait(5.0)
    town.moved(for_d)

    assert outcomes(town.gone("E")) == ["granted"]
    assert (town.booked("A"), town.booked("D")) == (2, 6)


@pytest.mark.rule("vm:B7", "vm:I5")
@pytest.mark.parametrize("how", ["withdraws", "goes"])
def test_a_claim_ends_with_its_wish(how: str) -> None:
    town = short_of_three()
    town.made_room("A")

    actions = town.ask("A", 2) if how == "withdraws" else town.live(town.world.delete_pod("A", town.now))

    assert outcomes(actions) == ["withdrawn"]
    assert town.state.claims == {}
    assert town.world.migrations == {}, "its move has no purpose any more (B21)"


@pytest.mark.rule("vm:B7")
def test_a_claim_ends_at_its_deadline_whatever_happens() -> None:
    town = short_of_three()
    longest = town.rules
    town.rules = structs.replace(longest, deadlines=structs.replace(longest.deadlines, completion_s=10.0, claim_s=5.0))
    move = town.made_room("A")
    town.rules = longest
    town.copying(move)
    assert not only(town.wait(14.9), CancelMove)

    actions = town.wait(0.1)

    assert outcomes(actions) == ["failed"]
    assert only(actions, CancelMove)


@pytest.mark.rule("vm:B8", "vm:F10")
def test_a_claim_whose_room_another_scheduler_takes_is_broken_and_another_plan_is_made() -> None:
    town = short_of_three()
    move = town.made_room("A")
    town.moved(move)

    actions = town.tell(town.world.add_pod("Q", both(5), "n1"))

    assert [action.reason for action in only(actions, Notify)] == ["ClaimBroken"]
    assert town.claims() == {"A": 1}
    assert [shrunk.claim.amount for shrunk in only(actions, ShrinkClaim)] == [both(1)]


@pytest.mark.rule("vm:B8", "vm:F11")
def test_a_claim_of_which_a_smaller_node_leaves_nothing_is_closed() -> None:
    town = short_of_three()
    town.made_room("A")

    actions = town.tell(town.world.add_node("n1", both(4)))

    assert outcomes(actions) == ["failed"]


@pytest.mark.rule("vm:B4", "vm:B13")
def test_a_reservation_keeps_others_out_until_it_is_booked() -> None:
    town = short_of_three()
    town.made_room("A")

    assert town.state.available("n2", "Q") == both(4)
    town.copying(next(iter(town.state.moves.values())))
    assert town.state.available("n2", "Q") == both(4), "as the booking of the pod that it is for now, and not twice"


@pytest.mark.rule("vm:N23", "vm:B14", "vm:C22")
def test_a_cycle_turns_a_reservation_into_a_booking_and_back() -> None:
    town = short_of_three()
    move = town.made_room("A")
    town.live(town.world.freeze(move.name))
    target = town.world.migrations[move.name].target
    before = town.state

    town.tell(PodReserved(town.world.pod(target), "n2"))
    reserved = town.state
    town.tell(PodReserved(town.world.pod(target), "n2"))

    assert town.state == reserved, "once"
    assert (town.reserved("n2"), town.state.incoming_amount("n2", "")) == (6, both(0))
    town.tell(PodUnreserved(target))
    town.tell(PodUnreserved(target))
    assert (town.state.nodes, town.state.moves, town.state.where) == (before.nodes, before.moves, before.where)


@pytest.mark.rule("vm:B1")
def test_what_a_move_for_nobody_frees_is_claimed_by_the_first_in_line() -> None:
    town = Town(n1=10, n2=10)
    town.vm("A", "n1", 4)
    town.vm("B", "n1", 6, migratable=True)
    town.start()
    town.ask("A", 5)
    town.plans(Plan("relief", moves=(move_of(town, "B", "n2"),)))

    (start,) = only(town.wait(5.0), StartMove)

    assert start.claim is not None
    assert (start.claim.beneficiary.ref.uid, start.claim.amount) == ("A", both(1))
