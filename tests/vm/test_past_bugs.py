"""What users of the reference ran into, by the number of their issue (section 7): what no other test here names."""

from __future__ import annotations

from situate.vm.model.actions import StartMove
from situate.vm.model.events import PodRemoved, ResourcesRequested, TimerFired, WriteResult
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.protocol.permit import decide_permit
from tests.vm.town import Town, both, only


def about_to_leave() -> Town:
    """B is about to leave n1 for A, and nobody has written that yet."""
    town = Town(Rules(), n1=10, n2=10)
    town.vm("A", "n1", 4)
    town.vm("B", "n1", 6, migratable=True)
    town.start()
    town.ask("A", 7)
    town.now += 5.0
    return town


def test_a_move_that_does_not_begin_changes_nothing_of_its_machine() -> None:
    """#324: what was counted of a machine changed before its move had begun."""
    town = about_to_leave()
    before = town.state.nodes
    (start,) = only(town.tell(TimerFired()), StartMove)
    assert town.state.nodes == before, "only the target's room is reserved"

    town.tell(WriteResult(start, "refused", "forbidden"))

    assert town.state.nodes == before
    assert (town.state.moves, town.state.claims) == ({}, {})
    assert town.state.incoming_amount("n2", "") == both(0)


def test_a_migration_that_is_over_moves_nobody() -> None:
    """#387: agents were told of a move for as long as an old migration was there."""
    town = about_to_leave()
    town.wait(0.0)
    (move,) = town.state.moves.values()
    town.moved(move)
    assert town.world.migrations, "it is kept until its claim is closed"
    uid = town.world.machines["B"].runs_in

    told = decide_permit(town.state, ResourcesRequested(uid, both(1), both(7), both(6)), town.rules)

    assert told is not None
    assert not told.migrate


def test_nothing_is_ever_less_than_nothing() -> None:
    """#438: what was taken off twice left numbers of the size of a continent."""
    town = Town(Rules(), n1=10)
    for name in ("A", "B"):
        town.vm(name, "n1", 5)
    town.start()
    for _ in range(2):
        town.tell(PodRemoved("A"))
    town.tell(town.world.add_node("n1", both(2)))

    entry = town.state.nodes["n1"]
    assert (entry.reserved, entry.committed, entry.migrating) == (both(5), both(5), both(0))
    assert town.state.available("n1", "anybody") == Amounts.zero(2)
    town.tell(PodRemoved("B"))
    assert (town.state.nodes["n1"].reserved, town.state.available("n1", "anybody")) == (both(0), both(2))
