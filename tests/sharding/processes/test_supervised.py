"""Supervisors and executors as real processes before both servers: a process of each kind is killed."""

from __future__ import annotations

import itertools
import json
import os
import re
import sys
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from situate.sharding.assignment import view_of
from situate.sharding.names import EXECUTOR_SELECTOR
from situate.testing.sharding.shipped.reports import PATHS, REPORTS, report
from tests.contract.servers import RealServer, Server
from tests.controlplane.process import Process
from tests.sharding.processes.gate import Gate
from tests.sharding.processes.gated import ANSWERED, LEAVES
from tests.sharding.processes.mortal import CALLS, told
from tests.sharding.processes.place import Place
from tests.sharding.processes.scene import ROOT
from tests.waiting import WITHIN_S, eventually

STAY = [f"r-{number}" for number in range(6)]


class Company:
    """A namespace, supervisors and executors; none of them outlives the test."""

    def __init__(self, server: Server, folder: Path) -> None:
        self.namespace = f"company-{uuid.uuid4().hex[:8]}"
        self.place = Place(server, self.namespace, folder)
        self.folder = folder
        self.archive = folder / "archive"
        self.archive.mkdir()
        self.processes: dict[str, Process] = {}
        self.uids: dict[str, str] = {}
        """Of executors' pods."""

    def start(self, role: str, name: str, kubeconfig: Path, extra: str, program: str, **environment: str) -> None:
        program = f"tests.sharding.processes.{program}"
        command = (sys.executable, "-m", program, str(kubeconfig), self.namespace, role, name, extra)
        plain = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        log = self.folder / f"{name}.log"
        self.processes[name] = Process(name, command, log, environment={**plain, **environment})
        self.processes[name].start()

    def supervisor(self, name: str, program: str = "supervised", **environment: str) -> None:
        kubeconfig = self.place.supervisor_kubeconfig(name)
        self.start("supervisor", name, kubeconfig, str(self.archive), program, **environment)

    def executor(self, name: str, program: str = "supervised") -> None:
        """In a pod that is ready."""
        self.uids[name] = uid = self.place.pod(name)
        self.start("executor", name, self.place.executor_kubeconfig(name, uid), uid, program)

    def create(self, name: str, annotations: dict[str, str] | None = None, **spec: Any) -> None:
        made = report(name, **spec)
        made["metadata"]["annotations"] = annotations or {}
        self.place.call("POST", REPORTS.path(self.namespace), made)

    def log(self, name: str) -> str:
        return self.processes[name].log.read_text()

    def reports(self) -> dict[str, dict[str, Any]]:
        items = self.place.call("GET", REPORTS.path(self.namespace))["items"]
        return {each["metadata"]["name"]: each for each in items}

    def by(self) -> dict[str, str]:
        """Who works on each object, as it says itself."""
        return {name: each.get("status", {}).get("by", "") for name, each in self.reports().items()}

    def counts(self) -> dict[str, int]:
        """How far the work on each object is."""
        return {name: each.get("status", {}).get("count", 0) for name, each in self.reports().items()}

    def leader(self) -> str:
        """Empty if nobody leads."""
        lease = f"{REPORTS.group_resource}.default.supervisor"
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/{lease}"
        status, found = self.place.ask("GET", path)
        return str(found["spec"].get("holderIdentity") or "") if status == 200 else ""

    def end(self) -> None:
        for process in self.processes.values():
            process.kill()
        self.place.check()


@pytest.fixture
def company(executors_server: Server, tmp_path: Path) -> Iterator[Company]:
    made = Company(executors_server, tmp_path)
    yield made
    made.end()


@pytest.mark.rule("sharding:K3", "sharding:K8", "sharding:K11", "sharding:L2", "sharding:L4")
def test_work_goes_on_when_the_leader_and_an_executor_are_killed(company: Company) -> None:
    for name in ("s1", "s2"):
        company.supervisor(name)
    for name in ("a", "b"):
        company.executor(name)
    for name, uid in company.uids.items():
        # or whoever is there first is given all
        eventually(f"{name} is known", partial(company.place.lease_holder, name, uid))
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


class Errands:
    """Gives a supervisor occasion for the call after which its life is to end, and executors theirs."""

    def __init__(self, company: Company) -> None:
        self._company = company
        self._made = itertools.count()
        self.dropped: set[str] = set()
        """Objects that a user has deleted while somebody worked on them."""

    def run(self, awaited: str) -> None:
        found = self._company.reports()
        if sum(name.startswith("quick") for name in found) < 2:
            self._make("quick", quick=True)
        held = [name for name, each in found.items() if name.startswith("stay") and each.get("status", {}).get("by")]
        if awaited == "asks to drain" and held and not any("deletionTimestamp" in found[n]["metadata"] for n in held):
            self._company.place.call("DELETE", REPORTS.path(self._company.namespace, held[0]))
            self.dropped.add(held[0])
            self._make("stay")
        if awaited == "says why" and all("status" in each for name, each in found.items() if name.startswith("lone")):
            self._make("lone", annotations={EXECUTOR_SELECTOR: "like=nobody"})
        if awaited == "tells":
            path = REPORTS.path(self._company.namespace, self._make("odd"))
            odd = self._company.place.call("GET", path) | {"status": {"completedAt": True}}
            self._company.place.ask("PUT", f"{path}/status", odd)

    def _make(self, kind: str, annotations: dict[str, str] | None = None, **spec: Any) -> str:
        name = f"{kind}-{next(self._made)}"
        self._company.create(name, annotations, **spec)
        return name


