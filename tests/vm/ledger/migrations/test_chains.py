"""Room is made on a target first, by another move, each link with its own claim (B1, B19); many at once (F16, F14)."""

from __future__ import annotations

import pytest

from situate.vm.config.settings import MigrationLimits
from situate.vm.ledger.migrations.planner import Planner
from situate.vm.ledger.step import step
from situate.vm.model.actions import Approve, CancelMove, StartMove
from situate.vm.model.events import PodObserved, ResourcesRequested, TimerFired
from situate.vm.model.migrations import BeneficiaryKind, Move
from situate.vm.model.policy import Rules
from situate.vm.planning.plan import Plan
from tests.vm.town import Town, both, claim_on, move_of, only, outcomes


def two_links() -> tuple[Town, Move]:
    """A needs 3 of B's 6; B fits on n2 once F has left that for n3."""
    town = Town(n1=10, n2=10, n3=10)
    town.vm("A", "n1", 4)
    town.vm("B", "n1", 6, migratable=True)
    town.vm("F", "n2", 3, migratable=True)
    town.plain("G", "n2", 3)
    town.plain("H", "n3", 7)
    town.start()
    town.ask("A", 7)
    (first,) = only(town.wait(5.0), StartMove)
    assert first.claim is not None
    assert first.claim.beneficiary.kind is BeneficiaryKind.TARGET
    return town, first.move


@pytest.mark.rule("vm:B1", "vm:B19", "vm:I4")
def test_the_second_link_begins_when_the_first_has_made_its_room_and_nobody_gets_in_between() -> None:
    town, first = two_links()
    assert (first.machine.name, first.target_node) == ("F", "n3")
    assert town.state.available("n2", "Q") == both(0), "what is free there already is kept as well"
    town.moved(first)

    actions = town.gone("F")

    (second,) = only(actions, StartMove)
    assert (second.move.machine.name, second.move.target_node) == ("B", "n2")
    assert second.claim is not None
    assert second.claim.beneficiary.ref.name == "A"
    assert town.state.available("n2", "Q") == both(1)


@pytest.mark.rule("vm:B7", "vm:B15", "vm:B19")
def test_the_second_link_has_all_its_time_however_long_the_first_one_took() -> None:
    town, first = two_links()
    town.copying(first)
    for percent in (70, 40, 10):
        town.now += 45.0
        town.copying(first, percent)
    town.moved(first)

    (second,) = only(town.gone("F"), StartMove)
    assert second.claim is not None
    assert second.claim.deadline == town.now + 3660.0
    town.live(town.world.perform(second, town.now) or ())

    assert not only(town.wait(29.0), CancelMove), "it waited for longer than its target may for a node"
    (cancelled,) = only(town.wait(1.0), CancelMove)
    assert cancelled.reason == "the target Pod has no node after 30 s"


@pytest.mark.rule("vm:B19", "vm:D6", "vm:B7")
def test_a_chain_whose_first_link_breaks_is_given_up() -> None:
    town, first = two_links()

    actions = town.live(town.world.fail(first.name, town.now))

    assert outcomes(actions) == ["failed", "failed"]
    assert town.state.moves == {}
    assert town.state.available("n2", "Q") == both(4)
    assert not only(town.wait(6.0), StartMove), "F is left alone for a while"


@pytest.mark.rule("vm:B7", "vm:B19", "vm:B21", "vm:B23")
def test_a_chain_that_nobody_needs_any_more_ends_with_its_first_link() -> None:
    town, first = two_links()

    actions = town.ask("A", 4)

    assert outcomes(actions) == ["withdrawn", "withdrawn"]
    assert [cancelled.name for cancelled in only(actions, CancelMove)] == [first.name]
    assert town.state.moves == {}
    assert town.state.available("n2", "Q") == both(4)


