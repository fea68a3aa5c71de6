"""The language of archive.json: what its README names and no case of ours has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.runner import run_file

GONE = {"object_in_api": False, "archive_records_for_uid": 1}
ENDING = ["archive ok", "verify ok", "remove finalizer ok", "delete ok"]


def verdict(folder: Path, document: Any) -> tuple[str, str]:
    path = folder / "archive.json"
    path.write_text(json.dumps(document))
    (result,) = run_file(path, "ksched").results
    return result.outcome.verdict, result.outcome.detail


def sequence(*steps: str, **final: Any) -> dict[str, Any]:
    return {"failure_sequences": [{"id": "x", "basis": "required", "steps": list(steps), "final": final}]}


@pytest.mark.rule("sharding:X9", "sharding:X10")
@pytest.mark.parametrize(
    ("steps", "final"),
    [
        pytest.param(["archive ok", "verify: not found"],
                     {"object_in_api": True, "finalizer": "kept", "condition": "ArchiveFailed", "requeue": "backoff"},
                     id="the copy is not there"),
        pytest.param(["archive ok", "verify: not found", "(backoff)", *ENDING], GONE, id="and is put again"),
        pytest.param(["archive ok", "verify: digest differs"],
                     {"object_in_api": True, "finalizer": True, "alert": True, "requeue": "backoff"}, id="another"),
        pytest.param(["archive ok", "verify: digest differs", "(retry)", *ENDING], {**GONE, "alert": True},
                     id="it is replaced"),
        pytest.param(["archive: too large"],
                     {"object_in_api": True, "archive_records_for_uid": 0, "condition": "ArchiveFailed",
                      "event": "Warning ArchiveFailed", "requeue": "backoff, capped at 1 h"}, id="too large"),
        pytest.param(["archive ok", "verify ok", "remove finalizer conflict", "(retry)", *ENDING],
                     {**GONE, "archived_resource_version": 12}, id="a conflict means the newer version"),
        pytest.param(["archive ok", "verify ok", "remove finalizer conflict", "remove finalizer ok"], GONE,
                     id="what lies between goes without saying"),
        pytest.param(["archive ok", "verify ok", "remove finalizer ok, response lost", "(retry)", "delete ok"], GONE,
                     id="released, nobody knows"),
        pytest.param(["archive ok", "verify ok", "remove finalizer ok", "CRASH", "(new supervisor)", "delete ok"], GONE,
                     id="only deleted after a crash"),
        pytest.param([*ENDING[:3], "delete ok, response lost"], GONE, id="deleted, nobody knows"),
        pytest.param(["ENOSPC", "(backoff)", *ENDING], {**GONE, "partial_files_visible": 0}, id="disk full"),
        pytest.param(["ENOSPC"], {"object_in_api": True, "partial_files_visible": 0, "requeue": "backoff"},
                     id="the disk stays full"),
        pytest.param(["upload started, process killed", "(new supervisor)", *ENDING],
                     {**GONE, "visible_partial_objects": 0}, id="an abandoned upload"),
        pytest.param(["s1 archive ok", "s1 verify ok", "s1 paused", "s2 becomes leader", "s2 archive ok",
                      "s2 verify ok", "s1 resumes", "s2 remove finalizer ok", "s2 delete ok"],
                     {**GONE, "s1_writes_rejected": 1}, id="an old leader wakes up"),
        pytest.param(["s1 archive ok", "s1 verify ok", "s1 paused", "(s2 takes over)", *(f"s2 {e}" for e in ENDING),
                      "s1 resumes: remove finalizer"], {**GONE, "s1_writes_rejected": True}, id="too late"),
        pytest.param(["user deletes the object", "archive ok", "verify ok", "remove finalizer ok"], GONE,
                     id="a user's delete"),
        pytest.param(["archive ok", "user labels the object", "verify ok", "remove finalizer conflict", *ENDING],
                     {**GONE, "archived_resource_version": 12}, id="changed meanwhile"),
        pytest.param(["foreign finalizer present", *ENDING],
                     {"object_in_api": True, "finalizer": "removed", "archive_records_for_uid": 1},
                     id="others hold it"),
        pytest.param(["uid=U7 archived and deleted"], {"object_in_api": False, "archive_records_for_uid": {"U7": 1},
                                                      "get_by_name": "U7", "get_by_uid": ["U7"]}, id="another UID"),
        pytest.param(["archive error x 5 over 10 min", "backend back"], GONE, id="an outage of ten minutes"),
        pytest.param(["backend down 5min", "backend back", *ENDING],
                     {**GONE, "scheduling_of_other_objects_blocked_s_max": 1}, id="an outage in one phrase"),
        pytest.param(["archive error (object too large)", "(backoff)"],
                     {"object_in_api": True, "finalizer": "kept", "condition": "ArchiveFailed", "event": True},
                     id="too large, with a remark"),
        pytest.param(["archive ok", "record edited by hand", "verify: digest mismatch", "(backoff)", *ENDING],
                     {**GONE, "alert": True}, id="edited by hand before it is read back"),
        pytest.param(["archive ok", "archived copy deleted", "verify: not found", "(retry)", *ENDING], GONE,
                     id="deleted by hand before it is read back"),
        pytest.param(["s1 archive ok, verify ok", "s1 paused", "(s2 elected)", "s1 resumes: remove finalizer rejected"],
                     {"object_in_api": False, "s1_writes_rejected": 1}, id="several calls in one phrase"),
        pytest.param(["s1 archive ok", "s1 verify ok", "s1 paused", "s2 elected", "user edits the object",
                      "s1 remove finalizer conflict (stale)", *(f"s2 {e}" for e in ENDING)],
                     {**GONE, "archived_resource_version": 12, "s1_writes_rejected": 1}, id="a conflict of itself"),
        pytest.param(["uid=U1 archive ok", "verify ok", "remove finalizer ok", "U1 deleted by user",
                      "U2 created with the same name", "delete issued for U1 with uid precondition"],
                     {"object_in_api": "U2", "archive_records_for_uid": {"U1": 1, "U2": 0}}, id="in two phrases"),
        pytest.param(["multipart upload started, CRASH", "(restart)", *ENDING], {**GONE, "visible_partial_objects": 0},
                     id="an upload in parts"),
        pytest.param(["archive ok", "user removes our finalizer", "(re-read)", "verify ok", "remove finalizer ok"],
                     {**GONE}, id="a finalizer that a user takes"),
    ],
)  # fmt: skip
def test_sequences_that_the_language_has_and_no_case_of_ours(
    tmp_path: Path, steps: list[str], final: dict[str, Any]
) -> None:
    assert verdict(tmp_path, sequence(*steps, **final)) == ("passed", "")


@pytest.mark.parametrize(
    ("document", "expected", "said"),
    [
        pytest.param(sequence("sing a song"), "skipped", "unknown phrase: sing a song", id="a phrase"),
        pytest.param(sequence("archive quickly"), "skipped", "unknown phrase: archive quickly", id="an outcome"),
        pytest.param(sequence(*ENDING, happiness=1), "failed", "unknown operation: final 'happiness'", id="final"),
        pytest.param(sequence(*ENDING, object_in_api=True), "failed", "memory: object_in_api: expected True, got False",
                     id="a wrong expectation"),
        pytest.param(sequence(*ENDING, archive_records_for_uid=2), "failed", "expected 2, got 1", id="a wrong count"),
        pytest.param(sequence(*ENDING, "remove finalizer ok"), "failed", "never calls remove_finalizer", id="no call"),
        pytest.param({"get": [{"id": "x", "basis": "code", "live": ["a"], "expect": []}]}, "failed",
                     "unknown operation: object 'a'", id="an object"),
        pytest.param({"query": {"objects": [], "cases": [{"id": "x", "basis": "code", "query": {"colour": 1}}]}},
                     "failed", "unknown operation: query with colour", id="a condition"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_not_passed(tmp_path: Path, document: Any, expected: str, said: str) -> None:
    found, detail = verdict(tmp_path, document)
    assert (found, said in detail) == (expected, True), detail


@pytest.mark.parametrize(
    ("case", "expect"),
    [
        pytest.param({"live": "ns1/a uid=1", "archived": "ns1/a uid=1"}, "uid=1 (live)", id="live wins"),
        pytest.param({"live": "ns1/a uid=2", "archived": "ns1/a uid=1"}, "uid=2 (live)", id="also over an older one"),
        pytest.param({"live": None, "archived": "ns1/a uid=1"}, "uid=1 (archived)", id="archived"),
        pytest.param({"archiver": "error", "key": "ns1/a"}, "backend failure", id="a failure is no absence"),
        pytest.param({"archiver": "error", "live": ["ns1/a uid=1"], "key": "ns1/a"}, "live", id="live needs none"),
        pytest.param({"live": [], "archived": []}, [], id="nothing"),
        pytest.param({"live": None, "archived": ["ns1/a uid=1", "ns1/a uid=2"]}, "uid=2 (archived)", id="the newest"),
        pytest.param({"live": ["ns1/a uid=3"], "archived": ["ns1/a uid=1", "ns1/a uid=2"]},
                     ["uid=3 (live)", "uid=1 (archived)", "uid=2 (archived)"], id="all that had the name"),
        pytest.param({"archiver": "unavailable", "live": None, "key": "ns1/a"}, "error", id="another word for it"),
    ],
)  # fmt: skip
def test_reading_through(tmp_path: Path, case: dict[str, Any], expect: Any) -> None:
    document = {"get": [{"id": "x", "basis": "required", **case, "expect": expect}]}
    assert verdict(tmp_path, document) == ("passed", "")


ZOMBIE = ["S1 archive ok (rv=10)", "S1 verify ok", "S1 is paused (GC, 60 s)", "S2 takes over"]


@pytest.mark.finding("R1")
@pytest.mark.parametrize(
    ("steps", "final"),
    [
        pytest.param(["archive error: too large for the backend (permanent)", "(backoff, repeated)"],
                     {"object_in_api": True, "finalizer": "kept", "condition": "ArchiveFailed", "event": True,
                      "archive_records_for_uid": 0, "requeue": "capped backoff", "note": "never dropped",
                      "reported_by": ["event", "condition"]}, id="too large, for ever"),
        pytest.param(["ENOSPC", "(backoff, repeated)"],
                     {"object_in_api": True, "partial_files_visible": 0, "requeue": "capped backoff",
                      "reported_by": "condition and event"}, id="a full disk, for ever"),
        pytest.param(["archive ok", "verify: digest differs"],
                     {"object_in_api": True, "archive_records_for_uid": 1, "finalizer": "still there",
                      "alert": "ArchiveCorrupt", "reported_by": "alert"}, id="the damaged record is there"),
        pytest.param([*ENDING, "archived file damaged on disk"],
                     {"object_in_api": False, "archive_records_for_uid": 1, "get_by_name": "error, not NotExist",
                      "reported_by": "archive verify"}, id="damaged later"),
        pytest.param(["archive ok (rv=10)", "executor writes status (rv=11)", "verify ok",
                      "remove finalizer with precondition rv=10: conflict", "archive ok (rv=11)", "verify rv=11 ok",
                      "remove finalizer with precondition rv=11 ok", "delete ok"],
                     {**GONE, "archived_resource_version": 11, "why": "the copy is the version that is let go"},
                     id="versions in the phrases"),
        pytest.param(["archive rv=7 ok", "object changed to rv=30", "verify ok", "remove finalizer conflict", *ENDING],
                     {**GONE, "archived_resource_version": 30}, id="other versions"),
        pytest.param(["cache holds rv=10", "API holds rv=11", *ENDING], {**GONE, "archived_resource_version": 11},
                     id="a stale cache in two phrases"),
        pytest.param([*ZOMBIE, "object changed (rv=11)", "S2 archive ok (rv=11)", "S2 verify ok",
                      "S1 resumes: remove finalizer with precondition rv=10 rejected", "S2 remove finalizer ok",
                      "S2 delete ok"],
                     {**GONE, "archived_resource_version": 11, "s1_writes_rejected": True}, id="two supervisors"),
        pytest.param([*ZOMBIE, "S2 archives, verifies, removes the finalizer, deletes the object",
                      "S1 resumes and removes the finalizer"], {**GONE, "s1_writes_rejected": 1}, id="other verbs"),
        pytest.param(["archive takes 30 s", *ENDING[1:]],
                     {**GONE, "scheduling_of_other_objects_blocked_s_max": 1}, id="a slow archive"),
        pytest.param(["uid=U1 archive ok", "verify ok", "remove finalizer ok", "U1 re-created as U2",
                      "delete with uid precondition: not found"],
                     {"object_in_api": "U2", "get_by_uid": {"U1": "found", "U2": "not found"}}, id="by uid"),
    ],
)  # fmt: skip
def test_sequences_of_the_readme(tmp_path: Path, steps: list[str], final: dict[str, Any]) -> None:
    assert verdict(tmp_path, sequence(*steps, **final)) == ("passed", "")
    for name in final.keys() - {"note", "why", "scheduling_of_other_objects_blocked_s_max"}:
        wrong = {**final, name: "archive log" if name == "reported_by" else ["something else"]}
        found, _ = verdict(tmp_path, sequence(*steps, **wrong))
        assert found != "passed", f"{name} was not looked at"


@pytest.mark.finding("R1")
@pytest.mark.parametrize(
    ("case", "expect"),
    [
        pytest.param({"key": "ns1/job-a"}, "found", id="a key of the content that searches have"),
        pytest.param({"key": "ns9/job-a", "archiver": "in-memory"}, "not found", id="another key"),
        pytest.param({"key": "ns1/job-a", "archiver": "none"}, "not found (NotExist)", id="no archive"),
        pytest.param({"live": "rv=12", "archived": "rv=10"}, "live object", id="versions"),
        pytest.param({"live": None, "archived": "rv=10"}, "archived object", id="an archived version"),
        pytest.param({"live": {"uid": "7"}, "archived": True}, "live object", id="other shapes"),
        pytest.param({"key": "ns1/job-a", "archiver": "timeout"}, "backend error, not NotExist", id="a failure"),
    ],
)  # fmt: skip
def test_words_for_what_is_read(tmp_path: Path, case: dict[str, Any], expect: str) -> None:
    objects = [{"namespace": "ns1", "name": "job-a", "labels": {}}]
    for wanted, expected in ((expect, "passed"), ("something else", "failed")):
        get = [{"id": "x", "basis": "required", **case, "expect": wanted}]
        assert verdict(tmp_path, {"query": {"objects": objects}, "get": get})[0] == expected
