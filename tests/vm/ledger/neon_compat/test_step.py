"""With `compat`, the step does what the reference does (2.4, 2.7, 2.8), where that is not what this product does."""

from __future__ import annotations

import pytest

from situate.vm.model.actions import Approve, CancelMove, EndMove, StartMove
from situate.vm.model.events import (
    InitialListCompleted,
    NodeObserved,
    PodRemoved,
    ResourcesRequested,
    TimerFired,
    WriteResult,
)
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from tests.vm.town import Town, both, only

COMPAT = Rules(compat=True)


@pytest.mark.rule("vm:C26", "vm:C11")
def test_resources_are_granted_one_by_one_and_a_denial_is_tried_again_after_five_seconds() -> None:
    town = Town(COMPAT)
    town.tell(town.world.add_node("n1", Amounts.from_values(10, 6)))
    town.vm("A", "n1", 4)
    town.start()

    town.live(town.world.request("A", both(1), both(12)))

    assert town.pod("A").reserved == Amounts.from_values(10, 6)
    assert town.wake_at == town.now + 5
    town.live(town.world.add_node("n1", both(12)))
    assert town.pod("A").reserved == Amounts.from_values(10, 6), "room that appears wakes nobody (D16)"
    town.wait(5.0)
    assert town.pod("A").reserved == both(12)


@pytest.mark.rule("vm:C26")
def test_a_decrease_counts_only_when_the_pod_shows_it() -> None:
    town = Town(COMPAT, n1=10)
    town.vm("A", "n1", 6)
    town.start()
    (seen,) = town.world.request("A", both(1), both(3))

    (approve,) = only(town.tell(seen), Approve)

    assert (approve.amount, town.booked("A")) == (both(3), 6)
    town.tell(WriteResult(approve, "ok"))
    assert town.booked("A") == 6
    town.world.machines["A"].approved = both(3)
    town.tell(town.world.pod_event("A"))
    assert town.booked("A") == 3


@pytest.mark.rule("vm:C26")
def test_a_machine_is_not_patched_twice_within_a_second() -> None:
    town = Town(COMPAT, n1=20)
    town.vm("A", "n1", 4)
    town.start()
    assert only(town.tell(town.world.request("A", both(1), both(6))[0]), Approve)

    town.now += 0.4
    assert not only(town.tell(town.world.request("A", both(1), both(8))[0]), Approve)
    assert town.wake_at == pytest.approx(town.now + 0.6)
    town.now += 0.6
    (approve,) = only(town.tell(TimerFired()), Approve)
    assert approve.amount == both(8)


@pytest.mark.rule("vm:C30")
def test_who_wanted_something_before_everything_was_listed_gets_it_then() -> None:
    town = Town(COMPAT, n1=10)
    town.vm("A", "n1", 4)
    assert town.live(town.world.request("A", both(1), both(6))) == []

    assert [approve.amount for approve in only(town.tell(InitialListCompleted()), Approve)] == [both(6)]


@pytest.mark.rule("vm:C15")
def test_an_agents_last_permit_is_believed() -> None:
    town = Town(COMPAT, n1=10)
    town.vm("A", "n1", 4)
    town.start()

    town.tell(ResourcesRequested("A", both(1), both(9), both(9)))

    assert town.booked("A") == 9


@pytest.mark.rule("vm:C29", "vm:C25", "vm:C6")
def test_the_oldest_leave_a_node_over_its_watermark_whoever_takes_them() -> None:
    town = Town(COMPAT)
    node = town.world.add_node("n1", both(10), both(5))
    town.tell(node)
    for name, held, created in (("young", 3, 3.0), ("old", 2, 1.0), ("middle", 3, 2.0)):
        town.vm(name, "n1", held, migratable=True, created_at=created)

    town.start()

    starts = only(town.done, StartMove)
    assert [start.move.name for start in starts] == ["schedplugin-old", "schedplugin-middle"]
    assert [(start.claim, start.move.target_node) for start in starts] == [(None, "")] * 2
    assert isinstance(node, NodeObserved)
    assert not only(town.tell(node), StartMove), "wishes count as leaving"


@pytest.mark.rule("vm:C25")
def test_a_wish_that_may_not_move_any_more_is_dropped_before_it_began() -> None:
    town = Town(COMPAT)
    town.tell(town.world.add_node("n1", both(10), both(5)))
    town.vm("A", "n1", 3, migratable=True)
    town.plain("P", "n1", 3)
    town.start()
    assert [move.machine.name for move in town.state.moves.values()] == ["A"]
    town.world.machines["A"].migratable = False

    town.tell(town.world.pod_event("A"))

    assert town.state.moves == {}


@pytest.mark.rule("vm:C27")
def test_a_migration_of_ours_that_is_over_is_deleted_at_once_and_none_is_ever_cancelled() -> None:
    town = Town(COMPAT, n2=10)
    town.tell(town.world.add_node("n1", both(10), both(5)))
    town.vm("A", "n1", 3, migratable=True)
    town.plain("P", "n1", 3)
    town.start()
    town.live(town.world.perform(town.done[0], town.now) or ())
    (name,) = town.world.migrations
    town.live(town.world.freeze(name))
    town.live(town.world.bind(town.world.migrations[name].target, "n2"))
    assert not only(town.wait(4000.0), CancelMove)
    assert not only(town.tell(PodRemoved("nobody")), CancelMove)

    ended = town.live([*town.world.copy(name, 0, town.now), *town.world.succeed(name)])

    assert [end.name for end in only(ended, EndMove)] == [name]