@pytest.mark.rule("sharding:S3", "sharding:S7-S9", "sharding:L2", "sharding:L4")
@pytest.mark.parametrize("executors_server", ["real"], indirect=True)
def test_a_supervisor_and_an_executor_are_killed_between_every_two_of_their_calls(company: Company) -> None:
    """From the assignment of a unit of work to the end of its object, and from the first call of a process to its last;
    a call of another kind, and one that is made no more, fails the test."""
    errands, stay = Errands(company), ["stay-a", "stay-b"]
    for name in stay:
        company.create(name)
    roles = {"a": "executor", "s": "supervisor"}
    company.executor("a", "mortal")
    company.supervisor("s", "mortal")

    def awaited() -> dict[str, str]:
        """After what each shall die; nothing is left of one that has died enough."""
        left = {}
        for name, role in roles.items():
            process = company.processes[name]
            assert process.running, process.tail(40)
            lines = process.log.read_text().splitlines()
            if after := next((each for each in CALLS[role] if told(each) not in lines), ""):
                left[name] = after
        errands.run(left.get("s", ""))
        return left

    eventually("every life has ended", awaited, lambda left: not left, within_s=5 * WITHIN_S)
    quick = {f"quick-{number}" for number in range(1000)}
    eventually(
        "all is done that was to be", company.by, lambda by: not quick & set(by) and not errands.dropped & set(by)
    )
    stay = [name for name in company.reports() if name.startswith("stay")]
    assert len(stay) == 2
    eventually("the rest is worked on", company.by, lambda by: [by[name] for name in stay] == ["a", "a"])
    records = [json.loads(path.read_text())["subject"]["name"] for path in company.archive.rglob("[!.]*.json")]
    assert len(records) == len(set(records))
    assert set(records) - quick == errands.dropped


@pytest.mark.rule("sharding:S10", "sharding:S2", "sharding:S3")
@pytest.mark.parametrize("executors_server", ["real"], indirect=True)
def test_a_supervisor_stopped_past_its_lease_has_its_write_in_flight_refused(company: Company) -> None:
    """Its assignment arrives when another one leads and has placed the object; nothing is assigned twice."""
    company.executor("a")
    with Gate(company.place.port) as gate:
        company.supervisor("s1", "gated", WORK_PORT=str(gate.port))
        first = company.processes["s1"]
        company.create("r-0")
        eventually("the first one leads", company.by, lambda by: by["r-0"] == "a")
        company.supervisor("s2")
        eventually("the second one stands by", lambda: "executors and objects are known" in company.log("s2"))
        company.create("r-1")  # so that a connection is open, by which the next write leaves at once
        eventually("the first one goes on", lambda: company.by().get("r-1") == "a")
        gate.hold()
        company.create("late")
        path = REPORTS.path(company.namespace, "late")
        eventually("its assignment is under way", lambda: f"{LEAVES}{path}\n" in company.log("s1") and gate.held > 500)
        first.pause()
        eventually(
            "the second one leads and has placed it", lambda: (company.leader(), company.by()["late"]) == ("s2", "a")
        )
        gate.let_go()
        sent = company.log("s1").count(LEAVES)
        first.resume()
        answers = eventually("it was answered", lambda: re.findall(f"{ANSWERED}([0-9]+) {path}\n", company.log("s1")))
        assert {*answers} == {"409"}
        company.create("next")
        eventually("the second one goes on", lambda: company.by().get("next") == "a")
        company.processes["s2"].stop(timeout_s=60)
        assert (company.log("s1").count(LEAVES), first.running) == (sent, True), "until it leads again"
        company.create("last")
        eventually("the first one leads again", lambda: company.by().get("last") == "a")
    views = {name: view_of(each, PATHS) for name, each in company.reports().items()}
    assert {name: view.epoch for name, view in views.items()} == dict.fromkeys(
        ("r-0", "r-1", "late", "next", "last"), 1
    )
    assert views["r-0"].term < views["late"].term == views["next"].term < views["last"].term


@pytest.mark.rule("sharding:L2", "sharding:L4", "sharding:L6")
@pytest.mark.parametrize("executors_server", ["real"], indirect=True)
def test_work_goes_on_when_the_apiserver_is_restarted(company: Company, executors_server: RealServer) -> None:
    company.supervisor("s")
    company.executor("a")
    for name in STAY:
        company.create(name)
    eventually("all is worked on", company.by, lambda by: by == dict.fromkeys(STAY, "a"))
    company.place.check()
    executors_server.plane.restart_apiserver()
    before = company.counts()
    company.create("quick", quick=True)

    def look() -> dict[str, int]:
        for process in company.processes.values():
            if not process.running:  # without a lease for too long it ends itself; a kubelet begins it anew
                process.start()
        return company.counts()

    eventually("all goes on", look, lambda now: all(now.get(name, 0) != before[name] for name in STAY))
    company.place.pardon()
    eventually("what is new is done and archived", look, lambda now: "quick" not in now)
    assert company.by() == dict.fromkeys(STAY, "a")
