"""A real cluster as vpod's end-to-end tests use it: kubectl and `situate` as people call them, and what was seen.

Schedulers run as processes of their own, under the ServiceAccount and the rights that `situate manifests` prints. The
API server keeps an audit log of every request of service accounts, so that a test can say who wrote what, and when.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from situate.cli.main import app
from tests.controlplane.errors import ControlPlaneError
from tests.controlplane.kubeconfig import write_kubeconfig
from tests.controlplane.plane import ControlPlane
from tests.controlplane.process import Process
from tests.waiting import WITHIN_S, eventually, unchanged

GROUP = "internal.kafka.eventing.knative.dev"
ACCOUNT = "situate"
KUBECTL = Path(sys.executable).with_name("kubectl")

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}],
}

_ACCOUNTS = "system:serviceaccount:"

QUICK: dict[str, Any] = {
    "refreshPeriod": "1s",
    "scaleDownStabilization": "1s",
    "podGrace": "2s",
    "drain": {"settle": "500ms"},
}
"""Times short enough for a test to see the end of them."""


@dataclass(frozen=True, slots=True)
class Request:
    """One line of the audit log: a request of a service account."""

    at: str
    """When it was received, RFC 3339 with microseconds; compares as text."""
    namespace: str
    """Of the account."""
    account: str
    """NAMESPACE:NAME."""
    credential: str
    """Id of the token that was shown; each scheduler has its own."""
    verb: str
    uri: str
    resource: str
    """With the subresource: `consumergroups/status`."""
    code: int

    @property
    def decided(self) -> bool:
        """Whether it is a write that only a leader may make (S7)."""
        return self.verb in ("create", "update", "patch", "delete") and self.resource not in ("leases", "events")


def audit(folder: Path) -> tuple[Path, tuple[str, ...]]:
    """The log, and the flags for an API server that writes it."""
    policy, log = folder / "policy.yaml", folder / "audit.log"
    policy.write_text(yaml.safe_dump(AUDIT_POLICY))
    log.touch()
    return log, (f"--audit-policy-file={policy}", f"--audit-log-path={log}")


class Cluster:
    """A control plane with nodes and the custom resources."""

    def __init__(self, plane: ControlPlane, audit: Path) -> None:
        self.plane = plane
        self._audit = audit
        plain = {key: value for key, value in os.environ.items() if not key.startswith(("KUBE", "SITUATE"))}
        self._environment = plain | {"HOME": str(plane.folder)}

    def kubectl(self, *arguments: str, given: Any = None) -> str:
        """The output of a call as the administrator that has to succeed; `given` are objects for its input."""
        if given is not None and not isinstance(given, str):
            given = yaml.safe_dump_all(given)
        command = (str(KUBECTL), "--kubeconfig", str(self.plane.folder / "admin.kubeconfig"), *arguments)
        done = self._run(command, given)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stderr or done.stdout}"
        return done.stdout

    def apply(self, *objects: Mapping[str, Any]) -> None:
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=objects)

    def situate(self, *arguments: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
        """One call of the command, whatever comes of it."""
        command = [sys.executable, "-m", "situate", *arguments]
        if kubeconfig is not None:
            command += ["--kubeconfig", str(kubeconfig)]
        return self._run(command)

    def _run(self, command: Sequence[str], given: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=self._environment, input=given or "", text=True, capture_output=True, timeout=2 * WITHIN_S
        )

    def get(self, path: str) -> Any:
        """The object or list, or None if there is none."""
        try:
            return self.plane.request("GET", path)
        except ControlPlaneError as refused:
            if ": 404 " in str(refused):
                return None
            raise

    def restart_apiserver(self, *, forget: bool = False) -> None:
        """As an outage would; `forget`: every resourceVersion from before is answered 410 afterwards."""
        if forget:
            self.plane.expire_history()
        else:
            self.plane.restart_apiserver()
        # custom resources are served some moments after everything else
        eventually("custom resources are served", self._serves_groups)

    def _serves_groups(self) -> bool:
        try:
            self.plane.request("GET", f"/apis/{GROUP}/v1alpha1/consumergroups")
        except ControlPlaneError:
            return False
        return True

    def add_nodes(
        self, *names: str, labels: Mapping[str, str] | None = None, status: Mapping[str, Any] | None = None
    ) -> None:
        """Ready nodes in three zones, as kwok plays them, of its size unless `status` says another; kube-scheduler, if
        it runs, knows that they can be used."""
        for number, name in enumerate(names):
            zone = {"topology.kubernetes.io/zone": "abc"[number % 3], "kubernetes.io/hostname": name}
            metadata = {"name": name, "labels": {**zone, **(labels or {})}}
            self.plane.request("POST", "/api/v1/nodes", {"metadata": metadata, "status": dict(status or {})})
        for name in names:
            eventually(f"node {name} is ready", partial(self.get, f"/api/v1/nodes/{name}"), _node_is_ready)
        if self.plane.options.scheduler:
            self.wait_scheduler(names[-1])

    def wait_scheduler(self, node: str) -> None:
        """Until the scheduler knows all nodes as they are now; it watches them apart from pods.

        It places a pod for which it has to know what was written last; the node is one that takes pods.
        """
        mark = uuid.uuid4().hex
        self.kubectl("label", "node", node, f"seen={mark}", "--overwrite")
        path = f"/api/v1/namespaces/default/pods/seen-{mark}"
        containers = [{"name": "c", "image": "example.com/c:1"}]
        spec = {"nodeSelector": {"seen": mark}, "terminationGracePeriodSeconds": 0, "containers": containers}
        pods, _, name = path.rpartition("/")
        self.plane.request("POST", pods, {"metadata": {"name": name}, "spec": spec})
        eventually(f"the scheduler knows {node}", partial(self.get, path), lambda pod: pod["spec"].get("nodeName"))
        self.plane.request("DELETE", path)

    def refuses_pods(self, namespace: str) -> bool:
        """Whether a pod that is only tried is forbidden there, as by a quota."""
        spec = {"containers": [{"name": "c", "image": "example.com/c:1"}]}
        try:
            self.plane.request(
                "POST", f"/api/v1/namespaces/{namespace}/pods?dryRun=All", {"metadata": {"name": "tried"}, "spec": spec}
            )
        except ControlPlaneError as refused:
            if ": 403 " not in str(refused):
                raise
            return True
        return False

    def requests(self, namespace: str) -> list[Request]:
        """What the service accounts of a namespace have asked for so far, in the order of the answers."""
        prefix = f"{_ACCOUNTS}{namespace}:"
        with self._audit.open() as lines:
            return [_request(line, namespace) for line in lines if prefix in line and line.endswith("}\n")]

    def process(self, name: str, log: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> Process:
        """`situate ARGUMENTS` as a process that is still to be started; `environment` besides that of every one."""
        command = (sys.executable, "-m", "situate", *arguments)
        return Process(name, command, log, environment=self._environment | dict(environment or {}))


def _request(line: str, namespace: str) -> Request:
    event = json.loads(line)
    about = event.get("objectRef", {})
    resource = "/".join(filter(None, (about.get("resource"), about.get("subresource"))))
    return Request(
        at=event["requestReceivedTimestamp"],
        namespace=namespace,
        account=event["user"]["username"].removeprefix(_ACCOUNTS),
        credential=event["user"].get("extra", {}).get("authentication.kubernetes.io/credential-id", [""])[0],
        verb=event["verb"],
        uri=event["requestURI"],
        resource=resource,
        code=event.get("responseStatus", {}).get("code", 0),
    )


def _node_is_ready(node: Any) -> bool:
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions", ()))
    return ready and not node["spec"].get("taints")


class Scheduler:
    """A process of `situate run` with a token of its own."""

    def __init__(self, process: Process, credential: str) -> None:
        self.process = process
        self.name = process.name
        self.credential = credential

    def said(self, message: str) -> list[dict[str, Any]]:
        """The lines of its log with that message."""
        return [line for line in self.log() if line.get("message") == message]

    def log(self) -> Iterator[dict[str, Any]]:
        for line in self.process.log.read_text().splitlines():
            assert line.startswith("{"), f"{self.name} printed what is no line of a log: {line}"
            yield json.loads(line)

    def leads(self) -> bool:
        return len(self.said("leadership acquired")) > len(self.said("leadership lost"))

    def wait_synced(self) -> None:
        """Until it has seen the Lease, so that it stands by or leads."""
        eventually(f"{self.name} has seen the Lease", lambda: self.said("lease holder changed"))


class Arena:
    """A namespace with a StatefulSet, vpods of any kind for it, and the schedulers that look after them.

    On leaving, every scheduler is stopped; none may have been refused anything or shown a traceback.
    """

    def __init__(self, cluster: Cluster, name: str, folder: Path, **settings: Any) -> None:
        """`settings` are keys of the vpod entry; times are short unless they say otherwise."""
        self.cluster = cluster
        self.name = name
        self.folder = folder
        self.statefulset = "dispatcher"
        self.file = folder / f"{name}.yaml"
        self.entry: dict[str, Any] = {
            "statefulSetNamespace": name,
            "statefulSetName": self.statefulset,
            "podCapacity": 4,
            "sources": [{"kind": "ConsumerGroup", "namespace": name, "sourceKind": name}],
            **QUICK,
            **settings,
        }
        self.shared: dict[str, Any] = {"health": {"address": None}}
        self.may_be_refused: list[tuple[str, str]] = []
        """Spans of time in which 403 is no fault of ours."""
        self.schedulers: list[Scheduler] = []

    def __enter__(self) -> Arena:
        self.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}})
        self.configure()
        self.grant()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for scheduler in self.schedulers:
            scheduler.process.stop(timeout_s=60)
        if kind is None:
            self.check_schedulers()
        self.cluster.plane.request("DELETE", f"/api/v1/namespaces/{self.name}")

    def check_schedulers(self) -> None:
        """Nothing was refused for want of a right, and nothing broke."""
        for scheduler in self.schedulers:
            text = scheduler.process.log.read_text()
            assert "Traceback" not in text, text
        refused = [
            each
            for each in self.cluster.requests(self.name)
            if each.code == 403 and not any(begin <= each.at <= end for begin, end in self.may_be_refused)
        ]
        assert not refused

    @contextmanager
    def refusals_allowed(self) -> Iterator[None]:
        """An API server that starts refuses everything until it has read its roles; so does one without them."""
        begin = rfc3339_now()
        yield
        self.may_be_refused.append((begin, rfc3339_now()))

    def configure(self, **changes: Any) -> None:
        """Writes the configuration file, with changed keys of the entry."""
        self.entry |= changes
        document = {"apiVersion": "situate.dev/v1alpha1", "kind": "Situate", **self.shared, "vpod": [self.entry]}
        whole = self.file.with_suffix(".new")  # a scheduler that runs looks at the file, and never sees half of it
        whole.write_text(yaml.safe_dump(document))
        whole.replace(self.file)

    def grant(self, without: str = "") -> None:
        """Applies what `situate manifests` prints but for the Deployment, whose place the test takes.

        `without`: a resource for which no rule is granted.
        """
        printed = CliRunner().invoke(app, ["manifests", "-f", str(self.file), "--installation-namespace", self.name])
        assert printed.exit_code == 0, printed.output
        objects = [each for each in yaml.safe_load_all(printed.stdout) if each["kind"] != "Deployment"]
        for each in objects:
            if "rules" in each:
                each["rules"] = [rule for rule in each["rules"] if without not in rule["resources"]]
        self.cluster.apply(*objects)

    def start(self, name: str = "scheduler", *assignments: str) -> Scheduler:
        """Starts a scheduler; `assignments` are for `--set`."""
        token = self.cluster.plane.service_account_token(self.name, ACCOUNT)
        kubeconfig = self.folder / f"{self.name}-{name}.kubeconfig"
        plane = self.cluster.plane
        write_kubeconfig(
            kubeconfig, url=plane.url, authority=plane.authority, user=name, token=token, namespace=self.name
        )
        arguments = ["run", "-f", str(self.file), "--kubeconfig", str(kubeconfig)]
        for each in (f"leaderElection.identity={name}", *assignments):
            arguments += ["--set", each]
        process = self.cluster.process(name, self.folder / f"{self.name}-{name}.log", *arguments)
        scheduler = Scheduler(process, f"JTI={_claims(token)['jti']}")
        self.schedulers.append(scheduler)
        process.start()
        return scheduler

    def kubeconfig(self, scheduler: str = "scheduler") -> Path:
        return self.folder / f"{self.name}-{scheduler}.kubeconfig"

    # Objects

    def add_statefulset(self, replicas: int = 0, policy: str = "Parallel", **pod: Any) -> None:
        """The data plane; `pod` are keys of the pods' spec."""
        self.cluster.apply(statefulset(self.name, self.statefulset, replicas, policy, **pod))

    def want(self, **sources: int) -> None:
        """ConsumerGroups with so many vreplicas."""
        self.cluster.apply(*(consumer_group(self.name, name, number, self.name) for name, number in sources.items()))

    def group_path(self, name: str = "") -> str:
        return f"/apis/{GROUP}/v1alpha1/namespaces/{self.name}/consumergroups" + (f"/{name}" if name else "")

    def statefulset_path(self) -> str:
        return f"/apis/apps/v1/namespaces/{self.name}/statefulsets/{self.statefulset}"

    # What is there

    def replicas(self) -> int:
        return int(self.cluster.get(self.statefulset_path())["spec"]["replicas"])

    def placements(self) -> dict[str, dict[str, int]]:
        """Vreplicas by pod, by ConsumerGroup."""
        items = self.cluster.get(self.group_path())["items"]
        return {each["metadata"]["name"]: placed(each) for each in items}

    def missing(self) -> dict[str, int]:
        """Wanted less placed vreplicas, by ConsumerGroup; those that have what they want are left out."""
        items = self.cluster.get(self.group_path())["items"]
        gaps = {each["metadata"]["name"]: each["spec"]["replicas"] - sum(placed(each).values()) for each in items}
        return {name: gap for name, gap in gaps.items() if gap}

    def wait_placed(self) -> dict[str, dict[str, int]]:
        """Until every ConsumerGroup has what it wants; the placements then."""
        eventually(f"everything in {self.name} is placed", self.missing, lambda gaps: not gaps)
        return self.placements()

    def wait_quiet(self) -> None:
        """Until the schedulers have written nothing for three seconds: workers follow some moments after placements."""
        unchanged("the number of writes", lambda: sum(each.decided for each in self.cluster.requests(self.name)), 3)

    def ready_pods(self) -> set[str]:
        pods = self.cluster.get(f"/api/v1/namespaces/{self.name}/pods?labelSelector=app%3D{self.statefulset}")["items"]
        return {each["metadata"]["name"] for each in pods if pod_is_ready(each)}

    def pod(self, ordinal: int) -> Any:
        return self.cluster.get(f"/api/v1/namespaces/{self.name}/pods/{self.statefulset}-{ordinal}")

    def events(self, reason: str) -> list[Any]:
        items = self.cluster.get(f"/api/v1/namespaces/{self.name}/events")["items"]
        return [each for each in items if each["reason"] == reason]


