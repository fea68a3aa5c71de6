"""The account grows with its machine: in which order, and what a refusal leaves (B47)."""

from __future__ import annotations

from typing import Any

import pytest

from situate.objects.kinds import pods
from situate.vm.api.quantities import amounts_text
from situate.vm.api.well_known import APPROVED, ENABLED_LABEL, REQUESTED, SCALING_UNIT
from situate.vm.model.actions import Action, Approve, Condition, ResizePod
from situate.vm.model.events import ResourcesRequested, TimerFired
from situate.vm.model.resource_amounts import Amounts
from tests.vm.objects import VM_OWNER, container, migration_owner, node, runner
from tests.vm.yard import Yard

GIB = 2**30
UNIT = Amounts.from_values(250, GIB)


def cores(number: int) -> Amounts:
    return Amounts.from_values(1000 * number, 4 * GIB * number)


def machine(held: int, account: int, *, overcommit: int = 1, **more: Any) -> pods.Pod:
    annotations = {
        SCALING_UNIT: amounts_text(UNIT),
        REQUESTED: amounts_text(cores(held)),
        APPROVED: amounts_text(cores(held)),
        "vm.neon.tech/resources": '{"cpus":{"min":1,"use":1,"max":8},'
        '"memorySlots":{"min":4,"use":4,"max":32},"memorySlotSize":"1Gi"}',
        "vm.neon.tech/overcommit": f'{{"cpu":{overcommit},"memory":{overcommit}}}',
    }
    return runner(
        "vm-a",
        annotations,
        labels={ENABLED_LABEL: "true"},
        nodeName="n1",
        containers=[container("neonvm-runner", str(account), f"{4 * account}Gi")],
        **more,
    )


def yard(held: int = 1, account: int = 1, **more: Any) -> Yard:
    return Yard(node("n1", "8", "32Gi"), machine(held, account, **more))


def ask(of: Yard, number: int, last: int) -> list[Action]:
    return of.tell(ResourcesRequested("uid-vm-a", UNIT, cores(number), cores(last), lowers_at_once=True))


@pytest.mark.rule("vm:B47", "vm:N7", "vm:N8", "vm:C2")
def test_up_the_ledger_comes_first_then_the_pod_then_the_machine() -> None:
    ours = yard()
    done = [each for each in ask(ours, 2, 1) if isinstance(each, ResizePod | Approve)]
    assert [type(each) for each in done] == [ResizePod, Approve]
    resize = done[0]
    assert isinstance(resize, ResizePod)
    assert resize.own == cores(2)
    assert ours.pod("vm-a").reserved == cores(2)


@pytest.mark.rule("vm:B47", "vm:C7")
def test_a_pod_requests_what_its_machine_counts_for() -> None:
    ours = yard(held=2, account=1, overcommit=2)
    ask(ours, 6, 2)
    assert [each.own for each in ours.only(ResizePod)] == [cores(3)]


@pytest.mark.rule("vm:B47", "vm:D24", "vm:C2")
def test_down_the_machine_comes_first_then_the_pod_then_the_ledger() -> None:
    ours = yard(held=4, account=4)
    ask(ours, 2, 4)
    (approve,) = ours.only(Approve)
    assert ours.only(ResizePod) == []
    ours.answer(approve)
    (resize,) = ours.only(ResizePod)
    assert (resize.own, ours.pod("vm-a").reserved) == (cores(2), cores(4))
    ours.see(machine(2, 4))
    assert ours.pod("vm-a").reserved == cores(4), "stock schedulers still count its pod so"
    ours.answer(resize)
    assert ours.pod("vm-a").reserved == cores(2)


@pytest.mark.rule("vm:B47", "vm:I5")
@pytest.mark.parametrize("outcome", ["refused", "denied", "later", "conflict", "unknown"])
def test_whatever_the_pod_s_resize_comes_to_what_the_machine_gave_back_is_free(outcome: str) -> None:
    ours = yard(held=4, account=4)
    ask(ours, 2, 4)
    ours.answer(ours.only(Approve)[0])
    ours.answer(ours.only(ResizePod)[0], outcome, "no")
    assert ours.pod("vm-a").reserved == cores(2)


@pytest.mark.rule("vm:B47", "vm:F1")
@pytest.mark.parametrize(("outcome", "told"), [("refused", True), ("denied", True), ("conflict", False)])
def test_a_refusal_is_told_on_the_pod_and_the_grant_stands(outcome: str, told: bool) -> None:
    ours = yard()
    ask(ours, 2, 1)
    (resize,), (approve,) = ours.only(ResizePod), ours.only(Approve)
    ours.answer(resize, outcome, "quota")
    assert [(each.type, each.holds) for each in ours.only(Condition)] == ([("PodNotResized", True)] if told else [])
    ours.answer(approve)
    assert ours.pod("vm-a").reserved == cores(2)
    ours.see(machine(2, 1))
    ours.now += 61
    ours.tell(TimerFired())
    assert (ours.only(ResizePod) == [resize]) is (outcome != "refused")
    if outcome == "denied":
        ours.answer(resize)
        assert [(each.type, each.holds) for each in ours.only(Condition)] == [("PodNotResized", False)]


