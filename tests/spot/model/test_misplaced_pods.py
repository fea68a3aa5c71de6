"""Who stands wrong, in which order, and why not now (3.7, P28, P29)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from situate.spot.model.misplaced_pods import BlockReason, Workload, blocking_reason, find_misplaced_pods
from tests.spot.builders import NODES, NOW, OD, SPOT, owner, pod, pods, workload


def names(found: Workload) -> list[str]:
    return [each.key.name for each in find_misplaced_pods(found, NODES).victims]


@pytest.mark.rule("spot:S22", "spot:S34", "spot:P28", "spot:B10", "spot:B11", "spot:I13")
@pytest.mark.parametrize(
    ("target", "spec", "need", "total"),
    [
        (2, "od:2 spot:3", 0, 0),
        (3, "od:2 spot:3", 1, 1),
        (1, "od:2 spot:3", -1, 1),
        (2, "bare:5", 2, 2),
        (2, "od:1 bare:4", 1, 1),
        (0, "od:5", -5, 5),
    ],
)
def test_exactly_the_difference_is_moved(target: int, spec: str, need: int, total: int) -> None:
    found = find_misplaced_pods(workload(target, spec), NODES)
    assert (found.need, found.total, len(found.victims)) == (need, total, total)


@pytest.mark.rule("spot:P13", "spot:I14", "spot:D17")
def test_the_order_towards_on_demand() -> None:
    given = [
        pod("young", "spot", SPOT, created=NOW - 10),
        pod("old", "spot", SPOT),
        pod("risky", "risky", SPOT),
        pod("unready", "spot", SPOT, ready=False),
        pod("doomed", "doomed", SPOT),
        pod("kept", "cordoned", SPOT),
        pod("right", "od", OD),
    ]
    assert names(Workload(owner(7), 7, given)) == ["doomed", "unready", "risky", "young", "old"]


@pytest.mark.rule("spot:S34", "spot:B26", "spot:D14")
def test_the_order_towards_spot() -> None:
    given = [
        pod("meant", "od", OD),
        pod("overflowed", "od", SPOT),
        pod("nobody's", "od"),
        pod("young", "od", SPOT, created=NOW - 10),
    ]
    assert names(Workload(owner(4), 0, given)) == ["young", "overflowed", "nobody's", "meant"]


@pytest.mark.rule("spot:B15", "spot:B16", "spot:I13")
@pytest.mark.parametrize(
    ("old", "new", "target", "want"),
    [
        pytest.param("od:2 spot:3", "od:2 spot:3", 2, [], id="each revision has what it is to have"),
        pytest.param("od:3 spot:2", "od:2 spot:3", 2, ["old"] * 3, id="of the one that has more"),
        pytest.param("od:3", "od:2 spot:3", 1, ["new"] * 2 + ["old"] * 3, id="both have"),
    ],
)
def test_what_would_come_back_as_it_was_stays_in_a_rollout_that_stands_still(
    old: str, new: str, target: int, want: list[str]
) -> None:
    given = [
        replace(each, key=each.key._replace(name=f"{revision}-{each.key.name}"), revision=revision)
        for revision, spec in (("old", old), ("new", new))
        for each in pods(spec)
    ]
    of = Workload(owner(len(given), rolling=True, paused=True), target, given)
    candidates = find_misplaced_pods(of, NODES).candidates
    assert sorted(each.revision for each in candidates) == want


@pytest.mark.rule("spot:P15", "spot:B12")
def test_pods_that_are_still_to_come_are_classed_by_admission() -> None:
    assert find_misplaced_pods(workload(3, "od:2 spot:2", replicas=5), NODES).need == 0
    assert find_misplaced_pods(workload(5, "od:2 spot:2", replicas=5), NODES).need == 2


@pytest.mark.rule("spot:P16", "spot:B40", "spot:S29")
def test_statefulsets_move_ordinals_that_would_come_back_right() -> None:
    def db(target: int, *places: str) -> Workload:
        given = [pod(f"db-{number}", place) for number, place in enumerate(places)]
        return Workload(owner(len(given), "StatefulSet", name="db"), target, given)

    assert names(db(3, "spot", "od", "od", "spot", "spot")) == ["db-0"]
    assert names(db(2, "spot", "od", "od")) == [], "out of line, and the floor holds"
    assert names(db(1, "od", "od", "od")) == ["db-1", "db-2"]
    assert find_misplaced_pods(db(1, "od", "od", "od"), NODES).need == -2
    growing = Workload(owner(5, "StatefulSet", name="db"), 3, db(2, "od", "od", "spot").pods)
    assert (names(growing), find_misplaced_pods(growing, NODES).need) == (["db-2"], 1), "new ordinals come as spot"


@pytest.mark.rule("spot:B8", "spot:P25", "spot:B45")
def test_pinned_pods_and_leaders_are_not_moved() -> None:
    assert find_misplaced_pods(workload(0, "od:3", pinned=OD), NODES).total == 0
    assert find_misplaced_pods(workload(2, "spot:3", pinned=SPOT), NODES) == find_misplaced_pods(
        workload(2, "spot:3", pinned=SPOT), NODES
    )
    assert find_misplaced_pods(workload(2, "spot:3", pinned=SPOT), NODES).candidates == ()
    led = workload(3, "spot:3")
    assert [each.uid for each in find_misplaced_pods(led, NODES, {"uid-spot-1"}).candidates] == [
        "uid-spot-0",
        "uid-spot-2",
    ]


@pytest.mark.rule("spot:I4", "spot:S34", "spot:S6", "spot:P30", "spot:B23", "spot:F16")
@pytest.mark.parametrize(
    ("changes", "arguments", "want"),
    [
        pytest.param({}, {}, None, id="open"),
        pytest.param({"observed": False}, {}, BlockReason.STALE, id="not seen by its controller"),
        pytest.param({"rolling": True}, {}, BlockReason.ROLLOUT, id="a rollout"),
        pytest.param({"rolling": True, "paused": True}, {}, None, id="a paused rollout is none"),
        pytest.param({}, {"wave": True}, BlockReason.WAVE, id="a wave"),
        pytest.param({"replicas": 3}, {}, BlockReason.IN_FLIGHT, id="a scale-down is awaited"),
        pytest.param({"rolling": True}, {"overdue": True}, None, id="a rollout that was awaited for long enough"),
        pytest.param({"replicas": 3}, {"overdue": True}, None, id="a scale-down that was awaited for long enough"),
        pytest.param({"replicas": 5}, {"overdue": True}, BlockReason.NOT_READY, id="a pod is missing, however long"),
        pytest.param({"replicas": 5}, {}, BlockReason.NOT_READY, id="a pod is missing"),
        pytest.param({}, {"disruptions_allowed": 0}, BlockReason.PDB, id="a budget refuses"),
        pytest.param({}, {"disruptions_allowed": 1}, None, id="a budget allows"),
        pytest.param({"min_ready_s": 5000.0}, {}, BlockReason.COOL_DOWN, id="minReadySeconds"),
    ],
)
def test_the_gate(changes: dict[str, Any], arguments: dict[str, Any], want: BlockReason | None) -> None:
    of = replace(owner(4), **changes)
    assert blocking_reason(Workload(of, 2, pods("od:2 spot:2")), NOW, **arguments) is want


@pytest.mark.rule("spot:I4", "spot:B13", "spot:B11")
@pytest.mark.parametrize(
    ("last", "want"),
    [
        pytest.param(pod("x", "spot", SPOT, terminating=True), BlockReason.IN_FLIGHT, id="on its way out"),
        pytest.param(pod("x", "spot", SPOT, released=True), BlockReason.IN_FLIGHT, id="released and serving"),
        pytest.param(pod("x", "", OD), BlockReason.PENDING, id="without a node"),
        pytest.param(pod("x", "spot", SPOT, ready=False), BlockReason.NOT_READY, id="not ready"),
        pytest.param(
            pod("x", "spot", SPOT, ready_since=NOW - 59), BlockReason.COOL_DOWN, id="ready for less than a minute"
        ),
        pytest.param(pod("x", "spot", SPOT, ready_since=NOW - 60), None, id="ready for a minute"),
    ],
)
def test_nothing_is_moved_while_a_pod_is_on_its_way(last: Any, want: BlockReason | None) -> None:
    assert blocking_reason(Workload(owner(3), 2, [*pods("od:2"), last]), NOW) is want
    late = blocking_reason(Workload(owner(3, rolling=True), 2, [*pods("od:2"), last]), NOW, overdue=True)
    assert late is want, "neither in a rollout that was awaited for long enough (I4)"


@pytest.mark.rule("spot:I4")
def test_pods_that_have_ended_disturb_nobody() -> None:
    assert blocking_reason(Workload(owner(2), 2, [*pods("od:2"), pod("x", "od", phase="Succeeded")]), NOW) is None
