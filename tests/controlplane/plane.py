"""Starts and stops a control plane in a folder of its own, and breaks it as a test asks.

etcd keeps nothing beyond the folder. The API server listens on 127.0.0.1 with RBAC and tokens from a file; admission of
service accounts is off, so that pods need none. The controllers' requests are the administrator's. Whatever is started
here is stopped by its own process id, clients of the API server first: with one connected it drains for 60 s.
"""

from __future__ import annotations

import base64
import datetime
import http.client
import json
import os
import secrets
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.controlplane.asking import ask
from tests.controlplane.build import Programs, locate
from tests.controlplane.certificates import Authority, Pair, signing_key
from tests.controlplane.errors import ControlPlaneError
from tests.controlplane.kubeconfig import write_kubeconfig
from tests.controlplane.ports import ReservedPort
from tests.controlplane.process import Process
from tests.controlplane.stages import Stages

READY_S = 120.0
ADMIN = "admin"

# The order of starting; the reverse is the order of stopping.
ORDER = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")

# Silent nodes are found in 3.7 s instead of 40 to 50 s, and their pods evicted at once, however many nodes are silent.
_FAST_NODE_FAILURE = (
    "--node-monitor-period=500ms",
    "--node-monitor-grace-period=4s",
    "--node-startup-grace-period=4s",
    "--node-eviction-rate=100",
    "--secondary-node-eviction-rate=100",
    "--unhealthy-zone-threshold=1",
)


@dataclass(frozen=True, slots=True)
class User:
    """Somebody with a token; what they may do is decided by RBAC alone."""

    name: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Options:
    controllers: bool = False
    scheduler: bool = False
    # A KubeSchedulerConfiguration; how the API server is reached is filled in. None takes kube-scheduler's defaults.
    scheduler_configuration: Mapping[str, Any] | None = None
    kwok: bool = False
    stages: Stages = field(default_factory=Stages)
    # Leases of kwok's nodes; 4 s together with `fast_node_failure`.
    node_lease_s: int = 40
    fast_node_failure: bool = False
    users: tuple[User, ...] = ()
    # Flags by program name, behind ours; the last one counts.
    flags: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        wanted = {
            "etcd": True,
            "kube-apiserver": True,
            "kube-controller-manager": self.controllers,
            "kube-scheduler": self.scheduler,
            "kwok": self.kwok,
        }
        return tuple(name for name in ORDER if wanted[name])


