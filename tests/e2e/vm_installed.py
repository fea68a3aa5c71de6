"""vm installed on a real cluster: what `situate manifests` prints, and processes in the place of its pods.

The containers' commands run as processes of this machine, under the printed accounts, with the environment of their
pods. Replaced are the webhook's Service, by the URL of this machine, and addresses and files of it. Pods have addresses
of the loopback network, so that each may listen on the same port.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from typer.testing import CliRunner

from situate.cli.main import app
from situate.vm.api.well_known import LEASE
from situate.vm.protocol.eviction_webhook_objects import PATH, SERVICE
from tests.controlplane.errors import ControlPlaneError
from tests.controlplane.ports import ReservedPort
from tests.controlplane.process import Process
from tests.e2e.vm_crew import VmCrew
from tests.e2e.vpod_cluster import Cluster, Scheduler
from tests.waiting import WITHIN_S, eventually

_AGENTS = 250
"""As many connections, if one is on each node."""
_HASH = "pod-template-hash"


class InstalledVm(VmCrew):
    """The objects in the cluster, and the processes that stand for pods."""

    def __init__(self, cluster: Cluster, name: str, folder: Path, **shared: Any) -> None:
        """Machines are in the namespace `name`, for of its own the installation lets all pods be evicted."""
        super().__init__(cluster, name, folder, **shared)
        self.home = f"{name}-own"
        self._ports = [ReservedPort(), ReservedPort()]
        self.permits, evictions = (each.number for each in self._ports)
        self.settings["permits"] = {"address": f"127.0.0.1:{self.permits}"}
        self.settings["evictions"] = {"address": f"127.0.0.1:{evictions}", "timeout": "10s"}
        self._url = f"https://127.0.0.1:{evictions}{PATH}"
        self._agents: list[Process] = []
        self._addresses: dict[str, str] = {}

    def __enter__(self) -> InstalledVm:
        self.configure()
        self.objects = self._printed("-f", str(self.file))
        for each in self.objects:
            if each["kind"] == "ValidatingWebhookConfiguration":
                each["webhooks"][0]["clientConfig"] = {"url": self._url}
        self.cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.name}})
        self.cluster.kubectl("apply", "--server-side", "-f", "-", given=self.objects)
        self._system = f"{self.name}-system"
        self.cluster.add_nodes(self._system)
        return self

    def __exit__(self, *of: Any) -> None:
        for each in self._agents:
            each.stop()
            assert "Traceback" not in each.log.read_text(), each.log.read_text()
        super().__exit__(*of)
        self.cluster.plane.request("DELETE", f"/api/v1/nodes/{self._system}")
        self.cluster.plane.request("DELETE", f"/api/v1/namespaces/{self.home}")
        for port in self._ports:
            port.release()

    def _printed(self, *arguments: str) -> list[Any]:
        result = CliRunner().invoke(app, ["manifests", *arguments, "--installation-namespace", self.home])
        assert result.exit_code == 0, result.output
        return list(yaml.safe_load_all(result.stdout))

    def deployment(self) -> Any:
        (found,) = (each for each in self.objects if each["kind"] == "Deployment")
        return found

    def environment(self, scheduler: str) -> Mapping[str, str]:
        """As the pod of that name has it."""
        (container,) = self.deployment()["spec"]["template"]["spec"]["containers"]
        return _environment(container, {"metadata.namespace": self.home, "metadata.name": scheduler})

    def roll_out(self) -> None:
        """A newer revision, of which no pod counts as available: the Deployment leaves the one that runs alone, so that
        the Lease does not change hands because its holder ends."""
        path = f"/apis/apps/v1/namespaces/{self.home}/deployments/{self.deployment()['metadata']['name']}"
        newer = {"metadata": {"annotations": {"example.com/revision": "2"}}}
        self.cluster.plane.request("PATCH", path, {"spec": {"minReadySeconds": 500, "template": newer}})

    def start_pod(self, *but: str) -> tuple[str, Scheduler]:
        """A pod of the Deployment's newest revision, other than those, gets a node and runs: its process begins."""
        pod = eventually("the Deployment has made a pod", lambda: self._waiting(but), bool)[0]
        target = {"apiVersion": "v1", "kind": "Node", "name": self._system}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
        self.cluster.plane.request("POST", f"{self._pod_path(pod)}/binding", body)
        eventually(f"{pod} is ready", lambda: self.cluster.get(self._pod_path(pod)), _ready)
        address = self._addresses[pod] = f"127.0.0.{len(self._addresses) + 1}"
        self.cluster.plane.request(
            "PATCH", f"{self._pod_path(pod)}/status", {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
        )
        listens = f"vm.permits.address={address}:{self.permits}"
        return pod, self.start(pod, f"leaderElection.identity={pod}_x", listens)

    def _waiting(self, but: Sequence[str]) -> list[str]:
        """Pods of the Deployment without a node, of another revision than those."""
        listed = [each for each in self.cluster.get(self._pod_path())["items"] if _HASH in each["metadata"]["labels"]]
        pods = {each["metadata"]["name"]: each for each in listed}
        former = {pods[name]["metadata"]["labels"][_HASH] for name in but}
        return sorted(
            name
            for name, each in pods.items()
            if each["metadata"]["labels"][_HASH] not in former and "nodeName" not in each["spec"]
        )

    def _pod_path(self, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.home}/pods" + (f"/{name}" if name else "")

    def runs(self, pod: str) -> bool:
        """Whether it is there, and nobody has asked it to end."""
        found = self.cluster.get(self._pod_path(pod))
        return found is not None and "deletionTimestamp" not in found["metadata"]

    def holder(self) -> str:
        """The pod that holds the Lease."""
        found = self.cluster.get(f"/apis/coordination.k8s.io/v1/namespaces/{self.home}/leases/{LEASE}")
        return str(found["spec"].get("holderIdentity", "")).removesuffix("_x")

    def start_agent(self, node: str, *assignments: str) -> int:
        """What `situate manifests vm-agent` prints, on that node; the port of its metrics."""
        objects = self._printed("vm-agent")
        self.cluster.apply(*(each for each in objects if each["kind"] != "DaemonSet"))
        (daemon_set,) = (each for each in objects if each["kind"] == "DaemonSet")
        pod = daemon_set["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        mounted = self.folder / "mounted"
        (mount,) = container["volumeMounts"]
        (volume,) = pod["volumes"]
        eventually("there is a certificate", lambda: self._mount(volume["projected"]["sources"], mounted))
        arguments = [each.replace(mount["mountPath"], str(mounted)) for each in container["args"]]
        self.agents_account = pod["serviceAccountName"]
        kubeconfig = self.cluster.plane.service_account_kubeconfig(self.home, self.agents_account)
        token = self._mounted_token(node, kubeconfig.with_suffix(".token"))
        here = {"requestPort": self.permits, "schedulerName": self.name, "tokenFile": token}
        for assignment in (*(f"scheduler.{key}={value}" for key, value in here.items()), *assignments):
            arguments += ["--set", assignment]
        metrics = ReservedPort()
        arguments[arguments.index("--health-address") + 1] = f"127.0.0.1:{metrics.number}"
        environment = _environment(container, {"metadata.namespace": self.home, "spec.nodeName": node})
        agent = self.cluster.process(
            "agent",
            self.folder / "agent.log",
            *(*arguments, "--kubeconfig", str(kubeconfig)),
            environment=environment,
        )
        self._ports.append(metrics)
        self._agents.append(agent)
        agent.start()
        return metrics.number

    def _mounted_token(self, node: str, file: Path) -> Path:
        """What a kubelet mounts into the agent's Pod on that node: a token bound to that Pod."""
        container = {"name": "agent", "image": "example.com/situate:1"}
        spec = {"nodeName": node, "serviceAccountName": self.agents_account, "containers": [container]}
        plane, name = self.cluster.plane, f"agent-{node}"
        labels = {"app.kubernetes.io/name": self.agents_account}
        pod = plane.request("POST", self._pod_path(), {"metadata": {"name": name, "labels": labels}, "spec": spec})
        bound = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": pod["metadata"]["uid"]}
        path = f"/api/v1/namespaces/{self.home}/serviceaccounts/{self.agents_account}/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        made = plane.request("POST", path, asked | {"spec": {"audiences": [], "boundObjectRef": bound}})
        file.write_text(made["status"]["token"])
        return file

    def _mount(self, sources: Sequence[Any], folder: Path) -> list[Path]:
        """As kubelets do; what there is then."""
        folder.mkdir(exist_ok=True)
        for each in (source["secret"] for source in sources):
            found = self.cluster.get(f"/api/v1/namespaces/{self.home}/secrets/{each['name']}")
            data = {} if found is None else found.get("data", {})
            for item in each["items"]:
                if item["key"] in data:
                    (folder / item["path"]).write_bytes(base64.b64decode(data[item["key"]]))
        return list(folder.iterdir())

    def refusal(self, pod: str, token: str | None, *, encrypted: bool = True) -> int:
        """The status of a request of another version at the port of that pod, of one who trusts what agents do."""
        name, context = self._trusting()
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        with closing(HTTPConnection(name, self.permits)) as connection:
            connection.sock = plain = socket.create_connection((self._addresses[pod], self.permits), timeout=30)
            if encrypted:
                connection.sock = context.wrap_socket(plain, server_hostname=name)
            connection.request("POST", "/", b'{"protoVersion":6}', headers)
            with connection.getresponse() as response:
                return response.status

    def answered(self, pod: str, token: str, bodies: Sequence[bytes]) -> Counter[tuple[int, str]]:
        """So many requests at once at the port of that pod, over the connections of many agents: statuses and texts."""
        return asyncio.run(self._answered(pod, token, bodies))

    async def _answered(self, pod: str, token: str, bodies: Sequence[bytes]) -> Counter[tuple[int, str]]:
        name, context = self._trusting()
        url, headers = f"https://{self._addresses[pod]}:{self.permits}/", {"authorization": f"Bearer {token}"}

        async def ask(body: bytes) -> tuple[int, str]:
            async with session.post(url, data=body, headers=headers, server_hostname=name) as response:
                return response.status, await response.text()

        async with aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=_AGENTS, ssl=context), timeout=aiohttp.ClientTimeout(WITHIN_S)
        ) as session:
            return Counter(await asyncio.gather(*map(ask, bodies)))

    def _trusting(self) -> tuple[str, ssl.SSLContext]:
        """The name that agents ask, and what they trust."""
        context = ssl.create_default_context()
        for each in (self.folder / "mounted").iterdir():
            context.load_verify_locations(each)
        return f"{SERVICE}.{self.home}.svc", context

    def wait_asked_about_evictions(self, pod: str) -> None:
        """Until API servers trust whoever leads: an eviction that is only tried is refused by us."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": self.name}}

        def refusal() -> str:
            try:
                self.cluster.plane.request("POST", f"{self.path(pod)}/eviction?dryRun=All", body)
            except ControlPlaneError as refused:
                return str(refused)
            return ""

        eventually("API servers ask us", refusal, lambda said: "VirtualMachine" in said)


def _ready(pod: Mapping[str, Any]) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", ()))


def _environment(container: Mapping[str, Any], fields: Mapping[str, str]) -> dict[str, str]:
    return {each["name"]: fields[each["valueFrom"]["fieldRef"]["fieldPath"]] for each in container["env"]}
