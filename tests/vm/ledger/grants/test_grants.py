"""Grants: who gets what there is, in which order, and how much of it stays booked (B28 to B31, D8, D24, I2)."""

from __future__ import annotations

import pytest

from situate.vm.model.actions import Approve, Notify, ResizePod, Wake
from situate.vm.model.events import InitialListCompleted, PodRemoved, ResourcesRequested, WriteResult
from situate.vm.model.resource_amounts import Amounts
from situate.vm.protocol.permit import PermitReason, decide_permit, is_settled
from tests.vm.town import Town, both, only


def asked(town: Town, name: str, amount: int, last: int | None = None) -> ResourcesRequested:
    return ResourcesRequested(name, both(1), both(amount), None if last is None else both(last))


@pytest.mark.rule("vm:C11", "vm:C2")
def test_an_increase_is_booked_and_written_up_to_total_whatever_the_watermark() -> None:
    town = Town()
    town.tell(town.world.add_node("n1", both(10), both(8)))
    town.vm("A", "n1", 4)
    town.start()

    (approve,) = only(town.ask("A", 12), Approve)

    assert approve.amount == both(10)
    assert town.booked("A") == 10


@pytest.mark.rule("vm:B30", "vm:I11")
def test_what_grows_together_grows_by_as_many_units() -> None:
    town = Town()
    town.tell(town.world.add_node("n1", Amounts.from_values(10, 6)))
    town.vm("A", "n1", 4)
    town.start()

    town.ask("A", 9)
    assert town.pod("A").reserved == Amounts.from_values(6, 6)
    town.ask("A", Amounts.from_values(9, 6))
    assert town.pod("A").reserved == Amounts.from_values(9, 6), "what asks for one resource alone gets it"


@pytest.mark.rule("vm:D16", "vm:N10")
@pytest.mark.parametrize("how", ["a pod goes", "a neighbour asks for less", "the node grows"])
def test_those_who_wait_are_served_in_the_run_in_which_room_appears(how: str) -> None:
    town = Town(n1=10)
    town.vm("A", "n1", 4)
    town.vm("D", "n1", 3)
    town.plain("P", "n1", 3)
    town.start()
    town.ask("A", 6)
    town.world.machines["D"].use = both(1)

    if how == "a pod goes":
        actions = town.tell(PodRemoved("P"))
    elif how == "a neighbour asks for less":
        actions = town.ask("D", 1)
    else:
        actions = town.tell(town.world.add_node("n1", both(13)))

    assert town.booked("A") == 6
    assert "A" in {approve.machine.name for approve in only(actions, Approve)}
    assert bool(only(actions, Wake)) is (how != "a neighbour asks for less"), (
        "pods that wait in the scheduler's queue may fit into what is left"
    )


@pytest.mark.rule("vm:B31")
def test_priority_comes_first_then_who_has_least_of_its_way_then_who_waits_longest() -> None:
    town = Town(n1=12)
    town.vm("near", "n1", 3, maximum=both(4))
    town.vm("far", "n1", 3, maximum=both(30))
    town.vm("high", "n1", 3, priority=1, maximum=both(4))
    town.plain("P", "n1", 3)
    town.start()
    for name, wanted in (("near", 4), ("far", 4), ("high", 4)):
        town.ask(name, wanted)

    order = [approve.machine.name for approve in only(town.tell(PodRemoved("P")), Approve)]

    assert order == ["high", "far", "near"]


@pytest.mark.rule("vm:B31", "vm:B16")
@pytest.mark.parametrize("wanted", [pytest.param(8, id="a unit"), pytest.param(6, id="half of one")])
def test_one_who_was_overtaken_three_times_has_room_saved_up(wanted: int) -> None:
    """W needs a unit of 4; smaller wishes pass it by, until what becomes free is kept for it."""
    town = Town(n1=12)
    town.vm("W", "n1", 4)
    for number in range(5):
        town.vm(f"s{number}", "n1", 1)
    town.start()
    town.world.machines["W"].unit = both(4)
    town.ask("W", wanted)
    town.now += 1
    for number in range(3):
        town.ask(f"s{number}", 2)
        town.ask(f"s{number}", 1)

    town.ask("s3", 2)

    assert town.booked("s3") == 1
    assert town.state.waiters["W"].held_capacity == both(4)
    town.live(town.world.delete_pod("s4", town.now))
    assert town.booked("W") == wanted
    assert town.booked("s3") == {8: 1, 6: 2}[wanted]


