from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.asking import PODS, Cluster, pod

BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    labels = {"topology.kubernetes.io/zone": "a", "other": "x"}
    made.post("/api/v1/nodes", {"metadata": {"name": "n", "labels": labels}}).ok(201)
    return made


def bind(cluster: Cluster, name: str = "p", node: str = "n", **metadata: Any) -> Any:
    return cluster.post(f"{PODS}/{name}/binding", {"metadata": {"name": name, **metadata}, "target": {"name": node}})


def running(cluster: Cluster, name: str) -> None:
    cluster.post(PODS, pod(name, nodeName="n")).ok(201)
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    cluster.patch(f"{PODS}/{name}/status", {"status": ready}).ok()


def budget(cluster: Cluster, name: str = "b", **status: Any) -> None:
    body = {"metadata": {"name": name}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "a"}}}}
    cluster.post(BUDGETS, body).ok(201)
    if status:
        cluster.patch(f"{BUDGETS}/{name}/status", {"status": {"observedGeneration": 1, **status}}).ok()


def evict(cluster: Cluster, name: str, **options: Any) -> Any:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, **options}
    return cluster.post(f"{PODS}/{name}/eviction", body)


def test_binding_sets_the_node_its_zone_and_the_condition(cluster: Cluster) -> None:
    cluster.post(PODS, pod()).ok(201)
    cluster.patch(f"{PODS}/p/status", {"status": {"nominatedNodeName": "m"}}).ok()
    assert bind(cluster).ok(201)["status"] == "Success"
    bound = cluster.get(f"{PODS}/p").body
    assert (bound["spec"]["nodeName"], bound["metadata"]["generation"]) == ("n", 1)
    assert bound["metadata"]["labels"] == {"app": "a", "topology.kubernetes.io/zone": "a"}
    assert "nominatedNodeName" not in bound["status"]
    assert [(c["type"], c["status"]) for c in bound["status"]["conditions"]] == [("PodScheduled", "True")]


def test_a_bound_pod_is_not_bound_again(cluster: Cluster) -> None:
    cluster.post(PODS, pod()).ok(201)
    bind(cluster).ok(201)
    refused = bind(cluster).ok(409)
    assert refused["message"] == (
        'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n"'
    )
    assert (refused["reason"], refused["details"]) == ("Conflict", {"name": "p", "kind": "pods/binding"})


def test_bindings_that_are_refused(cluster: Cluster) -> None:
    cluster.post(PODS, pod("gated", schedulingGates=[{"name": "x.io/g"}])).ok(201)
    cluster.post(PODS, pod()).ok(201)
    assert "has non-empty .spec.schedulingGates" in bind(cluster, "gated").ok(409)["message"]
    refused = bind(cluster, uid="z").ok(409)
    assert refused["details"]["kind"] == "pods"
    assert bind(cluster, node="").code == 500
    assert bind(cluster, "none").code == 404
    assert bind(cluster, node="unknown").code == 201


def test_a_gated_pod_says_so(cluster: Cluster) -> None:
    made = cluster.post(PODS, pod(schedulingGates=[{"name": "x.io/g"}])).ok(201)
    assert made["status"]["conditions"][0]["reason"] == "SchedulingGated"


def test_eviction_without_a_budget_deletes_with_grace(cluster: Cluster) -> None:
    running(cluster, "a")
    assert evict(cluster, "a").ok(201)["status"] == "Success"
    left = cluster.get(f"{PODS}/a").body
    assert left["metadata"]["deletionGracePeriodSeconds"] == 30
    assert [c["reason"] for c in left["status"]["conditions"] if c["type"] == "DisruptionTarget"] == [
        "EvictionByEvictionAPI"
    ]


def test_a_budget_that_is_used_up_refuses(cluster: Cluster) -> None:
    running(cluster, "a")
    budget(cluster, disruptionsAllowed=0, currentHealthy=2, desiredHealthy=2, expectedPods=2)
    answer = evict(cluster, "a")
    refused = answer.ok(429)
    assert refused["reason"] == "TooManyRequests"
    assert refused["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    assert refused["details"]["causes"] == [
        {
            "reason": "DisruptionBudget",
            "message": "The disruption budget b needs 2 healthy pods and has 2 currently",
        }
    ]
    assert "retry-after" not in answer.headers


