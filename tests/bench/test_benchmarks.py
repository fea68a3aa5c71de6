"""Each benchmark runs at its smallest size and ends with the JSON object that it promises; no speed is asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.embedded import QUICK, Target, beside, embedded, in_turns

from situate.sim.spot.baselines import BASELINES
from tests.controlplane.plane import ControlPlane

ROOT = Path(__file__).parents[2]


def last_line(*command: str) -> dict[str, Any]:
    done = subprocess.run((sys.executable, "-m", *command), capture_output=True, text=True, cwd=ROOT, timeout=900)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.verify
def test_vpod() -> None:
    found = last_line("bench.vpod", "--quick")
    assert all(found[key]["100x10x50"] > 0 for key in ("fill_s", "noop_us", "policy_call_s"))


@pytest.mark.verify
def test_engine() -> None:
    rows = ("classes_5000", "parse_bind_5000", "SchedulingBasic", "TopologySpreading", "memory")
    found = last_line("bench.engine", "--quick", "--rows", *rows)
    assert found["pods_per_cpu_s"].keys() == {"classes_5000", "parse_bind_5000"}
    assert found["scheduler_perf"].keys() == {"SchedulingBasic", "TopologySpreading"}
    assert found["scheduler_perf"]["SchedulingBasic"]["threshold"] == 680
    assert 0 < found["memory"]["mib"] < 1024


@pytest.mark.slow
@pytest.mark.verify
def test_client() -> None:
    found = last_line("bench.client", "--quick")
    assert {"writes_ratio", "watch_ratio", "memory_ratio"} <= found.keys()
    assert all(found[key] > 0 for key in ("writes_ratio", "watch_ratio", "memory_ratio"))
    assert found["lightkube"][0].isdigit()


@pytest.mark.slow
@pytest.mark.verify
def test_embedded() -> None:
    found = last_line("bench.embedded", "--quick", "--no-real")
    assert {"writes_per_s", "watch_events_per_s", "mib_100k_pods", "ready_s"} <= found.keys()
    assert "writes_ratio" not in found, "there was nothing to compare with"
    assert all(found[key] > 0 for key in ("writes_per_s", "watch_events_per_s", "mib_100k_pods", "ready_s"))


@pytest.mark.slow
@pytest.mark.verify
def test_embedded_beside_the_real_one(control_plane: ControlPlane, tmp_path: Path) -> None:
    pids = tuple(control_plane.component(name).pid for name in ("etcd", "kube-apiserver"))
    real = Target("etcd and kube-apiserver", control_plane.kubeconfig(), pids)
    with embedded(tmp_path) as ours:
        middles = in_turns([ours, real], QUICK)
    for number in range(real.loads):  # others use this server too
        control_plane.request("DELETE", f"/api/v1/namespaces/load-{number + 1}/pods?gracePeriodSeconds=0")
    found = beside(*middles)
    assert all(value > 0 for value in found.values())
    assert found["writes_per_s"] == middles[0]["writes_per_s"] == ours.results[0]["writes_per_s"]
    assert found["real_writes_per_s"] == middles[1]["writes_per_s"] == real.results[0]["writes_per_s"]
    assert found["writes_ratio"] == found["writes_per_s"] / found["real_writes_per_s"]


def test_the_ratios_of_embedded() -> None:
    ours = {"writes_per_s": 6000.0, "server_cpu_us": 100.0}
    theirs = {"writes_per_s": 1500.0, "server_cpu_us": 800.0}
    assert beside(ours) == {"writes_per_s": 6000.0, "writes_per_cpu_s": 10_000.0}
    found = beside(ours, theirs)
    assert (found["writes_ratio"], found["writes_per_cpu_s_ratio"], found["real_writes_per_s"]) == (4.0, 8.0, 1500.0)


@pytest.mark.slow
@pytest.mark.verify
def test_e2e(control_plane_programs: object) -> None:
    found = last_line("bench.e2e", "--quick")
    for key in ("ours", "kube_scheduler", "kube_scheduler_all_nodes"):
        assert found[key].keys() == {"pods_per_s", "cpu_ms_per_pod"}
        assert all(value > 0 for value in found[key].values())


@pytest.mark.slow
@pytest.mark.verify
@pytest.mark.rule("spot:B38")
def test_spot() -> None:
    found = last_line("bench.spot", "--quick")
    keys = {"admission_ms_p50", "admission_ms_p99", "rss_mib", "ready_s"}
    assert keys <= found.keys()
    assert all(found[key] > 0 for key in keys)
    exact, tried = found["exact_bursts"]
    assert exact == tried == 6
    assert found["wave"].keys() == {each.name for each in BASELINES}
    for figures in found["wave"].values():
        assert figures.keys() == {"outage_s", "pod_s_short", "least_ready", "cost"}


@pytest.mark.slow
@pytest.mark.verify
def test_permits_of_vm() -> None:
    """The shipped process grants what the benchmark asks for, so its account is one that may ask."""
    found = last_line("bench.vm_permits", "--machines", "20", "--nodes", "4", "--requests", "20")
    assert {"decision_ms_p99", "answer_ms_p99", "explain_ms_p99", "what_if_ms_p99"} <= found.keys()
    assert all(value > 0 for value in found.values())
