"""What is left of a move when it is over: neither room that nobody comes for, nor a write that nobody answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from situate.vm.ledger.transaction import REPEAT_AFTER_S
from situate.vm.model.actions import Approve, EndMove, NoteMoved, StartMove
from situate.vm.model.events import NodeObserved, NodeRemoved, TimerFired, WriteResult
from situate.vm.model.state import LedgerState
from situate.vm.planning.node_relief import leaving_amount
from tests.vm.town import Town, both, only


def moved_by_hand(town: Town) -> str:
    """V, which runs on n1, is moved to n2; the pod that it runs in now."""
    town.live(town.world.start_manual_migration("V", town.now))
    (move,) = town.world.migrations.values()
    town.live(town.world.freeze(move.name))
    town.live(town.world.bind(move.target, "n2"))
    town.live(town.world.copy(move.name, 0, town.now))
    town.live(town.world.succeed(move.name))
    return move.target


@pytest.fixture
def town() -> Town:
    town = Town(n1=10, n2=10)
    town.vm("V", "n1", 2, migratable=True)
    town.start()
    return town


@pytest.mark.rule("vm:B4", "vm:F12", "vm:I5")
def test_of_a_move_by_hand_that_is_over_nothing_is_kept_when_its_target_is_gone_too(town: Town) -> None:
    target = moved_by_hand(town)
    assert town.state.available("n2", "") == both(8)

    town.live(town.world.delete_pod(target, town.now))

    assert town.state.moves, "nobody deletes its object"
    assert town.state.available("n2", "") == both(10)


@pytest.mark.rule("vm:F12", "vm:B25", "vm:B43", "vm:B27")
def test_of_moves_by_hand_that_are_over_nothing_is_kept_and_a_restart_learns_nothing_from_them(town: Town) -> None:
    """Nobody deletes their objects; the machine has moved on since, and is not to cool down with every new leader."""
    first = moved_by_hand(town)
    town.live(town.world.delete_pod("V", town.now))
    assert town.state.moves == {}
    town.wait(7200.0)
    town.live(town.world.start_manual_migration("V", town.now))
    (second,) = (each for each in town.world.migrations.values() if each.source == first)
    town.live(town.world.freeze(second.name))
    town.live(town.world.bind(second.target, "n1"))
    town.live(town.world.copy(second.name, 0, town.now))
    town.live(town.world.succeed(second.name))
    town.live(town.world.delete_pod(first, town.now))
    town.wait(7200.0)

    town.state = LedgerState()
    actions = [action for event in town.world.listing() for action in town.tell(event)]

    assert len(town.world.migrations) == 2
    assert town.state.moves == {}
    assert not only(actions, NoteMoved)


@pytest.mark.rule("vm:F1", "vm:B15")
def test_a_write_whose_answer_is_of_the_pod_that_a_machine_left_is_repeated_for_the_one_it_runs_in(town: Town) -> None:
    (request,) = town.world.request("V", town.world.machines["V"].unit, both(4))
    (approve,) = only(town.tell(request), Approve)
    target = moved_by_hand(town)
    town.tell(WriteResult(approve, "refused"))

    (again,) = only(town.wait(REPEAT_AFTER_S), Approve)

    assert (again.pod.uid, again.amount) == (target, both(4))
    assert town.world.machines["V"].approved == both(4)
    assert not town.state.writes


@pytest.mark.rule("vm:B2", "vm:B4", "vm:B46")
def test_a_move_is_over_when_its_source_is_gone_also_if_the_sources_node_went_first(town: Town) -> None:
    drained = replace(town.world.nodes["n1"], draining=True)
    town.world.nodes["n1"] = drained
    town.live(NodeObserved(drained))
    town.wait(1)
    (move,) = town.state.moves.values()
    town.moved(move)

    town.live(NodeRemoved("n1"))
    town.live(town.world.delete_pod(move.source.uid, town.now))

    assert town.world.migrations == {}
    assert town.state.moves == {}
    assert town.state.available("n2", "") == both(8)


@pytest.mark.rule("vm:B24", "vm:F12")
def test_a_move_by_hand_that_failed_is_no_reason_to_leave_a_node_over_its_watermark() -> None:
    town = Town(n2=20)
    town.tell(town.world.add_node("n1", both(10), both(5)))
    town.vm("V", "n1", 7, migratable=True)
    town.live(town.world.start_manual_migration("V", town.now))
    (migration,) = town.world.migrations
    town.live(town.world.freeze(migration))
    town.start()
    town.live(town.world.fail(migration, town.now))
    assert town.state.moves == {}

    begun = only(town.wait(3600.0), StartMove)

    assert [start.move.target_node for start in begun] == ["n2"]
    assert migration in town.world.migrations, "it is not ours to delete"


@pytest.mark.rule("vm:B24", "vm:B15")
def test_who_failed_to_leave_presses_on_its_nodes_watermark_while_the_object_of_that_move_is_there() -> None:
    town = Town(n2=20)
    town.tell(town.world.add_node("n1", both(10), both(5)))
    town.vm("V", "n1", 7, migratable=True)
    town.start()
    town.live(TimerFired())
    (move,) = town.state.moves.values()
    assert leaving_amount(town.state, "n1") == both(7)

    town.live(town.world.freeze(move.name))
    town.live(town.world.fail(move.name, town.now), but=EndMove)

    assert (list(town.world.migrations), leaving_amount(town.state, "n1")) == ([move.name], both(0))
