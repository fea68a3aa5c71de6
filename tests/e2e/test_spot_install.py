"""Spot as it is installed: what `situate manifests spot` prints, applied with kubectl to a real API server.

The containers' command runs as processes of this machine, under the printed ServiceAccount, in the place of the pods
that kwok only pretends to run; nothing but the webhook's URL is replaced. Scheduler and controller-manager are stock.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from situate.spot.model import CLASS, DECISION, ON_DEMAND
from situate.spot.names import CERTIFICATES, LEADS, NAME, WEBHOOK_PATH, configuration_name
from tests.controlplane.kubeconfig import write_kubeconfig
from tests.controlplane.ports import ReservedPort
from tests.controlplane.process import Process
from tests.e2e.vpod_cluster import Cluster
from tests.waiting import eventually

NUMBERS = itertools.count()
ELECTION = {"leaseDuration": "6s", "renewDeadline": "4500ms", "retryPeriod": "500ms"}
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
ALLOWED_KINDS = {
    "Namespace",
    "Deployment",
    "Service",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "MutatingWebhookConfiguration",
    "Lease",
    "Secret",
}


class Installed:
    """The objects in the cluster, and the processes that stand for its pods."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        number = next(NUMBERS)
        self.space, self.shop = f"spot-{number}", f"shop-{number}"
        self.cluster = cluster
        self.folder = folder
        self.port = ReservedPort()
        self.file = folder / "situate.yaml"
        document = {
            "apiVersion": "situate.dev/v1alpha1",
            "kind": "Situate",
            "health": {"address": None},
            "leaderElection": ELECTION,
            "spot": {"webhook": {"address": f"127.0.0.1:{self.port.number}"}},
        }
        self.file.write_text(yaml.safe_dump(document))
        printed = cluster.situate("manifests", "spot", "-f", str(self.file), "-n", self.space)
        assert printed.returncode == 0, printed.stderr
        self.objects = list(yaml.safe_load_all(printed.stdout))
        self.processes: list[Process] = []
        self.port.release()

    def apply(self) -> None:
        objects = json.loads(json.dumps(self.objects))
        for each in objects:
            if each["kind"] == "MutatingWebhookConfiguration":
                each["webhooks"][0]["clientConfig"] = {"url": f"https://127.0.0.1:{self.port.number}{WEBHOOK_PATH}"}
        self.cluster.kubectl("apply", "--server-side", "-f", "-", given=objects)

    def of_kind(self, kind: str) -> Any:
        (found,) = [each for each in self.objects if each["kind"] == kind]
        return found

    def pods(self) -> list[str]:
        """Those of the Deployment, once there are as many as it wants."""
        path = f"/api/v1/namespaces/{self.space}/pods"
        wanted = self.of_kind("Deployment")["spec"]["replicas"]
        found = eventually(
            "the pods of the Deployment are there",
            partial(self.cluster.get, path),
            lambda found: len(found["items"]) == wanted,
        )
        return sorted(each["metadata"]["name"] for each in found["items"])

    def start(self, pod: str) -> Process:
        """The container of this pod."""
        (container,) = self.of_kind("Deployment")["spec"]["template"]["spec"]["containers"]
        token = self.cluster.plane.service_account_token(self.space, self.of_kind("ServiceAccount")["metadata"]["name"])
        plane = self.cluster.plane
        kubeconfig = self.folder / f"{pod}.kubeconfig"
        write_kubeconfig(
            kubeconfig, url=plane.url, authority=plane.authority, user=pod, token=token, namespace=self.space
        )
        fields = {"metadata.namespace": self.space, "metadata.name": pod}
        environment = {each["name"]: fields[each["valueFrom"]["fieldRef"]["fieldPath"]] for each in container["env"]}
        arguments = [*container["args"], "--kubeconfig", str(kubeconfig), "--set", f"leaderElection.identity={pod}_x"]
        process = self.cluster.process(pod, self.folder / f"{pod}.log", *arguments, environment=environment)
        self.processes.append(process)
        process.start()
        return process

    def log(self, process: Process) -> list[dict[str, Any]]:
        return [json.loads(line) for line in process.log.read_text().splitlines() if line.startswith("{")]

    def said(self, process: Process, message: str) -> bool:
        return any(line.get("message") == message for line in self.log(process))

    def wait_answering(self, process: Process, pod: str) -> None:
        """It listens, API servers trust it, and questions are led to it."""
        eventually(f"{pod} listens", lambda: self.said(process, "the webhook listens"))
        eventually("API servers are told whom to trust", self.bundle)
        eventually(f"{pod} is the one that answers", self.leading_pods, lambda names: names == [pod])

    def make_shop(self) -> None:
        """The namespace of users."""
        self.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.shop}})

    def deploy(self, content: Mapping[str, Any]) -> None:
        """Into the namespace of users."""
        self.make_shop()
        metadata = {**content["metadata"], "namespace": self.shop}
        self.cluster.apply({**content, "metadata": metadata})

    def pods_of(self, name: str) -> list[Any]:
        found = self.cluster.get(f"/api/v1/namespaces/{self.shop}/pods?labelSelector=app%3D{name}")
        items: list[Any] = found["items"]
        return items

    def wait_pods(self, name: str, replicas: int) -> list[Any]:
        """All of them, and bound."""
        return eventually(
            f"{name} has {replicas} pods on nodes",
            partial(self.pods_of, name),
            lambda pods: len(pods) == replicas and all(each["spec"].get("nodeName") for each in pods),
        )

    def bundle(self) -> str:
        found = self.cluster.get(f"{WEBHOOKS}/{configuration_name(self.space)}")
        return str(found["webhooks"][0]["clientConfig"].get("caBundle", ""))

    def leading_pods(self) -> list[str]:
        found = self.cluster.get(f"/api/v1/namespaces/{self.space}/pods?labelSelector={LEADS}%3Dtrue")
        return [each["metadata"]["name"] for each in found["items"]]

    def check(self) -> None:
        """Nothing was refused for want of a right, and nothing broke."""
        for process in self.processes:
            assert "Traceback" not in process.log.read_text(), process.log.read_text()
        refused = [each for each in self.cluster.requests(self.space) if each.code == 403]
        assert not refused


