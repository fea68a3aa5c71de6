"""The main job: `situate run` on Knative's own objects, on a real control plane, with the rights that it asks for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.controlplane.kubeconfig import write_kubeconfig
from tests.e2e.vpod_cluster import ACCOUNT, GROUP, Cluster, Scheduler, placed, pod_is_ready
from tests.waiting import eventually, unchanged

EXAMPLES = Path(__file__).parents[2] / "examples" / "knative"
FILE = EXAMPLES / "situate.yaml"
NAMESPACE = "knative-eventing"
STATEFULSET = "kafka-source-dispatcher"
SOURCES = {"shop": "orders", "billing": "payments"}
WANTED = {"orders": 12, "payments": 30}


class MainJob:
    """Knative's objects, and one scheduler at work."""

    def __init__(self, cluster: Cluster, scheduler: Scheduler, kubeconfig: Path) -> None:
        self.cluster = cluster
        self.scheduler = scheduler
        self.kubeconfig = kubeconfig

    def group(self, namespace: str) -> Any:
        return self.cluster.get(f"{groups(namespace)}/{SOURCES[namespace]}")

    def placements(self) -> dict[str, dict[str, int]]:
        return {name: placed(self.group(namespace)) for namespace, name in SOURCES.items()}

    def situate(self, *arguments: str) -> Any:
        """The JSON that a command prints under the scheduler's own account."""
        done = self.cluster.situate(*arguments, "-f", str(FILE), "-o", "json", kubeconfig=self.kubeconfig)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


def groups(namespace: str) -> str:
    return f"/apis/{GROUP}/v1alpha1/namespaces/{namespace}/consumergroups"


@pytest.fixture(scope="module")
def job(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MainJob]:
    """Everything as the README says it, but that the process of the Deployment runs here."""
    folder = tmp_path_factory.mktemp("main-job")
    cluster.kubectl("apply", "-f", str(EXAMPLES / "namespace.yaml"))
    for name in ("configmaps", "dispatcher", "kafkasources", "consumergroups"):
        cluster.kubectl("apply", "-f", str(EXAMPLES / f"{name}.yaml"))
    printed = cluster.situate("manifests", "-f", str(FILE))
    assert printed.returncode == 0, printed.stderr
    cluster.kubectl("apply", "--server-side", "-f", "-", given=printed.stdout)

    plane = cluster.plane
    token = plane.service_account_token("situate", ACCOUNT)
    kubeconfig = write_kubeconfig(
        folder / "kubeconfig", url=plane.url, authority=plane.authority, user=ACCOUNT, token=token, namespace="situate"
    )
    process = cluster.process(
        "scheduler",
        folder / "scheduler.log",
        *("run", "-f", str(FILE), "--kubeconfig", str(kubeconfig), "--set", "health.address=null"),
    )
    made = MainJob(cluster, Scheduler(process, ""), kubeconfig)
    process.start()
    try:
        eventually("all sources are placed", made.placements, lambda held: totals(held) == WANTED)
        yield made
    finally:
        process.stop(timeout_s=60)
        for namespace in (*SOURCES, NAMESPACE, "situate"):
            plane.request("DELETE", f"/api/v1/namespaces/{namespace}")
    assert "Traceback" not in process.log.read_text()
    assert not [each for each in cluster.requests("situate") if each.code == 403]


def totals(held: dict[str, dict[str, int]]) -> dict[str, int]:
    return {name: sum(pods.values()) for name, pods in held.items()}


