"""What voids an action, and what bars a move, as of the moment before the write (3.7)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from situate.objects.kinds.pods import Pod
from situate.spot.admission.patch_check import apply_operations
from situate.spot.model.actions import Action, Delete, Evict, Reason, Release, SetCost, ShortenTolerations
from situate.spot.model.maintenance_windows import Window, parse_cron, parse_time_zone
from situate.spot.model.misplaced_pods import Workload
from situate.spot.model.pods_nodes_workloads import PodFacts
from situate.spot.model.policy_limits import Limits
from situate.spot.rebalance.preconditions import move_refusal, obsolete_reason, toleration_patch
from tests.spot.builders import NODES, NOW, OD, SPOT, UID, owner, pod, pods

LIMITS = Limits()


def evict(reason: Reason, of: PodFacts) -> Evict:
    return Evict(of.key, of.uid, UID, reason)


def delete(reason: Reason, of: PodFacts) -> Delete:
    return Delete(of.key, of.uid, UID, reason)


def release(reason: Reason, of: PodFacts) -> Release:
    return Release(of.key, of.uid, UID, reason, NOW + 100, {})


PLAIN = pod("a", "spot", SPOT, cost=100, evicting=(("node.kubernetes.io/not-ready", 300),))
KEYS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


@pytest.mark.rule("spot:F3", "spot:F6", "spot:P30", "spot:B17", "spot:B20")
@pytest.mark.parametrize(
    ("action", "now", "stands"),
    [
        pytest.param(evict(Reason.TO_SPOT, PLAIN), {}, True, id="as it was"),
        pytest.param(evict(Reason.TO_SPOT, PLAIN), {"uid": "other"}, False, id="another pod of the name"),
        pytest.param(evict(Reason.TO_SPOT, PLAIN), {"terminating": True}, False, id="ends already"),
        pytest.param(evict(Reason.TO_SPOT, PLAIN), {"phase": "Failed"}, False, id="has failed"),
        pytest.param(evict(Reason.TO_SPOT, PLAIN), {"released": True}, False, id="was released meanwhile"),
        pytest.param(evict(Reason.EVACUATE, PLAIN), {"node": "doomed"}, True, id="its node ends"),
        pytest.param(evict(Reason.EVACUATE, PLAIN), {}, False, id="its node does not end any more"),
        pytest.param(evict(Reason.EVACUATE, PLAIN), {"node": "unheard"}, False, id="a node that nobody knows"),
        pytest.param(delete(Reason.DEAD_NODE, PLAIN), {"node": "dead"}, True, id="dead"),
        pytest.param(delete(Reason.DEAD_NODE, PLAIN), {}, False, id="the silent node is back"),
        pytest.param(delete(Reason.SURGE, PLAIN), {"node": ""}, True, id="still waits"),
        pytest.param(delete(Reason.SURGE, PLAIN), {}, False, id="has found a node"),
        pytest.param(delete(Reason.DEGRADE, PLAIN), {}, False, id="has found a node before it degrades"),
        pytest.param(delete(Reason.REPLACED, PLAIN), {"released": True}, True, id="released"),
        pytest.param(delete(Reason.REPLACED, PLAIN), {}, False, id="adopted again"),
        pytest.param(delete(Reason.ORPHANED, PLAIN), {}, False, id="adopted by another"),
        pytest.param(release(Reason.EVACUATE, PLAIN), {"node": "doomed"}, True, id="released in a wave"),
        pytest.param(release(Reason.EVACUATE, PLAIN), {"node": "doomed", "released": True}, False, id="twice"),
        pytest.param(release(Reason.AT_RISK, PLAIN), {}, True, id="at risk"),
        pytest.param(SetCost(PLAIN.key, PLAIN.uid, UID, 50), {}, True, id="another cost"),
        pytest.param(SetCost(PLAIN.key, PLAIN.uid, UID, 100), {}, False, id="that cost"),
        pytest.param(ShortenTolerations(PLAIN.key, PLAIN.uid, UID, KEYS, 20), {}, True, id="long tolerations"),
        pytest.param(
            ShortenTolerations(PLAIN.key, PLAIN.uid, UID, KEYS, 20),
            {"evicting": (("node.kubernetes.io/not-ready", 20),)},
            False,
            id="short tolerations",
        ),
    ],
)
def test_an_action_stands_while_its_pod_is_what_it_was(action: Action, now: dict[str, Any], stands: bool) -> None:
    assert (obsolete_reason(action, replace(PLAIN, **now), NODES) == "") == stands


def whole(spec: str, target: int, **more: Any) -> Workload:
    made = pods(spec)
    return Workload(owner(len(made), **more), target, made)


def without_node(workload: Workload) -> Workload:
    first, *others = workload.pods
    waits = replace(first, node="", ready=False, ready_since=None, phase="Pending")
    return replace(workload, pods=(waits, *others))


@pytest.mark.rule("spot:I4", "spot:I5", "spot:B11", "spot:B23", "spot:P28")
def test_a_policy_move_needs_a_workload_that_is_whole_and_still_lacks_it() -> None:
    workload = whole("od:1 spot:3", 2)
    move = evict(Reason.TO_ON_DEMAND, workload.pods[-1])

    def why(of: Workload, of_move: Evict = move, **more: Any) -> str:
        return move_refusal(of_move, of, NODES, NOW, LIMITS, **more)

    assert why(workload) == ""
    assert why(without_node(workload)) == "Pending"
    assert why(replace(workload, pods=workload.pods[1:])) == "NotReady"
    ending = (*workload.pods, pod("old", "spot", SPOT, terminating=True))
    assert why(replace(workload, pods=ending)) == "InFlight"
    assert why(replace(workload, owner=owner(4, rolling=True))) == "Rollout"
    assert why(replace(workload, owner=owner(4, rolling=True)), overdue=True) == ""
    assert why(replace(workload, owner=owner(4, observed=False))) == "Stale"
    assert why(workload, wave=True) == "Wave"
    assert why(workload, disruptions_allowed=0) == "PDB"
    fresh = (*workload.pods[:-1], replace(workload.pods[-1], ready_since=NOW - 30))
    assert why(replace(workload, pods=fresh)) == "CoolDown"
    assert "no longer requires" in why(replace(workload, target=1))
    assert "no longer requires" in why(replace(workload, target=3), evict(Reason.TO_SPOT, workload.pods[-1])), (
        "the other way"
    )
    assert "no longer requires" in why(workload, leaders={workload.pods[-1].uid})
    assert "no longer requires" in why(workload, evict(Reason.TO_ON_DEMAND, workload.pods[0]))


@pytest.mark.rule("spot:B13")
def test_a_policy_move_that_was_held_up_does_not_leave_after_its_window() -> None:
    workload = whole("od:1 spot:3", 2)
    closed = replace(LIMITS, windows=(Window(parse_cron("0 0 1 1 *"), 60, parse_time_zone("UTC")),))
    move = evict(Reason.TO_ON_DEMAND, workload.pods[-1])
    assert move_refusal(move, workload, NODES, NOW, closed) == "Window"
    assert move_refusal(evict(Reason.EVACUATE, workload.pods[-1]), workload, NODES, NOW, closed) == ""


@pytest.mark.rule("spot:B19", "spot:B20")
def test_what_ends_anyway_is_not_barred_and_who_makes_room_leaves_beside_one_that_waits() -> None:
    lacking = without_node(whole("od:2 spot:2", 2))
    limits = LIMITS
    assert move_refusal(delete(Reason.EVACUATE, lacking.pods[1]), lacking, NODES, NOW, limits, wave=True) == ""
    assert move_refusal(evict(Reason.MAKE_ROOM, lacking.pods[1]), lacking, NODES, NOW, limits) == ""
    unready = replace(lacking, pods=(replace(lacking.pods[1], ready=False, ready_since=None), *lacking.pods[1:]))
    assert move_refusal(evict(Reason.MAKE_ROOM, lacking.pods[1]), unready, NODES, NOW, limits) != ""


@pytest.mark.rule("spot:B25")
def test_only_the_seconds_of_default_tolerations_change() -> None:
    tolerations = [
        {"key": KEYS[0], "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        {"key": "mine", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
        {"key": KEYS[1], "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60},
    ]
    content = {"metadata": {"name": "a", "uid": "u"}, "spec": {"tolerations": tolerations}}
    found = toleration_patch(msgspec.convert(content, Pod), ShortenTolerations(PLAIN.key, "u", UID, KEYS, 20))
    after = apply_operations(content, found)["spec"]["tolerations"]
    assert after == [{**tolerations[0], "tolerationSeconds": 20}, *tolerations[1:]]


def test_on_demand_pods_count_as_what_they_are() -> None:
    workload = whole("od:2 spot:1", 1)
    assert move_refusal(evict(Reason.TO_SPOT, workload.pods[1]), workload, NODES, NOW, LIMITS) == ""
    assert workload.pods[1].pod_class is OD
