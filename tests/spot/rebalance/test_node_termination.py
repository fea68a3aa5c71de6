"""What becomes of pods on nodes that end (B20 to B25, B45, P30)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from situate.objects.selection.label_selectors import parse_selector
from situate.spot.model.actions import Delete, Evict, Reason, Release, ShortenTolerations
from situate.spot.model.misplaced_pods import Workload
from situate.spot.model.pods_nodes_workloads import NodeFacts, NodeState, PodFacts
from situate.spot.model.policy_limits import Limits
from situate.spot.rebalance.node_termination import (
    Guard,
    MoveConstraints,
    evacuations,
    has_leaving_pods,
    is_wave_in_progress,
    nodes_to_avoid,
    orphan_deletions,
    release_refusal,
    released_pod_deletions,
    seconds_until_next_end,
    toleration_changes,
)
from tests.spot.builders import NODES, NOW, OD, SPOT, UID, owner, pod

SHOP = "shop"
AROUND = MoveConstraints()


def leave(
    given: list[PodFacts], now: float = NOW, around: MoveConstraints = AROUND, room: bool = True, **more: Any
) -> Any:
    kind = more.pop("kind", "Deployment")
    limits = more.pop("limits", Limits())
    of = owner(len(given), kind, **more)
    return evacuations(Workload(of, 0, given), NODES, now, around, limits, lambda _: room)


@pytest.mark.rule("spot:B20", "spot:S5", "spot:D15", "spot:P30")
def test_a_serving_pod_leaves_its_replicaset_and_serves_on() -> None:
    (move,) = leave([pod("a", "doomed", SPOT, token="t", started=NOW - 100)])
    assert move == Release(
        pod("a").key, "uid-a", UID, Reason.EVACUATE, NOW + 120,
        {"metadata": {"uid": "uid-a", "labels": {"pod-template-hash": "released-r1"},
                      "annotations": {"spot.situate.dev/deadline": "1970-01-12T13:48:40Z"}},
         "spec": {"activeDeadlineSeconds": 100 + 120 + 30}},
    )  # fmt: skip
    (unmarked,) = leave([pod("a", "doomed", SPOT)])
    assert unmarked.patch["metadata"]["annotations"]["spot.situate.dev/decision"] == (
        f'{{"owner":"{UID}","why":"released"}}'
    ), "whose it was has to be found again"


@pytest.mark.rule("spot:B20")
@pytest.mark.parametrize(
    ("change", "around", "why"),
    [
        pytest.param({"ready": False}, AROUND, "the pod is not ready", id="not ready"),
        pytest.param({"owners": 2}, AROUND, "the pod has other owners", id="other owners"),
        pytest.param({}, MoveConstraints(full_quotas=frozenset({SHOP})), "the quota of namespace shop is full",
                     id="quota"),
        pytest.param({}, MoveConstraints((Guard("Service", SHOP, "s", parse_selector("pod-template-hash=r1")),)),
                     "Service shop/s selects the pod", id="a Service by that label"),
        pytest.param({}, MoveConstraints((Guard("Service", SHOP, "s", parse_selector("app=web")),)), "",
                     id="a Service"),
        pytest.param({}, MoveConstraints((Guard("PodDisruptionBudget", SHOP, "b", parse_selector("app=web"), 1),)),
                     "PodDisruptionBudget shop/b selects the pod", id="a budget"),
        pytest.param({}, MoveConstraints((Guard("NetworkPolicy", "other", "n", parse_selector("pod-template-hash")),)),
                     "", id="of another namespace"),
    ],
)  # fmt: skip
def test_who_cannot_be_released(change: dict[str, Any], around: MoveConstraints, why: str) -> None:
    found = pod("a", "doomed", SPOT, **change)
    assert release_refusal(owner(3), found, NOW + 120, NOW, around, Limits()) == why
    (move,) = leave([found], around=around)
    assert isinstance(move, Evict if why else Release)


@pytest.mark.rule("spot:B20")
def test_without_time_for_a_replacement_it_is_evicted_at_once() -> None:
    found = pod("a", "doomed", SPOT, grace_s=5.0)
    assert isinstance(leave([found], now=NOW + 95)[0], Release)
    assert isinstance(leave([found], now=NOW + 96)[0], Evict)
    assert "disabled" in release_refusal(owner(3), found, None, NOW, AROUND, Limits(make_before_break=False))
    assert isinstance(leave([found], releasable=False)[0], Evict)


@pytest.mark.rule("spot:P30", "spot:B20", "spot:S7")
def test_in_the_end_it_is_deleted_in_time_for_its_grace() -> None:
    found = pod("a", "doomed", SPOT, grace_s=30.0)
    assert isinstance(leave([found], now=NOW + 84)[0], Release)
    assert leave([found], now=NOW + 85) == [Delete(found.key, "uid-a", UID, Reason.EVACUATE)]
    fresh = pod("b", "doomed", SPOT, ready=False, started=NOW + 80)
    assert leave([fresh], now=NOW + 85) == [], "it has only just come, and gains nothing by going"


@pytest.mark.rule("spot:P30", "spot:B21", "spot:F8", "spot:I15")
def test_pods_on_dead_nodes_are_deleted_at_once() -> None:
    for kind in ("Deployment", "StatefulSet"):
        (move,) = leave([pod("web-0", "dead", SPOT, ready=False)], kind=kind, room=False)
        assert (type(move), move.reason) == (Delete, Reason.DEAD_NODE)


@pytest.mark.rule("spot:B21", "spot:B45")
def test_a_statefulset_leaves_with_its_highest_ordinals_first_and_its_leader_last() -> None:
    given = [pod(f"web-{n}", "doomed", SPOT) for n in range(3)]
    assert [move.pod.name for move in leave(given, kind="StatefulSet")] == ["web-2", "web-1", "web-0"]
    led = MoveConstraints(leaders=frozenset({"uid-web-2"}))
    assert [move.pod.name for move in leave(given, around=led, kind="StatefulSet")] == ["web-1", "web-0"]
    assert [move.pod.name for move in leave(given[2:], around=led, kind="StatefulSet")] == ["web-2"]
    assert leave(given, kind="StatefulSet", room=False) == [], "nowhere to go: it serves while it can"


@pytest.mark.rule("spot:B20", "spot:F9", "spot:F11")
def test_without_room_pods_are_released_once_and_their_replacements_left_alone() -> None:
    doomed = [pod("a", "doomed", SPOT), pod("b", "doomed", SPOT)]
    assert [type(move) for move in leave(doomed, room=False)] == [Release, Release]
    under_way = [
        pod("a", "doomed", SPOT, released=True),
        pod("c", "doomed", SPOT),
        pod("d", "doomed", SPOT, ready=False),
    ]
    assert leave(under_way, room=False) == []
    assert len(leave(under_way, room=True)) == 2


def ending(*given: PodFacts, replicas: int = 2, now: float = NOW) -> list[str]:
    return [move.pod.name for move in released_pod_deletions(Workload(owner(replicas), 0, given), NODES, now)]


@pytest.mark.rule("spot:B20", "spot:I5")
def test_a_released_pod_goes_when_its_replacement_serves_or_its_time_is_up() -> None:
    old = pod("old", "doomed", SPOT, released=True, deadline=NOW + 100)
    starting, serving, other = pod("new", "od", OD, ready=False), pod("new", "od", OD), pod("x", "od", OD)
    assert ending(old, other, starting) == []
    assert ending(old, other, serving) == ["old"]
    assert ending(old, other, pod("new", "doomed", SPOT)) == [], "on an ending node it replaces nobody"
    assert ending(old, other, starting, now=NOW + 66) == ["old"], "deadline - grace - 5 s"
    assert ending(replace(old, ready=False), other, starting) == ["old"]
    older = pod("older", "doomed", SPOT, released=True, deadline=NOW + 50)
    assert ending(old, older, serving) == ["older"], "one replacement, one goes, and that which ends first"


@pytest.mark.rule("spot:B20", "spot:P30")
def test_when_the_time_of_the_next_pod_is_up() -> None:
    def ahead(*given: PodFacts, now: float = NOW) -> float | None:
        return seconds_until_next_end(Workload(owner(2), 0, given), NODES, now)

    released = pod("a", "spot", SPOT, released=True, deadline=NOW + 100, grace_s=30.0)
    doomed = pod("b", "doomed", SPOT, grace_s=10.0)
    assert ahead(released, doomed) == 65.0
    assert ahead(released, doomed, now=NOW + 65) == 40.0, "the first has to go now"
    assert ahead(released, doomed, now=NOW + 64.9995) == pytest.approx(40.0005), "woken too soon, not once more"
    assert ahead(released, doomed, now=NOW + 105) is None
    assert ahead(replace(released, terminating=True), replace(doomed, phase="Failed")) is None
    assert ahead(pod("c", "spot"), pod("d", "spot", released=True)) is None, "nobody knows when"


@pytest.mark.rule("spot:B20", "spot:B9")
def test_released_pods_whose_workload_is_gone_are_deleted() -> None:
    left = pod("a", "od", released=True)
    assert orphan_deletions({"gone": (left, pod("b", "od")), UID: (left,)}, {UID}) == [
        Delete(left.key, "uid-a", "gone", Reason.ORPHANED)
    ]


@pytest.mark.rule("spot:B23")
def test_when_a_wave_is_on() -> None:
    def wave(*given: PodFacts) -> tuple[bool, bool]:
        found = Workload(owner(1), 0, given)
        return is_wave_in_progress(
            [found], {**NODES, "drained": NodeFacts("drained", OD, NodeState.DOOMED)}
        ), has_leaving_pods(found, NODES)

    assert wave(pod("a", "spot")) == (False, False)
    assert wave(pod("a", "doomed")) == (True, True)
    assert wave(pod("a", "doomed", terminating=True)) == (False, False)
    assert wave(pod("a", "spot", released=True)) == (True, True)
    assert wave(pod("a", "drained"))[0] is False, "a drain without an end concerns its own pods alone"


@pytest.mark.rule("spot:B22")
def test_nodes_that_new_pods_should_not_choose() -> None:
    nodes = [
        NodeFacts("fine", SPOT),
        NodeFacts("risky", SPOT, NodeState.AT_RISK),
        NodeFacts("ends", SPOT, NodeState.DOOMED),
        NodeFacts("tainted", SPOT, NodeState.DOOMED, tainted=True),
        NodeFacts("dead", SPOT, NodeState.DEAD),
        *(NodeFacts(f"r{n:02}", SPOT, NodeState.AT_RISK) for n in range(40)),
    ]
    found = nodes_to_avoid(nodes)
    assert len(found) == 20
    assert "ends" in found
    assert not {"fine", "tainted", "dead"} & set(found)


@pytest.mark.rule("spot:B25")
def test_running_spot_pods_get_shorter_tolerations() -> None:
    key, other = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
    given = [
        pod("a", "spot", SPOT, evicting=((key, 300), (other, 300))),
        pod("b", "spot", SPOT, evicting=((key, 20), (other, 60))),
        pod("c", "od", OD, evicting=((key, 300),)),
    ]
    found = Workload(owner(3, tolerated=frozenset({other})), 1, given)
    assert toleration_changes(found, 20) == [ShortenTolerations(given[0].key, "uid-a", UID, (key,), 20)]
    assert toleration_changes(found, None) == []
    assert toleration_changes(Workload(owner(3, tolerated=frozenset({""})), 1, given), 20) == []


@pytest.mark.rule("spot:S6", "spot:P30")
def test_the_least_that_budgets_allow() -> None:
    budgets = tuple(
        Guard("PodDisruptionBudget", SHOP, f"b{n}", parse_selector(text), allowed)
        for n, (text, allowed) in enumerate((("app=web", 2), ("app=db", 1), ("app=api", 0)))
    )
    around = MoveConstraints(budgets)
    assert around.disruptions_allowed([pod("a"), pod("b", labels={"app": "db"})]) == 1
    assert around.disruptions_allowed([pod("a", labels={"app": "none"})]) is None
    assert MoveConstraints().disruptions_allowed([pod("a")]) is None
    twice = Guard("PodDisruptionBudget", SHOP, "b9", parse_selector("app"), 5)
    assert MoveConstraints((*budgets, twice)).disruptions_allowed([pod("a")]) == 0, "the server refuses such a pod"
    elsewhere = Guard("PodDisruptionBudget", "other", "b9", parse_selector("app"), 5)
    assert MoveConstraints((*budgets, elsewhere)).disruptions_allowed([pod("a")]) == 2
