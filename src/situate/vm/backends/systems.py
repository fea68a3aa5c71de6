"""VM systems: how VMs appear as objects and on the Pods that run them.

The `Backend` of a system migrates its VMs. The ledger, the planner and the shell know neither NeonVM nor KubeVirt: all
differences are behind these two interfaces. The settings choose the system.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol, TypeVar

from situate.objects.kinds import pods as objects
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import ResourceType
from situate.vm.api.machines import ObservedMachine, read_machine
from situate.vm.api.parse_errors import ParseResult
from situate.vm.api.pods import machine_ref, pod_from_requests, read_pod, role_of
from situate.vm.api.unreadable_pods import pod_with_known_reservation
from situate.vm.api.well_known import API_VERSION, MIGRATION_KIND
from situate.vm.backends.kubevirt import KubeVirtSystem
from situate.vm.backends.neonvm import MACHINES, Backend, NeonVM
from situate.vm.config.settings import VmSettings
from situate.vm.model import pods_and_nodes
from situate.vm.model.pods_and_nodes import Ref, Role
from situate.vm.model.policy import Rules

S = TypeVar("S")
"""A VM as parsed from its object."""


class System(Protocol[S]):
    """One VM system, without state."""

    @property
    def machines(self) -> ResourceType[Unstructured]:
        """The resource of its VM objects."""
        ...

    @property
    def install_hint(self) -> str:
        """The next step if a cluster does not serve that resource."""
        ...

    def backend(self, rules: Rules) -> Backend:
        """Return the backend that migrates its VMs."""
        ...

    def machine_of(self, pod: objects.Pod) -> Ref | None:
        """Return the VM that the Pod runs, or will run after its migration; None for any other Pod."""
        ...

    def migration_of(self, pod: objects.Pod) -> Ref | None:
        """Return the migration that the Pod is the target of; None for any other Pod."""
        ...

    def without_target_constraints(self, pod: objects.Pod) -> objects.Pod:
        """Return the Pod without constraints that apply to one migration only."""
        ...

    def read_machine(self, machine: Unstructured, rules: Rules) -> ParseResult[S]:
        """Parse a VM. `value` is None if the object is unusable."""
        ...

    def read_pod(self, pod: objects.Pod, rules: Rules, machine: S | None) -> ParseResult[pods_and_nodes.Pod]:
        """Parse any Pod, of a VM or not; `machine` if it is known."""
        ...

    def pod_from_requests(self, pod: objects.Pod, rules: Rules, machine: S | None) -> pods_and_nodes.Pod:
        """Return the amounts of a Pod on a node that was never readable."""
        ...

    def pod_with_known_reservation(
        self, known: pods_and_nodes.Pod, pod: objects.Pod, rules: Rules, machine: S | None
    ) -> pods_and_nodes.Pod:
        """Return the amounts of a Pod that was read before, as `known`, and is unreadable now."""
        ...

    def running_pod_name(self, machine: S, pods: Iterable[objects.Pod]) -> str:
        """Return the name of the Pod, of all Pods of the VM, that runs it now; empty if unknown."""
        ...


class NeonVMSystem:
    """VirtualMachines of `vm.neon.tech/v1`: Pods carry the fields of their VM (C1), and owners show the migrations."""

    machines = MACHINES
    install_hint = "install NeonVM, or only its CRDs for a test: situate crds vm | kubectl apply --server-side -f -"

    def backend(self, rules: Rules) -> Backend:
        return NeonVM(rules)

    def machine_of(self, pod: objects.Pod) -> Ref | None:
        return machine_ref(pod)

    def migration_of(self, pod: objects.Pod) -> Ref | None:
        owner = pod.metadata.controller
        if role_of(pod) is not Role.TARGET or owner is None:
            return None
        if owner.kind != MIGRATION_KIND or owner.api_version != API_VERSION:
            return None
        return Ref(pod.metadata.namespace, owner.name, owner.uid)

    def without_target_constraints(self, pod: objects.Pod) -> objects.Pod:
        return pod

    def read_machine(self, machine: Unstructured, rules: Rules) -> ParseResult[ObservedMachine]:
        return read_machine(machine, rules)

    def read_pod(
        self, pod: objects.Pod, rules: Rules, machine: ObservedMachine | None
    ) -> ParseResult[pods_and_nodes.Pod]:
        return read_pod(pod, rules, machine)

    def pod_from_requests(self, pod: objects.Pod, rules: Rules, machine: ObservedMachine | None) -> pods_and_nodes.Pod:
        return pod_from_requests(pod, rules, machine)

    def pod_with_known_reservation(
        self, known: pods_and_nodes.Pod, pod: objects.Pod, rules: Rules, machine: ObservedMachine | None
    ) -> pods_and_nodes.Pod:
        return pod_with_known_reservation(known, pod, rules, machine)

    def running_pod_name(self, machine: ObservedMachine, pods: Iterable[objects.Pod]) -> str:  # noqa: ARG002  # the machine says it
        return machine.pod


NEONVM: Final = NeonVMSystem()


def select_system(settings: VmSettings) -> System[Any]:
    """Return the system that the settings choose."""
    return KubeVirtSystem(pin_target=settings.kubevirt.pin_target) if settings.system == "kubevirt" else NEONVM
