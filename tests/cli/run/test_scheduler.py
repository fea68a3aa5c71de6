"""`situate run` with a scheduler, on the embedded server: processes of their own, and no Kubernetes."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from situate.cli.main import app
from tests.cli.processes import KUBECTL, call, process
from tests.controlplane.process import Process
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("cli-scheduler")  # one server for all of them

EXAMPLE = Path(__file__).parents[3] / "examples" / "scheduler" / "situate.yaml"


class Playground:
    def __init__(self, folder: Path, kubeconfig: Path, file: Path, scheduler: Process) -> None:
        self.folder = folder
        self.kubeconfig = kubeconfig
        self.file = file
        self.scheduler = scheduler

    def kubectl(self, *arguments: str, given: str = "") -> str:
        done = call(self.folder, str(KUBECTL), "--kubeconfig", str(self.kubeconfig), *arguments, given=given)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def lines(self) -> list[dict[str, Any]]:
        """Of the scheduler's log."""
        assert self.scheduler.running, self.scheduler.tail(60)
        text = self.scheduler.log.read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def said(self, message: str) -> list[dict[str, Any]]:
        return [line for line in self.lines() if line["message"] == message]

    def asked(self, path: str) -> str:
        """What the scheduler's own server answers."""
        port = eventually("its server listens", lambda: self.said("health server listens"))[0]["port"]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("GET", path)
            return connection.getresponse().read().decode()
        finally:
            connection.close()


@pytest.fixture(scope="module")
def playground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    folder = tmp_path_factory.mktemp("scheduler")
    kubeconfig, file = folder / "kubeconfig", folder / "situate.yaml"
    file.write_text(EXAMPLE.read_text() + "health: {address: '127.0.0.1:0'}\n")
    server = process(
        folder, "embedded", "embedded", "--port", "0", "--nodes", "2", "--write-kubeconfig", str(kubeconfig)
    )
    scheduler = process(folder, "scheduler", "run", "-f", str(file), "--kubeconfig", str(kubeconfig))
    server.start()
    try:
        eventually("the server answers", kubeconfig.exists)
        scheduler.start()
        yield Playground(folder, kubeconfig, file, scheduler)
    finally:
        scheduler.stop(timeout_s=30)
        server.stop(timeout_s=30)


def pod(name: str, cpu: str) -> str:
    container = {"name": "c", "image": "example.com/c:1", "resources": {"requests": {"cpu": cpu}}}
    spec = {"schedulerName": "situate", "containers": [container]}
    return yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def test_pods_are_placed_and_told_about(playground: Playground) -> None:
    playground.kubectl("apply", "-f", "-", given=pod("web", "100m") + "---\n" + pod("huge", "500"))
    playground.kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=120s")
    described = eventually(
        "huge is told why",
        lambda: playground.kubectl("describe", "pod", "huge"),
        lambda text: "0/2 nodes are available: 2 Insufficient cpu." in text,
    )
    assert "FailedScheduling" in described
    assert playground.asked("/readyz") == "ok"
    samples = (
        'scheduler_schedule_attempts_total{profile="situate",result="scheduled"} 1.0',
        'scheduler_pending_pods{queue="unschedulable"} 1.0',
        'situate_leading{lease="default/scheduler"} 1.0',
    )
    eventually(
        "the metrics show it",
        lambda: playground.asked("/metrics"),
        lambda metrics: all(each in metrics for each in samples),
    )


def test_it_brings_a_cluster_of_its_own_if_asked(tmp_path: Path) -> None:
    scheduler = process(
        tmp_path, "embedded", "run", "--embedded", "--set", "scheduler={profiles: [{schedulerName: situate}]}"
    )
    scheduler.start()
    try:
        log = eventually("it answers", scheduler.log.read_text, lambda text: "kubectl --server" in text)
        server = re.findall(r"kubectl --server (\S+)", log)[0]
        eventually("health has a port", scheduler.log.read_text, lambda text: "health server listens" in text)
        assert "127.0.0.1:0" in scheduler.log.read_text(), "a free port: several may run on one machine"
        applied = call(tmp_path, str(KUBECTL), "--server", server, "apply", "-f", "-", given=pod("web", "100m"))
        assert applied.returncode == 0, applied.stderr
        ready = ("wait", "--for=condition=Ready", "pod/web", "--timeout=120s")
        waited = call(tmp_path, str(KUBECTL), "--server", server, *ready)
        assert waited.returncode == 0, waited.stderr
    finally:
        scheduler.stop(timeout_s=30)


def test_a_cluster_of_its_own_is_not_in_a_kubeconfig() -> None:
    result = CliRunner().invoke(app, ["run", "--embedded", "--context", "dev", "--set", "scheduler={}"])
    assert result.exit_code == 2
    assert "leave out --kubeconfig and --context" in result.stderr


def test_what_takes_a_restart_is_said(playground: Playground) -> None:
    changed = playground.file.read_text().replace("schedulerName: situate", "schedulerName: other")
    playground.file.write_text(changed)
    eventually("it is said", lambda: playground.said("scheduler settings have changed; restart to apply them"))


@pytest.mark.finding("N2")
def test_a_change_of_the_file_with_the_profiles_is_said(playground: Playground) -> None:
    kube = playground.file.parent / "kube.yaml"
    head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    takes_a_restart = "scheduler settings have changed; restart to apply them"
    kube.write_text(head)
    document = yaml.safe_load(playground.file.read_text())
    playground.file.write_text(yaml.safe_dump({**document, "scheduler": {"configuration": "kube.yaml"}}))
    before = len(playground.said(takes_a_restart))
    eventually("the file is read", lambda: len(playground.said(takes_a_restart)), lambda told: told > before)
    kube.write_text(head + "percentageOfNodesToScore: 30\n")
    eventually("a restart is asked for", lambda: len(playground.said(takes_a_restart)), lambda told: told > before + 1)
    kube.write_text(head + "percentageOfNodesToScor: 30\n")
    rejected = "configuration rejected; the last valid one stays in force"
    mistakes = eventually("the mistake is told", lambda: playground.said(rejected))[-1]["mistakes"]
    assert "scheduler.configuration kube.yaml: percentageOfNodesToScor" in mistakes
    assert "did you mean percentageOfNodesToScore?" in mistakes


@pytest.mark.parametrize(
    ("section", "path"),
    [
        pytest.param("{profile: []}", "scheduler.profile", id="unknown field"),
        pytest.param(
            "{profiles: [{plugins: {filter: {enabled: [{name: NodeNam}]}}}]}",
            "scheduler.profiles[0].plugins.filter.enabled[0].name",
            id="unknown plugin",
        ),
        pytest.param("{configuration: kube.yaml}", "scheduler.configuration kube.yaml", id="a file that is not there"),
    ],
)
@pytest.mark.parametrize("verb", ["run", "check --offline", "manifests"])
def test_a_mistake_is_told_with_its_path(tmp_path: Path, verb: str, section: str, path: str) -> None:
    file = tmp_path / "situate.yaml"
    file.write_text(f"apiVersion: situate.dev/v1alpha1\nkind: Situate\nscheduler: {section}\n")
    result = CliRunner().invoke(app, [*verb.split(), "-f", str(file)])
    assert result.exit_code == 2, result.output
    assert f"situate.yaml: {path}" in result.output
