"""What a machine that moves is booked with and may use: where it was, and where it arrives."""

from __future__ import annotations

from dataclasses import replace

import pytest

from situate.vm.model.actions import Approve, CancelMove, StartMove
from situate.vm.model.events import (
    MigrationObserved,
    MigrationPhase,
    PodObserved,
    PodRemoved,
    ResourcesRequested,
    WriteResult,
)
from situate.vm.model.pods_and_nodes import Phase, Ref
from tests.vm.town import Town, both, making_room, only


def moving_to_grow(cpus: int) -> tuple[Town, StartMove]:
    """A has 4 and begins to move to n2, for it asks for so many: P has the rest of n1."""
    town = Town(n1=10, n2=12)
    town.vm("A", "n1", 4, migratable=True)
    town.plain("P", "n1", 6)
    town.start()
    town.ask("A", cpus)
    (start,) = only(town.wait(5.0), StartMove)
    return town, start


@pytest.mark.rule("vm:B19", "vm:B20", "vm:N10")
@pytest.mark.parametrize("begun", [False, True])
def test_one_who_was_to_move_for_its_own_growth_stays_when_room_appears_where_it_is(begun: bool) -> None:
    town, start = moving_to_grow(7)
    assert (start.move.machine.name, start.move.amount, start.claim) == ("A", both(7), None)
    if begun:
        town.live(town.world.freeze(start.move.name))

    actions = town.live(town.world.delete_pod("P", town.now))

    if begun:
        assert not only(actions, CancelMove), "it is frozen: it grows where it goes"
        town.moved(start.move)
        town.wait(0.0)
        assert town.booked(town.world.machines["A"].runs_in) == 7
    else:
        assert town.booked("A") == 7
        assert [cancelled.name for cancelled in only(actions, CancelMove)] == [start.move.name]


@pytest.mark.rule("vm:B43", "vm:I8", "vm:B19", "vm:N10")
@pytest.mark.parametrize("restarted", [False, True])
def test_what_one_who_moves_for_its_own_growth_is_to_have_there_outlives_a_change_of_leader(restarted: bool) -> None:
    """Others were given it, and where room appeared at home it neither grew nor stayed."""
    town, start = moving_to_grow(8)
    if restarted:
        town.restart()

    assert town.state.available("n2", "somebody") == both(4)
    actions = town.live(town.world.delete_pod("P", town.now))
    assert town.booked("A") == 8
    assert [cancelled.name for cancelled in only(actions, CancelMove)] == [start.move.name]


@pytest.mark.rule("vm:B43", "vm:I8", "vm:B19")
def test_one_who_moves_for_its_own_growth_grows_where_it_goes_also_under_another_leader() -> None:
    town, start = moving_to_grow(8)
    town.copying(start.move, 50)
    town.restart()
    assert town.state.available("n2", "somebody") == both(4)
    town.moved(start.move)
    town.restart()
    assert town.state.available("n2", "somebody") == both(4)
    town.wait(0.0)
    assert town.booked(town.world.machines["A"].runs_in) == 8


@pytest.mark.rule("vm:I1", "vm:I14", "vm:D13")
def test_a_target_is_granted_nothing_when_its_machine_runs_on_where_it_was() -> None:
    """The machine is seen to run before its target is seen to go: what were granted there would be used here."""
    town = Town(n1=4, n2=10)
    town.vm("A", "n1", 4, migratable=True)
    town.start()
    town.ask("A", 8)
    town.wait(5.0)
    name = next(iter(town.world.migrations))
    town.live(town.world.freeze(name))
    target = town.world.migrations[name].target
    town.live(town.world.bind(target, "n2"))

    town.world.machines["A"].phase = Phase.RUNNING
    actions = town.tell(town.world.pod_event(target))

    assert only(actions, Approve) == []
    assert town.booked(target) == 4


