"""Wishes of plain pods in the ledger: what is patched, refused, put off and made room for (B34 to B38)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from situate.cluster.errors.field_errors import Refused
from situate.cluster.patch.patches import json_patch
from situate.objects.kinds import pods
from situate.objects.resources import PODS
from situate.vm.api.patches import NothingToWrite, PatchObject, resize_patch
from situate.vm.api.well_known import RESIZE_REQUESTED
from situate.vm.model.actions import CancelMove, Condition, Evict, Notify, ResizePod, StartMove
from situate.vm.model.events import NodeRemoved, PodRemoved, TimerFired
from situate.vm.model.resource_amounts import Amounts
from tests.vm.objects import container, node, pod, runner
from tests.vm.yard import Yard, running

GIB = 2**30
NODE = node("n1", "4", "16Gi")


def web(wish: Any = None, cpu: str = "1", *, allocated: str = "", **more: Any) -> pods.Pod:
    """With a wish for its only container; it runs with what it asks for unless said."""
    annotations = {} if wish is None else {RESIZE_REQUESTED: json.dumps(wish)}
    metadata = {"generation": 1, **more.pop("metadata", {})}
    status = running({"cpu": allocated or cpu, "memory": "1Gi"}, *more.pop("conditions", ()))
    return pod(
        "web", container(cpu=cpu), annotations=annotations, nodeName="n1", status=status, metadata=metadata, **more
    )


def _content(each: pods.Pod) -> Any:
    """As far as a resize depends on it."""
    meta = each.metadata
    metadata = {"uid": meta.uid, "resourceVersion": meta.resource_version, "annotations": dict(meta.annotations)}
    (only,) = each.spec.containers
    requests = {name: str(amount) for name, amount in only.resources.requests.items()}
    return {"metadata": metadata, "spec": {"containers": [{"name": only.name, "resources": {"requests": requests}}]}}


def other(cpu: str) -> pods.Pod:
    return pod("other", container(cpu=cpu), nodeName="n1")


def pending(reason: str, observed: int = 1) -> dict[str, Any]:
    return {
        "type": "PodResizePending",
        "status": "True",
        "reason": reason,
        "message": "said so",
        "observedGeneration": observed,
    }


@pytest.mark.rule("vm:B34", "vm:B38")
def test_only_a_grant_is_patched() -> None:
    yard = Yard(NODE, web(), other("2"))
    yard.see(web({"cpu": 3}))
    assert yard.only(ResizePod) == [], "two CPUs are not free"
    assert yard.pod("web").reserved.cpu == 1000
    yard.tell(PodRemoved("uid-other"))
    (made,) = yard.only(ResizePod)
    assert (made.amount, made.container, made.own) == (
        Amounts.from_values(3000, GIB),
        "main",
        Amounts.from_values(3000, GIB),
    )
    assert yard.pod("web").reserved.cpu == 3000, "booked before it is written"
    yard.answer(made)
    yard.see(web({"cpu": 3}, "3"))
    assert not yard.state.writes
    assert not yard.state.waiters


@pytest.mark.rule("vm:B34", "vm:B30")
def test_a_part_is_granted_in_whole_steps_where_one_is_stated() -> None:
    yard = Yard(NODE, web(), other("2"))
    yard.see(web({"cpu": 3, "step": {"cpu": "500m"}}))
    (made,) = yard.only(ResizePod)
    assert made.own == Amounts.from_values(2000, GIB)
    yard.answer(made)
    yard.see(web({"cpu": 3, "step": {"cpu": "500m"}}, "2"))
    assert "uid-web" in yard.state.waiters
    yard.tell(PodRemoved("uid-other"))
    assert [each.own for each in yard.only(ResizePod)] == [Amounts.from_values(3000, GIB)]


@pytest.mark.rule("vm:B34", "vm:C2")
def test_less_is_patched_at_once_and_free_when_the_kubelet_has_taken_it_back() -> None:
    yard = Yard(NODE, web(cpu="3"))
    yard.see(web({"cpu": 1}, "3"))
    (made,) = yard.only(ResizePod)
    assert made.own == Amounts.from_values(1000, GIB)
    yard.answer(made)
    yard.see(web({"cpu": 1}, "1", allocated="3"))
    assert yard.pod("web").reserved.cpu == 3000
    assert yard.only(ResizePod) == []
    yard.see(web({"cpu": 1}, "1"))
    assert yard.pod("web").reserved.cpu == 1000
    assert not yard.state.writes


@pytest.mark.rule("vm:B34", "vm:I5", "vm:B43")
@pytest.mark.parametrize(
    ("wish", "own"),
    [
        pytest.param({"cpu": 1}, Amounts.from_values(1000, GIB), id="less"),
        pytest.param(
            {"cpu": 1, "memory": "2Gi"}, Amounts.from_values(1000, 2 * GIB), id="less of one, more of the other"
        ),
    ],
)
def test_a_wish_for_less_outlives_a_change_of_leader_and_the_absence_of_its_node(wish: Any, own: Amounts) -> None:
    yard = Yard(NODE, web(wish, "3"))
    assert [each.own for each in yard.only(ResizePod)] == [own]
    yard = Yard(web(wish, "3"))
    yard.see(NODE)
    assert [each.own for each in yard.only(ResizePod)] == [own]


@pytest.mark.rule("vm:B36", "vm:I5")
def test_a_wish_that_is_not_attempted_is_told_once_and_decided_anew_when_it_changes() -> None:
    yard = Yard(NODE, web())
    yard.see(web({"cpu": 5}))
    (said,), (told,) = yard.only(Condition), yard.only(Notify)
    assert (said.type, said.holds, said.reason) == ("ResizeRefused", True, "LargerThanNode")
    assert said.message == "node n1 has 4 cpu in total, and the pod would need 5 cpu"
    assert (told.reason, told.warning) == ("ResizeRefused", True)
    assert "uid-web" not in yard.state.waiters
    yard.see(web({"cpu": 5}, metadata={"labels": {"a": "b"}}))
    assert yard.done == []
    yard.see(node("n1", "8", "16Gi"))
    assert [each.own for each in yard.only(ResizePod)] == [Amounts.from_values(5000, GIB)], "the node has grown"
    assert [each.holds for each in yard.only(Condition)] == [False]


@pytest.mark.rule("vm:B36")
@pytest.mark.parametrize("wish", [pytest.param({"cpu": 2}, id="changed"), pytest.param(None, id="withdrawn")])
def test_what_an_earlier_leader_has_refused_is_cleared_where_it_is_wished_no_more(wish: Any) -> None:
    refused = {"type": "ResizeRefused", "status": "True", "reason": "LargerThanNode", "message": "5 is too much"}
    yard = Yard(NODE)
    yard.see(web(wish, conditions=[refused]))
    assert [(each.type, each.holds) for each in yard.only(Condition)] == [("ResizeRefused", False)]
    yard.see(web(wish, conditions=[refused], metadata={"labels": {"a": "b"}}))
    assert yard.only(Condition) == [], "once"
    yard = Yard(NODE)
    yard.see(web({"cpu": 5}, conditions=[refused]))
    assert [each.holds for each in yard.only(Condition)] == [True], "still so"


@pytest.mark.rule("vm:B36")
def test_a_static_manager_keeps_guaranteed_pods_as_they_are() -> None:
    static = node("n1", "8", "16Gi", metadata={"labels": {"vm.situate.dev/static-managers": "true"}})
    yard = Yard(static, web())
    guaranteed = web({"cpu": 2})
    yard.see(pods.Pod(guaranteed.metadata, guaranteed.spec, pods.PodStatus(qos_class="Guaranteed")))
    assert [each.reason for each in yard.only(Condition)] == ["StaticManager"]
    assert Yard(static, web({"cpu": 2})).only(ResizePod), "a burstable pod shares its cores"


@pytest.mark.rule("vm:B36")
def test_a_refusal_of_the_server_is_final_until_the_wish_changes() -> None:
    yard = Yard(NODE, web(), web({"cpu": 2}))
    (made,) = yard.only(ResizePod)
    yard.answer(made, "refused", "may not change")
    assert [(each.reason, each.message) for each in yard.only(Condition)] == [("Refused", "may not change")]
    assert yard.pod("web").reserved.cpu == 1000, "nothing is kept for it"
    yard.now += 3600
    yard.tell(TimerFired())
    assert yard.only(ResizePod) == []
    yard.see(web({"cpu": 2}, metadata={"labels": {"a": "b"}}))
    assert yard.only(ResizePod) == []
    yard.see(web({"cpu": 3}))
    assert [each.own for each in yard.only(ResizePod)] == [Amounts.from_values(3000, GIB)]


@pytest.mark.rule("vm:B36")
@pytest.mark.parametrize(("outcome", "after"), [("denied", 60.0), ("later", 5.0)])
def test_what_may_be_allowed_later_is_asked_for_again(outcome: str, after: float) -> None:
    yard = Yard(NODE, web({"cpu": 2}))
    (made,) = yard.only(ResizePod)
    yard.answer(made, outcome, "exceeded quota")
    assert yard.wake_at == yard.now + after
    assert yard.pod("web").reserved.cpu == 1000
    yard.now += after
    yard.tell(TimerFired())
    assert yard.only(ResizePod) == [made]
    assert [each.holds for each in yard.only(Condition)] == [False]


@pytest.mark.rule("vm:B36", "vm:F1")
@pytest.mark.parametrize("outcome", ["conflict", "unknown"])
def test_what_is_not_known_stays_booked_and_is_written_again(outcome: str) -> None:
    yard = Yard(NODE, web({"cpu": 2}))
    (made,) = yard.only(ResizePod)
    yard.answer(made, outcome, "")
    assert yard.pod("web").reserved.cpu == 2000
    yard.now += 1
    yard.tell(TimerFired())
    assert yard.only(ResizePod) == [made]


@pytest.mark.rule("vm:B35", "vm:B33")
def test_what_the_kubelet_calls_infeasible_is_free_again() -> None:
    yard = Yard(NODE, web({"cpu": 3}))
    (made,) = yard.only(ResizePod)
    yard.answer(made)
    refused = web({"cpu": 3}, "3", allocated="1", conditions=[pending("Infeasible", 2)], metadata={"generation": 2})
    yard.see(refused)
    assert yard.pod("web").reserved.cpu == 1000
    assert [(each.reason, each.message) for each in yard.only(Condition)] == [("Infeasible", "said so")]
    assert not yard.state.writes


@pytest.mark.rule("vm:B35", "vm:B34", "vm:F1", "vm:I1")
@pytest.mark.parametrize("outcome", ["unknown", "conflict", ""])
def test_a_withdrawn_wish_leaves_nothing_booked_and_nothing_that_comes_late(outcome: str) -> None:
    """Others may have its room at once: what was sent for it, and comes to nothing yet, never does."""
    asking = web({"cpu": 2})
    yard = Yard(NODE, asking)
    (made,) = yard.only(ResizePod)
    sent = resize_patch(made, asking, PODS, yard.rules)
    assert isinstance(sent, PatchObject)
    if outcome:
        yard.answer(made, outcome, "")
    yard.see(web())
    assert yard.pod("web").reserved.cpu == 1000
    assert not yard.state.writes
    yard.now += 60
    assert [*yard.only(ResizePod), *(each for each in yard.tell(TimerFired()) if isinstance(each, ResizePod))] == []
    assert not isinstance(json_patch(_content(asking), sent.patch.body), Refused)
    assert isinstance(json_patch(_content(web()), sent.patch.body), Refused)
    again = resize_patch(made, web(), PODS, yard.rules)
    assert isinstance(again, NothingToWrite), "nor is it sent any more"


@pytest.mark.rule("vm:B34", "vm:B44", "vm:F1", "vm:I1")
def test_a_resize_that_comes_late_finds_no_wish_of_its_time_in_the_same_words() -> None:
    """The wish was taken back, others got the room, and the same wish was made again."""
    asking, again = (web({"cpu": 2}, metadata={"resourceVersion": version}) for version in ("7", "9"))
    yard = Yard(NODE, asking)
    (made,) = yard.only(ResizePod)
    sent = resize_patch(made, asking, PODS, yard.rules)
    assert isinstance(sent, PatchObject)
    assert not isinstance(json_patch(_content(asking), sent.patch.body), Refused)
    assert isinstance(json_patch(_content(again), sent.patch.body), Refused)


@pytest.mark.rule("vm:B36", "vm:F1", "vm:B9", "vm:I1")
@pytest.mark.parametrize("answered", [pytest.param(True, id="unknown"), pytest.param(False, id="on its way")])
def test_a_resize_that_may_come_true_stays_booked_when_its_wish_is_refused(answered: bool) -> None:
    yard = Yard(NODE, web({"cpu": 3}))
    (made,) = yard.only(ResizePod)
    if answered:
        yard.answer(made, "unknown", "")
    yard.see(node("n1", "2", "16Gi"))
    yard.see(web({"cpu": 3}))
    assert [each.reason for each in yard.only(Condition)] in ([], ["LargerThanNode"])
    assert yard.pod("web").reserved.cpu == 3000
    yard.now += 1
    yard.tell(TimerFired())
    assert (yard.only(ResizePod) == [made]) is answered, "until somebody says what became of it"
    yard.answer(made, "conflict", "")
    assert yard.pod("web").reserved.cpu == 1000
    yard.now += 60
    yard.tell(TimerFired())
    assert yard.only(ResizePod) == []


@pytest.mark.rule("vm:B34", "vm:I5")
def test_another_wish_is_written_at_once_in_place_of_what_is_on_its_way() -> None:
    """What is on its way is for a wish that is none any more, and comes to nothing."""
    yard = Yard(NODE, web({"cpu": 2}))
    yard.see(web({"cpu": 2, "memory": "1Gi"}))
    (made,) = yard.only(ResizePod)
    assert (made.own, json.loads(made.request_text)) == (Amounts.from_values(2000, GIB), {"cpu": 2, "memory": "1Gi"})
    yard.see(web({"cpu": 2, "memory": "1Gi"}, metadata={"labels": {"a": "b"}}))
    assert yard.only(ResizePod) == []


@pytest.mark.rule("vm:B36", "vm:F1")
@pytest.mark.parametrize("outcome", ["refused", "denied", "later", "conflict"])
def test_what_is_refused_of_an_earlier_wish_says_nothing_of_the_one_that_stands(outcome: str) -> None:
    yard = Yard(NODE, web({"cpu": 2}))
    (earlier,) = yard.only(ResizePod)
    yard.see(web({"cpu": 2, "memory": "1Gi"}))
    (made,) = yard.only(ResizePod)
    yard.answer(earlier, outcome, "it is for another wish")
    assert yard.only(Condition) == []
    assert yard.pod("web").reserved.cpu == 2000
    yard.answer(made)
    yard.see(web({"cpu": 2, "memory": "1Gi"}, "2"))
    assert not yard.state.writes


@pytest.mark.rule("vm:B36", "vm:F1", "vm:F8")
@pytest.mark.parametrize("outcome", ["refused", "conflict"])
def test_a_write_whose_wish_changed_while_its_node_was_away_is_answered_and_nothing_is_left_of_it(outcome: str) -> None:
    another = {"cpu": 2, "memory": "1Gi"}
    yard = Yard(NODE, web({"cpu": 2}))
    (earlier,) = yard.only(ResizePod)
    yard.tell(NodeRemoved("n1"))
    yard.see(web(another))
    yard.see(NODE)
    yard.answer(earlier, outcome, "it is for another wish")
    yard.now += 60
    yard.tell(TimerFired())
    (again,) = yard.only(ResizePod)
    assert (json.loads(again.request_text), again.amount.cpu) == (another, 2000)


@pytest.mark.rule("vm:B34", "vm:I2")
def test_a_pod_that_wishes_more_instead_of_less_is_not_made_smaller() -> None:
    yard = Yard(NODE, web({"cpu": "500m"}), other("3"))
    assert [each.own.cpu for each in yard.only(ResizePod) if each.own] == [500]
    yard.see(web({"cpu": 2}))
    assert [each.own.cpu for each in yard.only(ResizePod) if each.own] == [1000], "nothing more is free"


@pytest.mark.rule("vm:B36", "vm:I1")
def test_what_is_refused_of_an_earlier_wish_frees_what_was_booked_where_the_one_that_stands_is_not_attempted() -> None:
    yard = Yard(NODE, web({"cpu": 3}))
    (earlier,) = yard.only(ResizePod)
    yard.see(web({"cpu": 30}))
    assert yard.pod("web").reserved.cpu == 3000, "it may come true"
    yard.answer(earlier, "refused", "it is for another wish")
    assert yard.pod("web").reserved.cpu == 1000
    yard.now += 60
    yard.tell(TimerFired())
    assert yard.only(ResizePod) == []


@pytest.mark.rule("vm:B37", "vm:B35", "vm:B38", "vm:F13", "vm:B3")
def test_a_machine_leaves_for_a_pod_that_the_kubelet_has_put_off_and_the_claim_ends_with_its_room() -> None:
    """Its desire is booked for everybody else all along, so that nobody takes the room, and no claim holds it twice."""
    mover = runner("vm-a", labels={"autoscaling.neon.tech/auto-migration-enabled": "true"}, nodeName="n1")
    put_off = web(cpu="3", allocated="1", conditions=[pending("Deferred")])
    yard = Yard(NODE, node("n2", "8", "16Gi"), mover, put_off, other("1"))
    assert yard.state.nodes["n1"].reserved.cpu == 5000
    yard.now += 6
    yard.tell(TimerFired())
    (move,) = yard.only(StartMove)
    assert yard.only(Evict) == []
    assert move.claim is not None
    assert (move.claim.beneficiary.ref.name, move.claim.amount) == ("web", Amounts.from_values(1000, 0))
    yard.tell(PodRemoved("uid-vm-a"))
    assert yard.state.claims == {}
    assert "granted" in next(each.message for each in yard.only(Notify) if each.reason == "ClaimClosed")
    assert yard.state.available("n1", "somebody").cpu == 0
    yard.see(web(cpu="3"))
    assert not yard.state.waiters


@pytest.mark.rule("vm:B35", "vm:B27", "vm:I7", "vm:F11")
def test_who_is_put_off_for_a_node_that_is_overdrawn_needs_all_of_that_and_no_move_for_it_is_given_up() -> None:
    """Its kubelet looks at all that it asks for: more memory comes once there is the CPU that it has had all along."""
    mover = runner("vm-a", labels={"autoscaling.neon.tech/auto-migration-enabled": "true"}, nodeName="n1")
    status = running({"cpu": "1", "memory": "1Gi"}, pending("Deferred"))
    more = container(cpu="1", memory="2Gi")
    put_off = pod("web", more, nodeName="n1", status=status, metadata={"generation": 1})
    yard = Yard(node("n1", "2500m", "16Gi"), node("n2", "8", "16Gi"), mover, put_off, other("1"))
    assert yard.state.nodes["n1"].reserved.cpu == 3000
    yard.now += 6
    yard.tell(TimerFired())
    (move,) = yard.only(StartMove)
    assert move.claim is not None
    assert (move.claim.beneficiary.ref.name, move.claim.amount) == ("web", Amounts.from_values(500, 0))
    yard.see(other("1"))
    assert yard.only(CancelMove) == []
    yard.tell(PodRemoved("uid-vm-a"))
    assert yard.state.claims == {}


@pytest.mark.rule("vm:B37", "vm:F13")
def test_those_whom_the_kubelet_has_put_off_before_are_covered_first() -> None:
    """The kubelet admits whom it likes first: a claim for another one counts what they are booked with already."""
    mover = runner("vm-a", labels={"autoscaling.neon.tech/auto-migration-enabled": "true"}, nodeName="n1")
    ahead = pod(
        "ahead",
        container(cpu="2"),
        nodeName="n1",
        metadata={"generation": 1},
        status=running({"cpu": "1500m", "memory": "1Gi"}, pending("Deferred")),
    )
    yard = Yard(NODE, node("n2", "8", "16Gi"), mover, ahead, web({"cpu": "1500m"}))
    assert yard.only(ResizePod) == [], "the room is the other one's, whom the kubelet may serve first"
    yard.tell(PodRemoved("uid-vm-a"))
    assert [each.own for each in yard.only(ResizePod)] == [Amounts.from_values(1500, GIB)]


@pytest.mark.rule("vm:B34", "vm:B35", "vm:B41")
def test_a_pod_that_is_resized_by_hand_beside_its_wish_is_set_back_and_says_why() -> None:
    wish = {"cpu": 2}
    yard = Yard(NODE, web(wish, "2"))
    yard.see(web(wish, "3"))
    assert [each.reason for each in yard.only(Notify)] == ["ResizedBack"]
    (back,) = yard.only(ResizePod)
    assert back.amount.cpu == 2000
    yard.see(web(wish, "3", metadata={"labels": {"a": "b"}}))
    assert not yard.only(Notify), "once"
    yard.see(web(wish, "2"))
    yard.see(web({"cpu": 1}, "2"))
    assert not yard.only(Notify), "it is the wish that has changed"
    yard.see(web(None, "3"))
    assert not yard.only(ResizePod), "without a wish it is as large as somebody makes it"