def test_a_budget_that_was_not_yet_seen_asks_to_come_again(cluster: Cluster) -> None:
    running(cluster, "a")
    budget(cluster)
    answer = evict(cluster, "a")
    assert answer.ok(429)["details"]["retryAfterSeconds"] == 10
    assert answer.headers["retry-after"] == "10"


def test_each_eviction_takes_one_from_the_budget(cluster: Cluster) -> None:
    for name in "ab":
        running(cluster, name)
    budget(cluster, disruptionsAllowed=1, currentHealthy=3, desiredHealthy=2, expectedPods=3)
    evict(cluster, "a").ok(201)
    status = cluster.get(f"{BUDGETS}/b").body["status"]
    assert (status["disruptionsAllowed"], list(status["disruptedPods"])) == (0, ["a"])
    evict(cluster, "b").ok(429)


def test_two_budgets_are_too_many_but_pending_pods_need_none(cluster: Cluster) -> None:
    running(cluster, "a")
    cluster.post(PODS, pod("pending")).ok(201)
    for name in "bc":
        budget(cluster, name, disruptionsAllowed=1, currentHealthy=3, desiredHealthy=2, expectedPods=3)
    assert "more than one PodDisruptionBudget" in evict(cluster, "a").ok(500)["message"]
    evict(cluster, "pending").ok(201)
    assert cluster.get(f"{PODS}/pending").code == 404


def test_a_resize_changes_resources_only(cluster: Cluster) -> None:
    resources = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    body = pod(nodeName="n")
    body["spec"]["containers"][0]["resources"] = resources
    cluster.post(PODS, body).ok(201)
    room = {"status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}}
    cluster.patch("/api/v1/nodes/n/status", room, "application/merge-patch+json").ok()
    wanted = {"name": "c", "image": "other", "resources": {"requests": {"cpu": "1500m"}, "limits": {"cpu": "2"}}}
    patch = {"metadata": {"labels": {"x": "y"}}, "spec": {"containers": [wanted]}}
    resized = cluster.patch(f"{PODS}/p/resize", patch, "application/strategic-merge-patch+json").ok()
    container = resized["spec"]["containers"][0]
    assert (container["image"], container["resources"]["requests"]) == ("i", {"cpu": "1500m"})
    assert "x" not in resized["metadata"]["labels"]
    assert resized["metadata"]["generation"] == 2
    assert resized["metadata"]["managedFields"][-1]["subresource"] == "resize"


def test_a_resize_may_not_change_the_quality_of_service(cluster: Cluster) -> None:
    cluster.post(PODS, pod(nodeName="n")).ok(201)
    patch = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    refused = cluster.patch(f"{PODS}/p/resize", patch, "application/strategic-merge-patch+json").ok(422)
    assert "Pod QOS Class may not change as a result of resizing" in refused["message"]


def test_scale_is_a_window_on_replicas(cluster: Cluster) -> None:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    body = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "s"},
        "spec": {"serviceName": "s", "selector": {"matchLabels": {"app": "a"}}, "template": template},
    }
    path = "/apis/apps/v1/namespaces/default/statefulsets"
    cluster.post(path, body).ok(201)
    scale = cluster.get(f"{path}/s/scale").ok()
    assert (scale["kind"], scale["spec"], scale["status"]["selector"]) == ("Scale", {"replicas": 1}, "app=a")
    scale["spec"]["replicas"] = 5
    assert cluster.put(f"{path}/s/scale", scale).ok()["spec"]["replicas"] == 5
    cluster.put(f"{path}/s/scale", scale).ok(409)
    cluster.patch(f"{path}/s/scale", {"spec": {"replicas": 2}}).ok()
    whole = cluster.get(f"{path}/s").body
    assert (whole["spec"]["replicas"], whole["metadata"]["generation"]) == (2, 3)
    assert "spec.replicas" in cluster.patch(f"{path}/s/scale", {"spec": {"replicas": -1}}).ok(422)["message"]
