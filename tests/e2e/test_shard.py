"""`situate manifests sharding` on a real cluster: the printed rights suffice, the fence holds, and PreStop drains.

The containers' commands run as processes of this machine, with the tokens that their pods would have, bound to them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from situate.sharding.fencing.admit import Refusal
from situate.sharding.model.names import POOL
from situate.testing.sharding.world.reports import definition, report
from tests.controlplane.process import Process
from tests.e2e.shard_executor import REPORTS
from tests.e2e.shard_pods import environment_of, is_ready, kubeconfig_of
from tests.e2e.vpod_cluster import KUBECTL, Cluster
from tests.waiting import eventually

ROOT = Path(__file__).resolve().parents[2]
SPACE = "sharded"
RESOURCE = f"{REPORTS.group}/{REPORTS.version}/{REPORTS.plural}"
CLUSTER_WIDE = ("ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")


class Sharded:
    """What was printed and applied, and the processes that stand for its pods."""

    def __init__(self, cluster: Cluster, folder: Path, home: str = SPACE, space: str = SPACE, **entry: Any) -> None:
        """`home`: the namespace of all but the objects, which are in `space`; `entry`: of the configuration, besides
        its archive."""
        self.cluster = cluster
        self.home = home
        self.space = space
        self.folder = folder
        self.processes: list[Process] = []
        file = folder / "situate.yaml"
        (folder / "archive").mkdir()
        url = f"file://{folder}/archive"
        document = {
            "apiVersion": "situate.dev/v1alpha1",
            "kind": "Situate",
            "health": {"address": None},
            "sharding": [{"resource": RESOURCE, "namespace": space, "archive": {"ttlFailed": 0, "url": url}, **entry}],
        }
        file.write_text(yaml.safe_dump(document))
        printed = cluster.situate("manifests", "sharding", "-f", str(file), "--installation-namespace", home)
        assert printed.returncode == 0, printed.stderr
        self.file = file
        self.objects: list[dict[str, Any]] = list(yaml.safe_load_all(printed.stdout))

    def apply(self) -> None:
        self.cluster.apply(definition(group=REPORTS.group))
        self.cluster.kubectl("wait", "--for=condition=Established", f"crd/reports.{REPORTS.group}", "--timeout=60s")
        if self.space != self.home:
            self.cluster.kubectl("create", "namespace", self.space)
        self.cluster.apply(*self.objects)

    def deployment(self, name: str) -> dict[str, Any]:
        (found,) = [each for each in self.objects if each["kind"] == "Deployment" and each["metadata"]["name"] == name]
        return found

    def pods(self, name: str) -> list[dict[str, Any]]:
        """Those of a Deployment, once they are all ready."""
        path = f"/api/v1/namespaces/{self.home}/pods?labelSelector=app.kubernetes.io%2Fname%3D{name}"
        wanted = self.deployment(name)["spec"]["replicas"]
        found = eventually(
            f"the pods of {name} are ready",
            partial(self.cluster.get, path),
            lambda found: sum(map(is_ready, found["items"])) == wanted,
        )
        return sorted(found["items"], key=lambda pod: str(pod["metadata"]["name"]))

    def kubeconfig(self, pod: dict[str, Any]) -> Path:
        """With the token that the kubelet would give this pod."""
        return kubeconfig_of(self.cluster.plane, pod, self.folder)

    def start_supervisor(self, pod: dict[str, Any]) -> Process:
        (container,) = pod["spec"]["containers"]
        name = pod["metadata"]["name"]
        arguments = [*container["args"], "--kubeconfig", str(self.kubeconfig(pod))]
        return self._started(
            self.cluster.process(name, self.folder / f"{name}.log", *arguments, environment=environment_of(pod))
        )

    def environment(self, pod: dict[str, Any]) -> dict[str, str]:
        plain = {key: value for key, value in os.environ.items() if not key.startswith(("KUBE", "SITUATE", "POD_"))}
        return {**plain, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}", **environment_of(pod)}

    def start_executor(self, pod: dict[str, Any]) -> Process:
        name = pod["metadata"]["name"]
        command = (sys.executable, "-m", "tests.e2e.shard_executor", str(self.kubeconfig(pod)))
        return self._started(Process(name, command, self.folder / f"{name}.log", environment=self.environment(pod)))

    def pre_stop(self, pod: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        """What the kubelet would call before it ends the pod."""
        (container,) = pod["spec"]["containers"]
        program, *arguments = container["lifecycle"]["preStop"]["exec"]["command"]
        assert program == "situate"
        environment = {**self.environment(pod), "KUBECONFIG": str(self.kubeconfig(pod))}
        command = [sys.executable, "-m", "situate", *arguments]
        return subprocess.run(command, env=environment, text=True, capture_output=True, timeout=120, check=False)

    def _started(self, process: Process) -> Process:
        self.processes.append(process)
        process.start()
        return process

    def reports(self) -> dict[str, Any]:
        found = self.cluster.get(REPORTS.path(self.space))
        return {each["metadata"]["name"]: each for each in found["items"]}

    def held_by(self) -> dict[str, str]:
        """Of the open reports on which somebody works."""
        for process in self.processes:
            assert process.running, f"{process.name} has ended: {process.tail(40)}"
        return {
            name: each["spec"].get("assignedTo", "")
            for name, each in self.reports().items()
            if "completedAt" not in each.get("status", {})
            and each.get("status", {}).get("by", "nobody") == each["spec"].get("assignedTo")
        }

    def check(self) -> None:
        """Nothing was refused but what was tried on purpose, and nothing broke."""
        for process in self.processes:
            assert "Traceback" not in process.log.read_text(), process.log.read_text()[-4000:]
        refused = [
            each for each in self.cluster.requests(self.home) if each.code == 403 and "dryRun=All" not in each.uri
        ]
        assert not refused

    def remove(self) -> None:
        for process in self.processes:
            process.stop(timeout_s=30)
        names = [f"{each['kind']}/{each['metadata']['name']}" for each in self.objects if each["kind"] in CLUSTER_WIDE]
        kubectl = self.cluster.kubectl
        kubectl("delete", "--ignore-not-found", *names)
        for name in self.reports():
            kubectl("patch", "report", name, "-n", self.space, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        kubectl("delete", "crd", f"reports.{REPORTS.group}", "--ignore-not-found")
        kubectl("delete", "namespace", *{self.space, self.home}, "--ignore-not-found", "--wait=false")


@pytest.fixture
def sharded(request: pytest.FixtureRequest, cluster: Cluster, tmp_path: Path) -> Iterator[Sharded]:
    made = Sharded(cluster, tmp_path, **getattr(request, "param", {}))
    try:
        made.apply()
        yield made
        for process in made.processes:
            process.stop(timeout_s=30)
        made.check()
    finally:
        made.remove()


def refused(cluster: Cluster, name: str, patch: Any, *further: str) -> str:
    """What the API server says to the administrator's merge patch."""
    command = [str(KUBECTL), "--kubeconfig", str(cluster.plane.folder / "admin.kubeconfig"), "patch", "report", name]
    merge = ["-n", SPACE, "--type=merge", "-p", json.dumps(patch), *further]
    done = subprocess.run([*command, *merge], text=True, capture_output=True, check=False)
    assert done.returncode != 0, done.stdout
    return done.stderr


