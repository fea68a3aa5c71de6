"""Answers beside the real kube-scheduler: each of its choices is among the best, its sentence is ours, and the least
change is one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from situate.cli.main import app
from tests.cli.processes import environment
from tests.controlplane.plane import ControlPlane, Options
from tests.waiting import WITHIN_S, eventually

pytestmark = pytest.mark.xdist_group("control-plane-with-scheduler")

PODS = 30


@pytest.fixture(scope="module")
def plane(start_control_plane: Callable[[Options], ControlPlane]) -> ControlPlane:
    """kube-scheduler without batching, which takes nodes over from one pod to the next without looking at others."""
    flags = {
        "kube-scheduler": ("--feature-gates=OpportunisticBatching=false",),
        # nodes stay as they are made: nobody here would take away the taint of a new one
        "kube-apiserver": ("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",),
    }
    made = start_control_plane(Options(scheduler=True, flags=flags))
    for number in range(6):
        made.request("POST", "/api/v1/nodes", a_node(number))
    # The scheduler watches nodes and pods apart: when it places a pod on the last node, it knows the others.
    last = {**a_pod(0)["spec"], "nodeSelector": {"kubernetes.io/hostname": "shadow-5"}}
    pods, first = "/api/v1/namespaces/default/pods", {"name": "first"}
    made.request("POST", pods, {"metadata": first, "spec": {**last, "terminationGracePeriodSeconds": 0}})
    path = f"{pods}/first"
    eventually("all nodes are known", lambda: made.request("GET", path)["spec"].get("nodeName"))
    made.request("DELETE", path)
    return made


def a_node(number: int) -> dict[str, Any]:
    name = f"shadow-{number}"
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "ab"[number % 2]}
    room = {"cpu": str(4 + number % 3 * 2), "memory": f"{8 + number}Gi", "pods": "20"}
    taints = [{"key": "slow", "effect": "PreferNoSchedule"}] if number == 1 else []
    if number == 2:
        taints = [{"key": "gpu", "effect": "NoSchedule"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": taints},
        "status": {"allocatable": room, "capacity": room},
    }


def a_pod(number: int) -> dict[str, Any]:
    app = "abc"[number % 3]
    spec: dict[str, Any] = {
        "containers": [
            {
                "name": "main",
                "image": "none",
                "resources": {"requests": {"cpu": f"{100 + number * 37 % 500}m", "memory": f"{64 << number % 4}Mi"}},
            }
        ]
    }
    if app == "b":
        selector = {"matchLabels": {"app": app}}
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": selector,
            }
        ]
    if number % 10 == 9:
        spec["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number}", "labels": {"app": app}},
        "spec": spec,
    }


def test_the_real_kube_scheduler_chooses_nothing_that_a_shadow_cannot_explain(
    plane: ControlPlane, tmp_path: Path
) -> None:
    kubeconfig = plane.kubeconfig()
    command = (sys.executable, "-m", "situate", "scheduler", "shadow", "--pods", str(PODS), "-o", "json")
    with (tmp_path / "told").open("w+") as told, (tmp_path / "said").open("w+") as said:
        shadow = subprocess.Popen(
            (*command, "--kubeconfig", str(kubeconfig), "--for", f"{WITHIN_S:g}s"),
            env=environment(tmp_path),
            stdout=told,
            stderr=said,
        )
        try:
            eventually("the shadow watches", (tmp_path / "said").read_text)
            for number in range(PODS):
                plane.request("POST", "/api/v1/namespaces/default/pods", a_pod(number))
            code = shadow.wait(timeout=2 * WITHIN_S)
        finally:
            shadow.kill()
            shadow.wait()
    found = json.loads((tmp_path / "told").read_text())
    assert found["decisions"] == PODS, (tmp_path / "said").read_text()
    assert [each for each in found["pods"] if not each["agrees"]] == []
    assert (code, found["remarks"]) == (0, [])
    assert found["counts"]["same"] + found["counts"]["equally good"] == PODS


def test_the_least_change_makes_the_real_kube_scheduler_place_the_pod(plane: ControlPlane) -> None:
    path = "/api/v1/namespaces/default/pods/large"
    requests = {"cpu": "9", "memory": "64Mi"}
    container = {"name": "main", "image": "none", "resources": {"requests": requests}}
    metadata = {"name": "large"}
    plane.request(
        "POST",
        "/api/v1/namespaces/default/pods",
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}},
    )
    conditions = eventually("it is refused", lambda: plane.request("GET", path)["status"].get("conditions"))
    result = CliRunner().invoke(
        app, ["scheduler", "explain", "large", "--kubeconfig", str(plane.kubeconfig()), "-o", "json"]
    )
    told = json.loads(result.stdout)
    assert conditions[0]["message"].startswith(told["message"])
    room = next(each for each in told["changes"] if each["kind"] == "room")
    assert set(room["room"]) == {"cpu"}
    node = plane.request("GET", f"/api/v1/nodes/{room['node']}")
    had = int(node["status"]["allocatable"]["cpu"])
    node["status"]["allocatable"]["cpu"] = f"{1000 * had + room['room']['cpu']}m"
    plane.request("PUT", f"/api/v1/nodes/{room['node']}/status", node)
    assert eventually("it is placed", lambda: plane.request("GET", path)["spec"].get("nodeName")) == room["node"]
