"""An API server, a scheduler and kubectl, each a process of its own, and nothing else: no Kubernetes."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from situate.cli.main import app
from tests.cli.processes import KUBECTL, call, process
from tests.controlplane.process import Process
from tests.waiting import WITHIN_S, eventually

pytestmark = pytest.mark.xdist_group("cli-playground")  # one server for all of them

EXAMPLES = Path(__file__).parents[3] / "examples" / "knative"
WANTED = {"orders": 12, "payments": 30}
METRICS = (
    "situate_vpod_pods",
    "situate_vpod_capacity_units",
    "situate_vpod_used_units",
    "situate_vpod_pending_vreplicas",
    "situate_vpod_schedule_seconds_count",
    "situate_vpod_moves_total",
    "situate_vpod_evictions_total",
    "situate_vpod_overcommitted_pods",
    "situate_vpod_replicas_desired",
    "situate_vpod_replicas",
    "situate_vpod_draining",
    "situate_vpod_state_repairs_total",
    "kn_eventing_schedule_latency_milliseconds_count",
    "kn_eventing_replicas_ready",
    "kn_eventing_replicas_expected",
)


class Playground:
    """The server, the scheduler, and kubectl for them."""

    def __init__(self, folder: Path, kubeconfig: Path, scheduler: Process) -> None:
        self.folder = folder
        self.kubeconfig = kubeconfig
        self.scheduler = scheduler

    def kubectl(self, *arguments: str, given: str = "") -> str:
        done = call(self.folder, str(KUBECTL), "--kubeconfig", str(self.kubeconfig), *arguments, given=given)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def situate(self, verb: str, *arguments: str) -> str:
        """What a verb prints about this cluster, as one that has to succeed."""
        here = ("-f", str(EXAMPLES / "situate.yaml"), "--kubeconfig", str(self.kubeconfig))
        result = CliRunner().invoke(app, [*verb.split(), *here, *arguments])
        assert result.exit_code == 0, result.output
        return result.stdout

    def placed(self) -> dict[str, int]:
        """Vreplicas by ConsumerGroup."""
        groups = json.loads(self.kubectl("get", "consumergroups", "--all-namespaces", "-o", "json"))["items"]
        statuses = {each["metadata"]["name"]: each.get("status", {}) for each in groups}
        return {
            name: sum(each["vreplicas"] for each in status.get("placements", ())) for name, status in statuses.items()
        }

    def wait_placed(self) -> None:
        eventually("everything is placed", self._placed_or_why, lambda now: now == WANTED)

    def _placed_or_why(self) -> dict[str, int]:
        self.check()
        return self.placed()

    def check(self) -> None:
        """Fails with the scheduler's last words if it has ended."""
        assert self.scheduler.running, f"the scheduler has ended; {self.scheduler.tail(60)}"

    def port(self) -> int | None:
        """On which the scheduler's own server listens, as its log says; None before it does."""
        for line in self.scheduler.log.read_text().splitlines(keepends=True):
            if "health server listens" in line and line.endswith("\n"):
                return int(json.loads(line)["port"])
        return None

    def asked(self, path: str) -> tuple[int, str]:
        """What the scheduler's own server answers."""
        self.check()
        port = self.port()
        assert port is not None
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError as problem:
            pytest.fail(f"{path} is not answered: {problem}; {self.scheduler.tail(60)}")
        finally:
            connection.close()


@pytest.fixture(scope="module")
def playground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    folder = tmp_path_factory.mktemp("playground")
    kubeconfig = folder / "kubeconfig"
    server = process(
        folder, "embedded", "embedded", "--port", "0", "--nodes", "3", "--write-kubeconfig", str(kubeconfig)
    )
    scheduler = process(
        folder,
        "scheduler",
        *("run", "-f", str(EXAMPLES / "situate.yaml"), "--kubeconfig", str(kubeconfig)),
        *("--set", "leaderElection.namespace=default"),
        *("--set", "vpod[0].refreshPeriod=1s"),  # the gauges are set by the beats of the autoscaler
    )
    made = Playground(folder, kubeconfig, scheduler)
    try:
        server.start()
        server.wait_ready(kubeconfig.exists, timeout_s=WITHIN_S)
        made.kubectl("apply", "--server-side", "-f", str(EXAMPLES / "crds.yaml"))
        made.kubectl("apply", "-k", str(EXAMPLES))
        scheduler.start()
        scheduler.wait_ready(lambda: made.port() is not None, timeout_s=WITHIN_S)
        yield made
    finally:
        scheduler.stop(timeout_s=60)
        server.stop(timeout_s=60)
    for each in (server, scheduler):
        assert "Traceback" not in each.log.read_text(), each.tail(60)


