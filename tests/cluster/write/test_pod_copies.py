"""Copies must be what the whole way would have made: each case is compared with a server that never copies."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.asking import PODS, Cluster, pod

PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def plain(obj: Any) -> Any:
    metadata = {key: value for key, value in obj["metadata"].items() if key not in ("uid", "resourceVersion")}
    return {**obj, "metadata": metadata}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(pod("b"), id="plain"),
        pytest.param(
            {**pod("b"), "metadata": {"name": "b", "labels": {"x": "y"}, "annotations": {"k": "v"}}}, id="meta"
        ),
        pytest.param(pod("b", nodeName="n", tolerations=[{"operator": "Exists"}]), id="spec"),
        pytest.param(pod("b", schedulingGates=[{"name": "x.io/g"}]), id="gated"),
        pytest.param({**pod("b"), "status": {"phase": "Running"}}, id="status"),
    ],
)
def test_a_copy_is_equal_to_a_pod_of_its_own(body: dict[str, Any]) -> None:
    first, alone = Cluster(), Cluster()
    for name in ("a", "aa"):  # the second of its kind is remembered
        first.post(PODS, {**body, "metadata": {**body["metadata"], "name": name}}).ok(201)
    first.now = alone.now = first.now + 5
    assert plain(first.post(PODS, body).ok(201)) == plain(alone.post(PODS, body).ok(201))
    assert first.get(f"{PODS}/a").ok()["metadata"]["uid"] != first.get(f"{PODS}/b").ok()["metadata"]["uid"]


def test_what_makes_a_pod_different_is_never_copied() -> None:
    cluster = Cluster()
    for name in ("a", "aa"):
        cluster.post(PODS, pod(name)).ok(201)
    assert cluster.post(PODS, pod("a")).ok(409)["reason"] == "AlreadyExists"
    assert cluster.post(PODS, pod("UPPER")).ok(422)["reason"] == "Invalid"
    assert cluster.post("/api/v1/namespaces/none/pods", pod("b")).code == 404
    assert "resourceVersion" not in cluster.post(f"{PODS}?dryRun=All", pod("c")).ok(201)["metadata"]
    default = {"metadata": {"name": "high"}, "value": 7, "globalDefault": True}
    cluster.post(PRIORITIES, default).ok(201)
    assert cluster.post(PODS, pod("d")).ok(201)["spec"]["priority"] == 7


def test_unknown_fields_are_warned_of_each_time() -> None:
    cluster = Cluster()
    for name in "abc":
        assert "unknown field" in cluster.post(PODS, pod(name, none=1)).headers["warning"]