@pytest.mark.slow
@pytest.mark.rule("sharding:K3")
@pytest.mark.rule("sharding:K15")
@pytest.mark.rule("sharding:K11")
def test_the_printed_manifests_suffice_and_fence(sharded: Sharded) -> None:
    """Both roles work under the printed rights alone; users cannot assign; a pod that is to end is drained."""
    cluster = sharded.cluster
    supervisors, executors = sharded.pods("situate-shard"), sharded.pods("reports-executor")
    assert all(pod["metadata"]["labels"][POOL] == "default" for pod in executors)
    leader = sharded.start_supervisor(supervisors[0])
    for pod in executors:
        sharded.start_executor(pod)
    names = [f"endless-{number}" for number in range(4)]
    for content in (*(report(name) for name in names), report("quick", quick=True), report("broken", broken=True)):
        cluster.plane.request("POST", REPORTS.path(SPACE), {**content, "apiVersion": f"{REPORTS.group}/v1"})

    pods = sorted(pod["metadata"]["name"] for pod in executors)
    held = eventually("somebody works on each", sharded.held_by, lambda held: len(held) == len(names))
    assert set(held.values()) <= set(pods)
    done = eventually(
        "the quick one is completed", lambda: sharded.reports()["quick"].get("status", {}), lambda s: "completedAt" in s
    )
    assert (done["successful"], done["reason"]) == (True, "Done")
    eventually("the start-up check has told", lambda: "fencing policy is enforced" in leader.log.read_text())
    eventually("what has failed is archived and deleted", lambda: "broken" not in sharded.reports())
    assert [*(sharded.folder / "archive").glob("*/*/broken/*.json")]
    checked = cluster.situate("check", "-f", str(sharded.file), kubeconfig=cluster.plane.folder / "admin.kubeconfig")
    assert f"fencing policy of {RESOURCE}" in checked.stdout
    assert "FAILED" not in checked.stdout, checked.stdout

    assert str(Refusal.NOT_SUPERVISOR) in refused(cluster, names[0], {"spec": {"assignedTo": "mine"}})
    edited = refused(cluster, "quick", {"status": {"successful": False}}, "--subresource=status")
    assert str(Refusal.FINAL) in edited
    merge = ("--type=merge", "-p", json.dumps({"metadata": {"labels": {"mine": "yes"}}, "spec": {"work": 2}}))
    cluster.kubectl("patch", "report", names[0], "-n", SPACE, *merge)  # everything else is anybody's

    holder = sharded.held_by()[names[0]]
    (going,) = [pod for pod in executors if pod["metadata"]["name"] == holder]
    (other,) = {*pods} - {holder}
    ended = sharded.pre_stop(going)
    assert ended.returncode == 0, ended.stderr
    assert "holds no objects any more" in ended.stdout
    eventually("the other has it all", sharded.held_by, lambda held: held == dict.fromkeys(names, other))
    cluster.kubectl("delete", "reports", "--all", "-n", SPACE, "--timeout=60s")  # archived before they go
    assert len([*(sharded.folder / "archive").glob("*/*/*/*.json")]) == len(names) + 2