class ControlPlane:
    """`with ControlPlane(folder) as plane:` is ready for requests inside the block and gone after it.

    Every method blocks; from a coroutine call it in a thread.
    """

    def __init__(self, folder: Path, options: Options | None = None, *, programs: Programs | None = None) -> None:
        self.folder = folder
        self.options = options or Options()
        self._programs = programs or locate()
        self._authority = Authority("situate test control plane", datetime.datetime.now(datetime.UTC))
        self._tls = self.tls()
        self._tokens = {ADMIN: secrets.token_hex(16)}
        self._tokens |= {user.name: secrets.token_hex(16) for user in self.options.users}
        self._ports = [ReservedPort() for _ in range(3)]
        self._etcd_port, self._etcd_peer_port, self.port = (each.number for each in self._ports)
        self._processes: dict[str, Process] = {}

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def authority(self) -> bytes:
        """The certificate that clients trust, PEM."""
        return self._authority.certificate

    def token(self, user: str = ADMIN) -> str:
        return self._tokens[user]

    def client_certificate(
        self, user: str, groups: Sequence[str] = (), *, age: datetime.timedelta = datetime.timedelta()
    ) -> Pair:
        """`age`: made so long ago; after a day it has expired."""
        return self._authority.client(user, groups, age)

    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cadata=self.authority.decode())

    # Life and death

    def __enter__(self) -> ControlPlane:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Returns when everything that the options ask for answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for port in self._ports:
            port.reserve()
        self._write_files()
        self._processes = {name: self._process(name) for name in self.options.names()}
        for name in self._processes:
            self.start_component(name)

    def stop(self) -> None:
        """Ends everything, clients of the API server first, and waits for each end. Repeating it is harmless."""
        for process in reversed(self._processes.values()):
            process.stop()
        self._processes = {}
        for port in self._ports:
            port.release()

    def start_component(self, name: str) -> None:
        process = self.component(name)
        process.start()
        process.wait_ready(self._ready(name), timeout_s=READY_S)

    def component(self, name: str) -> Process:
        """To be paused, resumed, killed or stopped alone; `start_component` brings it back on the same port."""
        found = self._processes.get(name)
        if found is None:
            raise ControlPlaneError(
                f"{name} is not part of this control plane, which runs {', '.join(self._processes)}"
            )
        return found

    def restart_apiserver(self) -> None:
        """By SIGKILL, as an outage would: it forgets its watch cache, so earlier resourceVersions are answered 410."""
        self.component("kube-apiserver").kill()
        self.start_component("kube-apiserver")

    # History

    def compact(self) -> int:
        """Drops etcd's history up to now and returns that revision. The API server's watch cache still has its part."""
        # A write of our own comes first, since the last revision stays readable.
        tick = {"key": base64.b64encode(b"/situate/tick").decode(), "value": ""}
        revision = int(self._etcd("/v3/kv/put", tick)["header"]["revision"])
        self._etcd("/v3/kv/compaction", {"revision": str(revision), "physical": True})
        return revision

    def expire_history(self) -> None:
        """Makes every earlier resourceVersion and continue token one that the API server answers 410."""
        self.component("kube-apiserver").kill()
        self.compact()
        self.start_component("kube-apiserver")

    def rewrite_stored(self, resource: str, namespace: str, name: str, old: bytes, new: bytes) -> None:
        """Past validation, as an object of another version of the API server. Equally long: the rest stays readable."""
        assert len(old) == len(new)
        key = base64.b64encode(f"/registry/{resource}/{namespace}/{name}".encode()).decode()
        (found,) = self._etcd("/v3/kv/range", {"key": key})["kvs"]
        value = base64.b64decode(found["value"])
        assert old in value, value
        self._etcd("/v3/kv/put", {"key": key, "value": base64.b64encode(value.replace(old, new)).decode()})

    def stored(self, prefix: str) -> dict[str, int]:
        """What etcd keeps below `/registry/`, by key: the bytes of key and value."""
        found: dict[str, int] = {}
        key, end = f"/registry/{prefix}".encode(), f"/registry/{prefix}\U0010ffff".encode()
        while True:
            asked = {"key": base64.b64encode(key).decode(), "range_end": base64.b64encode(end).decode(), "limit": 1000}
            answer = self._etcd("/v3/kv/range", asked)
            for each in answer.get("kvs", ()):
                key = base64.b64decode(each["key"])
                found[key.decode()] = len(key) + len(base64.b64decode(each.get("value", "")))
            if not answer.get("more"):
                return found
            key += b"\0"

    # Ways in

    def request(self, method: str, path: str, body: Any = None, *, user: str = ADMIN) -> Any:
        """For setting things up, patches as merge patches; raises `ControlPlaneError` with the server's words if it
        refuses."""
        headers = {"Authorization": f"Bearer {self.token(user)}"}
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        status, text = ask(self.port, method, path, tls=self._tls, headers=headers, body=body)
        if status >= 300:
            raise ControlPlaneError(f"{method} {path}: {status} {text}")
        return json.loads(text)

    def service_account_token(self, namespace: str, name: str, *, seconds: int = 7200) -> str:
        """A token for an existing ServiceAccount, by TokenRequest."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [], "expirationSeconds": seconds},
        }
        made = self.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", body)
        return str(made["status"]["token"])

    def kubeconfig(self, user: str = ADMIN) -> Path:
        return self._kubeconfig(user, self.token(user))

    def service_account_kubeconfig(self, namespace: str, name: str) -> Path:
        """For running a product under the ServiceAccount and RBAC that it is given in a cluster."""
        return self._kubeconfig(f"{namespace}-{name}", self.service_account_token(namespace, name), namespace)

    def _kubeconfig(self, user: str, token: str, namespace: str = "") -> Path:
        path = self.folder / f"{user}.kubeconfig"
        return write_kubeconfig(
            path, url=self.url, authority=self.authority, user=user, token=token, namespace=namespace
        )

    # How each program is started, and when it is ready

    def _write_files(self) -> None:
        server = self._authority.server(names=("localhost",), addresses=("127.0.0.1",))
        private, public = signing_key()
        rows = [f"{self._tokens[ADMIN]},{ADMIN},{ADMIN},system:masters"]
        for user in self.options.users:
            groups = ",".join(user.groups)
            rows.append(f'{self._tokens[user.name]},{user.name},{user.name},"{groups}"')
        for name, content in {
            "ca.crt": self.authority,
            "server.crt": server.certificate,
            "server.key": server.key,
            "service-accounts.key": private,
            "service-accounts.pub": public,
            "tokens.csv": "\n".join(rows).encode(),
            "stages.yaml": self.options.stages.text().encode(),
        }.items():
            path = self.folder / name
            path.touch(mode=0o600)
            path.write_bytes(content)
        kubeconfig = self.kubeconfig()
        if self.options.scheduler_configuration is not None:
            connection = {
                **self.options.scheduler_configuration.get("clientConnection", {}),
                "kubeconfig": str(kubeconfig),
            }
            configuration = {**self.options.scheduler_configuration, "clientConnection": connection}
            (self.folder / "scheduler.json").write_text(json.dumps(configuration))

    def _process(self, name: str) -> Process:
        command = (str(self._programs.path(name)), *self._flags(name), *self.options.flags.get(name, ()))
        # A proxy of this machine must not stand between the programs; kwok reads HOME for a configuration of its own.
        environment = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
        return Process(
            name, command, self.folder / f"{name}.log", environment={**environment, "HOME": str(self.folder)}
        )

    def _flags(self, name: str) -> tuple[str, ...]:
        folder, options = self.folder, self.options
        kubeconfig = f"--kubeconfig={folder / f'{ADMIN}.kubeconfig'}"
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._etcd_peer_port}"
        match name:
            case "etcd":
                return (
                    f"--data-dir={folder / 'etcd'}",
                    f"--listen-client-urls={client}",
                    f"--advertise-client-urls={client}",
                    f"--listen-peer-urls={peer}",
                    f"--initial-advertise-peer-urls={peer}",
                    f"--initial-cluster=default={peer}",
                    "--unsafe-no-fsync",
                    "--log-level=warn",
                    "--max-request-bytes=10485760",
                    "--quota-backend-bytes=8589934592",
                )
            case "kube-apiserver":
                return (
                    f"--etcd-servers={client}",
                    "--bind-address=127.0.0.1",
                    f"--secure-port={self.port}",
                    f"--cert-dir={folder}",
                    f"--tls-cert-file={folder / 'server.crt'}",
                    f"--tls-private-key-file={folder / 'server.key'}",
                    f"--client-ca-file={folder / 'ca.crt'}",
                    f"--token-auth-file={folder / 'tokens.csv'}",
                    "--authorization-mode=RBAC",
                    "--disable-admission-plugins=ServiceAccount",
                    "--service-account-issuer=https://kubernetes.default.svc",
                    f"--service-account-signing-key-file={folder / 'service-accounts.key'}",
                    f"--service-account-key-file={folder / 'service-accounts.pub'}",
                    "--service-cluster-ip-range=10.0.0.0/16",
                    # An endpoint of the Service kubernetes on a loopback address is refused, and nobody needs one.
                    "--endpoint-reconciler-type=none",
                    "--allow-privileged",
                )
            case "kube-controller-manager":
                return (
                    kubeconfig,
                    "--leader-elect=false",
                    "--secure-port=0",
                    f"--service-account-private-key-file={folder / 'service-accounts.key'}",
                    f"--root-ca-file={folder / 'ca.crt'}",
                    *(_FAST_NODE_FAILURE if options.fast_node_failure else ()),
                )
            case "kube-scheduler":
                if options.scheduler_configuration is not None:
                    kubeconfig = f"--config={folder / 'scheduler.json'}"
                return (kubeconfig, "--leader-elect=false", "--secure-port=0")
            case "kwok":
                return (
                    kubeconfig,
                    "--manage-all-nodes=true",
                    f"--node-lease-duration-seconds={options.node_lease_s}",
                    f"--config={folder / 'stages.yaml'}",
                )
        raise ControlPlaneError(f"{name!r} is none of {', '.join(ORDER)}")

    def _ready(self, name: str) -> Callable[[], bool]:
        match name:
            case "etcd":
                return self._etcd_ready
            case "kube-apiserver":
                return self._apiserver_ready
            case "kube-controller-manager":
                return lambda: self._seen("/api/v1/namespaces/default/serviceaccounts/default")
            case _:
                # The scheduler and kwok serve nothing here; they are at work within half a second of running.
                return lambda: self.component(name).running

    def _etcd_ready(self) -> bool:
        try:
            status, text = ask(self._etcd_port, "GET", "/health", timeout_s=2)
        except (OSError, http.client.HTTPException):
            return False
        return status == 200 and bool(json.loads(text)["health"] == "true")

    def _apiserver_ready(self) -> bool:
        # The roles of RBAC and the namespace default are written after the port is open.
        return self._seen("/readyz") and self._seen("/api/v1/namespaces/default")

    def _seen(self, path: str) -> bool:
        headers = {"Authorization": f"Bearer {self.token()}"}
        try:
            return ask(self.port, "GET", path, tls=self._tls, headers=headers, timeout_s=2)[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def _etcd(self, path: str, body: Mapping[str, Any]) -> Any:
        status, text = ask(self._etcd_port, "POST", path, body=body)
        if status != 200:
            raise ControlPlaneError(f"etcd answers {path} with {status}: {text}")
        return json.loads(text)
