"""`status`, `explain` and `plan` of sharding on files of objects, and the examples that help shows."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from situate.cli.main import app
from situate.objects.values.timestamps import micro_time
from situate.sharding.model.names import EXECUTOR_SELECTOR
from situate.testing.sharding.world.reports import definition, report
from tests.cli.sharding.test_live_cluster import HELD, RESOURCE, a_leader, a_lease, a_node, a_pod, assigned, in_team

RENEWED = datetime(2026, 1, 31, 12, tzinfo=UTC)
"""Long ago: a supervisor of now would take every Lease for expired."""
ABOUT = ("-r", RESOURCE, "--executor-namespace", "team", "--installation-namespace", "team")


def a_pod_that_runs(name: str) -> dict[str, Any]:
    made = a_pod(name)
    made["metadata"]["uid"] = f"uid-{name}"
    made["spec"]["nodeName"] = "node-1"
    containers = [{"name": "c", "ready": True}]
    conditions = [{"type": "Ready", "status": "True"}]
    made["status"] = {"phase": "Running", "conditions": conditions, "containerStatuses": containers}
    return made


def leases() -> Iterator[dict[str, Any]]:
    for name, count in HELD.items():
        yield a_lease(name, f"uid-{name}", count, 8)
    yield a_leader()


def with_uid(content: dict[str, Any]) -> dict[str, Any]:
    metadata = content["metadata"]
    return {**content, "metadata": {**metadata, "uid": f"uid-{metadata['name']}", "resourceVersion": "1"}}


def written(folder: Path, *more: Mapping[str, Any], silent: str = "") -> Path:
    """`silent`: an executor that renewed its Lease a minute before the others."""
    found = list(leases())
    for each in found:
        is_silent = bool(silent) and silent in each["metadata"]["name"]
        renewed = micro_time(RENEWED - timedelta(minutes=is_silent))
        each["spec"] |= {"renewTime": renewed, "acquireTime": renewed, "leaseDurationSeconds": 15}
    held = [
        with_uid(assigned(f"{name}-{number}", name, f"uid-{name}"))
        for name, count in HELD.items()
        for number in range(count)
    ]
    ready = {"conditions": [{"type": "Ready", "status": "True"}]}
    items = [{**a_node("node-1"), "status": ready}, *map(a_pod_that_runs, HELD), *found, *held, *more]
    file = folder / "cluster.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return file


def told(code: int, *arguments: str) -> Any:
    result = CliRunner().invoke(app, ["sharding", *arguments, *ABOUT, "-o", "json"])
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def test_status_judges_leases_as_of_the_last_renewal_in_the_files(tmp_path: Path) -> None:
    file = str(written(tmp_path, silent="executor-2"))
    found = told(0, "status", "--objects", file)
    assert {each["id"]: each["status"] for each in found["executors"]} == {
        "executor-0": "Healthy",
        "executor-1": "Healthy",
        "executor-2": "NotReady",
    }
    assert found["objects"] == {"assigned": 5, "orphaned": 1}
    assert found["leader"] == "boss"
    assert found["supervisorProblem"] == ""
    assert "Leases are judged as of 2026-01-31T12:00:00Z, the last renewal in the files" in found["remarks"]


def test_explain_ends_with_1_while_the_object_waits(tmp_path: Path) -> None:
    picky = with_uid(in_team(report("picky"), {EXECUTOR_SELECTOR: "gpu=true"}))
    file = str(written(tmp_path, picky, with_uid(in_team(report("new")))))
    assert told(0, "explain", "team/executor-1-0", "--objects", file)["executor"] == "executor-1"
    assert told(0, "explain", "new", "-n", "team", "--objects", file)["verdict"]["assigned"]
    assert told(1, "explain", "team/picky", "--objects", file)["verdict"]["reason"] == "NoHealthyExecutors"


def test_plan_ends_with_1_for_what_nobody_may_have(tmp_path: Path) -> None:
    file = str(written(tmp_path))
    found = told(0, "plan", "--goal", "even", "--objects", file)
    assert found["after"] == {"executor-0": 2, "executor-1": 2, "executor-2": 2}
    assert found["left"] == []
    picky = with_uid(in_team(report("picky"), {EXECUTOR_SELECTOR: "gpu=true"}))
    (left,) = told(1, "plan", "--objects", str(written(tmp_path, picky)))["left"]
    assert left["object"] == "team/picky"
    assert "gpu=true" in left["why"]
    everybody = [each for name in HELD for each in ("--without", name)]
    found = told(1, "plan", *everybody, "--objects", file)
    assert (found["reached"], found["why"]) == (False, "no executor is live")


def test_a_type_is_known_by_its_definition_where_there_is_no_object(tmp_path: Path) -> None:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(definition()))
    assert told(0, "status", "--objects", str(file))["objects"] == {}
    file.write_text(json.dumps(a_node("node-1")))
    result = CliRunner().invoke(app, ["sharding", "status", *ABOUT, "--objects", str(file)])
    assert result.exit_code == 2
    assert f"{file} has no {RESOURCE}" in result.stderr


@pytest.mark.parametrize("group", ["sharding", "sharding partitions", "sharding archive"])
def test_the_examples_of_help_are_commands(group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that read files are run; of the others the command line is read."""
    shown = CliRunner().invoke(app, [*group.split(), "--help"]).stdout
    examples = re.findall(r"^ +situate (sharding .+)$", shown, re.MULTILINE)
    assert len(examples) >= 4
    entry = {"resource": RESOURCE, "executorNamespace": "team", "leaderElectNamespace": "team"}
    content = {"apiVersion": "situate.dev/v1alpha1", "kind": "Situate", "sharding": [entry]}
    (tmp_path / "situate.yaml").write_text(json.dumps(content))
    written(tmp_path, with_uid(in_team(report("report-7")))).rename(tmp_path / "cluster.yaml")
    monkeypatch.chdir(tmp_path)
    for example in examples:
        arguments = shlex.split(example)
        if arguments[1] in ("status", "explain", "plan"):
            arguments += () if "--objects" in arguments else ("--objects", "cluster.yaml")
        elif arguments[1] != "init":
            arguments.append("--help")
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.output


SHARDING = [
    *("", "init", "status", "explain", "plan", "drain", "uncordon"),
    *(f"partitions{each}" for each in ("", " show", " create", " resize", " split", " merge", " hand-over", " thaw")),
    *(f"archive{each}" for each in ("", " get", " search", " restore", " prune", " migrate", " verify", " serve")),
]


@pytest.mark.parametrize("command", SHARDING)
def test_help_names_values_and_no_types(command: str) -> None:
    shown = CliRunner().invoke(app, ["sharding", *command.split(), "--help"])
    assert shown.exit_code == 0
    assert not re.findall(r"<(?:str|path|file|int|float|text|list\b)[^>]*>", shown.stdout)