@pytest.fixture
def installed(spot_cluster: Cluster, tmp_path: Path) -> Iterator[Installed]:
    made = Installed(spot_cluster, tmp_path)
    made.apply()
    try:
        yield made
    finally:
        for process in made.processes:
            process.stop(timeout_s=30)
        spot_cluster.kubectl("delete", "namespace", made.shop, made.space, "--ignore-not-found", "--wait=false")
        names = [f"{each['kind']}/{each['metadata']['name']}" for each in made.objects if each["kind"] != "Namespace"]
        cluster_wide = [name for name in names if name.startswith(("Cluster", "Mutating"))]
        spot_cluster.kubectl("delete", "--ignore-not-found", *cluster_wide)


def deployment(name: str, replicas: int, on_demand: str) -> dict[str, Any]:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "annotations": {ON_DEMAND: on_demand}},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "c", "image": "example.com/c:1"}],
                },
            },
        },
    }


def classes(pods: list[Any]) -> Counter[str]:
    return Counter(each["metadata"]["labels"].get(CLASS, "") for each in pods)


def managers(obj: Mapping[str, Any]) -> set[str]:
    return {each["manager"] for each in obj["metadata"].get("managedFields", ())}


@pytest.mark.rule("spot:B35", "spot:B1", "spot:P1", "spot:P6", "spot:S20", "spot:S23", "spot:I6", "spot:B36")
def test_a_deployment_gets_its_floor_from_nothing_but_the_manifests(installed: Installed) -> None:
    cluster = installed.cluster
    assert {each["kind"] for each in installed.objects} == ALLOWED_KINDS
    pod, _ = installed.pods()
    process = installed.start(pod)
    installed.wait_answering(process, pod)
    checked = cluster.situate("check", "-f", str(installed.file), kubeconfig=installed.folder / f"{pod}.kubeconfig")
    assert checked.returncode == 0, checked.stdout + checked.stderr

    installed.deploy(deployment("web", 20, "7"))
    pods = installed.wait_pods("web", 20)
    assert classes(pods) == {"on-demand": 7, "spot": 13}
    for each in pods:
        decision = json.loads(each["metadata"]["annotations"][DECISION])
        assert decision["target"] == 7
    placed = Counter(
        each["spec"]["nodeName"].rpartition("-")[0] for each in pods if CLASS in each["metadata"]["labels"]
    )
    assert placed["on-demand"] >= 7
    on_demand = [each for each in pods if each["metadata"]["labels"][CLASS] == "on-demand"]
    assert all(each["spec"]["nodeName"].startswith("on-demand") for each in on_demand)

    for path in ("deployments/web", "replicasets"):
        found = cluster.get(f"/apis/apps/v1/namespaces/{installed.shop}/{path}?")
        for obj in found.get("items", [found]):
            assert managers(obj) <= {"kubectl", "kube-controller-manager"}
    cluster.kubectl("scale", "deployment/web", "-n", installed.shop, "--replicas=30")
    assert classes(installed.wait_pods("web", 30)) == {"on-demand": 7, "spot": 23}
    installed.check()


@pytest.mark.rule("spot:B1", "spot:P17", "spot:K1", "spot:D1")
def test_every_floor_is_exact_in_a_burst(installed: Installed) -> None:
    """Five workloads at once, then each scaled twice within a second."""
    pod, _ = installed.pods()
    process = installed.start(pod)
    installed.wait_answering(process, pod)
    floors = {f"web-{floor}": floor for floor in (0, 5, 25, 26, 50)}
    for name, floor in floors.items():
        installed.deploy(deployment(name, 50, str(floor)))
    for name, floor in floors.items():
        assert +classes(installed.wait_pods(name, 50)) == +Counter({"on-demand": floor, "spot": 50 - floor}), name
    for name in floors:
        for replicas in (45, 60):
            installed.cluster.kubectl("scale", f"deployment/{name}", "-n", installed.shop, f"--replicas={replicas}")
    for name, floor in floors.items():
        assert classes(installed.wait_pods(name, 60))["on-demand"] >= floor, "one too few breaks the floor"
    installed.check()


