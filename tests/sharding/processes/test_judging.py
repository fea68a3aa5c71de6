"""The judge of the killed lives names what is wrong, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from situate.sharding.model.names import EPOCH, EXECUTOR_UID, FINALIZER, TERM
from tests.sharding.processes.judging import Run, Seen, breaches

DONE = {"completedAt": "2026-01-01T00:00:09Z", "successful": True, "reason": "Done"}


def version(
    number: int,
    holder: str = "",
    epoch: int = 0,
    status: dict[str, Any] | None = None,
    term: int = 1,
    kept: bool = True,
) -> dict[str, Any]:
    annotations = {EPOCH: str(epoch), TERM: str(term)} | ({EXECUTOR_UID: f"uid-{holder}"} if holder else {})
    return {
        "metadata": {
            "uid": "u",
            "name": "r",
            "resourceVersion": str(number),
            "annotations": annotations,
            "finalizers": [FINALIZER] if kept else [],
        },
        "spec": {"assignedTo": holder} if holder else {},
        **({"status": status} if status else {}),
    }


STORY = [
    version(1),
    version(2, "a", 1),
    version(3, "a", 1, {"token": "u:1"}),
    version(4, "", 1, {"token": "u:1"}),
    version(5, "a", 2, {"token": "u:1"}, term=2),
    version(6, "a", 2, {"token": "u:1", **DONE}, term=2),
    version(7, "a", 2, {"token": "u:1", **DONE}, term=2, kept=False),
]
RUNS = [Run("begins", "u:1", "p"), Run("begins", "u:2", "q"), Run("ends", "u:2", "q")]


def record(of: dict[str, Any]) -> dict[str, Any]:
    return {"subject": {"uid": of["metadata"]["uid"]}, "object": of}


def told(
    versions: list[dict[str, Any]] | None = None,
    runs: list[Run] | None = None,
    records: list[dict[str, Any]] | None = None,
) -> str:
    seen = {"u": Seen(STORY if versions is None else versions, gone=True)}
    kept = [record(STORY[5])] if records is None else records
    return "; ".join(breaches(seen, RUNS if runs is None else runs, kept, "a"))


def test_a_good_story() -> None:
    assert told() == ""


def test_what_was_never_given_to_anybody_leaves_no_record() -> None:
    assert told([version(1, kept=False)], [], []) == ""


@pytest.mark.parametrize(
    ("number", "instead", "breach"),
    [
        pytest.param(4, version(5, "a", 0), "its epoch goes back (S3)", id="an epoch again"),
        pytest.param(4, version(5, "a", 1), "without the next epoch (S3)", id="the same epoch"),
        pytest.param(4, version(5, "a", 3), "without the next epoch (S3)", id="an epoch left out"),
        pytest.param(5, version(6, "a", 2, term=1), "leads no longer (S10)", id="an older term"),
        pytest.param(3, version(4, "a", 1, {"token": "u:0"}), "a stale write is accepted (S2)", id="an older epoch"),
        pytest.param(6, version(7, "b", 3, DONE, term=2), "after its completion (S6)", id="assigned again"),
        pytest.param(6, version(7, "a", 2, {**DONE, "reason": "?"}, 2), "completed twice (S6)", id="completed again"),
        pytest.param(6, version(7, "a", 2, term=2), "completed twice (S6)", id="completed no more"),
    ],
)
def test_versions(number: int, instead: dict[str, Any], breach: str) -> None:
    assert breach in told([*STORY[:number], instead, *STORY[number + 1 :]])


@pytest.mark.parametrize(
    ("runs", "breach"),
    [
        pytest.param([*RUNS, Run("begins", "u:2", "s")], "twice under one epoch (S1)", id="by another life"),
        pytest.param([*RUNS[:2], Run("begins", "u:1", "q")], "twice at a time (S1)", id="at a time"),
        pytest.param([*RUNS, Run("begins", "u:3", "q")], "nobody was given (S11)", id="no epoch of ours"),
        pytest.param([*RUNS, Run("begins", "u:3", "q")], "after its completion (S6)", id="too late"),
        pytest.param(RUNS[:1], "completed and not run", id="never"),
    ],
)
def test_runs(runs: list[Run], breach: str) -> None:
    assert breach in told(runs=runs)


@pytest.mark.parametrize(
    ("records", "breach"),
    [
        pytest.param([], "gone and not in the archive (S7)", id="none"),
        pytest.param([record(STORY[4])], "from another version than the archive holds (S7)", id="an older one"),
        pytest.param([record(STORY[5])] * 2, "u: 2 records", id="two"),
        pytest.param([record(STORY[5]), record({"metadata": {"uid": "v"}})], "v: 1 records", id="of nobody"),
    ],
)
def test_records(records: list[dict[str, Any]], breach: str) -> None:
    assert breach in told(records=records)
