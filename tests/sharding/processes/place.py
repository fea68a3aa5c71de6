"""A namespace of a server in which sharding is installed as `situate manifests sharding` prints it.

On the real server nobody is more than that makes him: supervisors and executors have tokens of their accounts, those of
executors bound to their pods, and the policy fences. The embedded one knows no rights, and everybody is its
administrator there.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from typer.testing import CliRunner

from situate.cli.main import app
from situate.sharding.leases.membership import lease_name
from situate.sharding.model.names import EPOCH, EXECUTOR_UID, TERM
from situate.testing.sharding.world.reports import CRDS, REPORTS, definition, report
from tests.contract.servers import RealServer, Server
from tests.controlplane.kubeconfig import write_kubeconfig
from tests.sharding.processes.hearing import REFUSED
from tests.waiting import eventually

RESOURCE = f"{REPORTS.group}/{REPORTS.version}/{REPORTS.plural}"
SUPERVISORS, EXECUTORS = "situate-shard", "reports-executor"
"""The accounts."""
_PATCHES = {"json": "application/json-patch+json", "merge": "application/merge-patch+json"}
_RBAC, _ADMISSION = "apis/rbac.authorization.k8s.io/v1", "apis/admissionregistration.k8s.io/v1"
_APPLIED = {
    "ServiceAccount": "api/v1/namespaces/{}/serviceaccounts",
    "Role": _RBAC + "/namespaces/{}/roles",
    "RoleBinding": _RBAC + "/namespaces/{}/rolebindings",
    "ClusterRole": _RBAC + "/clusterroles",
    "ClusterRoleBinding": _RBAC + "/clusterrolebindings",
    "Lease": "apis/coordination.k8s.io/v1/namespaces/{}/leases",
    "ValidatingAdmissionPolicy": _ADMISSION + "/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": _ADMISSION + "/validatingadmissionpolicybindings",
}
"""By kind, where it is made; what is printed besides stands for the processes that tests start."""


class Place:
    """One for a test at a time: the policy knows the accounts of the last that was made."""

    def __init__(self, server: Server, namespace: str, folder: Path) -> None:
        self.namespace = namespace
        self.folder = folder
        self.real = isinstance(server, RealServer)
        self._server = server
        self._supervisor = server.token
        self._pardoned: dict[str, int] = {}
        """By log: so many lines."""
        self._ensure(CRDS, definition())
        self._ensure("/api/v1/namespaces", {"metadata": {"name": namespace}})
        listing = REPORTS.path(namespace)
        eventually("reports are served", lambda: self.ask("GET", listing), lambda answer: answer[0] == 200)
        if self.real:
            for each in self._printed():
                self._ensure("/" + _APPLIED[each["kind"]].format(each["metadata"].get("namespace")), each)
            self._supervisor = self._token(SUPERVISORS)
            eventually("the policy knows these accounts", self._fenced)

    @property
    def port(self) -> int:
        port = urlsplit(self._server.url).port
        assert port is not None
        return port

    def supervisor_kubeconfig(self, name: str) -> Path:
        return self._kubeconfig(name, self._supervisor)

    def executor_kubeconfig(self, pod: str, uid: str) -> Path:
        """With the token that the kubelet would give this pod."""
        return self._kubeconfig(pod, self._token(EXECUTORS, pod, uid) if self.real else self._server.token)

    def pod(self, name: str) -> str:
        """The UID of a pod of executors of that name, which is made if there is none; it is ready."""
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        spec = {
            "schedulerName": "nobody",
            "serviceAccountName": EXECUTORS,
            "automountServiceAccountToken": False,
            "containers": [{"name": "executor", "image": "reports"}],
        }
        body = {"metadata": {"name": name, "labels": {"app": "reports"}}, "spec": spec}
        eventually("a pod can be made", lambda: self.ask("POST", path, body)[0] in (201, 409))
        pod = self.call("GET", f"{path}/{name}")
        running = {"name": "executor", "ready": True, "restartCount": 0, "image": "reports", "imageID": ""}
        status = {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [running | {"state": {"running": {}}}],
        }
        self.call("PUT", f"{path}/{name}/status", pod | {"status": status})
        return str(pod["metadata"]["uid"])

    def let_executors_watch(self, *resources: tuple[str, str]) -> None:
        """Group and plural of what the operator itself needs to see, beside what is printed."""
        name = f"{self.namespace}-operator"
        rules = [{"apiGroups": [group], "resources": [of], "verbs": ["list", "watch"]} for group, of in resources]
        account = {"kind": "ServiceAccount", "name": EXECUTORS, "namespace": self.namespace}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        named: dict[str, Any] = {"metadata": {"name": name}}
        self._ensure(f"/{_RBAC}/clusterroles", {"kind": "ClusterRole", "rules": rules, **named})
        binding = {"kind": "ClusterRoleBinding", "roleRef": role, "subjects": [account], **named}
        self._ensure(f"/{_RBAC}/clusterrolebindings", binding)

    def lease_holder(self, pod: str, uid: str) -> str:
        """Empty if the executor in this pod has no Lease, or nobody holds it."""
        status, found = self.ask("GET", self.lease_path(pod, uid))
        assert status in (200, 404), found
        return str(found["spec"].get("holderIdentity", "")) if status == 200 else ""

    def lease_path(self, pod: str, uid: str) -> str:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases"
        return f"{path}/{lease_name('default', pod, uid)}"

    def check(self) -> None:
        """No process has asked for what the printed rights or the policy refuse it."""
        for log in self.folder.glob("*.log"):
            lines = log.read_text(errors="replace").splitlines()[self._pardoned.get(log.name, 0) :]
            refused = [line for line in lines if line.startswith(REFUSED)]
            assert not refused, f"{log.name}: {refused}"

    def pardon(self) -> None:
        """What was refused so far: an API server that has just begun does not know all roles yet."""
        for log in self.folder.glob("*.log"):
            self._pardoned[log.name] = len(log.read_text(errors="replace").splitlines())

    def call(self, method: str, path: str, body: object = None, **how: Any) -> dict[str, Any]:
        """A request of the test's own, which must succeed, if need be when storage is initialized after a restart."""
        status, answer = eventually(
            "the server takes requests", lambda: self.ask(method, path, body, **how), lambda told: told[0] != 429
        )
        assert status < 300, (method, path, status, answer)
        return answer

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        patch: str = "json",
        supervisor: bool = False,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, dict[str, Any]]:
        """As the administrator, or under the supervisors' account."""
        connection = self.connection()
        try:
            token = self._supervisor if supervisor else self._server.token
            sent = {"Authorization": f"Bearer {token}", **(headers or {})}
            if body is not None:
                sent["Content-Type"] = _PATCHES[patch] if method == "PATCH" else "application/json"
            connection.request(method, path, None if body is None else json.dumps(body), sent)
            answer = connection.getresponse()
            text = answer.read().decode()
            return answer.status, dict(json.loads(text)) if text.startswith("{") else {"text": text}
        finally:
            connection.close()

    @property
    def us(self) -> dict[str, str]:
        """Headers with which the administrator counts as a supervisor to the policy, and may do everything."""
        account = f"system:serviceaccount:{self.namespace}:{SUPERVISORS}"
        return {"Impersonate-User": account, "Impersonate-Group": "system:masters"}

    def watch(self, path: str, resource_version: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """As the administrator; the events are the lines of the answer."""
        connection = self.connection(timeout_s=3600)
        sent = {"Authorization": f"Bearer {self._server.token}"}
        connection.request("GET", f"{path}?watch=true&resourceVersion={resource_version}", headers=sent)
        return connection, connection.getresponse()

    def connection(self, timeout_s: float = 60) -> http.client.HTTPConnection:
        tls = self._server.tls()
        if tls is None:
            return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout_s)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout_s, context=tls)

    def _printed(self) -> Iterator[dict[str, Any]]:
        archive = {"url": f"file://{self.folder}/archive", "ttl": 0}
        entry = {"resource": RESOURCE, "namespace": self.namespace, "archive": archive}
        file = self.folder / "situate.yaml"
        file.write_text(json.dumps({"apiVersion": "situate.dev/v1alpha1", "kind": "Situate", "sharding": [entry]}))
        printed = CliRunner().invoke(
            app, ["manifests", "sharding", "-f", str(file), "--installation-namespace", self.namespace]
        )
        assert printed.exit_code == 0, printed.output
        return (each for each in yaml.safe_load_all(printed.stdout) if each["kind"] in _APPLIED)

    def _token(self, account: str, pod: str = "", uid: str = "") -> str:
        """Bound to the pod, if one is named."""
        bound = {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": pod, "uid": uid}} if pod else {}
        spec = {"audiences": [], "expirationSeconds": 7200, **bound}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{account}/token"
        return str(self.call("POST", path, body)["status"]["token"])

    def _kubeconfig(self, user: str, token: str) -> Path:
        if not isinstance(self._server, RealServer):
            made = self.folder / f"{user}.kubeconfig"
            made.write_text(self._server.kubeconfig(self.folder).read_text())
            return made
        authority = self._server.plane.authority
        path = self.folder / f"{user}.kubeconfig"
        return write_kubeconfig(path, url=self._server.url, authority=authority, user=user, token=token)

    def _fenced(self) -> bool:
        """Whether this supervisor may assign, and nobody else: the server hears of policies a moment later."""
        made = report("probe", assignedTo="a")
        made["metadata"]["annotations"] = {EPOCH: "1", EXECUTOR_UID: "uid-a", TERM: "0"}
        path = f"{REPORTS.path(self.namespace)}?dryRun=All"
        return (self.ask("POST", path, made)[0], self.ask("POST", path, made, headers=self.us)[0]) == (403, 201)

    def _ensure(self, path: str, content: dict[str, Any]) -> None:
        """What is there already is made equal to it, but for a Lease, which a second apply leaves as it is."""
        status, answer = self.ask("POST", path, content)
        if status == 409 and path not in (CRDS, "/api/v1/namespaces") and content["kind"] != "Lease":
            status, answer = self.ask("PATCH", f"{path}/{content['metadata']['name']}", content, patch="merge")
        assert status in (200, 201, 409), (path, answer)
