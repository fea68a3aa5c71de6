"""Operators as their own manifests have them, on a real cluster: the example, and what `situate sharding init` writes.

One pod of each Deployment runs as a process of this machine, by the manifest's own command, under the token of its
account that is bound to it. There are no volumes here: folders take their places.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from situate.cli.main import app
from situate.testing.builders.operators import documents
from tests.controlplane.process import Process
from tests.e2e.shard_pods import environment_of, is_ready, kubeconfig_of
from tests.e2e.vpod_cluster import Cluster
from tests.waiting import eventually

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "sharding-build"
SOURCES = Path(__file__).resolve().parents[2] / "src"


@dataclass(frozen=True)
class Project:
    """A folder with an operator, and what its manifests call things."""

    folder: Path
    namespace: str
    resource: str
    work: Path
    """The object to try it with."""
    reason: str
    """What is said of that when it is done."""
    folders: dict[str, str]
    """By Deployment, the option that names a folder there."""


@pytest.fixture(params=["example", "written"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Project:
    if request.param == "example":
        folders = {"supervisor": "--archive-url=file://", "executor": "--artifacts="}
        work = EXAMPLE / "builds" / "greet.yaml"
        return Project(EXAMPLE, "builds", "build.example.com/v1/builds", work, "Built", folders)
    done = CliRunner().invoke(
        app, ["sharding", "init", "farm", "--group", "farm.example.com", "--folder", str(tmp_path)]
    )
    assert done.exit_code == 0, done.output
    folder = tmp_path / "farm"
    return Project(folder, "farm", "farm.example.com/v1/farms", folder / "example.yaml", "Done", {})


class Installed:
    """A project, applied; and the processes that stand for its pods."""

    def __init__(self, cluster: Cluster, project: Project, folder: Path) -> None:
        self.cluster = cluster
        self.project = project
        self.folder = folder
        self.processes: list[Process] = []
        self.objects = [
            _without_volumes(each)
            for each in documents(project.folder / "manifests.yaml", project.folder / "fence.yaml")
            if each["kind"] != "PersistentVolumeClaim"
        ]
        self.definitions = documents(project.folder / "crd.yaml")

    def apply(self) -> None:
        (definition,) = self.definitions
        self.cluster.apply(definition)
        name = definition["metadata"]["name"]
        self.cluster.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=60s")
        self.cluster.apply(*self.objects)

    def start(self, deployment: str) -> None:
        """The process of its pod, when kwok says that it is ready."""
        (found,) = [e for e in self.objects if e["kind"] == "Deployment" and e["metadata"]["name"] == deployment]
        (app_label,) = found["spec"]["selector"]["matchLabels"].values()
        path = f"/api/v1/namespaces/{self.project.namespace}/pods?labelSelector=app%3D{app_label}"
        pods = eventually(
            f"the pod of {deployment} is ready",
            partial(self.cluster.get, path),
            lambda found: [each for each in found["items"] if is_ready(each)],
        )
        pod = pods["items"][0]
        (container,) = pod["spec"]["containers"]
        own = {**environment_of(pod), "KUBECONFIG": str(kubeconfig_of(self.cluster.plane, pod, self.folder))}
        command: list[str] = [*container["command"], *container["args"]]
        assert command.pop(0) == "python"
        for key, value in own.items():
            command = [each.replace(f"$({key})", value) for each in command]
        command.append("--health-address=127.0.0.1:0")
        if (option := self.project.folders.get(deployment)) is not None:
            (self.folder / deployment).mkdir()
            command.append(f"{option}{self.folder / deployment}")
        plain = {key: value for key, value in os.environ.items() if not key.startswith(("KUBE", "SITUATE", "POD_"))}
        where = {"PYTHONPATH": f"{SOURCES}{os.pathsep}{self.project.folder}"}
        log = self.folder / f"{deployment}.log"
        process = Process(deployment, (sys.executable, *command), log, environment={**plain, **where, **own})
        self.processes.append(process)
        process.start()

    def work(self) -> dict[str, Any]:
        """What is said of the object that is worked on."""
        for process in self.processes:
            assert process.running, f"{process.name} has ended: {process.tail(40)}"
        group, version, plural = self.project.resource.split("/")
        path = f"/apis/{group}/{version}/namespaces/{self.project.namespace}/{plural}"
        (found,) = self.cluster.get(path)["items"]
        status: dict[str, Any] = found.get("status", {})
        return status

    def remove(self) -> None:
        """What is cluster-wide too; objects first, while their supervisor may still let them go."""
        kubectl, namespace = self.cluster.kubectl, self.project.namespace
        wide = [each for each in self.objects if each["kind"].startswith(("ClusterRole", "ValidatingAdmission"))]
        kubectl("delete", "--ignore-not-found", *(f"{each['kind']}/{each['metadata']['name']}" for each in wide))
        plural = self.project.resource.split("/")[2]
        for name in kubectl("get", plural, "-n", namespace, "-o", "name").split():
            kubectl("patch", name, "-n", namespace, "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
        kubectl("delete", "crd", self.definitions[0]["metadata"]["name"], "--ignore-not-found")
        kubectl("delete", "namespace", namespace, "--ignore-not-found", "--wait=false")


@pytest.fixture
def installed(cluster: Cluster, project: Project, tmp_path: Path) -> Iterator[Installed]:
    made = Installed(cluster, project, tmp_path)
    made.apply()
    try:
        yield made
    finally:
        for process in made.processes:
            process.stop(timeout_s=30)
        made.remove()


@pytest.mark.slow
@pytest.mark.rule("sharding:K1", "sharding:K12")
def test_it_works_under_the_accounts_of_its_own_manifests(installed: Installed) -> None:
    cluster, project = installed.cluster, installed.project
    for deployment in ("supervisor", "executor"):
        installed.start(deployment)
    cluster.kubectl("apply", "-n", project.namespace, "-f", str(project.work))
    done = eventually("it is done", installed.work, lambda status: "completedAt" in status)
    assert (done["successful"], done["reason"]) == (True, project.reason), done
    for process in installed.processes:
        process.stop(timeout_s=30)  # what is asked for at the end is looked at too
        assert "Traceback" not in process.log.read_text(), process.log.read_text()[-4000:]
    asked = cluster.requests(project.namespace)
    assert {each.resource for each in asked} >= {"leases", "pods", "nodes", f"{project.resource.split('/')[2]}/status"}
    assert not [each for each in asked if each.code == 403]


def _without_volumes(document: dict[str, Any]) -> dict[str, Any]:
    """And one pod of each Deployment is enough."""
    if document["kind"] == "Deployment":
        document["spec"]["replicas"] = 1
        pod = document["spec"]["template"]["spec"]
        pod.pop("volumes", None)
        pod["containers"][0].pop("volumeMounts", None)
    return document
