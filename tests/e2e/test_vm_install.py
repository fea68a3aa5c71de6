"""vm by what is printed alone: agents find it, a rollout hands it over, and a node is drained, on a real API server."""

from __future__ import annotations

import json
from functools import partial
from http.client import HTTPException
from pathlib import Path

import pytest

from situate.vm.api.well_known import LOAD, MIGRATION_TIMES
from tests.controlplane.certificates import signing_key
from tests.controlplane.process import Process
from tests.e2e.vm_crew import ELECTION, QUICK, metrics
from tests.e2e.vm_installed import InstalledVm
from tests.e2e.vpod_cluster import Cluster
from tests.vm.server.scene import asking, cores
from tests.vm.server.test_callers_real import servers_key, signed
from tests.waiting import eventually

pytestmark = pytest.mark.slow

AT_ONCE = 10_000
"""Requests that the port bears."""
MOST_FAILED = 5
"""Requests in two minutes, of an agent that goes on (C35)."""


@pytest.mark.rule("vm:C17", "vm:C35", "vm:B44", "vm:C2", "vm:D22", "vm:B48", "vm:F5", "vm:C14")
def test_an_installation_serves_agents_through_a_rollout_and_lets_a_node_be_drained(
    bare_cluster: Cluster, machines: Process, tmp_path: Path
) -> None:
    assert machines.running
    with InstalledVm(bare_cluster, "vm-installed", tmp_path, leaderElection=ELECTION) as ours:
        ours.add_nodes(1)
        home = ours.nodes[0]
        old, first = ours.start_pod()
        ours.create_machine("a", 2, migratable=True, behaviour=QUICK)
        ours.wait_runs("a", home)
        agent = ours.start_agent(home, "monitor.kind=standIn", "metrics.source=annotation")
        ours.annotate("a", {LOAD: '{"load1": 2.7}'})
        ours.wait_approved("a", 3)
        assert (ours.holder(), ours.marked()) == (old, [old])
        assert "is Ready" not in (tmp_path / "agent.log").read_text(), "it has looked before it says that there is none"

        plane = bare_cluster.plane
        token, key = plane.service_account_token(ours.home, ours.agents_account), servers_key(plane)
        past, foreign = signed(token, key, ended_s_ago=60.0), signed(token, signing_key()[0])
        refused = [ours.refusal(old, each) for each in (None, foreign, past, plane.token(), token)]
        assert refused == [401, 401, 401, 403, 400], "only the last one hears what is wrong with its request"
        with pytest.raises((OSError, HTTPException)):
            ours.refusal(old, token, encrypted=False)
        _flood(ours, old, token)

        ours.roll_out()
        new, second = ours.start_pod(old)
        eventually("agents are led to the newer pod", ours.marked, lambda names: names == [new])
        assert ours.holder() == new
        (given,) = first.said("lease handed over to a newer revision")
        assert given["pod"] == new
        assert ours.runs(old), "nobody has stopped it"
        ours.annotate("a", {LOAD: '{"load1": 4.5}'})
        ours.wait_approved("a", 5)
        eventually("a has grown", lambda: ours.machine("a")["status"].get("cpus"), lambda cpus: cpus == 5)
        assert ours.marked() == [new]
        assert len(first.said("ledger created")) == len(second.said("ledger created")) == 1
        requests = metrics(agent, "situate_vm_agent_requests_total")
        failed = [count for labels, count in requests.items() if "scheduler" in labels and "failed" in labels]
        assert sum(failed) <= MOST_FAILED, requests
        assert not sum(metrics(agent, "situate_vm_agent_unhealthy").values())

        ours.add_nodes(1)
        ours.wait_asked_about_evictions(ours.machine("a")["status"]["podName"])
        said = bare_cluster.kubectl("drain", home, "--ignore-daemonsets", "--force", "--timeout=110s")
        assert f"node/{home} drained" in said
        ours.wait_runs("a", ours.nodes[1])
        moved = eventually(
            "a has moved", partial(ours.machine, "a"), lambda it: MIGRATION_TIMES in it["metadata"]["annotations"]
        )
        assert not moved["status"].get("restartCount")
        assert ours.moves_begun() == 1


def _flood(ours: InstalledVm, pod: str, token: str) -> None:
    """Of requests that are wrong each in its way: all are told so, and the one machine has what it had."""
    before = ours.machine("a")
    wrong = {
        b"{": (400, "JSON"),
        b'{"protoVersion":6}': (400, "v4.0"),
        _body("nobody", 1): (404, "nobody"),
        _body(before["status"]["podName"], -1): (400, "resources.vCPUs"),
        _body(before["status"]["podName"], 10**30): (400, "resources.vCPUs"),
    }
    told = ours.answered(pod, token, [*wrong] * (AT_ONCE // len(wrong)))
    assert sorted(told.values()) == [AT_ONCE // len(wrong)] * len(wrong), told
    for status, words in wrong.values():
        assert any(answer[0] == status and words in answer[1] for answer in told), (status, words, told)
    assert ours.machine("a")["metadata"]["annotations"] == before["metadata"]["annotations"]


def _body(pod: str, cpus: int) -> bytes:
    return json.dumps(asking(pod, cores(cpus), None)).encode()
