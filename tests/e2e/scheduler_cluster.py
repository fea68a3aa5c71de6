"""A real cluster without a scheduler, and crews of ours that take its place, each under the rights that are printed.

Every request of a crew is in the API server's audit log, so that a test can say who bound what, and when.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import yaml
from typer.testing import CliRunner

from situate.cli.main import app
from tests.controlplane.kubeconfig import write_kubeconfig
from tests.e2e.vpod_cluster import ACCOUNT, Cluster, Request, Scheduler, rfc3339_now
from tests.waiting import eventually

NODE_CPU = 32
"""Of the nodes that kwok plays."""


class Crew:
    """A namespace, nodes of its own, and processes of `situate run` that schedule onto them.

    On leaving, every process is stopped; none may have been refused anything or shown a traceback.
    """

    section = "scheduler"
    """Of the configuration file."""

    def __init__(self, cluster: Cluster, name: str, folder: Path, **settings: Any) -> None:
        """`settings`: keys of the section; pods name the crew as their scheduler unless these say otherwise."""
        self.cluster = cluster
        self.name = name
        self.home = name
        """The namespace of its processes; that of its pods is its name."""
        self.scheduler_name = name
        self.folder = folder
        self.file = folder / f"{name}.yaml"
        self.settings: dict[str, Any] = {"profiles": [{"schedulerName": name}], **settings}
        self.shared: dict[str, Any] = {"health": {"address": None}}
        self.nodes: list[str] = []
        self.schedulers: list[Scheduler] = []
        self._may_be_refused: list[tuple[str, str]] = []

    def __enter__(self) -> Self:
        self.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}})
        self.configure()
        printed = CliRunner().invoke(app, ["manifests", "-f", str(self.file), "--installation-namespace", self.name])
        assert printed.exit_code == 0, printed.output
        self.cluster.apply(*(each for each in yaml.safe_load_all(printed.stdout) if each["kind"] != "Deployment"))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for scheduler in self.schedulers:
            scheduler.process.stop(timeout_s=60)
        if kind is None:
            for scheduler in self.schedulers:
                text = scheduler.process.log.read_text()
                assert "Traceback" not in text, text
            refused = (each for each in self.cluster.requests(self.home) if each.code == 403)
            spans = self._may_be_refused
            assert not [each for each in refused if not any(begin <= each.at <= end for begin, end in spans)]
        self.cluster.plane.request("DELETE", f"/api/v1/namespaces/{self.name}")
        for node in self.nodes:
            self.cluster.plane.request("DELETE", f"/api/v1/nodes/{node}")

    @contextmanager
    def refusals_allowed(self) -> Iterator[None]:
        """An API server that starts refuses everything until it has read its roles."""
        begin = rfc3339_now()
        yield
        self._may_be_refused.append((begin, rfc3339_now()))

    def configure(self) -> None:
        header = {"apiVersion": "situate.dev/v1alpha1", "kind": "Situate"}
        self.file.write_text(yaml.safe_dump({**header, **self.shared, self.section: self.settings}))

    def add_nodes(self, count: int) -> None:
        names = [f"{self.name}-{number}" for number in range(len(self.nodes), len(self.nodes) + count)]
        self.cluster.add_nodes(*names, labels={"crew": self.name})
        self.nodes += names

    def start(self, name: str = "scheduler", *assignments: str) -> Scheduler:
        """`assignments` are for `--set`."""
        plane = self.cluster.plane
        token = plane.service_account_token(self.home, ACCOUNT)
        kubeconfig = self.kubeconfig(name)
        write_kubeconfig(
            kubeconfig, url=plane.url, authority=plane.authority, user=name, token=token, namespace=self.home
        )
        arguments = ["run", "-f", str(self.file), "--kubeconfig", str(kubeconfig)]
        for each in (f"leaderElection.identity={name}", *assignments):
            arguments += ("--set", each)
        log = self.folder / f"{self.name}-{name}.log"
        process = self.cluster.process(name, log, *arguments, environment=self.environment(name))
        claims = token.split(".")[1]
        decoded = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        scheduler = Scheduler(process, f"JTI={decoded['jti']}")
        self.schedulers.append(scheduler)
        process.start()
        return scheduler

    def environment(self, scheduler: str) -> Mapping[str, str]:
        """Of that process, besides what every one has."""
        return {}

    def kubeconfig(self, scheduler: str = "scheduler") -> Path:
        return self.folder / f"{self.name}-{scheduler}.kubeconfig"

    # Pods

    def create(self, name: str, cpu: str = "1", **spec: Any) -> None:
        self.cluster.plane.request("POST", self.path(), self.pod(name, cpu, **spec))

    def pod(self, name: str, cpu: str = "1", **spec: Any) -> dict[str, Any]:
        """Only for the nodes of this crew."""
        container = {"name": "c", "image": "example.com/c:1", "resources": {"requests": {"cpu": cpu}}}
        own = {"schedulerName": self.scheduler_name, "nodeSelector": {"crew": self.name}, "containers": [container]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {**own, **spec}}

    def path(self, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.name}/pods" + (f"/{name}" if name else "")

    def pods(self) -> list[Any]:
        found: list[Any] = self.cluster.get(self.path())["items"]
        return found

    def get(self, name: str) -> Any:
        return self.cluster.get(self.path(name))

    def bound(self) -> dict[str, str]:
        """Node by pod, of those that have one."""
        return {
            each["metadata"]["name"]: each["spec"]["nodeName"] for each in self.pods() if each["spec"].get("nodeName")
        }

    def wait_bound(self, *names: str) -> dict[str, str]:
        return eventually(f"{names} have nodes", self.bound, lambda bound: set(names) <= bound.keys())

    def condition(self, name: str, type_: str = "PodScheduled") -> Mapping[str, Any]:
        conditions = self.get(name)["status"].get("conditions", ())
        return next((each for each in conditions if each["type"] == type_), {})

    def events(self, name: str, reason: str) -> list[Any]:
        items = self.cluster.get(f"/apis/events.k8s.io/v1/namespaces/{self.name}/events")["items"]
        return [each for each in items if (each["regarding"]["name"], each["reason"]) == (name, reason)]

    def bindings(self) -> Counter[str]:
        """How many bindings of each pod the API server has accepted."""
        accepted = (each for each in self.cluster.requests(self.home) if each.resource == "pods/binding")
        return Counter(each.uri.split("/")[-2] for each in accepted if each.code == 201)

    def writes_of(self, scheduler: Scheduler) -> list[Request]:
        """Those that only a leader may make."""
        found = self.cluster.requests(self.home)
        return [each for each in found if each.decided and each.credential == scheduler.credential]