def placed(content: Mapping[str, Any], path: Sequence[str] = ("status", "placements")) -> dict[str, int]:
    """Vreplicas by pod, from a status."""
    found: Any = content
    for step in path:
        found = found.get(step) or {}
    return {each.get("podName", ""): each.get("vreplicas", 0) for each in found}


def pod_is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    alive = "deletionTimestamp" not in pod["metadata"]
    return alive and any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def statefulset(namespace: str, name: str, replicas: int, policy: str = "Parallel", **pod: Any) -> dict[str, Any]:
    labels = {"app": name}
    containers = [{"name": "worker", "image": "example.com/worker:1"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers, **pod}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "serviceName": name,
            "podManagementPolicy": policy,
            "selector": {"matchLabels": labels},
            "template": template,
        },
    }


def consumer_group(namespace: str, name: str, replicas: int, kind: str) -> dict[str, Any]:
    labels = {"kafka.eventing.knative.dev/metadata.uid": name}
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "ConsumerGroup",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"kafka.eventing.knative.dev/metadata.kind": kind},
        },
        "spec": {
            "replicas": replicas,
            "selector": labels,
            "template": {"metadata": {"labels": labels}, "spec": {"topics": [name]}},
        },
    }


def rfc3339_now() -> str:
    """As the audit log writes times."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _claims(token: str) -> dict[str, Any]:
    body = token.split(".")[1]
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return claims
