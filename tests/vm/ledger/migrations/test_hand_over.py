"""The source is gone: its room becomes its beneficiary's in one decision (B9), alone, in parts or not at all."""

from __future__ import annotations

import pytest

from situate.sim.vm.world import VirtualMachine
from situate.vm.config.settings import MigrationLimits
from situate.vm.model.actions import Approve, EndMove, HandOver
from situate.vm.model.events import InitialListCompleted, PodObserved, WriteResult
from situate.vm.model.migrations import ClaimState, Move
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState
from situate.vm.planning.plan import Plan
from tests.vm.town import Town, both, claim_on, move_of, only, outcomes


def about_to_be_handed_over() -> tuple[Town, Move]:
    """B runs on n2 by now, and its source is there still; A waits for 3."""
    town, move = copied()
    town.moved(move)
    return town, move


@pytest.mark.rule("vm:B9", "vm:N7", "vm:B3")
def test_removing_the_source_and_growing_the_beneficiary_are_one_decision() -> None:
    town, move = about_to_be_handed_over()

    actions = town.gone("B")

    assert town.booked("A") == 7
    assert town.state.claims == {}
    assert outcomes(actions) == ["granted"]
    (approve,) = only(actions, Approve)
    assert (approve.machine.name, approve.amount, approve.closed_claim) == ("A", both(7), move.claim)
    assert not only(actions, EndMove), "whoever begins anew must find the claim, or that it was used (B43)"
    ended = only(town.tell(WriteResult(approve, "ok")), EndMove)
    assert [end.name for end in ended] == [move.name], "only now that its claim is closed (B2)"


@pytest.mark.rule("vm:B43", "vm:B9", "vm:F1", "vm:F3")
@pytest.mark.parametrize("outcome", ["unknown", "conflict"])
def test_a_move_whose_room_was_used_is_there_until_that_is_written(outcome: str) -> None:
    """A crash between the two would leave the room to anybody."""
    town, move = about_to_be_handed_over()
    (approve,) = only(town.gone("B"), Approve)

    assert not only(town.tell(WriteResult(approve, outcome)), EndMove)
    assert move.key in town.state.moves
    town.wait(1.0)

    assert town.world.machines["A"].closed_claim == move.claim
    assert town.state.moves == {}


@pytest.mark.rule("vm:B43", "vm:I4")
def test_whoever_begins_anew_holds_freed_room_before_everything_has_been_told() -> None:
    """Pods are placed from when ledger created, and what is granted waits until the API server is known."""
    town, move = about_to_be_handed_over()
    town.world.delete_pod("B", town.now)
    town.state = LedgerState()

    for event in town.world.listing():
        if not isinstance(event, InitialListCompleted):
            town.tell(event)

    assert town.state.held_for_others(move.source_node, "") == both(3)
    assert outcomes(town.tell(InitialListCompleted())) == ["granted"]


@pytest.mark.rule("vm:B3", "vm:B43")
def test_a_source_that_is_told_of_after_its_migration_has_freed_nothing() -> None:
    town, move = about_to_be_handed_over()
    town.state = LedgerState()

    for event in sorted(town.world.listing(), key=lambda each: isinstance(each, PodObserved | InitialListCompleted)):
        town.tell(event)

    assert town.state.claims[move.claim].state is not ClaimState.FREED
    assert not town.state.held_for_others(move.source_node, "")


@pytest.mark.rule("vm:B2", "vm:F9")
def test_a_move_does_not_wait_for_what_is_written_to_one_who_is_gone() -> None:
    town, _ = about_to_be_handed_over()
    town.gone("B")

    town.live(town.world.delete_pod("A", town.now))

    assert town.state.moves == {}


@pytest.mark.rule("vm:B9", "vm:B43")
def test_a_claim_that_was_used_is_not_used_again_after_a_restart() -> None:
    """A has its room and wants more by now; what is free besides is for D, who comes first."""
    town = Town(n1=10, n2=10)
    town.vm("A", "n1", 4)
    town.vm("B", "n1", 4, migratable=True)
    town.vm("D", "n1", 2, priority=1)
    town.start()
    town.ask("A", 7)
    move = town.made_room("A")
    town.moved(move)
    for action in town.gone("B"):
        if isinstance(action, Approve):
            town.world.perform(action, town.now)
    town.world.machines["A"].requested = both(8)
    town.world.machines["D"].requested = both(3)

    town.restart()

    assert move.name in town.world.migrations, "we died before it was deleted"
    assert town.state.claims == {}
    assert (town.booked("A"), town.booked("D")) == (7, 3)


@pytest.mark.rule("vm:B9", "vm:I2", "vm:F1")
@pytest.mark.parametrize("outcome", ["unknown", "refused", "conflict"])
def test_what_was_granted_stays_booked_while_nobody_knows_whether_it_was_written(outcome: str) -> None:
    town, _ = about_to_be_handed_over()
    (approve,) = only(town.gone("B"), Approve)

    town.tell(WriteResult(approve, outcome))
    before = town.booked("A")
    actions = town.live(town.world.pod_event("A"))

    assert (before, town.booked("A")) == (7, 7)
    assert bool(only(actions, Approve)) is (outcome != "unknown"), "what is unknown is repeated after a while"
    town.wait(1.0)
    assert town.world.machines["A"].approved == both(7), "it was written again"


