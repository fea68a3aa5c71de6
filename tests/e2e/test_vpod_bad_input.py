"""Wrong set-ups and hostile objects on a real cluster: each is told in a sentence, and none stops anybody else."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from situate.vpod.policy.configmap import parse_policy
from tests.e2e.vpod_cluster import Arena, Cluster
from tests.waiting import eventually

REJECTED = "configuration rejected; the last valid one stays in force"


def test_an_expired_client_certificate_is_one_sentence(
    cluster: Cluster, arena: Callable[..., Arena], tmp_path: Path
) -> None:
    plane = cluster.plane
    pair = plane.client_certificate("late", ["system:masters"], age=timedelta(days=30))
    user = {
        "client-certificate-data": base64.b64encode(pair.certificate).decode(),
        "client-key-data": base64.b64encode(pair.key).decode(),
    }
    config = json.loads(plane.kubeconfig().read_text())
    config["users"][0]["user"] = user
    kubeconfig = tmp_path / "expired"
    kubeconfig.write_text(json.dumps(config))
    ours = arena("expired")
    ours.configure()
    for command in (("check",), ("vpod", "status"), ("run", "--set", "health.address=null")):
        done = cluster.situate(*command, "-f", str(ours.file), kubeconfig=kubeconfig)
        assert done.returncode == 3, done.stderr
        (sentence,) = done.stderr.splitlines()
        assert sentence.startswith("situate: cannot ")
        assert sentence.endswith(
            "401 Unauthorized: Unauthorized; log in again or renew the credentials of the current context"
        )


def test_a_missing_right_is_named_until_it_is_granted(arena: Callable[..., Arena]) -> None:
    with arena("unprivileged") as ours, ours.refusals_allowed():
        ours.grant(without="nodes")
        ours.add_statefulset()
        ours.want(orders=2)
        scheduler = ours.start()
        eventually("the log names it", lambda: _warnings_of(scheduler.log(), "nodes"))
        (sentence,) = {line["error"] for line in _warnings_of(scheduler.log(), "nodes")}
        assert 'cannot list resource "nodes"' in sentence or 'cannot watch resource "nodes"' in sentence
        assert "grant the permission (`situate manifests` prints the permissions needed)" in sentence
        assert ours.missing() == {"orders": 2}
        ours.grant()
        ours.wait_placed()


@pytest.mark.rule("vpod:D20")
def test_a_statefulset_that_is_missing_is_waited_for(arena: Callable[..., Arena]) -> None:
    with arena("nothing-there") as ours:
        ours.want(orders=3)
        scheduler = ours.start()
        eventually("somebody is told", lambda: ours.events("StatefulSetMissing"))
        condition = eventually("the condition says it", lambda: _scheduled(ours, "orders"))
        assert (condition["status"], condition["reason"]) == ("False", "Schedule")
        assert condition["message"].startswith(f"StatefulSet {ours.name}/dispatcher does not exist: create it")
        ours.add_statefulset()
        ours.wait_placed()
        assert len(scheduler.said("StatefulSet does not exist, waiting for it")) == 1
        assert [event.get("count", 1) for event in ours.events("StatefulSetMissing")] == [1]


@pytest.mark.rule("vpod:B12", "vpod:D10", "vpod:D11", "vpod:D12")
def test_a_malformed_status_concerns_its_object_only(cluster: Cluster, arena: Callable[..., Arena]) -> None:
    """What kubectl and the definition let through: pods without an ordinal, absurd ordinals, negative numbers."""
    placements = [
        {"podName": "no-ordinal", "vreplicas": 2},
        {"podName": "dispatcher-2147483647", "vreplicas": 2147483647},
        {"podName": "dispatcher-0", "vreplicas": -5},
        {"podName": "dispatcher-01"},
        {"vreplicas": 7},
    ]
    with arena("malformed") as ours:
        ours.add_statefulset()
        ours.want(hostile=2, orders=3)
        patch = ("patch", "consumergroup", "hostile", "-n", ours.name, "--subresource=status", "--type=merge", "-p")
        cluster.kubectl(*patch, json.dumps({"status": {"placements": placements}}))
        ours.start()
        ours.wait_placed()
        told = eventually("somebody is told", lambda: ours.events("InvalidPlacement"))
        assert {each["involvedObject"]["name"] for each in told} == {"hostile"}
        assert ours.replicas() == 2  # 5 vreplicas, 4 a pod; the absurd ones count for nothing

        # and while it runs
        cluster.kubectl(*patch, json.dumps({"status": {"placements": placements}}))
        ours.want(orders=5)
        eventually("both are right again", ours.placements, lambda held: _total(held) == {"hostile": 2, "orders": 5})
        assert all(pod in ("dispatcher-0", "dispatcher-1") for pods in ours.placements().values() for pod in pods)
        eventually("the change by someone else is told", lambda: ours.events("PlacementDrift"))


@pytest.mark.rule("vpod:D16", "vpod:V17", "vpod:V25")
def test_a_bad_policy_leaves_the_last_good_one(cluster: Cluster, arena: Callable[..., Arena]) -> None:
    configs = {"schedulerConfig": "placing", "deschedulerConfig": "removing"}
    spread = [{"Name": "LowestOrdinalPriority", "Weight": 10}]
    highest = [{"Name": "RemoveWithHighestOrdinalPriority", "Weight": 2}]
    bad = [{"Name": "LowestOrdinalPriority", "Weight": 11}]
    with arena("policies", policy="policy", minReplicas=2, **configs) as ours:
        ours.add_statefulset(replicas=2)
        cluster.apply(_policy(ours, "placing", spread), _policy(ours, "removing", highest))
        ours.want(orders=3)
        ours.start()
        assert ours.wait_placed()["orders"] == {"dispatcher-0": 3}  # as the priority says; spread would take both

        cluster.apply(_policy(ours, "placing", bad))
        (event,) = eventually("somebody is told", lambda: ours.events("ConfigInvalid"))
        assert (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("ConfigMap", "placing")
        assert "the last valid policy stays in force" in event["message"]
        assert "11" in event["message"]
        ours.want(payments=1)
        assert ours.wait_placed()["payments"] == {"dispatcher-0": 1}
        checked = cluster.situate("check", "-f", str(ours.file), "-o", "json", kubeconfig=ours.kubeconfig())
        (finding,) = [each for each in json.loads(checked.stdout) if not each["ok"]]
        assert finding["check"] == f"policy {ours.name}/placing"
        assert "found 11, allowed: an integer from 0 to 10" in finding["next_step"]
        assert checked.returncode == 1


@pytest.mark.rule("vpod:B15")
def test_settings_change_while_running_and_a_mistake_changes_nothing(arena: Callable[..., Arena]) -> None:
    with arena("reloaded") as ours:
        ours.add_statefulset()
        ours.want(orders=8)
        scheduler = ours.start()
        before = ours.wait_placed()
        assert ours.replicas() == 2

        ours.configure(podCapacity=0)
        (line,) = eventually("the log tells", lambda: scheduler.said(REJECTED))
        assert "vpod[0].podCapacity: found 0, allowed: an integer of at least 1" in line["mistakes"]
        ours.want(orders=9)  # goes on with 4 a pod
        eventually("the set has grown", ours.replicas, lambda replicas: replicas == 3)
        after = ours.wait_placed()
        assert all(after["orders"][pod] >= held for pod, held in before["orders"].items())

        ours.configure(podCapacity=9)
        eventually("one pod is enough", ours.replicas, lambda replicas: replicas == 1)
        assert ours.wait_placed()["orders"] == {"dispatcher-0": 9}


def _policy(ours: Arena, name: str, priorities: list[dict[str, Any]]) -> dict[str, Any]:
    predicates = [{"Name": "PodFitsResources"}] if name == "placing" else []
    data = {"predicates": json.dumps(predicates), "priorities": json.dumps(priorities)}
    assert bool(parse_policy(data).mistakes) == any(each["Weight"] > 10 for each in priorities)
    metadata = {"name": name, "namespace": ours.name}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def _scheduled(ours: Arena, name: str) -> Any:
    status = ours.cluster.get(ours.group_path(name)).get("status", {})
    return next((each for each in status.get("conditions", ()) if each["type"] == "ConsumersScheduled"), None)


def _warnings_of(log: Any, resource: str) -> list[dict[str, Any]]:
    return [line for line in log if line.get("resource") == resource and "error" in line]


def _total(held: dict[str, dict[str, int]]) -> dict[str, int]:
    return {name: sum(pods.values()) for name, pods in held.items()}
