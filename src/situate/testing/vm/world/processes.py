"""A cluster with VMs, a network and the processes of vm, all on one virtual clock.

The processes run the shipped controller, client, reflectors and election. `situate.vm.emulator` handles VMs and
migrations in place of NeonVM. Only the transport is replaced.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeAlias

from prometheus_client import CollectorRegistry

from situate.cluster.controllers import ControllerFactory, KubeletSettings, MachinerySettings
from situate.cluster.controllers.node.nodes import node as node_object
from situate.embedded.virtual_machines import VirtualMachineController
from situate.kube.client import Client
from situate.kube.election.election import Candidacy
from situate.kube.election.lease_record import ElectionTimes
from situate.objects.kinds.events import ObjectReference
from situate.runtime.leadership.leader import ControllerContext
from situate.scheduler.metrics.metrics import SchedulerMetrics
from situate.testing.scheduler.world import NoExtenders
from situate.testing.virtual_time.world import ClusterWorld, Member
from situate.vm.api.quantities import GIB, amounts_text
from situate.vm.api.well_known import AUTO_MIGRATION_LABEL, ENABLED_LABEL, REQUESTED, SCALING_UNIT
from situate.vm.controller.controller import VmController
from situate.vm.controller.metrics import VmMetrics
from situate.vm.controller.setup import VmSetup
from situate.vm.emulator import Settings
from situate.vm.emulator.crds import definitions
from situate.vm.model.resource_amounts import Amounts

NAMESPACE: Final = "work"
LEASE: Final = "vm"
TIMES: Final = ElectionTimes(lease_s=15.0, renew_deadline_s=10.0, retry_s=2.0)
UNIT: Final = Amounts.from_values(250, GIB)
MACHINES: Final = f"/apis/vm.neon.tech/v1/namespaces/{NAMESPACE}/virtualmachines"
MIGRATIONS: Final = f"/apis/vm.neon.tech/v1/namespaces/{NAMESPACE}/virtualmachinemigrations"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
MACHINE_TABLE: Final = "virtualmachines.vm.neon.tech"
MIGRATION_TABLE: Final = "virtualmachinemigrations.vm.neon.tech"
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_IDLE: Final = frozenset(
    {"statefulset", "deployment", "replicaset", "scheduler", "namespace", "serviceaccount", "endpoint-slices"}
)
"""Controllers of the cluster that have no work in a history."""

VmMember: TypeAlias = Member[VmController]
"""One process of vm."""


@dataclass(frozen=True, slots=True)
class VmSystemStandIn:
    """The replacement of a VM system."""

    kinds: Sequence[Mapping[str, Any]]
    """Definitions of its custom resources."""
    controller: ControllerFactory


class VmWorld(ClusterWorld[VmController]):
    """Everything of one history. Close it at the end."""

    def __init__(
        self,
        seed: int,
        setup: VmSetup,
        *,
        nodes: Mapping[str, str],
        processes: int = 1,
        machines: Settings | None = Settings(),  # noqa: B008  # frozen
        stand_in: VmSystemStandIn | None = None,
    ) -> None:
        """`nodes` gives the CPUs of each node by name, with 4 GiB for each CPU.

        Without `machines` there are no VM kinds.

        `stand_in` replaces another system than NeonVM.
        """
        machinery = MachinerySettings(
            disabled=_IDLE,
            kubelet=KubeletSettings(start_delay=0.5, stop_delay=0.5, lease_renewal=0.0),
            events=False,
        )
        if stand_in is None and machines is not None:
            stand_in = VmSystemStandIn(definitions(), lambda cluster: VirtualMachineController(cluster, machines))
        super().__init__(seed, machinery, further=() if stand_in is None else (stand_in.controller,))
        self.setup = setup
        self.notes: list[tuple[str, str, str]] = []
        """Kind and name of the object, reason and message of each Event."""
        self.registry = CollectorRegistry()
        """Metrics of the process that started last."""
        for each in () if stand_in is None else stand_in.kinds:
            self.call("POST", _DEFINITIONS, each)
        self.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        for name, cpus in nodes.items():
            self.call("POST", "/api/v1/nodes", node_object(name, cpu=cpus, memory=f"{4 * int(cpus)}Gi", pods=110))
        for _ in range(processes):
            self.start_member()

    def create_machine(
        self, name: str, *, cpus: int = 1, slots: int = 4, migratable: bool = True, most_cpus: int = 16, **spec: Any
    ) -> None:
        """Create a VM with autoscaling and our scheduler. Slots are of 1 GiB. `spec` adds fields to its spec."""
        guest = {
            "cpus": {"min": "250m", "use": cpus, "max": most_cpus},
            "memorySlots": {"min": 1, "use": slots, "max": 4 * most_cpus},
        }
        labels = {ENABLED_LABEL: "true", AUTO_MIGRATION_LABEL: str(migratable).lower()}
        body = {
            "apiVersion": "vm.neon.tech/v1",
            "kind": "VirtualMachine",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
            "spec": {"schedulerName": self.setup.rules.scheduler_name, "guest": guest, **spec},
        }
        answer = self.call("POST", MACHINES, body)
        assert answer["kind"] == "VirtualMachine", answer

    def write_request(self, name: str, amount: Amounts, unit: Amounts = UNIT) -> None:
        """Write a request to the VM, as the permit server does for an agent (C15)."""
        annotations = {SCALING_UNIT: amounts_text(unit), REQUESTED: amounts_text(amount)}
        self.annotate(f"{MACHINES}/{name}", annotations)

    def annotate(self, path: str, annotations: Mapping[str, str | None]) -> None:
        answer = self.call("PATCH", path, {"metadata": {"annotations": dict(annotations)}}, patch=True)
        assert answer["kind"] != "Status", answer

    def machine(self, name: str) -> dict[str, Any]:
        return self.call("GET", f"{MACHINES}/{name}")

    def annotation(self, name: str, key: str) -> Any:
        """Return a decoded annotation of a VM, or None."""
        text = self.machine(name)["metadata"].get("annotations", {}).get(key)
        return None if text is None else json.loads(text)

    def runner_pod(self, name: str) -> dict[str, Any]:
        """Return the VM's runner pod."""
        return self.call("GET", f"{PODS}/{self.machine(name)['status']['podName']}")

    def node_of(self, name: str) -> str:
        """Return the node on which the VM runs. Empty while it does not run."""
        pod = self.machine(name).get("status", {}).get("podName", "")
        return str(self.call("GET", f"{PODS}/{pod}").get("spec", {}).get("nodeName", "")) if pod else ""

    def all_running(self, *names: str) -> bool:
        return all(self.machine(name).get("status", {}).get("phase") == "Running" for name in names)

    def list_items(self, path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.call("GET", path).get("items", [])
        return found

    def start_member(self) -> None:
        """Start a process of vm."""
        identity, wire = self.new_identity("vm")
        self.registry = CollectorRegistry()
        self.add_member(
            identity,
            wire,
            lambda _: VmController(
                self.setup,
                ControllerContext(
                    Client(wire),
                    Candidacy(NAMESPACE, identity, TIMES),
                    self.wall,
                    Random(f"{identity} {self.rng.random()}"),
                ),
                record=self._record,
                metrics=SchedulerMetrics(self.registry),
                vm_metrics=VmMetrics(
                    self.registry, compat=self.setup.rules.compat, node_labels=self.setup.node_metric_labels
                ),
                extending=NoExtenders(),
                stopwatch=lambda: self.now,
            ),
        )

    def _record(
        self,
        regarding: ObjectReference,
        type_: str,
        reason: str,
        message: str,
        action: str = "",  # noqa: ARG002  # as the recorder has it
        related: ObjectReference | None = None,  # noqa: ARG002
        reporter: str = "",  # noqa: ARG002
    ) -> None:
        assert type_ in ("Normal", "Warning")
        self.events[reason] += 1
        self.notes.append((f"{regarding.kind} {regarding.name}", reason, message))