@pytest.mark.rule("vm:B31")
def test_a_higher_priority_is_not_kept_back_by_what_is_saved_up() -> None:
    town = Town(n1=8)
    town.vm("W", "n1", 4)
    town.vm("high", "n1", 1, priority=1)
    town.vm("low", "n1", 1)
    town.start()
    town.world.machines["W"].unit = both(4)
    town.ask("W", 8)
    town.now += 1
    for _ in range(4):
        town.ask("low", 2)
        town.ask("low", 1)

    town.ask("high", 2)

    assert town.state.waiters["W"].held_capacity is not None
    assert town.booked("high") == 2


@pytest.mark.rule("vm:C30")
def test_nothing_is_granted_before_everything_was_listed() -> None:
    town = Town(n1=10)
    town.vm("A", "n1", 4)

    assert town.ask("A", 6) == []
    told = decide_permit(town.state, asked(town, "A", 6, 4), town.rules)
    assert told is not None
    assert (told.reason, told.permit) == (PermitReason.STARTING, both(4))
    (approve,) = only(town.tell(InitialListCompleted()), Approve)
    assert approve.amount == both(6)


@pytest.mark.rule("vm:D24", "vm:I2")
def test_what_an_agent_gives_back_stays_booked_until_it_says_that_it_knows() -> None:
    town = Town(n1=10)
    town.vm("A", "n1", 6)
    town.world.machines["A"].use = both(2)
    town.start()
    town.live(town.world.pod_event("A"))

    town.ask("A", 3, last=6, lowers_at_once=False)
    assert town.booked("A") == 6, "the answer may be lost"
    town.ask("A", 3, last=6, lowers_at_once=False)
    assert town.booked("A") == 6, "it was"
    town.ask("A", 3, last=3, lowers_at_once=False)
    assert town.booked("A") == 3


@pytest.mark.rule("vm:D24")
def test_an_agent_that_lowers_its_permit_first_frees_room_with_its_request() -> None:
    town = Town(n1=10)
    town.vm("A", "n1", 6)
    town.world.machines["A"].use = both(2)
    town.start()
    town.live(town.world.pod_event("A"))

    town.ask("A", 3)

    assert town.booked("A") == 3


@pytest.mark.rule("vm:I2", "vm:D24", "vm:C26")
def test_a_decrease_frees_nothing_before_it_is_written() -> None:
    """A restart before that would find the larger amount, beside what had been given to others meanwhile (I1)."""
    town = Town(n1=10)
    town.vm("A", "n1", 6)
    town.vm("D", "n1", 4)
    town.world.machines["A"].use = both(2)
    town.start()
    town.live(town.world.pod_event("A"))
    town.ask("D", 6)
    town.live(town.world.request("A", both(1), both(3)))

    (approve,) = only(town.tell(ResourcesRequested("A", both(1), both(3), both(6), lowers_at_once=True)), Approve)

    assert (town.booked("A"), town.booked("D")) == (6, 4)
    town.tell(WriteResult(approve, "ok"))
    assert (town.booked("A"), town.booked("D")) == (3, 6)
    town.tell(town.world.pod_event("A"))
    assert town.booked("A") == 3, "what the pod shows is older than what was written"


@pytest.mark.rule("vm:I2", "vm:F1")
def test_a_decrease_that_is_wanted_no_more_does_not_come_true_later() -> None:
    town = Town(n1=10)
    town.vm("A", "n1", 6)
    town.world.machines["A"].use = both(2)
    town.start()
    town.live(town.world.pod_event("A"))
    (lower,) = only(town.tell(ResourcesRequested("A", both(1), both(3), both(6), lowers_at_once=True)), Approve)

    actions = town.tell(ResourcesRequested("A", both(1), both(6), both(3), lowers_at_once=True))

    told = decide_permit(town.state, asked(town, "A", 6, 3), town.rules)
    assert told is not None
    town.tell(WriteResult(lower, "ok"))
    assert told.permit.fits_within(town.pod("A").reserved)
    for approve in only(actions, Approve):
        town.tell(WriteResult(approve, "ok"))
    assert told.permit.fits_within(town.pod("A").reserved)


@pytest.mark.rule("vm:D8", "vm:F5")
def test_a_last_permit_that_was_never_given_is_not_believed() -> None:
    town = Town(n1=10)
    town.vm("A", "n1", 4)
    town.plain("P", "n1", 4)
    town.start()

    town.ask("A", 9, last=9)

    assert town.booked("A") == 6, "what lies above what was approved is a request"


