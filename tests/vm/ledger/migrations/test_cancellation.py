"""Moves on their way: cancelled when nobody needs them, ended when they take too long, or when others end them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from msgspec import structs

from situate.vm.model.actions import CancelMove, EndMove, NoteMoved, Notify, StartMove
from situate.vm.model.events import (
    MigrationRemoved,
    NodeRemoved,
    PodObserved,
    PodRemoved,
    TimerFired,
    WriteResult,
)
from situate.vm.model.migrations import Move, Stage
from situate.vm.model.pods_and_nodes import Evacuation, Load, Ref
from situate.vm.model.policy import Rules
from situate.vm.planning.plan import Plan
from tests.vm.town import Town, both, claim_on, making_room, move_of, only, outcomes


@pytest.mark.rule("vm:B20", "vm:B21", "vm:N10", "vm:D2", "vm:B23")
def test_room_that_appears_before_copying_cancels_the_move_in_the_same_step() -> None:
    town, move = making_room()

    actions = town.tell(PodRemoved("P"))

    assert town.booked("A") == 7
    assert [cancelled.name for cancelled in only(actions, CancelMove)] == [move.name]
    assert outcomes(actions) == ["withdrawn"]
    assert town.state.incoming_amount("n2", "") == both(0), "its target is released"


@pytest.mark.rule("vm:B20")
def test_room_for_a_part_shrinks_the_claim() -> None:
    town, _ = making_room()

    town.tell(town.world.add_node("n1", both(11), both(10)))

    assert (town.booked("A"), town.claims()) == (5, {"A": 2})


def over_its_watermark() -> tuple[Town, Move]:
    """B leaves n1, and C waits for its turn to."""
    town = Town(n2=20)
    town.tell(town.world.add_node("n1", both(20), both(6)))
    town.plain("P", "n1", 6)
    town.vm("B", "n1", 3, migratable=True)
    town.vm("C", "n1", 4, migratable=True)
    town.start()
    town.live(TimerFired())
    begun = {move.source.name: move for move in town.state.moves.values() if move.uid}
    assert (list(begun), len(town.state.moves)) == (["B"], 2)
    return town, begun["B"]


@pytest.mark.rule("vm:D6", "vm:B24", "vm:B26")
def test_one_that_is_to_move_for_its_nodes_sake_grows_instead_while_it_has_not_begun() -> None:
    town, _ = over_its_watermark()

    town.ask("C", 6)

    assert town.booked("C") == 6
    assert {move.source.name for move in town.state.moves.values()} == {"B"}


@pytest.mark.rule("vm:B48", "vm:D6")
def test_one_whose_pod_is_to_be_evicted_leaves_however_much_it_wants() -> None:
    town, _ = over_its_watermark()
    pod = town.pod("C")
    assert pod.machine is not None
    leaves = replace(pod.machine, evacuation=Evacuation("n1", town.now))

    town.tell(PodObserved(replace(pod, requested=both(6), machine=leaves), "n1"))

    assert {move.source.name for move in town.state.moves.values()} == {"B", "C"}


@pytest.mark.rule("vm:B24", "vm:B26")
def test_a_node_over_its_watermark_is_looked_at_as_soon_as_a_place_among_the_moves_is_free() -> None:
    town, move = over_its_watermark()
    town.ask("C", 6)
    town.wait(11)  # it uses what it was granted, or does not
    assert {move.source.name for move in town.state.moves.values()} == {"B"}
    town.moved(move)

    town.live(town.world.delete_pod("B", town.now))
    town.wait(0)

    assert {move.source.name for move in town.state.moves.values()} == {"C"}


@pytest.mark.rule("vm:B22")
@pytest.mark.parametrize(
    ("remaining", "watermark", "cancel_copying", "cancelled"),
    [
        pytest.param(50, 10, True, True, id="half is still to be copied"),
        pytest.param(49, 10, True, False, id="more than half is done"),
        pytest.param(50, 9, True, False, id="the node would be over its watermark"),
        pytest.param(100, 10, False, False, id="switched off"),
    ],
)
def test_while_copying_it_depends(remaining: int, watermark: int, cancel_copying: bool, cancelled: bool) -> None:
    town, move = making_room(Rules(cancel_copying=cancel_copying), watermark)
    town.copying(move, remaining)

    actions = town.tell(PodRemoved("P"))

    assert bool(only(actions, CancelMove)) is cancelled
    assert town.state.claims == {}
    town.world.pods.pop("P")
    if not cancelled:
        town.moved(move)
        town.live(town.world.delete_pod("B", town.now))
        assert town.state.moves == {}
        assert town.state.available("n1", "anybody") == both(3), "what it frees belongs to nobody in particular"


@pytest.mark.rule("vm:N9", "vm:B21", "vm:I12")
def test_a_target_on_the_node_that_is_to_be_left_ends_the_move() -> None:
    """However much room there is, and whoever bound it."""
    town = Town(n1=20, n2=10)
    town.vm("B", "n1", 3, migratable=True)
    town.start()
    move = move_of(town, "B", "n2")
    town.live(town.world.perform(StartMove(move, None), town.now) or ())
    town.live(town.world.freeze(move.name))

    actions = town.tell(town.world.bind(town.world.migrations[move.name].target, "n1")[0])

    assert [cancelled.name for cancelled in only(actions, CancelMove)] == [move.name]


@pytest.mark.rule("vm:B15", "vm:D3")
@pytest.mark.parametrize(
    ("bound", "remaining", "after", "why"),
    [
        pytest.param(False, None, 30.0, "has no node after 30 s", id="unbound"),
        pytest.param(True, None, 120.0, "is not running after 120 s", id="bound, not running"),
        pytest.param(True, 90, 150.0, "the copying takes longer than 150 s", id="1 GiB in all"),
    ],
)
def test_a_move_that_takes_too_long_is_ended_and_its_claim_fails(
    bound: bool, remaining: int | None, after: float, why: str
) -> None:
    town, move = making_room()
    town.rules = structs.replace(town.rules, deadlines=structs.replace(town.rules.deadlines, no_progress_s=1000.0))
    if bound:
        town.live(town.world.freeze(move.name))
        town.live(town.world.bind(town.world.migrations[move.name].target, "n2"))
    if remaining is not None:
        town.copying(move, remaining)

    assert not only(town.wait(after - 1), CancelMove)
    actions = town.wait(1.0)

    (cancelled,) = only(actions, CancelMove)
    assert cancelled.reason.endswith(why)
    assert "failed" in outcomes(actions)
    assert town.world.migrations == {}


@pytest.mark.rule("vm:B15")
@pytest.mark.parametrize(
    ("memory", "used", "completion", "after", "why"),
    [
        pytest.param(2**30 // 10, 0, 3600.0, 60.0, "the copying takes longer than 60 s", id="little memory"),
        pytest.param(2**36, 2**29, 3600.0, 75.0, "the copying takes longer than 75 s", id="little is used of much"),
        pytest.param(
            2**30, 0, 100.0, 100.0, "the migration has not ended after 100 s", id="as long as any move may take"
        ),
    ],
)
def test_a_copy_has_its_time_by_its_memory_and_no_more_than_any_move(
    memory: int, used: int, completion: float, after: float, why: str
) -> None:
    town, move = making_room()
    town.rules = structs.replace(town.rules, deadlines=structs.replace(town.rules.deadlines, completion_s=completion))
    town.world.migrations[move.name].copied = memory
    town.world.machines["B"].load = Load(memory_used=used)
    town.copying(move, 9)

    assert not only(town.wait(after - 1), CancelMove)
    (cancelled,) = only(town.wait(1.0), CancelMove)
    assert cancelled.reason == why


@pytest.mark.rule("vm:B15", "vm:F7")
def test_a_copy_that_does_not_come_on_is_given_up() -> None:
    town, move = making_room()
    town.rules = structs.replace(town.rules, deadlines=structs.replace(town.rules.deadlines, total_s_per_gib=1000.0))
    town.copying(move, 90)
    town.now += 100
    town.copying(move, 80)
    town.now += 100
    town.copying(move, 80)

    assert not only(town.wait(49.0), CancelMove)
    (cancelled,) = only(town.wait(1.0), CancelMove)
    assert cancelled.reason == "the copying made no progress for 150 s"


@pytest.mark.rule("vm:B25", "vm:D4")
def test_a_move_that_failed_is_not_tried_again_at_once() -> None:
    town, move = making_room()

    actions = town.live(town.world.fail(move.name, town.now))

    assert outcomes(actions) == ["failed"]
    assert only(actions, EndMove)
    kept = town.state.failures["vm-B", "n2"]
    assert (kept.count, kept.until) == (1, town.now + 60)
    assert not only(town.wait(59.0), StartMove)
    assert only(town.wait(30.0), StartMove)


@pytest.mark.rule("vm:B25", "vm:D4")
def test_a_machine_that_could_not_be_copied_is_not_sent_elsewhere_at_once_and_one_without_a_target_is() -> None:
    town, move = making_room()
    town.tell(town.world.add_node("n3", both(10)))
    town.live(town.world.fail(move.name, town.now))
    assert not only(town.wait(6.0), StartMove)

    town, move = making_room()
    assert only(town.wait(30.0), CancelMove)
    town.tell(town.world.add_node("n3", both(10)))
    assert [start.move.target_node for start in only([*town.wait(0.0), *town.wait(5.0)], StartMove)] == ["n3"]


@pytest.mark.rule("vm:B25", "vm:B27")
def test_when_a_machine_was_moved_is_kept_on_it_once() -> None:
    town, move = making_room()
    town.moved(move)

    assert town.world.machines["B"].moved_at == (town.now,)
    town.restart()
    assert not only(town.done, NoteMoved)
    machine = town.pod(town.world.machines["B"].runs_in).machine
    assert machine is not None
    assert machine.moved_at == (town.now,)


@pytest.mark.rule("vm:B25")
def test_of_moves_of_long_ago_nothing_is_kept() -> None:
    town, move = making_room()
    machine = town.world.machines["B"]
    machine.moved_at = tuple(town.now - ago for ago in (200_000.0, 90_000.0, 80_000.0))
    town.live(town.world.pod_event("B"))
    town.moved(move)

    assert machine.moved_at == (town.now - 80_000.0, town.now)


@pytest.mark.rule("vm:B2", "vm:C27")
def test_what_is_over_is_deleted_when_its_source_is_gone() -> None:
    town, move = making_room()
    town.moved(move)
    assert move.name in town.world.migrations

    town.live(town.world.delete_pod("B", town.now))

    assert town.world.migrations == {}
    assert town.state.moves == {}


@pytest.mark.rule("vm:F12", "vm:I3", "vm:B3")
def test_a_migration_that_somebody_deletes_takes_its_claim_along_and_another_is_made() -> None:
    town, move = making_room()
    del town.world.migrations[move.name]

    actions = town.tell(MigrationRemoved(Ref("default", "B"), move.name))

    assert outcomes(actions) == ["cancelled"]
    assert town.wake_at == town.now, "A has waited long enough"


@pytest.mark.rule("vm:F12", "vm:B15")
def test_a_migration_made_by_hand_has_no_claim_and_the_same_limits() -> None:
    town, _ = making_room()
    town.vm("C", "n2", 2, migratable=True)
    town.live(town.world.start_manual_migration("C", town.now))
    name = next(reversed(town.world.migrations))

    move = town.state.moves[f"default/{name}"]
    assert (move.foreign, move.claim, move.stage) == (True, "", Stage.STARTING)
    town.ask("C", 4)
    assert town.booked("C") == 2, "it does not grow while it is about to be frozen"
    assert only(town.wait(30.0), CancelMove)


@pytest.mark.rule("vm:F8", "vm:B14")
def test_a_target_node_that_is_lost_ends_the_move_where_there_is_no_other() -> None:
    town, move = making_room()

    assert not only(town.tell(NodeRemoved("n2")), CancelMove)
    assert town.wake_at is not None
    assert town.wake_at <= town.now, "another node is looked for at once"
    actions = town.tell(TimerFired())

    assert [cancelled.name for cancelled in only(actions, CancelMove)] == [move.name]
    assert outcomes(actions) == ["failed"]


@pytest.mark.rule("vm:F1", "vm:B2")
@pytest.mark.parametrize("created", [True, False])
def test_a_create_of_which_nobody_knows_is_repeated_until_it_shows(created: bool) -> None:
    town = Town(n1=10, n2=10)
    town.vm("A", "n1", 4)
    town.vm("B", "n1", 6, migratable=True)
    town.start()
    town.ask("A", 7)
    town.now += 5
    (start,) = only(town.tell(TimerFired()), StartMove)
    if created:
        town.world.perform(start, town.now)
    town.tell(WriteResult(start, "unknown"))

    (again,) = only(town.wait(5.0), StartMove)

    assert again.claim == start.claim
    assert list(town.world.migrations) == ["schedplugin-B"]
    assert town.state.moves[start.move.key].stage is Stage.STARTING


@pytest.mark.rule("vm:F1")
def test_a_create_that_is_refused_fails_the_claim() -> None:
    town = Town(n1=10, n2=10)
    town.vm("A", "n1", 4)
    town.vm("B", "n1", 6, migratable=True)
    town.start()
    town.ask("A", 7)
    town.world.machines["B"].runs_in = "elsewhere"

    actions = town.wait(5.0)

    assert outcomes(actions) == ["failed"]
    assert town.state.moves == {}


@pytest.mark.rule("vm:D6", "vm:B26")
def test_a_move_that_waits_for_its_turn_is_dropped_when_its_machine_may_not_move_any_more() -> None:
    town = Town(n1=10, n2=20)
    town.vm("A", "n1", 2)
    town.vm("B", "n1", 4, migratable=True)
    town.vm("E", "n1", 4, migratable=True)
    town.start()
    town.ask("A", 10)
    moves = [move_of(town, name, "n2", name) for name in ("B", "E")]
    town.plans(Plan("plan", moves=tuple(moves), claims=tuple(claim_on(move, town.pod("A"), 4) for move in moves)))
    town.wait(5.0)
    (waiting,) = [move for move in town.state.moves.values() if not move.uid]
    assert waiting.requested_at is None, "one at a time (B26)"
    town.world.machines[waiting.machine.name].migratable = False

    actions = town.tell(town.world.pod_event(waiting.source.uid))

    assert waiting.key not in town.state.moves
    assert outcomes(actions) == ["failed"]


@pytest.mark.rule("vm:B24", "vm:B6")
def test_a_move_for_its_nodes_sake_outlives_the_claim_on_its_room() -> None:
    """n1 is over its watermark: B leaves it, and A waits for some of that; then A wants nothing any more."""
    town = Town()
    town.tell(town.world.add_node("n1", both(10), both(6)))
    town.tell(town.world.add_node("n2", both(10)))
    town.vm("A", "n1", 4)
    town.vm("B", "n1", 6, migratable=True)
    town.start()
    town.ask("A", 5)
    move = next(each for each in only(town.wait(0.0), StartMove)).move
    assert (move.for_node, town.claims()) == (True, {"A": 1})

    actions = town.ask("A", 4)

    assert outcomes(actions) == ["withdrawn"]
    assert not only(actions, CancelMove)
    assert not [action for action in only(actions, Notify) if action.reason == "MoveCancelled"]


@pytest.mark.rule("vm:I13", "vm:B13", "vm:D5", "vm:D6")
def test_a_move_is_not_begun_towards_a_node_that_it_would_bring_over_its_watermark() -> None:
    """Its plan was made before others came."""
    town = Town(n1=10)
    town.tell(town.world.add_node("n2", both(10), both(8)))
    town.vm("A", "n1", 4)
    town.vm("B", "n1", 6, migratable=True)
    town.plain("P", "n2", 3)
    town.start()
    town.ask("A", 7)
    move = move_of(town, "B", "n2", "c")
    town.plans(Plan("plan", moves=(move,), claims=(claim_on(move, town.pod("A"), 3),)))

    actions = town.wait(5.0)

    assert not only(actions, StartMove)
    assert outcomes(actions) == ["failed"]
    assert town.state.moves == {}


@pytest.mark.rule("vm:F1", "vm:I1", "vm:I4")
def test_a_move_that_comes_to_be_after_it_was_given_up_ends_if_others_have_its_room() -> None:
    """Its creation was under way when it was deleted; what was reserved for it went to Q."""
    town = Town(n1=10, n2=10)
    town.vm("B", "n1", 6, migratable=True)
    town.plain("Q", "n2", 8)
    town.start()
    move = move_of(town, "B", "n2")

    actions = town.live(town.world.perform(StartMove(move, None), town.now) or ())

    assert [cancelled.name for cancelled in only(actions, CancelMove)] == [move.name]
    assert town.world.migrations == {}
    assert town.state.moves == {}


@pytest.mark.rule("vm:D6", "vm:I9", "vm:F1")
@pytest.mark.parametrize("full", [True, False])
def test_a_move_that_may_not_have_begun_is_begun_again_only_while_its_node_is_over_its_watermark(*, full: bool) -> None:
    """Seed 50587 of the processes: it was lost, and what had filled the node was gone when it was sent once more."""
    town = Town(n2=10)
    town.tell(town.world.add_node("n1", both(10), both(8)))
    town.vm("B", "n1", 3, migratable=True)
    town.plain("P", "n1", 6)
    town.start()
    (start,) = only(town.tell(TimerFired()), StartMove)
    town.tell(WriteResult(start, "unknown"))
    if not full:
        town.tell(PodRemoved("P"))

    town.now += town.rules.retry_s
    actions = town.tell(TimerFired())

    assert len(only(actions, StartMove)) == full
    assert [cancelled.uid for cancelled in only(actions, CancelMove)] == [""] * (not full)
