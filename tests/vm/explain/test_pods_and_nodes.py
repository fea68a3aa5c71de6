"""What is told of pods and nodes: exactly the fields of B39, and advice that was tried."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from situate.vm.explain.explanations import build_explanation
from situate.vm.explain.nodes import explain_node
from situate.vm.explain.pods import NO_CHANGE_HELPS, explain_pod
from situate.vm.explain.would_help import is_granted
from situate.vm.model.migrations import ClaimState, CopyProgress
from situate.vm.model.pods_and_nodes import Refusal, Resize
from situate.vm.model.state import LedgerState, Waiter
from tests.vm.planning.shapes import NOW, RULES, claim, move, node, plain, state, units, vm

A = vm("A", 4, 7, migratable=False)


def told(seen: LedgerState, name: str = "A") -> dict[str, Any]:
    found = explain_pod(seen, A.ref.namespace, name, NOW, RULES)
    assert found is not None
    return found


def waiting(seen: LedgerState, *uids: str) -> LedgerState:
    return replace(seen, waiters={uid: Waiter(uid, NOW - 9 + at) for at, uid in enumerate(uids)})


@pytest.mark.rule("vm:B39")
def test_a_pod_is_told_of_in_exactly_these_fields() -> None:
    copying = replace(move("B", "n1", "n2", 6, claim="1"), progress=CopyProgress(remaining=1, total=4, changed_at=NOW))
    freed = replace(claim("7", "n1", "first", "gone", units(1)), state=ClaimState.FREED)
    pods = (A, vm("B", 3), vm("first", 1, 2), plain("p", 1))
    seen = state(
        node("n1", 10, *pods), node("n2", 10), moves=(copying,), claims=(claim("1", "n1", "A", "B", units(2)), freed)
    )
    found = told(waiting(seen, "A", "first"))
    assert list(found) == [
        *("pod", "node", "reserved", "requested", "shortBy", "reason", "queue", "room", "plan", "wouldHelp", "eta")
    ]
    assert list(found["queue"]) == ["position", "aheadOf"]
    assert list(found["room"]) == ["total", "reserved", "held", "incoming"]
    assert list(found["plan"]) == ["moves", "alternatives"]
    (held,) = found["room"]["held"]
    assert list(held) == ["claim", "for", "amount"]
    assert (held["claim"], held["for"].endswith("first")) == ("7", True)
    (moving,) = found["plan"]["moves"]
    assert list(moving) == ["vm", "target", "cost", "state", "progress"]
    assert (moving["target"], moving["state"], moving["progress"]) == ("n2", "copying", 0.75)
    assert found["eta"].endswith("Z")
    for each in found["plan"]["alternatives"]:
        assert list(each) == ["kind", "cost", "whyNot"]


@pytest.mark.rule("vm:B39", "vm:B36")
def test_a_plain_pod_is_told_why_its_wish_is_not_attempted() -> None:
    size, refusal = units(2), Refusal("LargerThanNode", "node n1 has 10 cpu in total, and the pod would need 99 cpu")
    wish = Resize("app", units(99), units(99), size, size, False, "{}", refusal=refusal)
    found = told(state(node("n1", 10, replace(plain("p", 2), resize=wish))), "p")
    assert found["refused"] == {"reason": refusal.reason, "message": refusal.message}


@pytest.mark.rule("vm:B39", "vm:B35")
@pytest.mark.parametrize(("unanswered", "said"), [(False, "2"), (True, None)])
def test_a_plain_pod_is_told_what_its_kubelet_has_put_off(unanswered: bool, said: str | None) -> None:
    pod = replace(plain("p", 4), used=units(2), deferred=True, unanswered=unanswered)
    put_off = told(state(node("n1", 10, pod)), "p").get("putOff")
    assert (put_off and put_off["cpu"]) == said, "one whose kubelet has not looked at it yet has been put off by nobody"


@pytest.mark.rule("vm:B39", "vm:B31")
def test_what_is_held_and_saved_up_for_others_is_named() -> None:
    freed = replace(claim("7", "n1", "first", "gone", units(1)), state=ClaimState.FREED)
    seen = state(node("n1", 10, A, vm("first", 2, 5), vm("second", 1, 3)), claims=(freed,))
    seen = replace(seen, waiters={"second": Waiter("second", NOW - 9, overtaken_count=3, held_capacity=units(2))})

    found = told(seen)

    assert found["reason"] == "claimedByOthers"
    shown = [(each["claim"], each["for"], each["amount"]["cpu"]) for each in found["room"]["held"]]
    assert shown == [("7", "shop/first", "1"), ("", "shop/second", "2")]
    of_node = explain_node(seen, "n1", NOW, RULES)
    assert of_node is not None
    assert of_node["held"] == found["room"]["held"]
    assert [each["for"] for each in told(seen, "first")["room"]["held"]] == ["shop/second"]


@pytest.mark.rule("vm:B39")
def test_who_waits_is_told_whom_it_is_ahead_of() -> None:
    seen = waiting(state(node("n1", 10, A, vm("B", 1, 3), vm("C", 5, 6))), "A", "B", "C")
    places = {name: told(seen, name)["queue"] for name in "ABC"}
    assert sorted(each["position"] for each in places.values()) == [1, 2, 3]
    for each in places.values():
        assert len(each["aheadOf"]) == 3 - each["position"]


@pytest.mark.rule("vm:B40")
@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(state(node("n1", 10, A, vm("B", 6, migratable=False))), id="nobody may move"),
        pytest.param(state(node("n1", 10, A, vm("B", 6)), node("n2", 2)), id="no target"),
        pytest.param(state(node("n1", 10, A, vm("B", 6)), node("n2", 10)), id="a plan"),
    ],
)
def test_what_would_help_does_when_it_is_applied(seen: LedgerState) -> None:
    seen = waiting(seen, "A")
    found = build_explanation(seen, "A", NOW, RULES)
    assert found is not None
    assert found.would_help
    assert len(told(seen)["wouldHelp"]) == len(found.would_help)
    for change in found.would_help:
        after, rules, at = change.apply(seen, RULES, NOW)
        assert is_granted(after, "A", at, rules), change


@pytest.mark.rule("vm:B40")
def test_where_nothing_helps_that_is_said() -> None:
    assert A.machine is not None
    moving = replace(A, machine=replace(A.machine, phase=type(A.machine.phase).FROZEN))
    assert told(waiting(state(node("n1", 10, moving)), "A"))["wouldHelp"] == [NO_CHANGE_HELPS]
    content = vm("B", 2)
    assert told(state(node("n1", 10, content)), "B")["wouldHelp"] == []


@pytest.mark.rule("vm:B39", "vm:B28")
def test_what_a_machine_asks_for_beyond_its_own_maximum_is_told_with_that() -> None:
    """It was told to have what it asks for, which it has not."""
    assert A.machine is not None
    limited = replace(A, machine=replace(A.machine, limit=units(5)))
    found = told(state(node("n1", 10, limited)))
    assert (found["maximum"]["cpu"], found["requested"]["cpu"], found["shortBy"]["cpu"]) == ("5", "7", "1")
    assert "maximum" not in told(state(node("n1", 10, replace(A, machine=replace(A.machine, limit=units(7))))))


def test_a_machine_is_found_by_its_own_name_and_strangers_are_not() -> None:
    seen = state(node("n1", 10, A))
    assert A.machine is not None
    assert told(seen, A.machine.ref.name)["pod"] == str(A.ref)
    assert explain_pod(seen, "elsewhere", "A", NOW, RULES) is None
    assert explain_node(seen, "n9", NOW, RULES) is None


@pytest.mark.rule("vm:B41")
def test_a_node_is_told_of_with_who_waits_and_what_would_leave_it() -> None:
    seen = waiting(state(node("n1", 10, A, vm("B", 6), watermark=0.8), node("n2", 10)), "A")
    found = explain_node(seen, "n1", NOW, RULES)
    assert found is not None
    assert found["overWatermark"]
    assert [each["target"] for each in found["plan"]["moves"]] == ["n2"]
    assert [each["pod"] for each in found["queue"]] == [str(A.ref)]
    assert len(found["pods"]) == 2