@pytest.mark.slow
@pytest.mark.rule("sharding:K10", "sharding:K15")
@pytest.mark.parametrize(
    "sharded",
    [{"home": "sharded-home", "space": "sharded-work", "partition": "0", "partitionTable": "slots"}],
    indirect=True,
)
def test_the_table_of_partitions_may_be_in_another_namespace_than_the_objects(sharded: Sharded) -> None:
    """And so are Lease, pods, and what is told of a table that cannot be used."""
    cluster, home = sharded.cluster, sharded.home
    table: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"table": "{}"}}
    cluster.apply({**table, "metadata": {"name": "slots", "namespace": home}})
    sharded.start_supervisor(sharded.pods("situate-shard")[0])
    sharded.start_executor(sharded.pods("reports-executor-0")[0])
    cluster.plane.request("POST", REPORTS.path(sharded.space), {**report("r"), "apiVersion": f"{REPORTS.group}/v1"})
    events = f"/api/v1/namespaces/{home}/events?fieldSelector=reason%3DBadPartitionTable"
    eventually("the bad table is told of beside it", lambda: cluster.get(events)["items"])
    assert not sharded.held_by(), "without a table an object is nobody's"
    cluster.kubectl("delete", "configmap", "slots", "-n", home)
    admin = cluster.plane.folder / "admin.kubeconfig"
    told = ("sharding", "partitions", "create", "slots", "--count", "1", "-r", RESOURCE)
    made = cluster.situate(*told, "--installation-namespace", home, kubeconfig=admin)
    assert made.returncode == 0, made.stderr
    eventually("somebody works on it", sharded.held_by)
    cluster.kubectl("delete", "reports", "--all", "-n", sharded.space, "--timeout=60s")
    assert len([*(sharded.folder / "archive").glob("*/*/*/*.json")]) == 1
