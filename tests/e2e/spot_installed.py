"""Spot installed on a real cluster: what `situate manifests spot` prints, and processes in the place of its pods.

The containers' command runs as processes of this machine, under the printed ServiceAccount; nothing but the webhook's
URL is replaced. Scheduler and controller-manager are stock.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from situate.spot.model.object_names import LEADER_LABEL, WEBHOOK_PATH, configuration_name
from situate.spot.model.pods_nodes_workloads import CLASS, GATE, ON_DEMAND
from tests.controlplane.kubeconfig import write_kubeconfig
from tests.controlplane.ports import ReservedPort
from tests.controlplane.process import Process
from tests.e2e.vpod_cluster import Cluster
from tests.waiting import eventually

NUMBERS = itertools.count()
ELECTION: Mapping[str, Any] = {"leaseDuration": "12s", "renewDeadline": "9s", "retryPeriod": "500ms"}
"""For tests in which somebody takes over; others take the times as shipped, which a busy machine keeps."""
PATIENT = {"timeout": "6s", "liveRead": "2s"}
"""Of the webhook: tests are about right counts, also where processes keep each other from their turn."""
NOTHING: Mapping[str, Any] = MappingProxyType({})
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


class Installed:
    """The objects in the cluster, and the processes that stand for its pods."""

    def __init__(
        self,
        cluster: Cluster,
        folder: Path,
        settings: Mapping[str, Any] = NOTHING,
        election: Mapping[str, Any] = ELECTION,
    ) -> None:
        """`settings`: keys of the section `spot` besides where the webhook listens."""
        number = next(NUMBERS)
        self.space, self.shop = f"spot-{number}", f"shop-{number}"
        self.cluster = cluster
        self.folder = folder
        self.port = ReservedPort()
        self.file = folder / "situate.yaml"
        address = f"127.0.0.1:{self.port.number}"
        document = {
            "apiVersion": "situate.dev/v1alpha1",
            "kind": "Situate",
            "health": {"address": None},
            "leaderElection": dict(election),
            "spot": {**settings, "webhook": {**PATIENT, **settings.get("webhook", {}), "address": address}},
        }
        self.file.write_text(yaml.safe_dump(document))
        printed = cluster.situate("manifests", "spot", "-f", str(self.file), "--installation-namespace", self.space)
        assert printed.returncode == 0, printed.stderr
        self.objects = list(yaml.safe_load_all(printed.stdout))
        self.processes: list[Process] = []

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
        """It listens, the API server asks it, and questions are led to it."""
        eventually(f"{pod} listens", lambda: self._listens(process))
        eventually("API servers are told whom to trust", self.bundle)
        eventually(f"{pod} is the one that answers", self.leading_pods, lambda names: names == [pod])
        self._wait_asked()

    def _listens(self, process: Process) -> bool:
        assert process.running, f"{process.name} has ended:\n{process.log.read_text()[-4000:]}"
        return self.said(process, "server listens")

    def _wait_asked(self) -> None:
        """API servers hear some moments later whom to trust: until a pod that is only tried gets its class.

        Its Deployment of no pods stays: one that is made anew would find the old ReplicaSet on its way out.
        """
        self.deploy(deployment("tried", 0, "0"))
        sets = f"/apis/apps/v1/namespaces/{self.shop}/replicasets?labelSelector=app%3Dtried"
        found = eventually("a ReplicaSet is there", partial(self.cluster.get, sets), lambda found: found["items"])
        (replica_set,) = found["items"]
        metadata = {
            "generateName": "tried-",
            "labels": replica_set["spec"]["template"]["metadata"]["labels"],
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "ReplicaSet",
                    "name": replica_set["metadata"]["name"],
                    "uid": replica_set["metadata"]["uid"],
                    "controller": True,
                }
            ],
        }
        pod = {"metadata": metadata, "spec": replica_set["spec"]["template"]["spec"]}
        path = f"/api/v1/namespaces/{self.shop}/pods?dryRun=All"
        eventually("pods get their class", partial(self.cluster.plane.request, "POST", path, pod), _answered)

    def make_shop(self) -> None:
        """The namespace of users."""
        self.deploy()

    def deploy(self, *contents: Mapping[str, Any]) -> None:
        """Into the namespace of users, which is made where it is missing."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.shop}}
        inside = ({**each, "metadata": {**each["metadata"], "namespace": self.shop}} for each in contents)
        self.cluster.apply(namespace, *inside)

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
        found = self.cluster.get(f"/api/v1/namespaces/{self.space}/pods?labelSelector={LEADER_LABEL}%3Dtrue")
        return [each["metadata"]["name"] for each in found["items"]]

    def remove(self) -> None:
        """Ends the processes and takes everything away that belongs to the cluster; namespaces go later."""
        for process in self.processes:
            process.stop(timeout_s=30)
        self.port.release()
        kubectl = self.cluster.kubectl
        kubectl("delete", "namespace", self.shop, self.space, "--ignore-not-found", "--wait=false")
        names = [f"{each['kind']}/{each['metadata']['name']}" for each in self.objects if each["kind"] != "Namespace"]
        cluster_wide = [name for name in names if name.startswith(("Cluster", "Mutating"))]
        kubectl("delete", "--ignore-not-found", *cluster_wide)

    def check(self) -> None:
        """Nothing was refused for want of a right, and nothing broke."""
        for process in self.processes:
            assert "Traceback" not in process.log.read_text(), process.log.read_text()
        refused = [each for each in self.cluster.requests(self.space) if each.code == 403]
        assert not refused


