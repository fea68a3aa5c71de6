"""`situate run` with an extender, each a process or server of its own: it decides, refuses, breaks, and comes back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.extending import WANTED, Extending, serving
from tests.cli.processes import KUBECTL, call, process
from tests.controlplane.process import Process
from tests.waiting import WITHIN_S, eventually

pytestmark = pytest.mark.xdist_group("cli-extender")  # one server for all of them


@pytest.fixture(scope="module")
def extender() -> Iterator[tuple[Extending, str]]:
    with serving() as found:
        yield found


class Cluster:
    def __init__(self, folder: Path, kubeconfig: Path, scheduler: Process) -> None:
        self.scheduler = scheduler
        self._folder = folder
        self._kubeconfig = kubeconfig

    def kubectl(self, *arguments: str, given: str = "") -> str:
        assert self.scheduler.running, f"the scheduler has ended; {self.scheduler.tail(60)}"
        done = call(self._folder, str(KUBECTL), "--kubeconfig", str(self._kubeconfig), *arguments, given=given)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def create(self, name: str) -> None:
        container = {"name": "app", "image": "app", "resources": {"requests": {"cpu": "100m"}}}
        spec = {"schedulerName": "extended", "dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.0.0.10"]}}
        made = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": spec | {"containers": [container]},
        }
        self.kubectl("create", "-f", "-", given=json.dumps(made))

    def pod(self, name: str) -> Any:
        return json.loads(self.kubectl("get", "pod", name, "-o", "json"))

    def node_of(self, name: str) -> str:
        return str(self.pod(name)["spec"].get("nodeName", ""))

    def told(self, name: str) -> str:
        """Reason and message of its condition."""
        conditions = self.pod(name)["status"].get("conditions", ())
        found: Any = next((each for each in conditions if each["type"] == "PodScheduled"), {})
        return f"{found.get('reason', '')}: {found.get('message', '')}"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, extender: tuple[Extending, str]) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("extended")
    kubeconfig = folder / "kubeconfig"
    settings = {
        "apiVersion": "situate.dev/v1alpha1",
        "kind": "Situate",
        "leaderElection": {"namespace": "default"},
        "health": {"address": "127.0.0.1:0"},
        "scheduler": {
            "profiles": [{"schedulerName": "extended"}],
            "extenders": [
                {
                    "urlPrefix": extender[1],
                    "filterVerb": "filter",
                    "prioritizeVerb": "prioritize",
                    "weight": 100,
                    "httpTimeout": "60s",
                }
            ],
        },
    }
    (folder / "situate.yaml").write_text(json.dumps(settings))
    server = process(
        folder, "embedded", "embedded", "--port", "0", "--nodes", "3", "--write-kubeconfig", str(kubeconfig)
    )
    scheduler = process(folder, "scheduler", "run", "-f", str(folder / "situate.yaml"), "--kubeconfig", str(kubeconfig))
    try:
        server.start()
        server.wait_ready(kubeconfig.exists, timeout_s=WITHIN_S)
        scheduler.start()
        yield Cluster(folder, kubeconfig, scheduler)
    finally:
        scheduler.stop(timeout_s=60)
        server.stop(timeout_s=60)
    for each in (server, scheduler):
        assert "Traceback" not in each.log.read_text(), each.tail(60)


def test_the_extender_decides_and_sees_whole_objects(cluster: Cluster, extender: tuple[Extending, str]) -> None:
    cluster.create("first")
    eventually("the pod has a node", lambda: cluster.node_of("first"), lambda node: node == WANTED)
    asked = extender[0].asked["filter"]
    assert asked["Pod"]["spec"]["dnsConfig"] == {"nameservers": ["10.0.0.10"]}
    assert all("nodeInfo" in node["status"] for node in asked["Nodes"]["items"])


def test_its_reasons_stand_on_the_pod(cluster: Cluster, extender: tuple[Extending, str]) -> None:
    extender[0].refusing = True
    cluster.create("refused")
    want = "Unschedulable: 0/3 nodes are available: 3 no licence."
    eventually("the pod is told", lambda: cluster.told("refused"), lambda told: told.startswith(want))
    extender[0].refusing = False
    cluster.kubectl("annotate", "node", "node-0", "licence=new")  # any event may help
    eventually("the pod has a node", lambda: cluster.node_of("refused"), lambda node: node == WANTED)


def test_one_that_breaks_is_named_and_stops_nobody_for_good(cluster: Cluster, extender: tuple[Extending, str]) -> None:
    extending, url = extender
    extending.broken = True
    cluster.create("waiting")
    want = f"extender {url} at filter: answered 500"
    eventually("the pod is told", lambda: cluster.told("waiting"), lambda told: want in told)
    extending.broken = False
    eventually("the pod has a node", lambda: cluster.node_of("waiting"), lambda node: node == WANTED)