@pytest.mark.rule("vpod:V1", "vpod:V2", "vpod:V3", "vpod:V5", "vpod:V8", "vpod:V18", "vpod:V20")
def test_sources_are_placed_on_the_pods_of_a_set_that_grew_from_nothing(job: MainJob) -> None:
    dispatcher = job.cluster.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/{STATEFULSET}")
    assert dispatcher["spec"]["replicas"] == 3  # 42 vreplicas, 20 a pod
    pods = job.cluster.get(f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app%3D{STATEFULSET}")["items"]
    running = {each["metadata"]["name"] for each in pods if pod_is_ready(each)}
    assert running == {f"{STATEFULSET}-{ordinal}" for ordinal in range(3)}
    load = dict.fromkeys(running, 0)
    for held in job.placements().values():
        for pod, vreplicas in held.items():
            load[pod] += vreplicas
    assert max(load.values()) <= 20
    conditions = {each["type"]: each["status"] for each in job.group("shop")["status"]["conditions"]}
    assert conditions["ConsumersScheduled"] == "True"


def consumers(job: MainJob, path: str) -> dict[str, int]:
    """Vreplicas by the pod that a consumer is bound to."""
    items = job.cluster.get(path)["items"]
    return {each["spec"]["podBind"]["podName"]: each["spec"]["vReplicas"] for each in items}


def test_each_placement_has_a_consumer(job: MainJob) -> None:
    for namespace, name in SOURCES.items():
        path = f"/apis/{GROUP}/v1alpha1/namespaces/{namespace}/consumers"
        eventually(f"{name} has its consumers", partial(consumers, job, path), job.placements()[name].__eq__)
        one = job.cluster.get(path)["items"][0]
        assert one["metadata"]["ownerReferences"][0]["name"] == name
        assert one["spec"]["podBind"]["podNamespace"] == NAMESPACE
        assert one["spec"]["topics"] == job.group(namespace)["spec"]["template"]["spec"]["topics"]


def test_check_finds_nothing_missing(job: MainJob) -> None:
    findings = job.situate("check")
    assert [each for each in findings if not each["ok"]] == []
    assert len(findings) > 10


def test_a_right_that_is_missing_is_named_by_check(job: MainJob) -> None:
    plane = job.cluster.plane
    plane.request("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "nobody"}})
    nobody = plane.service_account_kubeconfig("default", "nobody")
    done = job.cluster.situate("check", "-f", str(FILE), kubeconfig=nobody)
    assert done.returncode == 1
    assert re.search(r"grant patch, needed for [^;\n]+; situate manifests prints the roles", done.stdout)


@pytest.mark.rule("vpod:B13")
def test_status_plan_and_explain_agree_with_the_cluster(job: MainJob) -> None:
    (status,) = job.situate("vpod", "status", "-A")
    assert (status["replicas"], status["wanted"], status["placed"]) == (3, 42, 42)
    assert {each["class"] for each in status["pods"]} == {"accept"}
    shown = {
        each["key"].partition("/")[2]: {p["podName"]: p["vreplicas"] for p in each["placements"]}
        for each in status["vpods"]
    }
    assert shown == job.placements()

    (plan,) = job.situate("vpod", "plan", "-A")
    assert (plan["replicas"], plan["replicasThen"]) == (3, 3)
    assert [each["change"] for each in plan["vpods"]] == ["", ""]

    told = job.situate("vpod", "explain", "billing/payments")
    assert (told["wanted"], told["placed"], told["left"]) == (30, 30, 0)
    assert {each["name"]: each["own"] for each in told["pods"] if each["own"]} == job.placements()["payments"]


@pytest.mark.rule("vpod:B5", "vpod:S5")
def test_a_settled_cluster_is_left_alone(job: MainJob) -> None:
    def writes() -> int:
        return sum(each.decided for each in job.cluster.requests("situate"))

    unchanged("the number of writes", writes, seconds=2)


@pytest.mark.rule("vpod:L3")
def test_a_consumer_group_that_goes_releases_its_places(job: MainJob) -> None:
    """First with a finalizer of Knative's, which holds the object until its placements are gone; then for good."""
    path = f"{groups('shop')}/orders"
    pinned = yaml.safe_dump({"metadata": {"finalizers": ["consumergroups.internal.kafka.eventing.knative.dev"]}})
    job.cluster.kubectl("patch", "consumergroup", "orders", "-n", "shop", "--type=merge", "-p", pinned)
    job.cluster.plane.request("DELETE", path)
    eventually("the placements of orders are gone", lambda: placed(job.group("shop")), lambda held: not held)
    consumers = f"/apis/{GROUP}/v1alpha1/namespaces/shop/consumers"
    eventually("its consumers are gone", lambda: job.cluster.get(consumers)["items"], lambda left: not left)
    pinned = yaml.safe_dump({"metadata": {"finalizers": []}})
    job.cluster.kubectl("patch", "consumergroup", "orders", "-n", "shop", "--type=merge", "-p", pinned)
    eventually("orders is gone", lambda: job.cluster.get(path), lambda found: found is None)
    (status,) = job.situate("vpod", "status", "-A")
    assert [each["key"] for each in status["vpods"]] == ["billing/payments"]
    assert sum(each["used"] for each in status["pods"]) == 30
    assert sum(placed(job.group("billing")).values()) == 30
