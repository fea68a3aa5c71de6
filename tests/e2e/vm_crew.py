"""Virtual machines on a real cluster: nodes of one size, machines as custom resources, and schedulers of ours for them.

Runner pods run as kwok plays them; machines and migrations are looked after by `situate vm machines`, a process too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import yaml
from typer.testing import CliRunner

from situate.cli.main import app
from situate.cli.manifests.spot import POD_VARIABLE
from situate.vm.api.well_known import (
    APPROVED,
    AUTO_MIGRATION_LABEL,
    CLAIM,
    CLAIM_CLOSED,
    ENABLED_LABEL,
    LEASE,
    REQUESTED,
    SCALING_UNIT,
)
from situate.vm.emulator.crds import definitions
from situate.vm.emulator.hypervisor import HYPERVISOR
from situate.vm.protocol.eviction_webhook_objects import CERTIFICATES, budget_name, configuration_name
from tests.controlplane.process import Process
from tests.e2e.scheduler_cluster import Crew
from tests.e2e.vpod_cluster import Cluster, Scheduler
from tests.waiting import eventually

API = "vm.neon.tech/v1"
ELECTION = {"leaseDuration": "12s", "renewDeadline": "9s", "retryPeriod": "500ms"}
"""Short enough to see its end; long enough for a leader not to miss it where a machine stalls for seconds."""
CPUS = 8
"""Of each node, with 4 GiB for each; so has a machine, and a unit is one of them."""
QUICK = {"usedMemory": "64Mi"}
"""A machine that has moved in an instant."""
_STAND_IN = "vm-machines"
"""The namespace that it is installed in."""
STALLED = {**QUICK, "stallAtPercent": 40}
"""A machine that moves copies until its hypervisor is told otherwise."""


def memory(cpus: int) -> str:
    return f"{4 * cpus}Gi"


def amount(cpus: int) -> str:
    """As annotations have it."""
    return json.dumps({"vCPUs": cpus, "mem": memory(cpus)}, separators=(",", ":"))


class VmCrew(Crew):
    """Plans soon, and moves as often as it likes. No move is given up: on a busy machine processes start for long."""

    section = "vm"

    def __init__(self, cluster: Cluster, name: str, folder: Path, **shared: Any) -> None:
        """`shared`: sections of the configuration file besides."""
        super().__init__(cluster, name, folder)
        calm = {"coolDown": "0s", "longestCoolDown": "0s", "afterFailure": "0s", "longestAfterFailure": "0s"}
        evictions = {"address": "127.0.0.1:0"}  # nobody asks there
        self.settings = {
            "schedulerName": name,
            "demandAfter": "500ms",
            "retry": "500ms",
            "calm": calm,
            "evictions": evictions,
            "deadlines": dict.fromkeys(("unbound", "notRunning", "noProgress", "leastTotal"), "20m"),
        }
        self.shared |= shared

    def __exit__(self, *of: Any) -> None:
        super().__exit__(*of)
        self.cluster.kubectl("delete", "validatingwebhookconfiguration", configuration_name(self.home))

    def add_nodes(self, count: int) -> None:
        """One after the other, so that the caller knows what comes where."""
        room = {"cpu": str(CPUS), "memory": memory(CPUS), "pods": "110"}
        for _ in range(count):
            name = f"{self.name}-{len(self.nodes)}"
            self.cluster.add_nodes(name, labels={"crew": self.name}, status={"capacity": room, "allocatable": room})
            self.nodes.append(name)

    def start(self, name: str = "scheduler", *assignments: str) -> Scheduler:
        """Unless it is told another port for permits, nobody asks at any."""
        return super().start(name, "vm.permits.address=127.0.0.1:0", *assignments)

    def environment(self, scheduler: str) -> Mapping[str, str]:
        """Each stands for a pod of its name, which is there where a test made one."""
        return {POD_VARIABLE: scheduler}

    def marked(self) -> list[str]:
        """Pods that agents ask."""
        found = self.cluster.get(f"/api/v1/namespaces/{self.home}/pods?labelSelector=name%3D{self.name}")
        return [each["metadata"]["name"] for each in found["items"]]

    def kill(self) -> None:
        """SIGKILL for whoever of ours lives."""
        for each in self.schedulers:
            each.process.kill()

    def take_over(self, after: str) -> None:
        """A new process follows one that was killed, at once: the Lease ends before its time."""
        self.kill()
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.name}/leases/{LEASE}"
        if self.cluster.get(path) is not None:
            self.cluster.plane.request("DELETE", path)
        scheduler = self.start(f"after-{after.replace(' ', '-')}")
        self.wait_leads(scheduler)

    def wait_leads(self, scheduler: Scheduler) -> None:
        def leads() -> bool:
            assert scheduler.process.running, scheduler.process.tail()
            return bool(scheduler.said("ledger created"))

        eventually(f"{scheduler.name} leads", leads)

    def bind_as_stranger(self, name: str, node: str, cpus: int) -> None:
        """As another scheduler does that knows of no room that is held."""
        container: dict[str, Any] = {"name": "c", "image": "example.com/c:1"}
        container["resources"] = {"requests": {"cpu": str(cpus), "memory": memory(cpus)}}
        self.create(name, schedulerName="somebody-else", containers=[container])
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        self.cluster.plane.request("POST", f"{self.path(name)}/binding", body)

    # Machines

    def vm_path(self, name: str = "") -> str:
        return self._path("virtualmachines", name)

    def move_path(self, name: str = "") -> str:
        return self._path("virtualmachinemigrations", name)

    def _path(self, plural: str, name: str) -> str:
        return f"/apis/{API}/namespaces/{self.name}/{plural}" + (f"/{name}" if name else "")

    def create_machine(
        self, name: str, cpus: int, *, migratable: bool = False, behaviour: Mapping[str, Any] | None = None
    ) -> None:
        guest = {"cpus": {"min": 1, "use": cpus, "max": 16}, "memorySlots": {"min": 4, "use": 4 * cpus, "max": 64}}
        labels = {ENABLED_LABEL: "true", AUTO_MIGRATION_LABEL: str(migratable).lower()}
        annotations = {} if behaviour is None else {HYPERVISOR: json.dumps(behaviour)}
        body = {
            "apiVersion": API,
            "kind": "VirtualMachine",
            "metadata": {"name": name, "labels": labels, "annotations": annotations},
            "spec": {"schedulerName": self.name, "nodeSelector": {"crew": self.name}, "guest": guest},
        }
        self.cluster.plane.request("POST", self.vm_path(), body)

    def annotate(self, name: str, annotations: Mapping[str, str | None]) -> None:
        self.cluster.plane.request("PATCH", self.vm_path(name), {"metadata": {"annotations": dict(annotations)}})

    def release(self, name: str) -> None:
        """A move of the machine comes to its end."""
        self.annotate(name, {HYPERVISOR: json.dumps(QUICK)})

    def ask(self, name: str, cpus: int) -> None:
        """What the permit server writes for an agent (C15)."""
        self.annotate(name, {SCALING_UNIT: amount(1), REQUESTED: amount(cpus)})

    def grow(self, name: str, cpus: int) -> None:
        """What its agent does with a permit."""
        guest = {"cpus": {"use": cpus}, "memorySlots": {"use": 4 * cpus}}
        self.cluster.plane.request("PATCH", self.vm_path(name), {"spec": {"guest": guest}})

    def machine(self, name: str) -> Any:
        return self.cluster.get(self.vm_path(name))

    def approved(self, name: str) -> str:
        return str(self.machine(name)["metadata"].get("annotations", {}).get(APPROVED, ""))

    def wait_approved(self, name: str, cpus: int) -> None:
        eventually(f"{name} may use {cpus}", partial(self.approved, name), lambda text: text == amount(cpus))

    def wait_kept_from_evictions(self, name: str) -> None:
        """Until the machine has its budget, and API servers could trust whoever decides about evictions."""
        path = f"/apis/policy/v1/namespaces/{self.name}/poddisruptionbudgets/{budget_name(name)}"
        eventually(f"{name} has a budget", lambda: self.cluster.get(path))
        secret = f"/api/v1/namespaces/{self.name}/secrets/{CERTIFICATES}"
        eventually("there are certificates", lambda: self.cluster.get(secret)["data"])

    def closed_claims(self, name: str) -> str:
        return str(self.machine(name)["metadata"]["annotations"].get(CLAIM_CLOSED, ""))

    def runner(self, name: str) -> Any:
        """The machine's pod."""
        return self.get(self.machine(name)["status"]["podName"])

    def requests_of(self, name: str) -> tuple[str, str]:
        """CPU and memory that the machine's pod requests (B47)."""
        (container,) = self.runner(name)["spec"]["containers"]
        requests = container["resources"]["requests"]
        return requests["cpu"], requests["memory"]

    def wait_runs(self, name: str, node: str) -> str:
        """Until the machine runs on the node; the name of its pod."""

        def runs(status: Mapping[str, Any]) -> bool:
            return (status.get("phase"), status.get("node")) == ("Running", node)

        found = eventually(f"{name} runs on {node}", lambda: self.machine(name).get("status", {}), runs)
        return str(found["podName"])

    def wait_known(self, name: str, key: str) -> None:
        """Until the machine's pod shows what stands on the machine."""
        value = self.machine(name)["metadata"]["annotations"][key]
        eventually(
            f"the pod of {name} shows {key}",
            lambda: self.runner(name)["metadata"]["annotations"].get(key),
            lambda shown: shown == value,
        )

    # Moves

    def moves(self) -> list[Any]:
        found: list[Any] = self.cluster.get(self.move_path())["items"]
        return found

    def wait_move(self, holds: Callable[[Any], Any] = bool) -> Any:
        """The only one there is, once it is so."""

        def one(moves: list[Any]) -> bool:
            assert len(moves) <= 1, moves
            return bool(moves) and bool(holds(moves[0]))

        return eventually("one machine moves", self.moves, one)[0]

    def wait_no_move(self) -> None:
        eventually("no machine moves", self.moves, lambda moves: not moves)

    def moves_begun(self) -> int:
        """So many migrations were created by our schedulers."""
        made = (each for each in self.cluster.requests(self.home) if each.verb == "create")
        return sum(each.resource == "virtualmachinemigrations" and each.code == 201 for each in made)