@pytest.mark.rule("spot:B2", "spot:P20", "spot:P21", "spot:K3", "spot:D2", "spot:F5")
def test_pods_that_a_quota_refuses_keep_no_place(installed: Installed) -> None:
    """Quota is looked at after mutation: an admitted pod may never exist."""
    cluster = installed.cluster
    pod, _ = installed.pods()
    process = installed.start(pod)
    installed.wait_answering(process, pod)
    installed.make_shop()
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few", "namespace": installed.shop}}
    cluster.apply({**quota, "spec": {"hard": {"pods": "5"}}})
    installed.deploy(deployment("web", 20, "8"))
    assert classes(installed.wait_pods("web", 5)) == {"on-demand": 5}
    for most in ("9", "30"):
        cluster.apply({**quota, "spec": {"hard": {"pods": most}}})
        pods = installed.wait_pods("web", min(20, int(most)))
    assert abs(classes(pods)["on-demand"] - 8) <= 1, "more than one repair would be needed"
    installed.check()


@pytest.mark.rule("spot:P1", "spot:P22", "spot:B4", "spot:I11", "spot:F3")
def test_the_second_pod_takes_over_from_one_that_was_killed(installed: Installed) -> None:
    cluster = installed.cluster
    first_pod, second_pod = installed.pods()
    first = installed.start(first_pod)
    installed.wait_answering(first, first_pod)
    second = installed.start(second_pod)
    installed.deploy(deployment("web", 6, "4"))
    assert classes(installed.wait_pods("web", 6)) == {"on-demand": 4, "spot": 2}
    eventually("the second has seen the Lease", lambda: installed.said(second, "the lease changes hands"))
    first.kill()
    cluster.kubectl("scale", "deployment/web", "-n", installed.shop, "--replicas=7")
    assert len(installed.wait_pods("web", 7)) == 7, "pods start without anybody to answer"
    installed.wait_answering(second, second_pod)
    before = classes(installed.pods_of("web"))
    cluster.kubectl("scale", "deployment/web", "-n", installed.shop, "--replicas=16")
    pods = installed.wait_pods("web", 16)
    assert classes(pods)["on-demand"] == max(4, before["on-demand"])
    assert classes(pods)[""] == before[""]
    installed.check()


@pytest.mark.rule("spot:P1", "spot:I11", "spot:F3")
def test_a_pod_that_was_paused_past_its_lease_answers_nobody_when_it_wakes(installed: Installed) -> None:
    """On one machine the second cannot listen before the first has let go of the port, which it does when it wakes."""
    cluster = installed.cluster
    first_pod, second_pod = installed.pods()
    first = installed.start(first_pod)
    installed.wait_answering(first, first_pod)
    second = installed.start(second_pod)
    installed.deploy(deployment("web", 4, "2"))
    installed.wait_pods("web", 4)
    eventually("the second has seen the Lease", lambda: installed.said(second, "the lease changes hands"))
    first.pause()
    eventually("the second leads", lambda: installed.said(second, "leadership is won"))
    cluster.kubectl("scale", "deployment/web", "-n", installed.shop, "--replicas=6")
    before = classes(installed.wait_pods("web", 6))
    assert before[""] == 2, "nobody answered, and pods were created in time all the same"
    first.resume()
    eventually("the first knows that it lost", lambda: installed.said(first, "leadership is lost"))
    installed.wait_answering(second, second_pod)
    assert installed.said(first, "the webhook is closed")
    cluster.kubectl("scale", "deployment/web", "-n", installed.shop, "--replicas=12")
    assert classes(installed.wait_pods("web", 12))[""] == 2
    assert first.running, "it stands by"
    installed.check()


@pytest.mark.rule("spot:B35")
def test_what_was_installed_is_gone_after_its_deletion_and_pods_go_on(installed: Installed) -> None:
    cluster = installed.cluster
    pod, _ = installed.pods()
    process = installed.start(pod)
    installed.wait_answering(process, pod)
    installed.deploy(deployment("web", 4, "2"))
    before = {each["metadata"]["uid"] for each in installed.wait_pods("web", 4)}
    process.stop(timeout_s=30)
    cluster.kubectl("delete", "--wait=true", "--timeout=100s", "-f", "-", given=installed.objects)
    assert cluster.get(f"/api/v1/namespaces/{installed.space}") is None
    assert cluster.get(f"{WEBHOOKS}/{configuration_name(installed.space)}") is None
    assert {each["metadata"]["uid"] for each in installed.pods_of("web")} == before


def test_a_second_apply_takes_nothing_from_the_leader(installed: Installed) -> None:
    pod, _ = installed.pods()
    process = installed.start(pod)
    installed.wait_answering(process, pod)
    secret = f"/api/v1/namespaces/{installed.space}/secrets/{CERTIFICATES}"
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{installed.space}/leases/{NAME}"
    before = installed.cluster.get(secret)["data"], installed.bundle()
    installed.apply()
    assert (installed.cluster.get(secret)["data"], installed.bundle()) == before
    assert installed.cluster.get(lease)["spec"]["holderIdentity"] == f"{pod}_x"
