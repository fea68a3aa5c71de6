"""Supervisors and executors as real processes before both servers: a process of each kind is killed."""

from __future__ import annotations

import re
from functools import partial

import pytest

from situate.sharding.model.object_view import view_of
from situate.testing.sharding.world.reports import PATHS, REPORTS
from tests.contract.servers import RealServer
from tests.sharding.processes.company import Company
from tests.sharding.processes.gate import Gate
from tests.sharding.processes.gated import ANSWERED, LEAVES
from tests.waiting import eventually

STAY = [f"r-{number}" for number in range(6)]


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
        eventually("the second one stands by", lambda: "executors and objects listed" in company.log("s2"))
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
