"""Supervisors and executors as real processes before both servers: a process of each kind is killed."""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from situate.testing.sharding.shipped.reports import REPORTS, report
from tests.contract.servers import RealServer, Server
from tests.controlplane.process import Process
from tests.sharding.processes.mortal import LIVES, TOLD
from tests.sharding.processes.scene import ROOT, Scene
from tests.waiting import eventually

STAY = [f"r-{number}" for number in range(6)]


class Company:
    """A namespace, supervisors and executors; none of them outlives the test."""

    def __init__(self, scene: Scene, server: Server, folder: Path) -> None:
        self.scene = scene
        self.folder = folder
        self.archive = folder / "archive"
        self.archive.mkdir()
        self.namespace = f"company-{uuid.uuid4().hex[:8]}"
        self.processes: dict[str, Process] = {}
        self._kubeconfig = server.kubeconfig(folder)
        scene.call("POST", "/api/v1/namespaces", {"metadata": {"name": self.namespace}})

    def start(self, role: str, name: str, extra: str, program: str = "supervised") -> None:
        program = f"tests.sharding.processes.{program}"
        command = (sys.executable, "-m", program, str(self._kubeconfig), self.namespace, role, name, extra)
        environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        self.processes[name] = Process(name, command, self.folder / f"{name}.log", environment=environment)
        self.processes[name].start()

    def supervisor(self, name: str, program: str = "supervised") -> None:
        self.start("supervisor", name, str(self.archive), program)

    def executor(self, name: str, program: str = "supervised") -> None:
        """In a pod that is ready."""
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        spec = {
            "schedulerName": "nobody",
            "automountServiceAccountToken": False,
            "containers": [{"name": "executor", "image": "reports"}],
        }
        body = {"metadata": {"name": name, "labels": {"app": "reports"}}, "spec": spec}
        eventually("a pod can be made", lambda: self.scene.ask("POST", path, body)[0] in (201, 409))
        pod = self.scene.call("GET", f"{path}/{name}")
        running = {"name": "executor", "ready": True, "restartCount": 0, "image": "reports", "imageID": ""}
        status = {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [running | {"state": {"running": {}}}],
        }
        self.scene.call("PUT", f"{path}/{name}/status", pod | {"status": status})
        self.start("executor", name, pod["metadata"]["uid"], program)

    def create(self, name: str, **spec: Any) -> None:
        self.scene.call("POST", REPORTS.path(self.namespace), report(name, **spec))

    def by(self) -> dict[str, str]:
        """Who works on each object, as it says itself."""
        items = self.scene.call("GET", REPORTS.path(self.namespace))["items"]
        return {each["metadata"]["name"]: each.get("status", {}).get("by", "") for each in items}

    def counts(self) -> dict[str, int]:
        """How far the work on each object is."""
        items = self.scene.call("GET", REPORTS.path(self.namespace))["items"]
        return {each["metadata"]["name"]: each.get("status", {}).get("count", 0) for each in items}

    def leader(self) -> str:
        """Empty if nobody leads."""
        lease = f"{REPORTS.group_resource}.default.supervisor"
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/{lease}"
        status, found = self.scene.ask("GET", path)
        return str(found["spec"].get("holderIdentity") or "") if status == 200 else ""

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()


@pytest.fixture
def company(scene: Scene, executors_server: Server, tmp_path: Path) -> Iterator[Company]:
    made = Company(scene, executors_server, tmp_path)
    yield made
    made.end()


@pytest.mark.rule("sharding:K3", "sharding:K8", "sharding:K11", "sharding:L2", "sharding:L4")
def test_work_goes_on_when_the_leader_and_an_executor_are_killed(company: Company) -> None:
    for name in ("s1", "s2"):
        company.supervisor(name)
    for name in ("a", "b"):
        company.executor(name)
    for name in STAY:
        company.create(name)
    eventually("both work", company.by, lambda by: set(by) == {*STAY} and set(by.values()) == {"a", "b"})
    leader = eventually("somebody leads", company.leader)
    company.processes[leader].kill()
    company.processes["a"].kill()
    company.create("quick", quick=True)
    eventually("all is b's", company.by, lambda by: by == dict.fromkeys(STAY, "b"))
    assert company.leader() not in ("", leader)
    (record,) = company.archive.rglob("[!.]*.json")
    assert b'"name":"quick"' in record.read_bytes()
    other = company.processes["s2" if leader == "s1" else "s1"]
    other.stop(timeout_s=60)
    assert not company.leader(), other.tail(40)


@pytest.mark.rule("sharding:S3", "sharding:S7-S9", "sharding:L2", "sharding:L4")
@pytest.mark.parametrize("executors_server", ["real"], indirect=True)
def test_a_supervisor_and_an_executor_are_killed_at_call_after_call(company: Company) -> None:
    """Between every two of their first calls, before one has left and after it was answered."""
    quick = [f"quick-{number}" for number in range(12)]
    for name in (*STAY[:2], *quick):
        company.create(name, quick=name in quick)
    company.executor("a", "mortal")
    company.supervisor("s", "mortal")

    def ended(name: str) -> int:
        process = company.processes[name]
        assert process.running, process.tail(40)
        return process.tail(1000).count(TOLD)

    eventually("every life of both has ended", lambda: (ended("a"), ended("s")), lambda both: both == (LIVES, LIVES))
    for name in ("a", "s"):
        assert company.processes[name].running, company.processes[name].tail(40)
    eventually("all is done that was to be", company.by, lambda by: by == dict.fromkeys(STAY[:2], "a"))
    records = [json.loads(path.read_text())["subject"]["name"] for path in company.archive.rglob("[!.]*.json")]
    assert sorted(records) == sorted(quick)


@pytest.mark.rule("sharding:L2", "sharding:L4", "sharding:L6")
@pytest.mark.parametrize("executors_server", ["real"], indirect=True)
def test_work_goes_on_when_the_apiserver_is_restarted(company: Company, executors_server: RealServer) -> None:
    company.supervisor("s")
    company.executor("a")
    for name in STAY:
        company.create(name)
    eventually("all is worked on", company.by, lambda by: by == dict.fromkeys(STAY, "a"))
    executors_server.plane.restart_apiserver()
    before = company.counts()
    company.create("quick", quick=True)

    def look() -> dict[str, int]:
        for process in company.processes.values():
            if not process.running:  # without a lease for too long it ends itself; a kubelet begins it anew
                process.start()
        return company.counts()

    eventually("all goes on", look, lambda now: all(now.get(name, 0) != before[name] for name in STAY))
    eventually("what is new is done and archived", look, lambda now: "quick" not in now)
    assert company.by() == dict.fromkeys(STAY, "a")
