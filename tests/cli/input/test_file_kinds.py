"""A file that is given to the wrong command: one sentence says what it is, and which command takes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from situate.cli.input.file_kinds import CONFIGURATION, SCENARIO, wrong_kind_of_text
from situate.cli.main import app

EXAMPLES = Path(__file__).parents[3] / "examples"
CLUSTER = EXAMPLES / "scheduler" / "cluster.yaml"
COMMANDS = {
    "a Situate configuration": ("check", "--offline", "-f"),
    "a scenario": ("simulate",),
    "an agent's configuration": ("vm", "agent", "--all-nodes", "-f"),
    "a KubeSchedulerConfiguration": ("scheduler", "explain", "shop/report-0", f"--objects={CLUSTER}", "-f"),
    "Kubernetes objects": ("scheduler", "what-if", f"--objects={CLUSTER}"),
    "a dump": ("scheduler", "explain", "shop/report-0", "--objects"),
    "run": ("run", "-f"),
    "a trace": ("simulate",),
}
TAKES_TOO = {
    ("a KubeSchedulerConfiguration", "a Situate configuration"),
    ("run", "a Situate configuration"),
    ("a dump", "Kubernetes objects"),
    ("a dump", "a listing of Kubernetes objects"),
    ("Kubernetes objects", "a listing of Kubernetes objects"),
}
WRITTEN = {
    "a KubeSchedulerConfiguration": "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n",
    "a kubeconfig": "apiVersion: v1\nkind: Config\nclusters: []\n",
    "a list of prices": "date: 2026-11-01\nprices: []\n",
    "a configuration of neondatabase/autoscaling's scheduler": '{"watermark": 0.9, "reconcileWorkers": 4}',
}
SHIPPED = {
    "a Situate configuration": EXAMPLES / "knative" / "situate.yaml",
    "a scenario": EXAMPLES / "spot-wave.yaml",
    "an agent's configuration": EXAMPLES / "vm" / "agent.yaml",
    "Kubernetes objects": EXAMPLES / "scheduler" / "deployment.yaml",
    "a listing of Kubernetes objects": CLUSTER,
    "a recording": EXAMPLES / "scheduler" / "morning.jsonl",
    "a kustomization": EXAMPLES / "knative" / "kustomization.yaml",
}
NEXT_STEP = {
    "a Situate configuration": "`situate check -f FILE`",
    "a scenario": "`situate simulate FILE`",
    "an agent's configuration": "`situate vm agent -f FILE`",
    "Kubernetes objects": "`situate scheduler what-if FILE`",
    "a listing of Kubernetes objects": "`situate scheduler explain POD --objects FILE`",
    "a recording": "`situate scheduler replay FILE`",
    "a kustomization": "`kubectl kustomize FOLDER`",
    "a KubeSchedulerConfiguration": "`scheduler.configuration` of a Situate configuration",
    "a kubeconfig": "`--kubeconfig FILE`",
    "a list of prices": "`spot.prices.file` of a Situate configuration",
    "a configuration of neondatabase/autoscaling's scheduler": "`vm.configuration` of a Situate configuration",
}


@pytest.mark.finding("N16")
@pytest.mark.parametrize(
    ("wanted", "given"),
    [
        (wanted, given)
        for wanted in COMMANDS
        for given in NEXT_STEP
        if given != wanted and (wanted, given) not in TAKES_TOO
    ],
)
def test_the_wrong_kind_of_file_is_one_sentence(wanted: str, given: str, tmp_path: Path) -> None:
    file = SHIPPED.get(given, tmp_path / "wrong")
    if given in WRITTEN:
        file.write_text(WRITTEN[given], encoding="utf-8")
    if wanted == "a trace":
        file = tmp_path / "wrong.jsonl"
        file.write_text(WRITTEN.get(given) or SHIPPED[given].read_text(encoding="utf-8"), encoding="utf-8")
    ended = CliRunner().invoke(app, [*COMMANDS[wanted], str(file)])
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert len(ended.stderr.splitlines()) == 1
    assert f"{file}: " in ended.stderr
    assert f": found {given}" in ended.stderr
    assert NEXT_STEP[given] in ended.stderr


@pytest.mark.finding("N16")
@pytest.mark.parametrize("key", ["scheduler", "vm"])
def test_a_file_that_a_configuration_names_may_be_of_the_wrong_kind(key: str, tmp_path: Path) -> None:
    file = tmp_path / "situate.yaml"
    (tmp_path / "day.yaml").write_bytes((EXAMPLES / "vpod-day.yaml").read_bytes())
    header = "apiVersion: situate.dev/v1alpha1\nkind: Situate\n"
    file.write_text(f"{header}{key}:\n  configuration: day.yaml\n", encoding="utf-8")
    ended = CliRunner().invoke(app, ["check", "--offline", "-f", str(file)])
    assert ended.exit_code == 2
    assert len(ended.stderr.splitlines()) == 1
    assert f"{key}.configuration day.yaml: " in ended.stderr
    assert "found a scenario" in ended.stderr


@pytest.mark.finding("N16")
def test_other_files_of_a_folder_of_objects_are_passed_over() -> None:
    ended = CliRunner().invoke(app, ["scheduler", "explain", "shop/report-0", "--objects", str(EXAMPLES / "scheduler")])
    assert "shop/report-0 waits: 0/6 nodes are available" in ended.stdout


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("vpod: []\nlog: {level: debug}\n", "a Situate configuration (kind: Situate)", id="by its keys"),
        pytest.param("duration: 1h\nsources: []\nvpod: {}\n", "a scenario (kind: Scenario)", id="a scenario"),
        pytest.param("clusters: []\nusers: []\n", "a kubeconfig", id="a kubeconfig"),
        pytest.param("scheduler: {}\n", None, id="a key of two kinds"),
        pytest.param("image: x\nreplicas: 2\n", None, id="unknown keys"),
        pytest.param("- 1\n", None, id="a list"),
        pytest.param("", None, id="nothing"),
        pytest.param("a: [", None, id="no YAML"),
        pytest.param("kind: Situate\n---\nkind: Scenario\n", None, id="documents of two kinds"),
        pytest.param("apiVersion: v1\nitems: []\n", "a listing of Kubernetes objects", id="a truncated List"),
        pytest.param(
            "{apiVersion: v1, kind: Pod, metadata: {name: web}}\n---\n{apiVersion: v1, kind: Service}\n",
            "Kubernetes objects (Pod web and 1 more)",
            id="documents of one kind",
        ),
    ],
)
def test_a_kind_is_recognized_by_its_header_or_its_keys(text: str, found: str | None) -> None:
    mistake = wrong_kind_of_text(text)
    assert (None if mistake is None else mistake.found) == found


def test_a_file_of_the_right_kind_is_not_misplaced() -> None:
    assert wrong_kind_of_text("kind: Situate\n", CONFIGURATION, SCENARIO) is None