@pytest.mark.rule("vm:B3", "vm:B30", "vm:B16")
@pytest.mark.parametrize("wanted", [pytest.param(8, id="a unit"), pytest.param(7, id="less than one")])
def test_parts_that_are_no_unit_yet_are_kept_until_the_other_move_has_freed_its_part(wanted: int) -> None:
    town = Town(Rules(calm=MigrationLimits(link="1Ti")), n1=10, n2=20)
    town.vm("A", "n1", 4)
    town.vm("B", "n1", 3, migratable=True)
    town.vm("E", "n1", 3, migratable=True)
    town.start()
    town.world.machines["A"].unit = both(4)
    town.ask("A", wanted)
    first, second = move_of(town, "B", "n2", "b"), move_of(town, "E", "n2", "e")
    town.plans(
        Plan(
            "plan",
            moves=(first, second),
            claims=(claim_on(first, town.pod("A"), 3), claim_on(second, town.pod("A"), 1)),
        )
    )
    town.wait(5.0)
    town.moved(first)
    town.moved(second)

    town.gone("B")

    assert town.booked("A") == 4
    assert town.state.claims["b"].state is ClaimState.FREED
    assert town.state.available("n1", "Q") == both(0)
    actions = town.gone("E")
    assert town.booked("A") == wanted
    assert sorted(outcomes(actions)) == ["granted", "granted" if wanted == 8 else "withdrawn"]
    assert town.state.available("n1", "Q") == both(10 - wanted)


@pytest.mark.rule("vm:B9", "vm:B30", "vm:I4", "vm:N7")
def test_who_lacks_more_of_one_resource_than_of_the_other_gets_all_that_was_freed_for_it() -> None:
    """Jointly it is one unit of both: then it has all that it wants of memory, and two more of CPU are its own."""
    town = Town(n1=10, n2=10)
    town.vm("A", "n1", 4)
    town.vm("Q", "n1", 3, maximum=both(30))
    held = Amounts.from_values(3, 1)
    town.tell(
        town.world.add_machine(VirtualMachine("B", held, held, held, both(1), migratable=True, created_at=2.0), "n1")
    )
    town.tell(town.world.add_pod("P", Amounts.from_values(0, 2), "n1"))
    town.start()
    town.ask("A", Amounts.from_values(7, 5))
    move = town.made_room("A")
    town.ask("Q", Amounts.from_values(5, 3))
    town.moved(move)

    actions = town.gone("B")

    assert town.pod("A").reserved == Amounts.from_values(7, 5)
    assert outcomes(actions) == ["granted"]
    assert [made.amount for made in only(actions, Approve)] == [Amounts.from_values(7, 5)], "one write of all of it"
    assert town.booked("Q") == 3, "who has had a smaller share comes after it all the same"


@pytest.mark.rule("vm:B3", "vm:B5")
def test_what_is_too_little_for_a_unit_is_not_kept_for_ever() -> None:
    town, _ = about_to_be_handed_over()
    town.live(town.world.add_pod("Q", both(4), "n1"))
    town.live(town.world.request("A", both(3), both(7)))

    actions = town.gone("B")

    assert town.booked("A") == 4
    assert outcomes(actions) == ["partial"]
    assert town.state.available("n1", "Q2") == both(2)


@pytest.mark.rule("vm:B43", "vm:I8", "vm:F3")
def test_a_source_that_goes_while_we_are_away_is_handed_over_when_we_are_back() -> None:
    town, move = about_to_be_handed_over()
    town.world.delete_pod("B", town.now)

    town.restart()

    assert town.booked("A") == 7
    (approve,) = only(town.done, Approve)
    assert approve.closed_claim == move.claim


@pytest.mark.rule("vm:F9")
def test_a_source_that_is_deleted_before_it_has_moved_frees_its_room_for_the_beneficiary_all_the_same() -> None:
    town = Town(n1=10, n2=10)
    town.vm("A", "n1", 4)
    town.vm("B", "n1", 6, migratable=True)
    town.start()
    town.ask("A", 7)
    town.made_room("A")

    town.live(town.world.delete_pod("B", town.now))

    assert town.booked("A") == 7
    assert town.state.moves == {}


@pytest.mark.rule("vm:B10", "vm:B2")
def test_what_is_handed_over_is_written_down_before_the_source_is_deleted() -> None:
    town, move = copied()

    (record,) = only(town.live(town.world.succeed(move.name), but=HandOver), HandOver)

    assert (record.name, record.source.uid, record.beneficiary.uid, record.amount) == (move.name, "B", "A", both(3))
    assert town.booked("A") == 4, "it is no more than a record"
    town.tell(WriteResult(record, "unknown"))
    town.wait(5.0)
    assert town.booked("A") == 7, "asked for again, and done"


@pytest.mark.rule("vm:B10", "vm:F3", "vm:B43")
def test_a_hand_over_that_was_begun_is_gone_on_with_after_a_restart() -> None:
    town, move = copied()
    town.live(town.world.succeed(move.name), but=HandOver)

    town.restart()

    (record,) = only(town.done, HandOver)
    assert (record.source.uid, record.amount) == ("B", both(3))


def copied() -> tuple[Town, Move]:
    """B is about to run on n2."""
    town = Town(n1=10, n2=10)
    town.vm("A", "n1", 4)
    town.vm("B", "n1", 6, migratable=True)
    town.start()
    town.ask("A", 7)
    move = town.made_room("A")
    town.copying(move, 0)
    return town, move