@pytest.mark.rule("vm:B47")
def test_what_an_earlier_leader_told_on_the_pod_is_cleared_when_it_is_resized() -> None:
    said = {"type": "PodNotResized", "status": "True", "reason": "Denied", "message": "quota"}
    ours = yard(status={"conditions": [said]})
    ask(ours, 2, 1)
    ours.answer(ours.only(ResizePod)[0])
    assert [(each.type, each.holds) for each in ours.only(Condition)] == [("PodNotResized", False)]


NEVER = {"type": "PodResizePending", "status": "True", "reason": "Infeasible", "message": "static policy"}

TOLD = NEVER | {"type": "PodNotResized"}


def told(of: Yard) -> list[tuple[str, bool, str]]:
    return [(each.type, each.holds, each.reason) for each in of.only(Condition)]


@pytest.mark.rule("vm:B47")
def test_what_the_kubelet_never_does_is_told_on_the_pod_and_the_grant_stands() -> None:
    ours = yard(2, 2)
    ours.see(machine(2, 2, status={"conditions": [NEVER]}))
    assert told(ours) == [("PodNotResized", True, "Infeasible")]
    ours.see(machine(2, 2, status={"conditions": [NEVER, TOLD]}))
    assert told(ours) == [], "once"
    assert ours.pod("vm-a").reserved == cores(2)
    ask(ours, 3, 2)
    ours.answer(ours.only(ResizePod)[0])
    assert told(ours) == [], "the server took it; the kubelet has said nothing else"
    ours.see(machine(3, 3))
    assert told(ours) == [("PodNotResized", False, "Resized")]


@pytest.mark.rule("vm:B47", "vm:B43")
def test_what_the_kubelet_said_while_nobody_led_is_told_by_the_next_leader() -> None:
    assert told(yard(2, 2, status={"conditions": [NEVER]})) == [("PodNotResized", True, "Infeasible")]
    assert told(yard(2, 2, status={"conditions": [TOLD]})) == [("PodNotResized", False, "Resized")]
    assert told(yard(2, 1, status={"conditions": [TOLD]})) == [], "it has yet to be resized"


@pytest.mark.rule("vm:B47")
def test_a_machine_that_grows_again_while_its_pod_shrinks_keeps_what_it_got() -> None:
    ours = yard(held=4, account=4)
    ask(ours, 2, 4)
    ours.answer(ours.only(Approve)[0])
    (down,) = ours.only(ResizePod)
    ask(ours, 6, 2)
    assert ours.pod("vm-a").reserved == cores(6)
    ours.answer(down)
    assert ours.pod("vm-a").reserved == cores(6)


@pytest.mark.rule("vm:B47", "vm:B43", "vm:F3")
@pytest.mark.parametrize(("held", "account"), [pytest.param(4, 2, id="grown"), pytest.param(2, 4, id="shrunk")])
def test_a_resize_that_an_earlier_leader_did_not_come_to_is_written_by_the_next(held: int, account: int) -> None:
    ours = yard(held, account)
    (resize,) = ours.only(ResizePod)
    assert (resize.own, ours.pod("vm-a").reserved) == (cores(held), cores(held))
    ours.answer(resize)
    ours.see(machine(held, held))
    assert ours.only(ResizePod) == []
    assert not ours.state.accounts


@pytest.mark.rule("vm:B47", "vm:B43")
def test_a_resize_that_is_refused_is_written_once_in_a_term() -> None:
    ours = yard(4, 2)
    (resize,) = ours.only(ResizePod)
    ours.answer(resize, "refused", "no")
    ours.see(machine(4, 2, metadata={"labels": {ENABLED_LABEL: "true", "a": "b"}}))
    ours.now += 600
    ours.tell(TimerFired())
    assert ours.only(ResizePod) == []


@pytest.mark.rule("vm:B47", "vm:F1")
def test_a_pod_that_is_seen_first_or_shows_what_another_leader_has_written_follows() -> None:
    ours = Yard(node("n1", "8", "32Gi"))
    ours.see(machine(4, 2))
    (resize,) = ours.only(ResizePod)
    assert resize.own == cores(4)
    ours.answer(resize)
    ours.see(machine(4, 4))
    ours.see(machine(2, 4))
    assert [each.own for each in ours.only(ResizePod)] == [cores(2)], "its last write came true when it led no more"


@pytest.mark.rule("vm:B47", "vm:N7")
def test_the_pod_that_a_machine_has_moved_into_requests_what_it_holds() -> None:
    moving = (VM_OWNER, migration_owner(controller=True))
    ours = yard(4, 2, owners=moving)
    assert ours.only(ResizePod) == [], "nothing of it changes while it moves"
    ours.see(machine(4, 2))
    assert [each.own for each in ours.only(ResizePod)] == [cores(4)]


@pytest.mark.rule("vm:B47")
def test_a_pod_of_which_nothing_was_approved_stays_as_it_was_made() -> None:
    plain = Yard(node("n1", "8", "32Gi"), runner("vm-a", nodeName="n1"))
    assert plain.only(ResizePod) == []