@pytest.mark.rule("vm:B8", "vm:B19", "vm:I5")
def test_a_chain_breaks_no_claim_of_one_who_waits_where_its_second_link_goes() -> None:
    """More is reserved there than there is as long as the first links have not left: nobody has taken anything."""
    town = Town(Rules(calm=MigrationLimits(link="1Ti", moves_out_of_node=3)), n1=10, n2=12, n3=10, n4=10, n5=10)
    town.vm("A", "n1", 4)
    town.vm("B", "n1", 6, migratable=True)
    town.vm("C", "n2", 3)
    for name, size in (("D", 2), ("F", 3), ("G", 3)):
        town.vm(name, "n2", size, migratable=True)
    for name, node, size in (("H", "n3", 7), ("J", "n4", 8), ("K", "n5", 7)):
        town.plain(name, node, size)
    town.start()
    town.ask("C", 6)
    alone = move_of(town, "D", "n4", "c")
    town.plans(Plan("plan", moves=(alone,), claims=(claim_on(alone, town.pod("C"), 2),)))
    town.wait(5.0)
    town.planner = Planner()
    town.ask("A", 7)

    actions = [*town.wait(6.0), *town.wait(0.0)]

    assert sorted(start.move.machine.name for start in only(actions, StartMove)) == ["F", "G"]
    assert town.state.moves["default/schedplugin-B"].target_node == "n2"
    town.live(town.world.pod_event("C"))
    assert town.state.claims["c"].amount == both(2)
    assert not town.state.claims["c"].broken
    assert town.state.moves[alone.key].alive


@pytest.mark.rule("vm:B7", "vm:F12")
def test_room_is_kept_where_it_is_made_whoever_else_moves_the_machine_that_it_is_for() -> None:
    """Seed 19397 of the ledger: the pod that another hand moves it into is told of before its migration is."""
    town, first = two_links()
    town.tell(town.world.add_node("n4", both(10)))
    told = town.world.start_manual_migration("B", town.now)
    by_hand = list(town.world.migrations)[-1]
    told += town.world.freeze(by_hand)
    target = town.world.migrations[by_hand].target
    told += town.world.bind(target, "n4")

    for event in sorted(told, key=lambda each: not isinstance(each, PodObserved) or each.pod.uid != target):
        town.tell(event)

    assert [move.name for move in town.state.moves.values()] == [first.name, by_hand]
    assert town.state.claims == {}, "nobody waits for what F leaves"


@pytest.mark.rule("vm:B7", "vm:B22", "vm:N10")
def test_a_first_link_that_is_copied_for_nobody_ends_while_most_is_to_be_copied() -> None:
    town, first = two_links()
    town.copying(first, 80)
    assert only(town.ask("A", 4), CancelMove), "its own node can bear it"

    town, first = two_links()
    town.copying(first, 20)
    assert not only(town.ask("A", 4), CancelMove)
    assert town.state.claims == {}


@pytest.mark.rule("vm:B43", "vm:B19")
def test_after_a_restart_in_the_midst_of_a_chain_it_is_planned_again_and_ends_well() -> None:
    town, first = two_links()
    town.copying(first)

    town.restart()
    town.moved(first)
    town.live(town.world.delete_pod("F", town.now))
    (second,) = only([*town.wait(5.0), *town.wait(5.0)], StartMove)
    town.moved(second.move)
    town.gone("B")

    assert town.booked("A") == 7


@pytest.mark.rule("vm:B43", "vm:B19", "vm:B7")
def test_what_a_new_leader_plans_elsewhere_for_the_same_machine_is_not_what_the_old_one_made_room_for() -> None:
    """Seed 46664 of the ledger: the link that a dead leader began names the next one, which leads elsewhere now."""
    town, first = two_links()
    town.copying(first)
    town.restart()
    town.tell(town.world.add_node("n4", both(10)))

    (second,) = only([*town.wait(5.0), *town.wait(5.0)], StartMove)
    assert (second.move.machine.name, second.move.target_node) == ("B", "n4"), "it waits for nobody"
    town.moved(second.move)
    town.gone("B")
    assert town.booked("A") == 7

    town.moved(first)
    town.gone("F")
    assert town.state.claims == {}
    assert town.state.available("n2", "Q") == both(7)


@pytest.mark.rule("vm:F16", "vm:I1")
def test_five_hundred_that_ask_within_a_second_get_what_there_is() -> None:
    town = Town(None, **{f"n{number}": 110 for number in range(10)})
    for number in range(500):
        town.vm(f"v{number}", f"n{number % 10}", 2)
    town.start()
    state, granted = town.state, 0

    for number in range(500):
        decision = step(state, ResourcesRequested(f"v{number}", both(1), both(3), both(2)), town.now, town.rules)
        state = decision.state
        granted += sum(approve.amount == both(3) for approve in only(decision.actions, Approve))

    assert granted == 100
    assert {node.reserved for node in state.nodes.values()} == {both(110)}
    assert len(state.waiters) == 400


@pytest.mark.rule("vm:F14")
def test_a_clock_that_jumps_ends_what_is_late_by_it_and_no_more() -> None:
    town, first = two_links()
    town.now -= 10_000

    assert town.tell(TimerFired()) == []
    town.now += 10_001
    assert town.tell(TimerFired()) == []
    assert first.key in town.state.moves