def claim_of(move: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(move["metadata"]["annotations"][CLAIM])
    return found


def copies(move: Any) -> bool:
    ram = move.get("status", {}).get("info", {}).get("ram", {})
    return bool(ram.get("remaining", 0) < ram.get("total", 0))


def metrics(port: int, name: str) -> dict[str, float]:
    """All samples of a metric, by what stands between its name and their values."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    found = (each.removeprefix(name).rpartition(" ") for each in text.splitlines() if each.startswith(name))
    return {labels: float(value) for labels, _, value in found}


def metric(port: int, name: str) -> float:
    (value,) = metrics(port, name).values()
    return value


@contextmanager
def stand_in(cluster: Cluster, folder: Path) -> Iterator[Process]:
    """The definitions, and `situate vm machines` under the rights that are printed for it.

    It leaves the source of a move to its scheduler for minutes.
    """
    cluster.apply(*definitions())
    kubectl = cluster.kubectl
    kubectl("wait", "--for=condition=Established", "--timeout=120s", *(f"crd/{_name(each)}" for each in definitions()))
    account, arguments = printed(cluster, "vm-machines", _STAND_IN)
    kubeconfig = str(cluster.plane.service_account_kubeconfig(_STAND_IN, account))
    further = ("--health-address", "", "--kubeconfig", kubeconfig, "--handover-seconds", "600")
    made = cluster.process("machines", folder / "machines.log", *arguments, *further)
    made.start()
    try:
        yield made
    finally:
        made.stop()
        assert "Traceback" not in made.log.read_text(), made.log.read_text()
    refused = {(each.verb, each.resource) for each in cluster.requests(_STAND_IN) if each.code == 403}
    # a crew's namespace takes nothing new once it ends, which looks the same
    assert not {each for each in refused if each[0] != "create"}, refused


def printed(cluster: Cluster, product: str, namespace: str) -> tuple[str, list[str]]:
    """Applies what `situate manifests PRODUCT` prints, but for its pods: their account, and what they are to run."""
    result = CliRunner().invoke(app, ["manifests", product, "--installation-namespace", namespace])
    assert result.exit_code == 0, result.output
    objects = list(yaml.safe_load_all(result.stdout))
    cluster.apply(*(each for each in objects if each["kind"] not in ("Deployment", "DaemonSet")))
    (workload,) = (each for each in objects if each["kind"] in ("Deployment", "DaemonSet"))
    pod = workload["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    return pod["serviceAccountName"], container["args"]


def _name(definition: Mapping[str, Any]) -> str:
    return str(definition["metadata"]["name"])
