"""The configuration as commands read it: what one product's section says wrong, and what the schema tells editors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from situate.cli.main import app

HEAD = "apiVersion: situate.dev/v1alpha1\nkind: Situate\n"
REPORTS = "batch.example.com/v1/reports"


def checked(tmp_path: Path, text: str, *arguments: str) -> tuple[int, str]:
    file = tmp_path / "situate.yaml"
    file.write_text(HEAD + text)
    result = CliRunner().invoke(app, ["check", "-f", str(file), *arguments])
    return result.exit_code, result.output


def test_the_schema_of_everything_can_be_written() -> None:
    result = CliRunner().invoke(app, ["check", "--schema"])
    assert result.exit_code == 0, result.output
    schema = json.loads(result.stdout)
    (entries, _) = schema["properties"]["sharding"]["anyOf"]
    entry = entries["items"]
    assert entry["required"] == ["resource"]
    assert entry["properties"]["drainTimeout"]["default"] == 30.0
    assert "the supervisor revokes the object" in json.dumps(entry["properties"]["drainTimeout"])
    assert "urlFile" in json.dumps(entry["properties"]["archive"])
    assert "spot" in schema["properties"]


@pytest.mark.rule("sharding:K15")
def test_an_entry_is_a_supervisor_with_its_defaults(tmp_path: Path) -> None:
    status, told = checked(tmp_path, f"sharding: [{{resource: {REPORTS}, pool: default}}]\n", "--show")
    assert status == 0, told
    assert "strategy: MinScheduled" in told
    assert "onUnavailable: wait" in told


@pytest.mark.rule("sharding:K15")
@pytest.mark.parametrize(
    ("entries", "paths"),
    [
        pytest.param("- {pool: a}", ["sharding[0].resource"], id="of what?"),
        pytest.param(
            f"- {{resource: {REPORTS}, pol: a, strategy: Best, archive: {{ttl: soon, finaliser: x}}}}",
            ["sharding[0].pol", "sharding[0].archive.ttl", "sharding[0].archive.finaliser"],
            id="all at once",
        ),
        pytest.param(
            f"- {{resource: {REPORTS}, strategy: Best, partition: 2/2}}",
            ["sharding[0].partition", "sharding[0].strategy"],
            id="between fields",
        ),
        pytest.param(
            f"- {{resource: {REPORTS}, pool: a}}\n- {{resource: {REPORTS}, pool: b}}",
            ["sharding[1].resource"],
            id="one object, two supervisors",
        ),
        pytest.param(
            f"- {{resource: {REPORTS}, partition: 0/2}}\n- {{resource: {REPORTS}, partition: 1/3}}",
            ["sharding[1].resource"],
            id="partitions of different counts overlap",
        ),
    ],
)
def test_mistakes_have_paths(tmp_path: Path, entries: str, paths: list[str]) -> None:
    status, told = checked(tmp_path, f"sharding:\n{entries}\n", "--offline")
    assert status == 2, told
    lines = told.splitlines()
    assert [line.split(": ")[2] for line in lines] == paths


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param(
            f"- {{resource: {REPORTS}, partition: 0/2}}\n- {{resource: {REPORTS}, partition: 1/2}}", id="halves"
        ),
        pytest.param(
            f"- {{resource: {REPORTS}, namespace: a}}\n- {{resource: {REPORTS}, namespace: b}}", id="namespaces"
        ),
        pytest.param(f"- {{resource: {REPORTS}}}\n- {{resource: other.example.com/v1/reports}}", id="resources"),
    ],
)
def test_supervisors_that_share_nothing_stand_side_by_side(tmp_path: Path, entries: str) -> None:
    status, told = checked(tmp_path, f"sharding:\n{entries}\n", "--offline")
    assert status == 0, told


@pytest.mark.rule("sharding:K15")
def test_a_password_is_refused_in_a_file_and_never_shown(tmp_path: Path) -> None:
    secret = "postgresql://writer:hunter2@db.example/archive"
    for entry in (
        f"{{resource: {REPORTS}, archive: {{url: '{secret}'}}}}",
        f"{{resource: x, archive: {{url: ['{secret}']}}}}",
    ):
        status, told = checked(tmp_path, f"sharding: [{entry}]\n", "--offline")
        assert status == 2
        assert "hunter2" not in told
        assert "sharding[0].archive.url" in told


@pytest.mark.finding("N5")
@pytest.mark.parametrize("sections", ["", "vpod: []\n", "health: {address: 127.0.0.1:8080}\n"])
def test_a_file_that_names_nothing_to_run_is_refused_by_check_and_by_run_alike(tmp_path: Path, sections: str) -> None:
    file = tmp_path / "situate.yaml"
    file.write_text(f"apiVersion: situate.dev/v1alpha1\nkind: Situate\n{sections}")
    told = set()
    for command in (["check", "--offline"], ["check"], ["run"]):
        ended = CliRunner().invoke(app, [*command, "-f", str(file)])
        assert (ended.exit_code, ended.stdout) == (2, "")
        told.add(ended.stderr)
    assert told == {
        f"situate: {file}: no section to run; add one of vpod, scheduler, spot, sharding, vm with -f or --set\n",
    }


KUBE = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.mark.finding("N1")
def test_show_prints_what_the_scheduler_runs_with(tmp_path: Path) -> None:
    (tmp_path / "ksc.yaml").write_text(KUBE + "percentageOfNodesToScore: 50\n")
    status, told = checked(tmp_path, "scheduler: {configuration: ksc.yaml}\n", "--show", "-o", "json")
    assert status == 0, told
    section = json.loads(told)["scheduler"]
    assert (section["percentageOfNodesToScore"], section["leaseName"]) == (50, "kube-scheduler")
    (profile,) = section["profiles"]
    assert "TaintToleration" in [each["name"] for each in profile["plugins"]["multiPoint"]["enabled"]]


@pytest.mark.finding("N9")
def test_show_prints_the_period_that_zero_stands_for(tmp_path: Path) -> None:
    entry = "{statefulSetNamespace: knative-eventing, statefulSetName: kafka-source-dispatcher, podCapacity: 20}"
    status, told = checked(tmp_path, f"vpod: [{entry}]\n", "--show", "-o", "json")
    assert status == 0, told
    assert json.loads(told)["vpod"][0]["retryPeriod"] == 1.0