@pytest.mark.rule("vm:I5", "vm:D16", "vm:F12")
def test_who_waits_for_the_end_of_a_move_by_hand_is_served_at_once_wherever_its_machine_runs_by_then() -> None:
    """Seed 815387 of the ledger: the move was of a pod that the machine had left for another node before."""
    town = Town(n1=10, n2=10, n3=10)
    town.vm("B", "n2", 3, migratable=True)
    town.start()
    (by_hand,) = town.world.start_manual_migration("B", town.now)
    assert isinstance(by_hand, MigrationObserved)
    by_hand = replace(by_hand, source=Ref("default", "B-0", "B-0"), source_node="n1")
    town.tell(by_hand)
    town.ask("B", 6)
    assert town.booked("B") == 3

    town.live(replace(by_hand, phase=MigrationPhase(failed=True)))

    assert town.booked("B") == 6


@pytest.mark.rule("vm:I1", "vm:I2", "vm:F5")
def test_what_is_decided_of_the_pod_that_was_left_after_its_machine_has_arrived_is_not_carried_over() -> None:
    """That it has arrived shows before its migration says so, and a late request names the old pod."""
    town, move = making_room()
    late = list(town.world.freeze(move.name))
    target = town.world.migrations[move.name].target
    for event in town.world.bind(target, "n2"):
        town.tell(event)
    late += town.world.copy(move.name, 0, town.now)
    late += town.world.succeed(move.name)
    town.tell(town.world.pod_event(target))
    town.tell(ResourcesRequested(target, both(1), both(3), both(3)))
    told = town.state.permits[target]
    town.tell(ResourcesRequested("B", both(1), both(1), both(3), lowers_at_once=True))
    assert "B" in town.state.permits

    for event in (*late, town.world.pod_event(target)):
        town.tell(event)

    assert town.state.permits.get(target) == told
    assert town.booked(target) == 3


@pytest.mark.rule("vm:I1", "vm:D13", "vm:B21")
def test_who_was_to_move_grows_again_when_its_migration_is_gone_and_not_when_its_end_is_asked_for() -> None:
    """Seed 49985 of the ledger: the machine arrives although its move was to end, with what was reserved for it."""
    town, move = making_room()
    town.plain("Q", "n2", 7)
    town.ask("B", 4)
    old = town.world.pod_event("B")
    copying = town.world.freeze(move.name)
    target = town.world.migrations[move.name].target
    copying += town.world.bind(target, "n2") + town.world.copy(move.name, 0, town.now)
    assert only(town.tell(PodRemoved("A")), CancelMove)
    town.tell(old)
    assert town.booked("B") == 3, "its migration is there still"

    for event in (*copying, *town.world.succeed(move.name)):
        town.tell(event)

    assert (town.booked(target), town.reserved("n2")) == (3, 10)


@pytest.mark.rule("vm:F12", "vm:I8")
def test_what_is_booked_where_a_machine_arrives_is_what_it_was_approved_whoever_else_was_to_move_it() -> None:
    """Seed 6300375 of the ledger: ours has not begun when somebody moves it by hand, and its permit is lowered."""
    town, _ = making_room()
    town.world.machines["B"].use = both(1)
    town.tell(town.world.pod_event("B"))
    town.world.request("B", both(1), both(1))
    (lower,) = only(town.tell(ResourcesRequested("B", both(1), both(1), both(3), lowers_at_once=True)), Approve)
    town.live(town.world.start_manual_migration("B", town.now))
    by_hand = list(town.world.migrations)[-1]
    town.live(town.world.freeze(by_hand))
    for event in (*(town.world.perform(lower, town.now) or ()), WriteResult(lower, "ok")):
        town.tell(event)
    target = town.world.migrations[by_hand].target
    town.live(town.world.bind(target, "n2"))
    town.live(town.world.copy(by_hand, 0, town.now))
    assert (town.booked("B"), town.booked(target)) == (3, 3), "it is frozen"

    for event in sorted(town.world.succeed(by_hand), key=lambda each: isinstance(each, PodObserved)):
        town.tell(event)

    assert town.booked(target) == 1