@pytest.mark.rule("vm:D8", "vm:D23", "vm:I2")
def test_no_less_is_booked_than_is_used() -> None:
    town = Town(n1=10)
    town.vm("A", "n1", 6)
    town.start()

    town.live(town.world.request("A", both(1), both(2)))
    town.live(ResourcesRequested("A", both(1), both(2), both(6), lowers_at_once=True))

    assert town.booked("A") == 6
    assert town.world.machines["A"].approved == both(6), "or a restart would find less"


@pytest.mark.rule("vm:D24", "vm:C26", "vm:D16")
@pytest.mark.parametrize(("lowers_at_once", "booked"), [(True, 3), (False, 6)])
def test_what_a_machine_is_seen_to_use_no_more_is_given_back_in_that_step(lowers_at_once: bool, booked: int) -> None:
    """The pod shows the smaller machine after the request for less has come; who waits does not wait for another."""
    town = Town(n1=10)
    town.vm("A", "n1", 6)
    town.vm("D", "n1", 4)
    town.start()
    town.ask("D", 7)
    town.ask("A", 3, lowers_at_once=lowers_at_once)
    assert (town.booked("A"), town.booked("D")) == (6, 4), "it uses that still"
    town.world.machines["A"].use = both(2)

    town.live(town.world.pod_event("A"))

    assert town.booked("A") == booked
    assert town.booked("D") == 10 - max(booked, 3)
    assert town.world.machines["A"].approved == both(booked)


@pytest.mark.rule("vm:I2", "vm:B29")
def test_what_lapses_is_not_given_back_because_less_is_used() -> None:
    """Its agent may use it until it hears that it lapsed."""
    town = Town(n1=10)
    town.vm("A", "n1", 4)
    town.start()
    town.ask("A", 7, last=4)
    town.now += 60
    town.ask("A", 7, last=7)
    town.world.machines["A"].use = both(3)

    town.live(town.world.pod_event("A"))

    assert town.booked("A") == 7


@pytest.mark.rule("vm:F5")
def test_a_request_that_a_newer_one_overtook_changes_nothing() -> None:
    town = Town(n1=10)
    town.vm("A", "n1", 4)
    town.start()
    town.ask("A", 7, sequence=2)
    before = town.state

    assert town.tell(ResourcesRequested("A", both(1), both(2), both(4), lowers_at_once=True, sequence=1)) == []
    assert town.state == before


@pytest.mark.rule("vm:F5", "vm:F14", "vm:I5")
def test_whoever_looks_after_a_machine_now_counts_from_anywhere() -> None:
    town = Town(n1=10)
    town.vm("A", "n1", 4)
    town.start()
    town.ask("A", 5, run="before", sequence=2**53)

    town.tell(ResourcesRequested("A", both(1), both(7), both(5), run="now", sequence=1))

    assert town.booked("A") == 7
    late = ResourcesRequested("A", both(1), both(8), both(7), run="now", sequence=0)
    assert town.tell(late) == [], "within a run a late one changes nothing"


@pytest.mark.rule("vm:F5", "vm:I2", "vm:D24")
def test_the_last_request_of_an_agent_that_was_replaced_lowers_nothing() -> None:
    """It was on its way still: its successor has been told more since, and uses it."""
    town = Town(n1=10)
    town.vm("A", "n1", 4)
    town.start()
    town.ask("A", 5, run="before", sequence=7)
    town.ask("A", 7, run="now", sequence=1)

    town.ask("A", 2, last=5, run="before", sequence=8)

    assert town.booked("A") == 7
    town.ask("A", 7, run="now", sequence=2)
    town.ask("A", 3, run="now", sequence=3)
    assert town.booked("A") == 4, "its own are booked at once, down to what is used"


@pytest.mark.rule("vm:B28", "vm:B29")
def test_an_increase_that_is_not_used_lapses_in_the_answer_and_later_in_the_booking() -> None:
    town = Town(n1=10)
    town.vm("A", "n1", 4)
    town.start()
    town.ask("A", 7, last=4)
    first = decide_permit(town.state, asked(town, "A", 7, 4), town.rules)
    assert first is not None
    assert (first.permit, first.expires) == (both(7), town.now + 60)

    town.now += 60
    town.ask("A", 7, last=7)

    lapsed = decide_permit(town.state, asked(town, "A", 7, 7), town.rules)
    assert lapsed is not None
    assert lapsed.permit == both(4)
    assert town.booked("A") == 7, "until the agent says that it knows"
    town.ask("A", 4, last=4, lowers_at_once=False)
    assert town.booked("A") == 4


