"""A pod is resized before the source of its move is gone: when, what waits for it, and who comes first (B37, F13)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from situate.objects.kinds import pods
from situate.vm.api.well_known import AUTO_MIGRATION_LABEL, RESIZE_REQUESTED
from situate.vm.ledger.grants.early_pod_resize import LONGEST_S, early_amount
from situate.vm.model.actions import HandOver, Notify, ResizePod, StartMove
from situate.vm.model.events import MigrationObserved, MigrationPhase, PodRemoved, TimerFired, WrittenClaim
from situate.vm.model.migrations import Beneficiary, BeneficiaryKind, Claim, ClaimState, Move, Stage
from situate.vm.model.pods_and_nodes import Ref
from situate.vm.model.resource_amounts import Amounts
from tests.vm.ledger.grants.test_pod_resize import pending
from tests.vm.objects import container, node, pod, runner
from tests.vm.yard import Yard, running

GIB = 2**30
ALL = Amounts.from_values(3000, GIB)


def web(cpu: str = "1", *, wish: int = 3, allocated: str = "", **more: Any) -> pods.Pod:
    """It wishes for 3 CPUs unless said. Whatever its kubelet was asked last, it runs with what is allocated."""
    generation, observed = more.pop("generation", 1), more.pop("observed", 1)
    status = running({"cpu": allocated or cpu, "memory": "1Gi"}, *more.pop("conditions", ()))
    return pod(
        "web",
        container(cpu=cpu),
        annotations={RESIZE_REQUESTED: json.dumps({"cpu": wish})},
        nodeName="n1",
        metadata={"generation": generation},
        status={**status, "observedGeneration": observed},
        **more,
    )


MOVER = runner("vm-a", labels={AUTO_MIGRATION_LABEL: "true"}, nodeName="n1")
OTHER = pod("other", container(), nodeName="n1")
ASKED = web("3", allocated="1", generation=2)
"""As it is once its resize is written, before its kubelet has looked."""
PUT_OFF = web("3", allocated="1", generation=2, observed=2, conditions=[pending("Deferred", 2)])
RESIZED = web("3", generation=2, observed=2)


def copied() -> tuple[Yard, Move]:
    """Machine `a` goes from n1, which has 4 CPUs, for the pod, which is short of one more than are free."""
    yard = Yard(node("n1", "4", "16Gi"), node("n2", "8", "16Gi"), MOVER, OTHER, web())
    yard.now += 6
    yard.tell(TimerFired())
    (started,) = yard.only(StartMove)
    yard.answer(started)
    return yard, started.move


def done(move: Move) -> MigrationObserved:
    return MigrationObserved(
        machine=move.machine,
        name=move.name,
        uid="uid-m",
        own=True,
        phase=MigrationPhase(succeeded=True),
        source=move.source,
        source_node="n1",
        target=Ref("default", "vm-a-new", "uid-new"),
        target_node="n2",
        amount=None,
    )


@pytest.mark.rule("vm:B37", "vm:N7")
def test_the_source_is_deleted_when_the_pod_asks_for_its_room_and_not_before() -> None:
    yard, move = copied()
    yard.tell(done(move))
    (resize,) = yard.only(ResizePod)
    assert (resize.amount, resize.container, resize.own) == (ALL, "main", ALL)
    assert yard.only(HandOver) == []
    assert yard.state.nodes["n1"].reserved.cpu == 3000, "the claim stands for it, and nothing else"

    yard.answer(resize)
    assert [each.source.name for each in yard.only(HandOver)] == ["vm-a"]
    yard.see(ASKED)
    assert (yard.pod("web").reserved.cpu, yard.pod("web").used.cpu) == (3000, 1000)
    assert yard.state.available("n1", "a third party").cpu == 0
    assert len(yard.state.claims) == 1, "its source is there"
    yard.see(PUT_OFF)
    assert len(yard.state.claims) == 1

    yard.tell(PodRemoved("uid-vm-a"))
    assert [each.fields["outcome"] for each in yard.only(Notify) if each.reason == "ClaimClosed"] == ["granted"]
    assert yard.state.available("n1", "a third party").cpu == 0, "at no moment was it anybody else's"
    yard.see(RESIZED)
    assert not yard.state.waiters
    assert yard.only(ResizePod) == []


@pytest.mark.rule("vm:B37", "vm:B30", "vm:B9")
def test_who_lacks_more_units_of_memory_than_of_cpu_asks_for_all_that_its_move_leaves() -> None:
    wish = {"cpu": 2, "memory": "3Gi", "step": {"cpu": 1, "memory": "1Gi"}}
    asks = pod("web", container(), annotations={RESIZE_REQUESTED: json.dumps(wish)}, nodeName="n1")
    yard = Yard(node("n1", "2", "3Gi"), node("n2", "8", "16Gi"), MOVER, asks)
    yard.now += 6
    yard.tell(TimerFired())
    (started,) = yard.only(StartMove)
    yard.answer(started)
    yard.tell(done(started.move))
    assert [each.amount for each in yard.only(ResizePod)] == [Amounts.from_values(2000, 3 * GIB)]


@pytest.mark.rule("vm:B37", "vm:B36", "vm:I5")
@pytest.mark.parametrize("outcome", ["refused", "denied", "later", "conflict", "unknown"])
def test_whatever_the_answer_is_the_source_is_deleted(outcome: str) -> None:
    yard, move = copied()
    yard.tell(done(move))
    (resize,) = yard.only(ResizePod)
    yard.answer(resize, outcome, "no")
    assert [each.source.name for each in yard.only(HandOver)] == ["vm-a"]
    refusal = yard.pod("web").resize.refusal  # type: ignore[union-attr]  # it wishes something
    said = {"refused": "Refused", "denied": "Denied", "later": "NotYet"}.get(outcome)
    assert (None if refusal is None else refusal.reason) == said
    yard.tell(PodRemoved("uid-vm-a"))
    assert [each.own for each in yard.only(ResizePod)] == ([] if said else [ALL]), "in the hand-over itself"


@pytest.mark.rule("vm:B37", "vm:F1")
def test_a_hand_over_waits_for_no_answer_that_does_not_come() -> None:
    yard, move = copied()
    yard.tell(done(move))
    assert yard.only(HandOver) == []
    yard.now += LONGEST_S
    yard.tell(TimerFired())
    assert [each.source.name for each in yard.only(HandOver)] == ["vm-a"]
    assert yard.only(ResizePod) == []


@pytest.mark.rule("vm:B37", "vm:B43", "vm:I8")
@pytest.mark.parametrize("shown", [ASKED, PUT_OFF], ids=["asked", "put off"])
def test_a_new_leader_finds_the_pod_asking_and_hands_over_to_it(shown: pods.Pod) -> None:
    yard, move = copied()
    claim = yard.state.claims[move.claim]
    written = WrittenClaim(
        claim.id, claim.plan, claim.node, claim.beneficiary, claim.source_uid, claim.amount, claim.deadline
    )
    again = Yard(node("n1", "4", "16Gi"), node("n2", "8", "16Gi"), MOVER, OTHER, shown)
    again.tell(replace(done(move), claim=written))
    assert [each.source.name for each in again.only(HandOver)] == ["vm-a"]
    assert again.only(ResizePod) == []
    again.tell(PodRemoved("uid-vm-a"))
    assert [each.fields["outcome"] for each in again.only(Notify) if each.reason == "ClaimClosed"] == ["granted"]
    assert again.state.available("n1", "a third party").cpu == 0


def held_for(whom: str, amount: Amounts, uid: str = "c-2", **more: Any) -> Claim:
    beneficiary = Beneficiary(BeneficiaryKind.POD, Ref("default", whom, f"uid-{whom}"))
    return Claim(uid, "p", "n1", beneficiary, "uid-x", amount, 1e9, **more)


@pytest.mark.rule("vm:B37")
@pytest.mark.parametrize("stage", list(Stage))
def test_before_copying_is_done_nothing_is_asked_for(stage: Stage) -> None:
    yard, move = copied()
    state = replace(yard.state, moves={})
    assert (early_amount(state, replace(move, stage=stage)) == ALL) is (stage is Stage.DONE)


@pytest.mark.rule("vm:B37", "vm:I4")
def test_beside_another_claim_the_room_is_asked_for_in_the_hand_over_itself() -> None:
    yard, move = copied()
    move = replace(move, stage=Stage.DONE)
    other = held_for("somebody", Amounts.from_values(0, GIB))
    assert early_amount(yard.state, move) == ALL
    assert early_amount(replace(yard.state, claims={**yard.state.claims, other.id: other}), move) is None
    elsewhere = replace(other, node="n2")
    assert early_amount(replace(yard.state, claims={**yard.state.claims, other.id: elsewhere}), move) == ALL
    freed = replace(yard.state.claims[move.claim], state=ClaimState.FREED)
    assert early_amount(replace(yard.state, claims={freed.id: freed}), move) is None, "it is in the hand-over"


def deferred(cpu: str, allocated: str, name: str = "other") -> pods.Pod:
    """Resized by somebody else, and put off."""
    status = running({"cpu": allocated, "memory": "1Gi"}, pending("Deferred"))
    metadata = {"generation": 1}
    return pod(name, container(cpu=cpu), nodeName="n1", metadata=metadata, status=status)


@pytest.mark.rule("vm:B37", "vm:F13")
def test_beside_a_pod_that_the_kubelet_may_serve_first_it_is_not_asked_for() -> None:
    yard, move = copied()
    yard.see(deferred("3", "1"))
    assert early_amount(yard.state, replace(move, stage=Stage.DONE)) is None
    assert "ClaimBroken" in [each.reason for each in yard.only(Notify)]


@pytest.mark.rule("vm:B37", "vm:F13", "vm:B8")
def test_whom_the_kubelet_admits_first_has_the_room_and_the_other_one_is_short_again() -> None:
    yard, move = copied()
    yard.tell(done(move))
    yard.answer(yard.only(ResizePod)[0])
    yard.see(PUT_OFF)
    yard.see(deferred("2", "1"))
    yard.tell(PodRemoved("uid-vm-a"))
    yard.see(pod("other", container(cpu="2"), nodeName="n1", metadata={"generation": 1}))
    yard.see(PUT_OFF)
    assert yard.state.claims == {}
    assert yard.state.need("uid-web") == Amounts.from_values(1000, 0)
    assert yard.state.waiters["uid-web"].next_attempt_at <= yard.now + 5
    assert yard.only(ResizePod) == [], "its spec says so already"


@pytest.mark.rule("vm:B37", "vm:F13", "vm:B35")
def test_a_plan_that_does_not_cover_those_who_were_put_off_before_is_refused() -> None:
    """The kubelet would give them what leaves, and the claim would be for nothing."""
    first = deferred("3", "1", name="x")
    yard = Yard(node("n1", "4", "16Gi"), node("n2", "8", "16Gi"), MOVER, first, web(wish=2))
    yard.now += 6
    yard.tell(TimerFired())
    assert [each.claim for each in yard.only(StartMove)] == [None], "for the node alone, which is over its watermark"
    yard.tell(PodRemoved("uid-vm-a"))
    assert yard.state.need("uid-x") == Amounts.zero(), "the kubelet has room for it"
    assert yard.only(ResizePod) == []


@pytest.mark.rule("vm:B37", "vm:B35", "vm:I4")
@pytest.mark.parametrize("first", ["answered", "gone"])
def test_with_a_kubelet_that_does_not_say_what_it_has_seen_nobody_else_gets_the_room_either(first: str) -> None:
    """Before 1.34: between the resize and the word `Deferred` the pod looks as if it had been resized already."""
    asked = web("3", allocated="1", generation=2, observed=0)
    put_off = web("3", allocated="1", generation=2, observed=0, conditions=[pending("Deferred", 0)])
    yard, move = copied()
    yard.tell(done(move))
    yard.answer(yard.only(ResizePod)[0])
    assert [each.source.name for each in yard.only(HandOver)] == ["vm-a"]
    gone = PodRemoved("uid-vm-a")
    events: tuple[pods.Pod | PodRemoved, ...] = (put_off, gone) if first == "answered" else (gone, put_off)
    told: list[str] = []
    for event in (asked, *events, web("3", generation=2, observed=0)):
        actions = yard.see(event) if isinstance(event, pods.Pod) else yard.tell(event)
        told += [each.fields.get("outcome", each.reason) for each in actions if isinstance(each, Notify)]
        assert yard.state.available("n1", "a third party").cpu == 0
        assert yard.only(ResizePod) == [], "its spec says so already"
    assert "granted" in told
    assert "ClaimBroken" not in told, "nobody else has taken of it"
    assert not yard.state.waiters
    assert yard.state.claims == {}
    assert (yard.pod("web").reserved, yard.pod("web").used) == (ALL, ALL)
