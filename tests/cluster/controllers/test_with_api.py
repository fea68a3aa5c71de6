"""Controllers and the whole API server together, on virtual time: the writes are those of the real control plane.

The sequences were compared once with kube-controller-manager 1.36.3 and kwok; what they showed is stated here.
"""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from situate.cluster.apiserver.assembly import Cluster
from situate.cluster.controllers import MachinerySettings
from situate.cluster.controllers.machinery.actions import NO_WRITES
from situate.cluster.controllers.machinery.changes import Change
from situate.cluster.controllers.node.kubelet import KubeletController
from situate.cluster.controllers.node.nodes import nodes
from situate.cluster.storage.effects import ADMIN
from situate.cluster.storage.names import NameGenerator
from situate.cluster.storage.store import Event
from situate.objects.messages import Request, Response
from tests.cluster.controllers.world import START, deployment, stateful_set

APPS = "/apis/apps/v1/namespaces/default"
CORE = "/api/v1/namespaces/default"


class Served:
    """A cluster of three nodes behind its API."""

    def __init__(self) -> None:
        self.cluster = Cluster(NameGenerator(Random(1)), Random(1), MachinerySettings(), now=START)
        self.now = START
        self.events: list[Event] = []
        for node in nodes(3):
            self.call("POST", "/api/v1/nodes", node)
        self.run(2)
        self.cluster.api.store.subscribe(self.events.append)

    def tried(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> tuple[int, Any]:
        headers = {"accept": "application/json", "content-type": kind}
        encoded = b"" if body is None else msgspec.json.encode(body)
        answer = self.cluster.answer(Request(method, path, (), headers, encoded), self.now, ADMIN)
        assert isinstance(answer, Response)
        return answer.status, msgspec.json.decode(answer.body)

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        status, answer = self.tried(method, path, body, kind)
        assert status < 300, answer
        return answer

    def patch(self, path: str, body: Any) -> Any:
        return self.call("PATCH", path, body, "application/strategic-merge-patch+json")

    def names(self, path: str) -> list[str]:
        return [item["metadata"]["name"] for item in self.call("GET", path)["items"]]

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            due = self.cluster.machinery.next_due()
            if due is None or due > end:
                break
            self.now = max(self.now, due)
            self.cluster.step(self.now)
        self.now = end


def image(tag: str) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"name": "app", "image": f"app:{tag}"}]}}}}


def test_the_counts_of_a_stateful_set_step_by_step() -> None:
    served = Served()
    served.call("POST", f"{APPS}/statefulsets", stateful_set(replicas=2))
    served.run(5)
    served.events.clear()
    served.patch(f"{APPS}/statefulsets/web", image("2"))
    served.run(10)
    seen = [
        (status.get("readyReplicas", 0), status.get("currentReplicas", 0), status.get("updatedReplicas", 0))
        for event in served.events
        if event.resource == "statefulsets.apps"
        and (status := event.last.object()["status"])["observedGeneration"] == 2
    ]
    assert seen == [(2, 1, 0), (1, 1, 0), (1, 1, 1), (2, 0, 1), (1, 0, 1), (1, 0, 2), (2, 2, 2)]


def test_the_progress_of_a_deployment_step_by_step() -> None:
    served = Served()
    served.call("POST", f"{APPS}/deployments", deployment("d", 3))
    served.run(5)
    reasons = []
    for event in served.events:
        if event.resource != "deployments.apps":
            continue
        conditions = event.last.object().get("status", {}).get("conditions", [])
        reasons += [entry["reason"] for entry in conditions if entry["type"] == "Progressing"]
    assert list(dict.fromkeys(reasons)) == ["NewReplicaSetCreated", "ReplicaSetUpdated", "NewReplicaSetAvailable"]
    found = served.call("GET", f"{APPS}/deployments/d")
    assert found["metadata"]["generation"] == 1
    assert found["metadata"]["annotations"] == {"deployment.kubernetes.io/revision": "1"}


@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_deleting_a_deployment_leaves_nothing(propagation: str) -> None:
    served = Served()
    served.call("POST", f"{APPS}/deployments", deployment("d", 3))
    served.run(5)
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
    served.call("DELETE", f"{APPS}/deployments/d", options)
    served.run(5)
    assert [served.names(path) for path in (f"{APPS}/deployments", f"{APPS}/replicasets", f"{CORE}/pods")] == [
        [],
        [],
        [],
    ]


def test_an_eviction_is_answered_from_the_budgets_status() -> None:
    served = Served()
    served.call("POST", f"{APPS}/statefulsets", stateful_set(replicas=2))
    served.run(5)
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"}, "spec": spec}
    served.call("POST", "/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget)
    served.run(1)

    def evict(name: str) -> int:
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
        return served.tried("POST", f"{CORE}/pods/{name}/eviction", eviction)[0]

    assert [evict("web-1"), evict("web-0")] == [201, 429]
    served.run(10)
    assert served.names(f"{CORE}/pods") == ["web-0", "web-1"]
    assert evict("web-0") == 201


def test_writers_are_known_by_their_names() -> None:
    served = Served()
    served.call("POST", f"{APPS}/statefulsets", stateful_set(replicas=1))
    served.run(5)
    managers = {
        (entry["manager"], entry.get("subresource", ""))
        for entry in served.call("GET", f"{CORE}/pods/web-0")["metadata"]["managedFields"]
    }
    assert {("statefulset-controller", ""), ("kubelet", "status")} <= managers


def test_a_namespace_is_emptied_and_goes() -> None:
    served = Served()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}
    served.call("POST", "/api/v1/namespaces", namespace)
    served.call("POST", "/apis/apps/v1/namespaces/team/statefulsets", stateful_set(replicas=2))
    served.run(5)
    assert served.names("/api/v1/namespaces/team/serviceaccounts") == ["default"]
    assert served.names("/api/v1/namespaces/team/events") != []
    served.call("DELETE", "/api/v1/namespaces/team")
    served.run(2)
    assert served.tried("GET", "/api/v1/namespaces/team")[0] == 404
    assert served.names("/api/v1/pods") == []


@pytest.mark.parametrize("requests", [{}, {"cpu": "100m"}], ids=["without requests", "with requests"])
def test_a_report_is_kept_as_it_was_written_and_so_written_once(requests: dict[str, str]) -> None:
    served = Served()
    container = {"name": "app", "image": "app:1", "resources": {"requests": requests} if requests else {}}
    served.call("POST", f"{CORE}/pods", {"metadata": {"name": "p"}, "spec": {"containers": [container]}})
    served.run(5)
    cluster = served.cluster.machinery.cluster
    assert cluster.pods.pods["default", "p"].running_and_ready
    kubelet = KubeletController(cluster, served.cluster.machinery.kubelets)
    created = Change("pods", None, cluster.store.get("pods", "default", "p"))
    created.pod = cluster.pods.pods["default", "p"]
    assert list(kubelet.observe(created, served.now)) == [("default", "p")]
    assert kubelet.reconcile(("default", "p"), served.now) == NO_WRITES