@pytest.mark.rule("vm:B28")
def test_a_request_in_time_renews_an_increase() -> None:
    town = Town(n1=10)
    town.vm("A", "n1", 4)
    town.start()
    town.ask("A", 7, last=4)
    for _ in range(4):
        town.now += 50
        town.ask("A", 7, last=7)

    told = decide_permit(town.state, asked(town, "A", 7, 7), town.rules)

    assert told is not None
    assert told.permit == both(7)


@pytest.mark.rule("vm:D13", "vm:I14", "vm:B28")
def test_a_frozen_machine_keeps_what_it_has() -> None:
    town = Town(n1=10, n2=10)
    town.vm("A", "n1", 4, migratable=True)
    town.world.machines["A"].use = both(2)
    town.start()
    town.live(town.world.start_manual_migration("A", town.now))
    town.live(town.world.freeze(next(iter(town.world.migrations))))

    assert town.ask("A", 3) == []
    assert [type(action) for action in town.ask("A", 7)] == [Notify]
    told = decide_permit(town.state, asked(town, "A", 7, 4), town.rules)
    assert told is not None
    assert (told.permit, told.reason, told.migrate) == (both(4), PermitReason.FROZEN, True)
    assert town.booked("A") == 4


@pytest.mark.rule("vm:B28")
def test_a_denial_says_whether_room_is_missing_or_kept_for_others() -> None:
    town = Town(n1=10, n2=10)
    town.vm("A", "n1", 4)
    town.vm("B", "n1", 6, migratable=True)
    town.start()
    town.ask("A", 7)
    denied = decide_permit(town.state, asked(town, "A", 7, 4), town.rules)
    assert denied is not None
    assert (denied.reason, denied.permit, denied.plan) == (PermitReason.NO_ROOM, both(4), "")
    move = town.made_room("A")
    waits = decide_permit(town.state, asked(town, "A", 7, 4), town.rules)
    assert waits is not None
    assert waits.plan == move.plan

    town.vm("D", "n2", 4)
    town.ask("D", 8)
    partly = decide_permit(town.state, asked(town, "D", 8, 4), town.rules)
    assert partly is not None
    assert partly.reason is PermitReason.CLAIMED_BY_OTHERS


@pytest.mark.rule("vm:I2")
def test_an_increase_may_be_told_only_when_it_is_written() -> None:
    town = Town(n1=10)
    town.vm("A", "n1", 4)
    town.start()
    town.world.request("A", both(1), both(7))
    (approve,) = only(town.tell(asked(town, "A", 7, 4)), Approve)

    assert not is_settled(town.state, "A")
    town.tell(WriteResult(approve, "ok"))
    assert is_settled(town.state, "A")


@pytest.mark.rule("vm:F1")
def test_a_write_that_is_refused_because_the_request_is_another_is_decided_anew() -> None:
    town = Town(n1=10)
    town.vm("A", "n1", 4)
    town.start()
    (approve,) = only(town.tell(asked(town, "A", 6, 4)), Approve)
    town.world.machines["A"].requested = both(8)
    town.tell(WriteResult(approve, "refused"))

    (again,) = only(town.tell(town.world.pod_event("A")), Approve)

    assert (again.requested, again.amount) == (both(8), both(8))


@pytest.mark.rule("vm:I11", "vm:B30", "vm:F1")
def test_what_grows_while_a_decrease_of_it_is_written_grows_from_what_is_booked() -> None:
    """Seed 6103608 of the ledger."""
    town = Town(n1=10)
    town.vm("A", "n1", 3)
    town.world.machines["A"].use = both(2)
    town.start()
    town.live(town.world.pod_event("A"))
    (lower,) = only(town.tell(ResourcesRequested("A", both(1), both(2), both(3), lowers_at_once=True)), Approve)
    town.world.machines["A"].requested = Amounts.from_values(8, 7)
    town.tell(town.world.pod_event("A"))

    (more,) = only(town.tell(WriteResult(lower, "refused")), Approve)

    assert (more.amount, town.pod("A").reserved) == (Amounts.from_values(8, 7), Amounts.from_values(8, 7))


