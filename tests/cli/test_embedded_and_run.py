"""An API server, a scheduler and kubectl, each a process of its own, and nothing else: no Kubernetes."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.processes import KUBECTL, call, free_port, process, situate
from tests.controlplane.process import Process
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("cli-playground")  # one server for all of them

EXAMPLES = Path(__file__).parents[2] / "examples" / "knative"
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

    def __init__(self, folder: Path, kubeconfig: Path, scheduler: Process, port: int) -> None:
        self.folder = folder
        self.kubeconfig = kubeconfig
        self.scheduler = scheduler
        self._port = port

    def kubectl(self, *arguments: str, given: str = "") -> str:
        done = call(self.folder, str(KUBECTL), "--kubeconfig", str(self.kubeconfig), *arguments, given=given)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def placed(self, namespace: str, name: str) -> int:
        group = json.loads(self.kubectl("get", "consumergroup", name, "-n", namespace, "-o", "json"))
        return sum(each["vreplicas"] for each in group.get("status", {}).get("placements", ()))

    def asked(self, path: str) -> tuple[int, str]:
        """What the scheduler's own server answers."""
        assert self.scheduler.running, self.scheduler.tail(60)
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=10)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@pytest.fixture(scope="module")
def playground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Playground]:
    folder = tmp_path_factory.mktemp("playground")
    kubeconfig, port = folder / "kubeconfig", free_port()
    server = process(
        folder, "embedded", "embedded", "--port", "0", "--nodes", "3", "--write-kubeconfig", str(kubeconfig)
    )
    scheduler = process(
        folder,
        "scheduler",
        *("run", "-f", str(EXAMPLES / "situate.yaml"), "--kubeconfig", str(kubeconfig)),
        *("--set", f"health.address=127.0.0.1:{port}", "--set", "leaderElection.namespace=default"),
        *("--set", "vpod[0].refreshPeriod=1s"),  # the gauges are set by the beats of the autoscaler
    )
    made = Playground(folder, kubeconfig, scheduler, port)
    try:
        server.start()
        server.wait_ready(kubeconfig.exists, timeout_s=30)
        made.kubectl("apply", "--server-side", "-f", "-", given=situate(folder, "crds").stdout)
        made.kubectl("apply", "-f", str(EXAMPLES / "namespace.yaml"))
        for name in ("configmaps", "dispatcher", "kafkasources", "consumergroups"):
            made.kubectl("apply", "-f", str(EXAMPLES / f"{name}.yaml"))
        scheduler.start()
        yield made
    finally:
        scheduler.stop(timeout_s=30)
        server.stop(timeout_s=30)
    for each in (server, scheduler):
        assert "Traceback" not in each.log.read_text()


@pytest.mark.rule("vpod:V1", "vpod:V20")
def test_the_examples_are_placed(playground: Playground) -> None:
    eventually("orders is placed", lambda: playground.placed("shop", "orders"), lambda total: total == 12)
    eventually("payments is placed", lambda: playground.placed("billing", "payments"), lambda total: total == 30)
    told = playground.kubectl("get", "statefulset", "-n", "knative-eventing", "kafka-source-dispatcher", "-o", "wide")
    assert "3/3" in told
    told = playground.kubectl("describe", "consumergroup", "-n", "shop", "orders")
    assert "kafka-source-dispatcher-0" in told


@pytest.mark.rule("vpod:B14")
def test_the_scheduler_tells_how_it_is(playground: Playground) -> None:
    assert eventually("it is ready", lambda: playground.asked("/readyz"), lambda answer: answer[0] == 200)
    assert playground.asked("/healthz")[0] == 200
    samples = eventually(
        "the metrics show the demand",
        lambda: _samples(playground.asked("/metrics")[1]),
        lambda found: found.get("kn_eventing_replicas_expected") == 42,
    )
    assert [name for name in METRICS if name not in samples] == []
    assert samples["situate_vpod_replicas_desired"] == 3


def test_the_views_read_the_embedded_server_as_any(playground: Playground) -> None:
    here = ("-f", str(EXAMPLES / "situate.yaml"), "--kubeconfig", str(playground.kubeconfig))
    table = situate(playground.folder, "vpod", "status", *here)
    assert table.returncode == 0, table.stderr
    assert "42 of 42 vreplicas placed" in table.stdout
    assert "\x1b" not in table.stdout  # no colours where there is no terminal
    plan = situate(playground.folder, "vpod", "plan", *here, "-o", "yaml")
    assert plan.returncode == 0, plan.stderr
    check = situate(playground.folder, "check", *here, "-o", "json")
    assert all(each["ok"] for each in json.loads(check.stdout)), check.stdout


def test_sigterm_is_an_orderly_end(playground: Playground) -> None:
    playground.scheduler.stop(timeout_s=30)
    assert playground.scheduler.running is False
    assert "the lease is released" in playground.scheduler.log.read_text()


def _samples(text: str) -> dict[str, Any]:
    """One value for each name, whatever its labels."""
    found: dict[str, Any] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name.partition("{")[0]] = float(value)
    return found
