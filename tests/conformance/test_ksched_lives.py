"""What the language of ksched's supervisor and loss cases allows and none of our files shows; and that it can fail."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.outcome import Outcome
from tests.conformance.runner import run_file

OPEN = {
    "exists": True,
    "deleting": False,
    "has_our_finalizer": True,
    "other_finalizers": [],
    "assigned_to": None,
    "completed_age_s": None,
    "successful": None,
}
ENV = {
    "executors": {"e1": "Healthy"},
    "last_executor_change_age_s": 3600,
    "scheduler_jitter_s": 1,
    "archive_ttl_s": 300,
    "archiver": "ok",
}
TIMING = {
    "lease_duration_s": 15,
    "renew_deadline_s": 10,
    "max_clock_drift": 0.05,
    "assign_latency_s": 1,
    "drain_timeout_s": 30,
    "grace_unhealthy_s": 5,
}
TWO = [{"id": "a", "incarnation": 1, "status": "Healthy"}, {"id": "b", "incarnation": 1, "status": "Healthy"}]
HELD = [{"uid": "o1", "assigned_to": "a", "epoch": 1}]
MOVED = {"object": "o1", "assigned_in": ["b"], "epoch_gt": 1}


def outcome(folder: Path, file: str, case: dict[str, Any]) -> Outcome:
    path = folder / file
    path.write_text(json.dumps({"cases": [{"id": "x", "basis": "required", **case}]}))
    (result,) = run_file(path, "ksched").results
    return result.outcome


def supervised(folder: Path, obj: dict[str, Any], env: dict[str, Any], actions: list[str], requeue: str) -> Outcome:
    case = {"object": {**OPEN, **obj}, "env": {**ENV, **env}, "expect": {"actions": actions, "requeue": requeue}}
    return outcome(folder, "supervisor.json", case)


@pytest.mark.parametrize(
    ("obj", "env", "actions", "requeue"),
    [
        ({}, {"last_executor_change_age_s": 0.5}, [], "later"),
        ({}, {"last_executor_change_age_s": 1}, ["assign:e1"], "none"),
        ({"has_our_finalizer": False}, {}, ["add_finalizer", "assign:e1"], "none"),
        ({"has_our_finalizer": False}, {}, ["assign:e1", "add_finalizer"], "none"),
        ({}, {"executors": {"e1": "Full", "e2": "Healthy", "e3": "Unhealthy"}}, ["assign:e2"], "none"),
        ({}, {"executors": {"e1": "Full"}}, [], "later_or_event"),
        ({}, {"last_executor_change_age_s": None, "observations": "seen every 200 ms"}, ["assign:e1"], "none"),
        ({"assigned_to": "e1"}, {}, [], "later_or_event"),
        ({"assigned_to": "e1"}, {"executors": {"e1": "Unhealthy", "e2": "Healthy"}}, [], "later"),
        ({"assigned_to": "e1"}, {"executors": {"e1": "Removed", "e2": "Healthy"}}, ["reassign:e2"], "none"),
        ({"assigned_to": "gone"}, {"executors": {"e1": "Unhealthy"}}, [], "later"),
        ({"assigned_to": "gone", "has_our_finalizer": False}, {}, ["add_finalizer", "reassign:e1"], "none"),
        ({"completed_age_s": 10, "successful": False}, {}, [], "at_expiry"),
        ({"completed_age_s": 299.5}, {}, [], "at_expiry"),
        ({"completed_age_s": 300}, {}, ["archive", "verify", "remove_finalizer", "delete"], "none"),
        ({"completed_age_s": -5}, {"archive_ttl_s": 0}, [], "at_expiry"),
        ({"completed_age_s": 1e6}, {"archive_ttl_s": None}, [], "none"),
        ({"completed_age_s": 1e6}, {"archiver": "none"}, [], "none"),
        ({"completed_age_s": 100, "successful": True}, {"archive_ttl_s": {"successful": 60, "failed": 500}},
         ["archive", "verify", "remove_finalizer", "delete"], "none"),
        ({"deleting": True, "assigned_to": "gone"}, {}, ["archive", "verify", "remove_finalizer"], "none"),
        ({"deleting": True, "completed_age_s": 1, "assigned_to": "e1"}, {}, ["archive", "verify", "remove_finalizer"],
         "none"),
        ({"deleting": True}, {"archiver": "error"}, ["archive:failed"], "backoff"),
        ({"deleting": True}, {"archiver": "write_ok_read_missing"}, ["archive", "verify:failed"], "backoff"),
        ({"deleting": True, "assigned_to": "e1", "other_finalizers": ["x/y"]}, {},
         ["stop_executor_and_wait_ack", "archive", "verify", "remove_finalizer"], "none"),
    ],
)  # fmt: skip
def test_supervisors(
    tmp_path: Path, obj: dict[str, Any], env: dict[str, Any], actions: list[str], requeue: str
) -> None:
    assert supervised(tmp_path, obj, env, actions, requeue).verdict == "passed"
    assert supervised(tmp_path, obj, env, [*actions, "delete"], requeue).verdict == "failed"
    wrong = "backoff" if requeue != "backoff" else "none"
    assert supervised(tmp_path, obj, env, actions, wrong).verdict == "failed"


@pytest.mark.parametrize(
    ("obj", "env", "requeue", "verdict"),
    [
        ({}, {"archiver": "slow"}, "none", "failed"),
        ({}, {"executors": {"e1": "Sleepy"}}, "none", "failed"),
        ({}, {}, "never", "failed"),
        ({}, {"last_executor_change_age_s": None, "observations": "it changes its colour"}, "none", "skipped"),
    ],
)
def test_words_that_the_supervisors_language_does_not_have(
    tmp_path: Path, obj: dict[str, Any], env: dict[str, Any], requeue: str, verdict: str
) -> None:
    assert supervised(tmp_path, obj, env, ["assign:e1"], requeue).verdict == verdict


def lived(folder: Path, events: list[dict[str, Any]], expect: dict[str, Any], **case: Any) -> Outcome:
    whole = {
        "policy": "reassign",
        "timing": TIMING,
        "executors": TWO,
        "objects": HELD,
        **case,
        "events": events,
        "expect": expect,
    }
    return outcome(folder, "reassign.json", whole)


def on(type_: str, t: float, **said: Any) -> dict[str, Any]:
    return {"t": t, "type": type_, **({"executor": "a"} if "object" not in said else {}), **said}


def by(t: float, **said: Any) -> dict[str, Any]:
    return {"by": [{"t": t, **MOVED, **said}]}


def never_before(t: float) -> dict[str, Any]:
    return {"not_before": [{"t": t, "object": "o1"}]}


DEAD = on("crash", 10)
FAILED = {"completed": {"successful": False, "reason": "ExecutorLost"}}


@pytest.mark.parametrize(
    ("events", "expect", "case"),
    [
        pytest.param([on("last_renew", 10), on("crash", 12)], {**by(27), **never_before(25)}, {}, id="silence"),
        pytest.param([DEAD], {**by(27), **never_before(25)}, {}, id="a crash"),
        pytest.param([on("lease_released", 10)], by(11), {}, id="a release"),
        pytest.param([on("container_terminated", 10)], by(11), {}, id="proof of death"),
        pytest.param(
            [on("pod_deleted", 10, grace_period_s=0, node_ready=False)], {**by(27), **never_before(25)}, {},
            id="deleted by force",
        ),
        pytest.param([on("pod_deleted", 10, grace_period_s=30, node_ready=True)], by(12), {}, id="deleted gracefully"),
        pytest.param(
            [on("pod_deleted", 10, grace_period_s=30, node_ready=True), on("drain_ack", 14, object="o1")],
            {**by(15), **never_before(14)}, {}, id="deleted gracefully, and an ack is told of",
        ),
        pytest.param([on("cordon", 10), on("drain_ack", 15, object="o1")], {**by(16), **never_before(15)}, {},
                     id="ack"),
        pytest.param([on("cordon", 10), on("last_renew", 12)], {**by(29), **never_before(27)}, {}, id="drain, silence"),
        pytest.param(
            [DEAD, on("join", 12, incarnation=2), on("create", 13, object="o2")],
            {"by": [{"t": 27, "object": "o1", "assigned_in": ["a", "b"], "epoch_gt": 1},
                    {"t": 15, "object": "o2", "assigned_in": ["a", "b"]}], **never_before(25)}, {},
            id="the name comes back",
        ),
        pytest.param([on("status", 10, status="Unhealthy"), on("create", 11, object="o2")],
                     {"unchanged": ["o1"], "by": [{"t": 12, "object": "o2", "assigned_in": ["b"]}],
                      "never": ["o2 assigned to a", "o1 reassigned"]}, {}, id="unhealthy, and the lease lives"),
        pytest.param([on("status", 10, status="Full"), on("create", 11, object="o2")],
                     {"unchanged": ["o1"], "by": [{"t": 12, "object": "o2", "assigned_in": ["b"]}]}, {}, id="full"),
        pytest.param([on("complete_write_committed", 5, object="o1"), DEAD],
                     {"unchanged": ["o1"], "at": [{"t": 40, "object": "o1", "completed": True}]}, {}, id="completed"),
        pytest.param([on("lease_released", 10), on("join", 40, executor="c")],
                     {"at": [{"t": 30, "object": "o1", "assigned_in": [None], "condition": "NoExecutors"}],
                      "by": [{"t": 41, "object": "o1", "assigned_in": ["c"], "epoch_gt": 1}]},
                     {"executors": TWO[:1]}, id="nobody, then somebody"),
        pytest.param([DEAD], {"by": [{"t": 27, "object": "o1", **FAILED}]}, {"policy": "fail"}, id="fail"),
        pytest.param([on("supervisor_down", 5), DEAD, on("supervisor_up", 60)], {**by(77), **never_before(75)}, {},
                     id="lost while nobody looked"),
        pytest.param([on("cordon", 10), on("supervisor_failover", 20)], {**by(57), **never_before(55)}, {},
                     id="a fail-over in a drain"),
        pytest.param([on("cordon", 10), on("supervisor_failover", 42)], {**by(59), **never_before(57)}, {},
                     id="a fail-over in a revocation"),
        pytest.param([on("status", 10, status="Removed")], by(12), {}, id="removed"),
        pytest.param([], {**by(17), **never_before(15)}, {"objects": [{"uid": "o1", "assigned_to": "z", "epoch": 1}]},
                     id="held by nobody that is known"),
    ],
)  # fmt: skip
def test_lives(tmp_path: Path, events: list[dict[str, Any]], expect: dict[str, Any], case: dict[str, Any]) -> None:
    found = lived(tmp_path, [*events, on("create", 0, object="other")], expect, **case)
    assert found.verdict == "passed", found


@pytest.mark.parametrize(
    ("events", "expect"),
    [
        ([DEAD], by(20)),
        ([DEAD], never_before(26)),
        ([DEAD], {"unchanged": ["o1"]}),
        ([DEAD], {"never": ["o1 assigned to b"]}),
        ([DEAD], {"never": ["o1 reassigned"]}),
        ([DEAD], by(27, epoch=5)),
        ([DEAD], {"at": [{"t": 20, "object": "o1", "assigned_in": ["b"]}]}),
        ([DEAD], {"at": [{"t": 20, "object": "o1", "condition": "NoExecutors"}]}),
        ([DEAD], {"at": [{"t": 20, "object": "o1", "completed": True}]}),
        ([DEAD], {"at": [{"t": 20, "object": "o1", "happiness": 1}]}),
        ([DEAD], {"soon": []}),
        ([on("earthquake", 1)], {}),
        ([on("crash", 1, executor="nobody")], {}),
        ([on("status", 1, status="Sleepy")], {}),
    ],
)
def test_lives_that_are_not_as_expected(tmp_path: Path, events: list[dict[str, Any]], expect: dict[str, Any]) -> None:
    assert lived(tmp_path, [*events, on("create", 0, object="other")], expect).verdict == "failed"


def test_a_sentence_that_nobody_knows_is_skipped(tmp_path: Path) -> None:
    assert lived(tmp_path, [DEAD], {"never": ["the sky falls"]}).verdict == "skipped"


def test_what_is_proposed_is_counted_apart(tmp_path: Path) -> None:
    found = lived(tmp_path, [DEAD], by(20), basis="proposed")
    assert (found.verdict, found.optional) == ("failed", True)
    assert lived(tmp_path, [DEAD], by(27), basis="rumour").verdict == "failed"


@pytest.mark.finding("R1")
@pytest.mark.parametrize(
    ("events", "expect", "case"),
    [
        pytest.param([on("create", 10, object="o1")],
                     {"by": [{"t": 11, "object": "o1", "assigned_in": ["a", "b"], "note": "seen at once"}],
                      "not_before": [{"t": 10, "object": "o1", "what": "assigned", "why": "it is not there"}]},
                     {"objects": [{"uid": "o1", "assigned_to": None, "epoch": 0}]}, id="an object that is to come"),
        pytest.param([on("supervisor_restart", 5), on("create", 6, object="o2")],
                     {"by": [{"t": 8, "object": "o2", "assigned_in": ["b"]}], "unchanged": ["o1"],
                      "never": ["new object assigned to a", "two executors active on any object"]},
                     {"executors": [{**TWO[0], "status": "Unhealthy"}, TWO[1]]}, id="a restart keeps the statuses"),
        pytest.param([DEAD], {**by(27), "never": ["o1 is reassigned to c", "an object assigned after its completion",
                                                  "the epoch of any object is lowered"]}, {}, id="what never happens"),
        pytest.param([DEAD], by(27), {"timing": {"lease_duration_s": 15}}, id="times left out"),
        pytest.param([on("create", 1, object="job-7")],
                     {"never": ["two executors started for job-7", "job-7 assigned to e.a", "epoch of job-7 decreases"],
                      "by": [{"t": 2, "object": "job-7", "assigned_in": ["b"]}]}, {}, id="names with dashes and dots"),
        pytest.param([on("create", 1, object="o2")], {"by": [{"t": 2, "object": "o2", "assigned_in": ["b"]}]},
                     {"executors": [{**TWO[0], "pod_conditions": [{"type": "Ready", "status": "Unknown"}]}, TWO[1]]},
                     id="conditions in a list"),
    ],
)  # fmt: skip
def test_lives_of_the_readme(
    tmp_path: Path, events: list[dict[str, Any]], expect: dict[str, Any], case: dict[str, Any]
) -> None:
    found = lived(tmp_path, events, expect, **case)
    assert found.verdict == "passed", found


@pytest.mark.finding("R1")
@pytest.mark.parametrize(
    ("expect", "said"),
    [
        ({"never": ["any object reassigned"]}, "never"),
        ({"never": ["new object assigned to b"]}, "never"),
        ({"not_before": [{"t": 12, "object": "o9"}]}, "o9 is not there"),
        ({"not_before": [{"t": 12, "object": "o1", "mood": 1}]}, "mood"),
        ({"by": [{"t": 27, "object": "o1", "completed": {"mood": 1}}]}, "mood"),
    ],
)
def test_lives_that_fail_by_name(tmp_path: Path, expect: dict[str, Any], said: str) -> None:
    found = lived(tmp_path, [DEAD], expect)
    assert (found.verdict, said in found.detail) == ("failed", True), found


@pytest.mark.finding("R1")
@pytest.mark.parametrize(
    ("observations", "actions", "requeue"),
    [
        ("a status report twice 5 per second", ["assign:e1"], "none"),
        ("e1 reported Healthy every second", ["assign:e1"], "none"),
        ("e1 flaps every 200 ms", [], "later"),
    ],
)
def test_observations(tmp_path: Path, observations: str, actions: list[str], requeue: str) -> None:
    env = {"last_executor_change_age_s": None, "observations": observations}
    assert supervised(tmp_path, {}, env, actions, requeue).verdict == "passed"


@pytest.mark.finding("R1")
def test_a_supervisor_case_that_leaves_out_what_is_usual(tmp_path: Path) -> None:
    case: dict[str, Any] = {"object": {"exists": True}, "env": {"executors": {"e1": "Healthy"}}, "expect": {"actions": [
        "add_finalizer", "assign:e1"], "note": "a remark"}}  # fmt: skip
    assert outcome(tmp_path, "supervisor.json", case).verdict == "passed"
    wrong = {**case, "expect": {**case["expect"], "mood": 1}}
    assert "mood" in outcome(tmp_path, "supervisor.json", wrong).detail
