"""vm on a real API server, under the printed rights: a machine moves so that another may grow, whoever dies meanwhile,
whoever leads, and whoever else binds pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from situate.vm.api.well_known import REQUESTED, TARGET_NODE
from tests.controlplane.ports import ReservedPort
from tests.controlplane.process import Process
from tests.e2e.vm_crew import ELECTION, STALLED, VmCrew, amount, claim_of, copies, memory, metric
from tests.e2e.vpod_cluster import Cluster, rfc3339_now
from tests.waiting import eventually

pytestmark = pytest.mark.slow


@pytest.fixture
def crew(bare_cluster: Cluster, machines: Process, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[VmCrew]:
    """Two nodes; `a`, `b` and `d` run on the first, which has one CPU left, and `b` could run on the second."""
    name = request.node.name.partition("[")[0].removeprefix("test_").replace("_", "-")[:20].strip("-")
    with VmCrew(bare_cluster, f"vm-{name}", tmp_path, leaderElection=ELECTION) as ours:
        ours.add_nodes(1)
        ours.wait_leads(ours.start("first"))
        ours.create_machine("a", 2)
        ours.create_machine("b", 4, migratable=True, behaviour=STALLED)
        ours.create_machine("d", 1)
        for each in "abd":
            ours.wait_runs(each, ours.nodes[0])
        ours.add_nodes(1)
        yield ours


@pytest.mark.rule("vm:N1", "vm:N5", "vm:N6", "vm:N7", "vm:N8", "vm:N11", "vm:N14", "vm:B2", "vm:B4", "vm:B9", "vm:I4")
def test_what_a_neighbour_leaves_goes_to_nobody_but_the_one_who_asked(crew: VmCrew) -> None:
    home, other = crew.nodes
    crew.wait_kept_from_evictions("b")
    crew.ask("a", 7)
    move = crew.wait_move(copies)
    assert crew.approved("a") == amount(3), "what was free is granted at once"
    assert move["metadata"]["annotations"][TARGET_NODE] == other
    claim = claim_of(move)
    assert (claim["node"], claim["amount"]) == (home, {"cpu": 4, "mem": memory(4)})
    assert claim["beneficiary"]["name"] == crew.machine("a")["status"]["podName"]

    crew.ask("d", 2)
    crew.create("plain", cpu="1", nodeSelector={"kubernetes.io/hostname": home})
    crew.wait_known("d", REQUESTED)
    eventually("the pod is told that it has no room", lambda: crew.condition("plain").get("reason"))
    crew.release("b")
    crew.wait_approved("a", 7)
    crew.wait_runs("b", other)
    crew.wait_no_move()
    assert claim["id"] in crew.closed_claims("a")
    eventually("its account has grown", lambda: crew.requests_of("a"), lambda room: room == ("7", memory(7)))
    crew.grow("a", 7)
    eventually(
        "a has grown",
        lambda: crew.machine("a")["status"],
        lambda status: (status["phase"], status["cpus"], status["memorySize"]) == ("Running", 7, memory(7)),
    )
    assert crew.approved("d") in ("", amount(1))
    assert "plain" not in crew.bound()
    assert crew.moves_begun() == 1


@pytest.mark.rule("vm:B43", "vm:I8", "vm:I3", "vm:B2", "vm:B10", "vm:F3")
def test_killed_at_each_step_of_a_move(crew: VmCrew, machines: Process) -> None:
    """Processes live by turns; what each step leaves behind stays until the next one has seen it."""
    _, other = crew.nodes
    source = crew.machine("b")["status"]["podName"]
    crew.ask("a", 7)
    crew.wait_known("a", REQUESTED)

    def goes_on(after: str) -> None:
        granted = [crew.approved(name) for name in "abd"]
        crew.take_over(after)
        (move,) = crew.moves()
        assert (move["metadata"]["uid"], claim_of(move)) == (created["metadata"]["uid"], claim), after
        assert [crew.approved(name) for name in "abd"] == granted, after

    kwok = crew.cluster.plane.component("kwok")
    with paused(kwok):
        with paused(machines):
            crew.take_over("planned")
            created = crew.wait_move()
            crew.wait_approved("a", 3)
            claim = claim_of(created)
            goes_on("created")
        target = crew.wait_move(lambda move: move.get("status", {}).get("targetPodName"))["status"]["targetPodName"]
        eventually("the target is bound", crew.bound, lambda bound: bound.get(target) == other)
        goes_on("bound")
    crew.wait_move(copies)
    with paused(kwok):
        crew.kill()
        crew.release("b")
        crew.wait_move(lambda move: move["status"]["phase"] == "Succeeded")
        goes_on("copying")
        eventually("the source is to go", lambda: "deletionTimestamp" in crew.get(source)["metadata"])
        crew.kill()
    eventually("the source is gone", lambda: crew.get(source), lambda pod: pod is None)
    assert crew.approved("a") == amount(3)
    crew.take_over("succeeded")
    crew.wait_approved("a", 7)
    crew.take_over("patched")
    crew.wait_no_move()
    assert crew.approved("a") == amount(7)
    assert claim["id"] in crew.closed_claims("a")
    assert crew.wait_runs("b", other) == target
    assert crew.moves_begun() == 1


@pytest.mark.rule("vm:B44", "vm:C17", "vm:F4", "vm:B8", "vm:F10", "vm:I1")
def test_the_one_that_lost_the_lease_writes_nothing_and_the_other_sees_room_taken(crew: VmCrew) -> None:
    """Another scheduler binds a pod into room that is held while the lease changes hands."""
    home, other = crew.nodes
    (first,) = crew.schedulers
    for each in ("first", "second"):
        crew.create(each, schedulerName="nobody")
    crew.ask("a", 7)
    crew.wait_move(copies)
    with ReservedPort() as port:
        second = crew.start("second", f"health.address=127.0.0.1:{port.number}")
        second.wait_synced()
        first.process.pause()
        since = rfc3339_now()
        eventually("the second leads", lambda: second.said("ledger created"))
        crew.bind_as_stranger("stranger", home, cpus=2)
        eventually(
            "a is promised less",
            lambda: claim_of(crew.wait_move())["amount"],
            lambda left: left == {"cpu": 2, "mem": memory(2)},
        )
        runner = crew.machine("a")["status"]["podName"]
        eventually("agents ask the second", crew.marked, lambda names: names == ["second"])
        eventually("a is told", lambda: crew.events("a", "ClaimBroken") + crew.events(runner, "ClaimBroken"))
        assert metric(port.number, "situate_vm_claim_broken_total") == 1
    crew.release("b")
    crew.wait_approved("a", 5)
    crew.wait_runs("b", other)
    crew.wait_no_move()
    first.process.resume()
    (lost, *_) = eventually("the first knows that it lost", lambda: first.said("leadership lost"))
    assert [each for each in crew.writes_of(first) if since < each.at <= lost["time"]] == []
    assert crew.bound()["stranger"] == home
    assert crew.moves_begun() == 1


@contextmanager
def paused(process: Process) -> Iterator[None]:
    process.pause()
    try:
        yield
    finally:
        process.resume()
