"""When an agent is answered what, by annotations and by the ledger."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from situate.vm.api.quantities import amounts_text
from situate.vm.api.well_known import APPROVED, REQUESTED
from situate.vm.api.well_known import RESOURCES as GUEST
from situate.vm.model.node_accounting import recount
from situate.vm.model.pods_and_nodes import Machine, Node, Phase, Ref
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState, PendingWrite, Permit
from situate.vm.protocol.permit import PermitReason
from situate.vm.protocol.permit_request import HttpAnswer, ObservedPod, PermitRequest
from situate.vm.protocol.permit_response import answer_from_annotations, answer_from_ledger, late_answer, request_event
from tests.vm.entries import GIB, node, pod

OURS = Rules()
POD, VM = Ref("default", "a-xyz"), Ref("default", "a")
UNIT = Amounts.from_values(250, GIB)


def units(count: int) -> Amounts:
    return Amounts.from_values(250 * count, GIB * count)


def ask(count: int, last: int | None, **more: Any) -> PermitRequest:
    return PermitRequest(POD, UNIT, units(count), None if last is None else units(last), **more)


def shown(wants: int | None, has: int | None) -> ObservedPod:
    said = {REQUESTED: wants, APPROVED: has}
    return ObservedPod("n1", VM, {key: amounts_text(units(each)) for key, each in said.items() if each is not None})


@pytest.mark.rule("vm:C16")
@pytest.mark.parametrize(
    ("request_", "seen", "elapsed", "wanted"),
    [
        pytest.param(ask(2, 2), shown(1, 1), 0.0, 2, id="no increase: at once, whatever the pod shows"),
        pytest.param(ask(1, 2), shown(1, 2), 0.0, 1, id="a decrease: at once"),
        pytest.param(ask(4, 1), shown(1, 1), 0.5, None, id="the request does not show yet"),
        pytest.param(ask(4, 1), shown(4, 1), 0.5, None, id="nothing is granted yet"),
        pytest.param(ask(4, 1), shown(4, 2), 0.5, 2, id="a part is granted"),
        pytest.param(ask(4, 1), shown(4, 1), 1.0, 1, id="nothing at the end of the wait"),
        pytest.param(ask(4, None), shown(4, None), 0.5, None, id="first contact: nothing is approved yet"),
        pytest.param(ask(4, None), shown(4, 1), 0.5, 1, id="first contact: something is"),
    ],
)
def test_by_annotations(request_: PermitRequest, seen: ObservedPod, elapsed: float, wanted: int | None) -> None:
    answer = answer_from_annotations(request_, seen, elapsed)
    assert answer == (None if wanted is None else HttpAnswer(200, units(wanted)))


@pytest.mark.rule("vm:C16", "vm:C2")
def test_what_was_approved_before_the_request_came_is_no_answer_to_it() -> None:
    """The request itself may write away what the pod shows then."""
    before = shown(4, 4)
    assert answer_from_annotations(ask(4, 2), before, 0.0, changed=False) is None
    assert answer_from_annotations(ask(4, 2), before, 0.9, changed=False) is None
    assert answer_from_annotations(ask(4, 2), before, 1.0, changed=False) == HttpAnswer(200, units(4))
    assert answer_from_annotations(ask(4, 4), before, 0.0, changed=False) == HttpAnswer(200, units(4)), "no increase"
    assert answer_from_annotations(ask(4, 2), shown(4, 3), 0.1) == HttpAnswer(200, units(3))


@pytest.mark.rule("vm:C16", "vm:C8")
def test_at_the_end_of_the_wait_what_a_machine_uses_counts_as_approved_until_something_is() -> None:
    guest = '{"cpus":{"min":1,"use":2,"max":8},"memorySlots":{"min":1,"use":8,"max":32},"memorySlotSize":"1Gi"}'
    seen = shown(9, None)
    seen = replace(seen, annotations={**seen.annotations, GUEST: guest})
    assert answer_from_annotations(ask(9, None), seen, 0.5) is None
    assert answer_from_annotations(ask(9, None), seen, 1.0) == HttpAnswer(200, units(8))


@pytest.mark.rule("vm:C14", "vm:C16")
@pytest.mark.parametrize(
    ("seen", "status"),
    [
        (None, 404),
        (shown(1, 1), 500),
        (shown(4, None), 500),
        (ObservedPod("n1", VM, {REQUESTED: "{"}), 500),
    ],
)
def test_errors_at_the_end_of_the_wait(seen: ObservedPod | None, status: int) -> None:
    answer = answer_from_annotations(ask(4, 1), seen, 1.0)
    assert answer is not None
    assert (answer.status, answer.permit) == (status, None)
    assert "default/a-xyz" in answer.text


def ledger(wants: int, has: int, told: int | None = None, *, written: bool | None = None, **more: Any) -> LedgerState:
    """The pod is booked with `has` units; `decision` is what its agent may be told."""
    machine = Machine(VM, autoscaled=True, phase=more.pop("phase", Phase.RUNNING))
    entry = replace(pod("u", machine=machine), reserved=units(has), requested=units(wants), used=units(1), factor=UNIT)
    entry = replace(entry, approved=more.pop("approved", True))
    return LedgerState(
        nodes={"n1": node(10, [entry])},
        where={"u": "n1"},
        permits={} if told is None else {"u": Permit(units(told), 2e9)},
        writes={} if written is None else {"u": PendingWrite(units(has), units(wants), UNIT, landed=written)},
        started=more.pop("started", True),
    )


@pytest.mark.rule("vm:C16", "vm:B28")
@pytest.mark.parametrize(
    ("request_", "state", "elapsed", "wanted"),
    [
        pytest.param(ask(4, 1), ledger(4, 4, 4), 0.0, (4, PermitReason.GRANTED), id="granted and written"),
        pytest.param(
            ask(4, 1), ledger(4, 4, 4, written=True), 0.0, (4, PermitReason.GRANTED), id="written, not shown yet"
        ),
        pytest.param(ask(4, 1), ledger(4, 2, 2), 0.0, (2, PermitReason.PARTIAL), id="a part"),
        pytest.param(ask(4, 1), ledger(4, 1, 1), 0.5, None, id="no room: it may come"),
        pytest.param(ask(4, 1), ledger(4, 1, 1), 1.0, (1, PermitReason.NO_ROOM), id="no room"),
        pytest.param(ask(4, None), ledger(4, 1, 1), 0.0, (1, PermitReason.NO_ROOM), id="first contact"),
        pytest.param(
            ask(1, 2), ledger(1, 2, 1, written=False), 0.0, (1, PermitReason.GRANTED), id="a decrease at once"
        ),
    ],
)
def test_by_the_ledger(
    request_: PermitRequest, state: LedgerState, elapsed: float, wanted: tuple[int, PermitReason] | None
) -> None:
    answer = answer_from_ledger(request_, "u", state, elapsed, OURS)
    if wanted is None:
        assert answer is None
    else:
        assert answer is not None
        assert answer.decision is not None
        assert (answer.status, answer.permit, answer.decision.reason) == (200, units(wanted[0]), wanted[1])


@pytest.mark.rule("vm:I2")
def test_an_increase_is_told_once_it_is_written_and_not_before() -> None:
    state = ledger(4, 4, 4, written=False)
    assert answer_from_ledger(ask(4, 1), "u", state, 0.5, OURS) is None
    for last in (1, None):
        late = answer_from_ledger(ask(4, last), "u", state, 1.0, OURS)
        assert late is not None
        assert late.decision is not None
        assert (late.status, late.permit, late.decision.reason) == (200, units(1), PermitReason.BUSY)


@pytest.mark.rule("vm:C13", "vm:I2", "vm:D8")
@pytest.mark.parametrize(
    ("request_", "state", "wanted"),
    [
        pytest.param(ask(4, 2), ledger(2, 2), 2, id="what it holds"),
        pytest.param(ask(4, None), ledger(2, 2), 1, id="what its machine uses, at first contact"),
        pytest.param(ask(1, 2), ledger(2, 2), 1, id="what it gives back needs nobody"),
        pytest.param(ask(8, 9), ledger(2, 2), 2, id="not what it says that it holds"),
    ],
)
def test_where_the_api_server_is_too_slow_nobody_is_told_more_than_he_has(
    request_: PermitRequest, state: LedgerState, wanted: int
) -> None:
    late = late_answer(request_, "u", state, OURS)
    assert late.decision is not None
    assert (late.status, late.permit, late.decision.reason) == (200, units(wanted), PermitReason.BUSY)
    assert late.decision.retry_after_s is not None
    frozen = late_answer(request_, "u", replace(state, nodes=ledger(2, 2, phase=Phase.FROZEN).nodes), OURS)
    assert frozen.decision is not None
    assert frozen.decision.migrate


@pytest.mark.rule("vm:C14", "vm:C16", "vm:I2")
@pytest.mark.parametrize("request_", [ask(1, 2), ask(2, 2), ask(4, 2), ask(2, None)])
def test_who_was_never_approved_anything_is_told_nothing_before_that_is_written(request_: PermitRequest) -> None:
    """Seed 30921 of the processes: it kept what it was told, and that was booked no more once its machine used less."""
    for state in (
        ledger(2, 2, approved=False),
        ledger(2, 2, approved=False, started=False),
        ledger(2, 2, 2, approved=False, written=False),
    ):
        late = late_answer(request_, "u", state, OURS)
        assert (late.status, late.permit) == (500, None)
        assert "default/a-xyz: no amount is approved yet" in late.text
    asked_ = ledger(2, 2, 2, approved=False, written=False)
    assert answer_from_ledger(request_, "u", asked_, 0.5, OURS) is None
    written = answer_from_ledger(ask(2, 2), "u", ledger(2, 2, 2, approved=False, written=True), 0.5, OURS)
    assert written is not None
    assert (written.status, written.permit) == (200, units(2))


@pytest.mark.rule("vm:C30")
def test_nothing_is_granted_before_everything_was_taken_in() -> None:
    state = ledger(4, 2, started=False)
    assert answer_from_ledger(ask(4, 2), "u", state, 0.5, OURS) is None
    late = answer_from_ledger(ask(4, 2), "u", state, 1.0, OURS)
    assert late is not None
    assert late.decision is not None
    assert (late.permit, late.decision.reason) == (units(2), PermitReason.STARTING)


@pytest.mark.rule("vm:D13")
def test_a_machine_that_is_being_moved_keeps_what_it_has() -> None:
    state = ledger(4, 2, 2, phase=Phase.FROZEN)
    for request_, wanted in ((ask(4, 2), 2), (ask(1, 2), 1), (ask(4, 9), 2), (ask(4, None), 2)):
        answer = answer_from_ledger(request_, "u", state, 0.0, OURS)
        assert answer is not None
        assert answer.decision is not None
        assert (answer.permit, answer.decision.migrate) == (units(wanted), True)


@pytest.mark.rule("vm:I11", "vm:D8")
def test_no_permit_exceeds_the_request_or_what_is_booked() -> None:
    lies = answer_from_ledger(ask(8, 9), "u", ledger(8, 2, 2), 0.0, OURS)
    assert lies is not None
    assert lies.permit == units(2)
    again = answer_from_ledger(ask(1, None), "u", ledger(1, 3, 3), 0.0, OURS)
    assert again is not None
    assert again.permit == units(1)


def test_a_pod_that_the_ledger_does_not_have_is_unknown() -> None:
    answer = answer_from_ledger(ask(1, None), "u", LedgerState(started=True), 0.0, OURS)
    assert answer is not None
    assert answer.status == 404


@pytest.mark.rule("vm:B45")
def test_of_further_resources_an_agent_keeps_what_its_pod_asks_for() -> None:
    def with_disk(amounts: Amounts, disk: int) -> Amounts:
        return Amounts((*amounts, disk))

    machine = Machine(VM, autoscaled=True)
    held, wanted = with_disk(units(2), 7), with_disk(units(4), 7)
    entry = replace(pod("u", machine=machine), reserved=held, requested=wanted, used=held, factor=with_disk(UNIT, 0))
    entry = replace(entry, overcommit=Amounts((1000, 1000, 1000)), approved=True)
    nothing, size = Amounts.zero(3), with_disk(units(2), 9)
    full = recount(Node("n1", size, size, nothing, nothing, nothing, {"u": entry}))
    state = LedgerState(nodes={"n1": full}, where={"u": "n1"}, started=True, resources=3)
    event = request_event(ask(4, 2), "u", state)
    assert (event.unit, event.requested, event.last_permit) == (with_disk(UNIT, 0), wanted, held)
    assert request_event(ask(4, None), "u", state).last_permit is None
    told = answer_from_ledger(ask(4, 2), "u", state, 1.0, OURS)
    assert told is not None
    assert (told.permit, told.decision and told.decision.reason) == (units(2), PermitReason.NO_ROOM)
    assert late_answer(ask(4, None), "u", state, OURS).permit == units(2)


@pytest.mark.rule("vm:D24", "vm:F5")
def test_a_request_is_an_event_of_the_ledger() -> None:
    event = request_event(ask(4, 1, load1=0.5, lowers_at_once=True, sequence=7, run="r"), "u", ledger(4, 1))
    assert (event.uid, event.unit, event.requested, event.last_permit) == ("u", UNIT, units(4), units(1))
    assert (event.load1, event.lowers_at_once, event.sequence, event.run) == (0.5, True, 7, "r")