@pytest.mark.rule("vm:I2", "vm:F2")
def test_what_a_machine_showed_before_does_not_say_that_a_write_has_arrived() -> None:
    """Seed 7010326 of the ledger: 5, then less, then 5 again, and what is seen is of the first time."""
    town = Town(n1=10)
    town.vm("A", "n1", 3)
    town.world.machines["A"].use = both(2)
    town.start()
    town.ask("A", 5)
    old = [town.world.pod_event("A")]
    (lower,) = only(town.tell(ResourcesRequested("A", both(1), both(3), both(5), lowers_at_once=True)), Approve)
    old += town.world.request("A", both(1), both(3))
    old += town.world.perform(lower, town.now) or ()
    (again,) = only(town.tell(ResourcesRequested("A", both(1), both(5), both(3), lowers_at_once=True)), Approve)

    for event in old:
        town.tell(event)
    assert not is_settled(town.state, "A"), "so that nobody is told of it"
    assert town.booked("A") == 5

    town.world.request("A", both(1), both(5))
    for event in (*(town.world.perform(again, town.now) or ()), WriteResult(again, "ok")):
        town.tell(event)
    assert town.state.writes == {}


@pytest.mark.rule("vm:F1", "vm:F2")
def test_a_late_refusal_of_an_equal_write_does_not_bring_an_older_request_back() -> None:
    """Seed 7515 of the ledger: 8, then 4, then 8 again, of which the pod shows all when the first is refused."""
    town = Town(n1=10)
    town.vm("A", "n1", 2)
    town.start()
    (first,) = only(town.tell(asked(town, "A", 8, 2)), Approve)
    (second,) = only(town.tell(asked(town, "A", 4, 2)), Approve)
    old = list(town.world.request("A", both(1), both(4)))
    old += town.world.perform(second, town.now) or ()
    (third,) = only(town.tell(asked(town, "A", 8, 2)), Approve)
    old += town.world.request("A", both(1), both(8))
    old += town.world.perform(third, town.now) or ()
    assert first == third
    for event in old:
        town.tell(event)

    late = town.tell(WriteResult(first, "refused"))

    assert [each.requested for each in only(late, Approve)] == []
    town.live(WriteResult(third, "ok"))
    town.wait(60.0)
    assert (town.booked("A"), town.world.machines["A"].approved, town.state.writes) == (8, both(8), {})


@pytest.mark.rule("vm:I5", "vm:F1")
def test_one_that_asks_for_more_than_what_it_was_lowered_to_waits_for_it() -> None:
    """Seed 7101014 of the ledger: it asked for 4 again before it was known that 3 was refused."""
    town = Town(n1=10)
    town.vm("A", "n1", 4)
    town.world.machines["A"].use = both(3)
    town.start()
    town.live(town.world.pod_event("A"))
    (lower,) = only(town.tell(ResourcesRequested("A", both(1), both(3), both(4), lowers_at_once=True)), Approve)
    town.world.machines["A"].requested = both(4)
    town.tell(town.world.pod_event("A"))

    (again,) = only(town.tell(WriteResult(lower, "refused")), Approve)
    for event in town.world.perform(again, town.now) or ():
        town.tell(event)
    assert again.amount == both(3)

    town.live(WriteResult(again, "ok"))

    assert (town.booked("A"), town.world.machines["A"].approved) == (4, both(4))


@pytest.mark.rule("vm:I14", "vm:F1")
@pytest.mark.parametrize("shown_first", [True, False])
def test_a_write_that_is_refused_is_not_decided_anew_while_its_machine_moves(shown_first: bool) -> None:
    """Seed 5505730 of the ledger."""
    town = Town(n1=10, n2=10)
    town.vm("A", "n1", 4, migratable=True)
    town.start()
    (approve,) = only(town.tell(asked(town, "A", 6, 4)), Approve)
    town.live(town.world.start_manual_migration("A", town.now))
    town.live(town.world.freeze(next(iter(town.world.migrations))))
    town.world.machines["A"].requested = both(8)
    told = [town.world.pod_event("A"), WriteResult(approve, "refused")]

    actions = [each for event in (told if shown_first else reversed(told)) for each in town.tell(event)]

    frozen = town.state.pod("A")
    assert frozen is not None
    assert frozen.frozen
    assert not only(actions, Approve)


@pytest.mark.rule("vm:B34")
def test_a_plain_pod_gets_all_that_it_asks_for_or_nothing() -> None:
    town = Town(n1=10)
    town.plain("P", "n1", 4)
    town.plain("Q", "n1", 4)
    town.start()
    nothing = both(0)

    assert not only(town.tell(ResourcesRequested("P", nothing, both(7), None)), ResizePod)
    (resize,) = only(town.tell(PodRemoved("Q")), ResizePod)

    assert (resize.pod.uid, resize.amount) == ("P", both(7))
    assert town.booked("P") == 7
