"""A target that is lost, or refuses, before its pod is there: one new choice, else the move ends (B14, F6, F8)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from situate.vm.ledger.migrations.planner import Planner
from situate.vm.model.actions import CancelMove, Condition, Retarget, StartMove
from situate.vm.model.events import (
    Event,
    MigrationObserved,
    NodeObserved,
    NodeRemoved,
    TargetRefused,
    TimerFired,
    WriteResult,
)
from situate.vm.model.migrations import Move
from tests.vm.town import Town, both, only, outcomes


def on_its_way(**others: int) -> tuple[Town, Move]:
    """B is frozen, its pod has no node yet, and room of 6 is reserved for it on n2, the best node."""
    town = Town(None, n1=10, n2=10, **others)
    town.vm("A", "n1", 4)
    town.vm("B", "n1", 6, migratable=True)
    town.start()
    town.ask("A", 7)
    move = town.made_room("A")
    assert move.target_node == "n2"
    town.live(town.world.freeze(move.name))
    return town, town.state.moves[move.key]


def lost(town: Town, _: Move) -> Event:
    return town.world.drop_node("n2")


def cordoned(town: Town, _: Move) -> Event:
    return NodeObserved(replace(town.world.nodes["n2"], schedulable=False))


def refused(_: Town, move: Move) -> Event:
    return TargetRefused(move.key, "n2", "it has a taint")


WAYS = pytest.mark.parametrize("against", [lost, cordoned, refused])


@pytest.mark.rule("vm:B14", "vm:F6", "vm:I4", "vm:B4")
@WAYS
def test_another_node_takes_the_reservation_at_once_and_the_migration_says_so(
    against: Callable[[Town, Move], Event],
) -> None:
    town, move = on_its_way(n3=10, n4=5)
    town.tell(against(town, move))
    assert town.wake_at is not None
    assert town.wake_at <= town.now

    actions = town.live(TimerFired())

    assert [action.target_node for action in only(actions, Retarget)] == ["n3"]
    assert not only(actions, CancelMove)
    assert town.state.incoming_amount("n3", "") == both(6)
    assert "n2" not in town.state.nodes or town.state.incoming_amount("n2", "") == both(0)
    assert town.claims() == {"A": 3}, "it is still for A"
    assert (town.state.moves[move.key].choices, town.world.migrations[move.name].target_node) == (2, "n3")
    assert town.state.failures["vm-B", "n2"].count == 1, "it does not go there again for a while (B25)"

    town.moved(town.state.moves[move.key])
    town.live(town.world.delete_pod("B", town.now))
    assert town.booked("A") == 7


@pytest.mark.rule("vm:B14", "vm:F6")
@WAYS
def test_where_no_other_node_has_room_the_move_ends(against: Callable[[Town, Move], Event]) -> None:
    town, move = on_its_way(n3=5)
    town.tell(against(town, move))

    actions = town.live(TimerFired())

    assert [cancelled.name for cancelled in only(actions, CancelMove)] == [move.name]
    assert "failed" in outcomes(actions)
    assert town.world.migrations == {}


@pytest.mark.rule("vm:B14", "vm:F6")
def test_a_second_refusal_ends_the_move() -> None:
    town, move = on_its_way(n3=10, n4=10)
    town.tell(refused(town, move))
    town.live(TimerFired())
    town.tell(TargetRefused(move.key, "n2", "what a cycle said of the first node comes late"))
    assert not only(town.live(TimerFired()), CancelMove)

    town.tell(TargetRefused(move.key, "n3", "it has a taint"))

    actions = town.live(TimerFired())
    assert only(actions, CancelMove)
    assert not only(actions, Retarget)


@pytest.mark.rule("vm:B14", "vm:B15")
def test_a_pod_that_finds_no_node_in_time_is_offered_another_and_has_as_much_time_there() -> None:
    town, _ = on_its_way(n3=10)
    assert not only(town.wait(29.0), Retarget)
    assert only(town.wait(1.0), Retarget)
    assert not only(town.wait(29.0), CancelMove)
    (cancelled,) = only(town.wait(1.0), CancelMove)
    assert cancelled.reason == "the target Pod has no node after 30 s"


@pytest.mark.rule("vm:B14", "vm:F8")
@pytest.mark.parametrize("copies", [False, True])
def test_a_pod_that_has_its_node_goes_nowhere_else(copies: bool) -> None:
    town, move = on_its_way(n3=10)
    town.live(town.world.bind(town.world.migrations[move.name].target, "n2"))
    if copies:
        town.copying(move)
    town.tell(refused(town, move))
    town.tell(cordoned(town, move))
    assert not [action for action in town.live(TimerFired()) if isinstance(action, Retarget | CancelMove)]

    actions = town.live(NodeRemoved("n2"))

    assert only(actions, CancelMove)
    assert not only(actions, Retarget)


@pytest.mark.rule("vm:B14", "vm:B49")
def test_a_migration_that_names_its_node_itself_is_led_nowhere_else() -> None:
    town, move = on_its_way(n3=10)
    seen = town.world.migration_event(move.name)
    assert isinstance(seen, MigrationObserved)
    town.tell(replace(seen, pinned=True))
    town.tell(refused(town, move))

    actions = town.live(TimerFired())

    assert only(actions, CancelMove)
    assert not only(actions, Retarget)


@pytest.mark.rule("vm:B14", "vm:B43", "vm:I8")
def test_a_restart_finds_the_second_target_its_time_and_that_it_was_the_second() -> None:
    town, move = on_its_way(n3=10, n4=10)
    town.now += 20
    town.tell(refused(town, move))
    town.live(TimerFired())
    town.now += 15

    town.restart()

    found = town.state.moves[move.key]
    assert (found.target_node, found.choices) == ("n3", 2)
    assert town.state.incoming_amount("n3", "") == both(6)
    assert not only(town.wait(14.0), CancelMove), "its 30 s began with the second choice"
    town.tell(TargetRefused(move.key, "n3", "it has a taint"))
    assert only(town.live(TimerFired()), CancelMove)


@pytest.mark.rule("vm:B14", "vm:B43")
def test_a_target_that_was_lost_while_nobody_led_is_chosen_anew() -> None:
    town, _ = on_its_way(n3=10)
    town.world.drop_node("n2")

    town.restart()

    assert [action.target_node for action in only(town.live(TimerFired()), Retarget)] == ["n3"]


@pytest.mark.rule("vm:B14", "vm:F1")
@pytest.mark.parametrize("outcome", ["unknown", "conflict"])
def test_a_new_target_is_written_until_the_migration_shows_it(outcome: str) -> None:
    town, move = on_its_way(n3=10)
    town.tell(refused(town, move))
    (first,) = only(town.tell(TimerFired()), Retarget)
    town.tell(WriteResult(first, outcome))
    town.tell(town.world.migration_event(move.name))

    assert only(town.wait(5.0), Retarget) == [first]

    assert town.world.migrations[move.name].target_node == "n3"
    assert town.state.moves[move.key].retry_at is None


@pytest.mark.rule("vm:B1", "vm:B43", "vm:B24")
def test_a_restart_knows_that_a_move_is_for_its_nodes_sake() -> None:
    """As `test_a_move_for_its_nodes_sake_outlives_the_claim_on_its_room`, with a restart in between."""
    town = Town()
    town.tell(town.world.add_node("n1", both(10), both(6)))
    town.tell(town.world.add_node("n2", both(10)))
    town.vm("A", "n1", 4)
    town.vm("B", "n1", 6, migratable=True)
    town.start()
    town.ask("A", 5)
    assert only(town.wait(0.0), StartMove)
    town.restart()

    actions = town.ask("A", 4)

    assert outcomes(actions) == ["withdrawn"]
    assert not only(actions, CancelMove)


@pytest.mark.rule("vm:B50")
@pytest.mark.parametrize("satisfied", [False, True])
def test_that_a_node_is_needed_is_taken_back_also_after_a_restart(satisfied: bool) -> None:
    town = Town(n1=10)
    town.vm("A", "n1", 4)
    town.vm("B", "n1", 6, migratable=True)
    town.start()
    town.ask("A", 7)
    town.wait(5.0)
    assert town.world.pods["A"].needs_node

    if satisfied:
        town.world.machines["A"].requested = both(4)
    town.restart()

    if satisfied:
        assert [said.holds for said in only(town.done, Condition) if said.type == "NeedsNode"] == [False]
    else:
        town.live(town.world.add_node("n1", both(13)))
        assert not town.world.pods["A"].needs_node


@pytest.mark.rule("vm:B14", "vm:F1")
@pytest.mark.parametrize("comes", [True, False])
def test_a_target_that_is_lost_before_the_migration_shows_is_chosen_anew_when_it_does(comes: bool) -> None:
    town = Town(n1=10, n2=10, n3=10)
    town.vm("A", "n1", 4)
    town.vm("B", "n1", 6, migratable=True)
    town.start()
    town.ask("A", 7)
    town.now += 5
    (start,) = only(town.tell(TimerFired()), StartMove)
    town.tell(town.world.drop_node("n2"))
    assert town.tell(TimerFired()) == []

    if comes:
        town.live(town.world.perform(start, town.now) or ())
        assert [action.target_node for action in only(town.live(TimerFired()), Retarget)] == ["n3"]
    else:
        assert only(town.wait(30.0), CancelMove)


@pytest.mark.rule("vm:B32", "vm:B11", "vm:B14")
def test_nobody_is_planned_for_in_what_answers_an_agent_or_a_watch() -> None:
    """Plans take their time: whatever is due, only a beat makes one."""

    def planning(*_: object) -> Any:
        raise ZeroDivisionError("a plan was made")

    town, move = on_its_way(n3=10)
    town.vm("C", "n2", 2)
    town.tell(TargetRefused(move.key, "n2", "it has a taint"))
    town.planner = Planner(plan=planning, relief=planning, drain=planning, another_target=planning)
    town.now += 10

    town.ask("C", 3)
    town.tell(town.world.add_node("n3", both(12)))
    town.tell(town.world.pod_event("A"))

    assert town.booked("C") == 3
    with pytest.raises(ZeroDivisionError, match="a plan was made"):
        town.tell(TimerFired())