@contextmanager
def installation(
    cluster: Cluster,
    folder: Path,
    settings: Mapping[str, Any] = NOTHING,
    election: Mapping[str, Any] = ELECTION,
) -> Iterator[Installed]:
    """Applied, and gone after the block."""
    made = Installed(cluster, folder, settings, election)
    made.apply()
    try:
        yield made
    finally:
        made.remove()


def deployment(
    name: str, replicas: int, on_demand: str | None = None, *, pod: Mapping[str, Any] = NOTHING, **spec: Any
) -> dict[str, Any]:
    """`on_demand`: the policy, if it says one; `pod`: annotations (`annotations`) and keys of the pods' spec."""
    return _workload("Deployment", name, replicas, on_demand, pod, spec)


def stateful_set(
    name: str, replicas: int, on_demand: str | None = None, *, pod: Mapping[str, Any] = NOTHING, **spec: Any
) -> dict[str, Any]:
    """All of its pods are created at once; they are replaced one by one."""
    parallel = {"serviceName": name, "podManagementPolicy": "Parallel", **spec}
    return _workload("StatefulSet", name, replicas, on_demand, pod, parallel)


def _workload(
    kind: str, name: str, replicas: int, on_demand: str | None, pod: Mapping[str, Any], spec: Mapping[str, Any]
) -> dict[str, Any]:
    labels = {"app": name}
    pod_spec = {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "c", "image": "example.com/c:1"}],
        **{key: value for key, value in pod.items() if key != "annotations"},
    }
    template = {"metadata": {"labels": labels, "annotations": pod.get("annotations", {})}, "spec": pod_spec}
    annotations = {} if on_demand is None else {ON_DEMAND: on_demand}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **spec},
    }


def _answered(pod: Any) -> bool:
    return CLASS in pod["metadata"]["labels"] or GATE in (
        each["name"] for each in pod["spec"].get("schedulingGates", ())
    )


def classes(pods: list[Any]) -> Counter[str]:
    return Counter(each["metadata"]["labels"].get(CLASS, "") for each in pods)


def floor_held(pods: list[Any], floor: int) -> Counter[str]:
    """Demands that each was asked about and none is missing on demand; the counts.

    More than the floor are there where the server took over a second for a pod after our answer (P5), which on a busy
    machine it does again and again; never half of those that need not be. `spot.test_exact_bursts` is exact.
    """
    counts = classes(pods)
    assert counts.keys() <= {"on-demand", "spot"}, f"the webhook was asked about each: {counts}"
    assert floor <= counts["on-demand"] <= floor + (len(pods) - floor) // 2, f"a floor of {floor}: {counts}"
    return counts


def managers(obj: Mapping[str, Any]) -> set[str]:
    return {each["manager"] for each in obj["metadata"].get("managedFields", ())}