@pytest.mark.finding("N13")
def test_beside_a_server_on_this_machine_health_takes_a_free_port_of_loopback(playground: Playground) -> None:
    assert '"address": "127.0.0.1:0"' in playground.scheduler.log.read_text()
    assert playground.port() not in (None, 8080)


@pytest.mark.rule("vpod:V1", "vpod:V20")
def test_the_examples_are_placed(playground: Playground) -> None:
    playground.wait_placed()
    dispatcher = ("statefulset", "-n", "knative-eventing", "kafka-source-dispatcher", "-o", "wide")
    eventually("all pods are ready", lambda: playground.kubectl("get", *dispatcher), lambda told: "3/3" in told)
    told = playground.kubectl("describe", "consumergroup", "-n", "shop", "orders")
    assert "kafka-source-dispatcher-0" in told


@pytest.mark.rule("vpod:B14")
def test_the_scheduler_tells_how_it_is(playground: Playground) -> None:
    eventually("it is ready", lambda: playground.asked("/readyz"), lambda answer: answer[0] == 200)
    assert playground.asked("/healthz")[0] == 200
    samples = eventually(
        "the metrics show the demand",
        lambda: _samples(playground.asked("/metrics")[1]),
        lambda found: found.get("kn_eventing_replicas_expected") == 42,
    )
    assert [name for name in METRICS if name not in samples] == []
    assert samples["situate_vpod_replicas_desired"] == 3


def test_the_views_read_the_embedded_server_as_any(playground: Playground) -> None:
    playground.wait_placed()
    table = playground.situate("vpod status", "-A")
    assert "42 of 42 vreplicas placed" in table
    assert "\x1b" not in table  # no colours where there is no terminal
    (plan,) = yaml.safe_load(playground.situate("vpod plan", "-A", "-o", "yaml"))
    assert [each["change"] for each in plan["vpods"]] == ["", ""]
    findings = json.loads(playground.situate("check", "-o", "json"))
    assert [each for each in findings if not each["ok"]] == []


def test_sigterm_is_an_orderly_end(playground: Playground) -> None:
    playground.check()
    playground.scheduler.stop(timeout_s=60)
    assert playground.scheduler.running is False
    assert "lease released" in playground.scheduler.log.read_text()


def test_sigterm_ends_at_once_what_still_waits_for_the_first_listing(playground: Playground) -> None:
    missing = {"kind": "Stream", "group": "example.com", "version": "v1", "resource": "streams", "namespace": "shop"}
    paths = {"vreplicasPath": "spec.workers", "placementsPath": "status.placements"}
    entry = {"statefulSetNamespace": "shop", "statefulSetName": "none", "podCapacity": 1, "sources": [missing | paths]}
    document = {"apiVersion": "situate.dev/v1alpha1", "kind": "Situate", "health": {"address": None}, "vpod": [entry]}
    file = playground.folder / "waiting.yaml"
    file.write_text(yaml.safe_dump(document))
    logs = ("--log-level", "warning", "--log-format", "console")
    asked = ("run", "-f", str(file), "--kubeconfig", str(playground.kubeconfig), *logs)
    waiting = process(playground.folder, "waiting", *asked)
    waiting.start()
    try:
        waiting.wait_ready(lambda: "404" in waiting.log.read_text(), timeout_s=WITHIN_S)
    finally:
        waiting.stop(timeout_s=60)
    said = waiting.log.read_text()
    assert "did not end in time" not in said, waiting.tail(60)
    assert ("[warning" in said, "[info" in said) == (True, False), "as the flags of the log say"


def _samples(text: str) -> dict[str, Any]:
    """One value for each name, whatever its labels."""
    found: dict[str, Any] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name.partition("{")[0]] = float(value)
    return found
