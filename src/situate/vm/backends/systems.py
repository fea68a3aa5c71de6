"""Systems whose machines are placed and moved: how they show on their objects, and on the pods that run them.

What moves machines is a system's `Backend`. The ledger, the planner and the shell know neither NeonVM nor KubeVirt:
whatever differs is behind these two, and the settings say which one there is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Protocol, TypeVar

from situate.objects.kinds import pods as objects
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import ResourceType
from situate.vm.api.machines import MachineSeen, read_machine
from situate.vm.api.parse_errors import Read
from situate.vm.api.pods import by_requests, machine_ref, read_pod, role_of
from situate.vm.api.unreadable_pods import kept
from situate.vm.api.well_known import API_VERSION, MIGRATION_KIND
from situate.vm.backends.kubevirt import KubeVirtSystem
from situate.vm.backends.neonvm import MACHINES, Backend, NeonVM
from situate.vm.config.settings import VmSettings
from situate.vm.model import pods_and_nodes
from situate.vm.model.pods_and_nodes import Ref, Role
from situate.vm.model.policy import Rules

S = TypeVar("S")
"""A machine as it was read from its object."""


class System(Protocol[S]):
    """One of them; without state."""

    @property
    def machines(self) -> ResourceType[Unstructured]:
        """The objects that stand for machines."""
        ...

    @property
    def install(self) -> str:
        """What to do where a cluster does not know them."""
        ...

    def backend(self, rules: Rules) -> Backend:
        """What moves them."""
        ...

    def machine_of(self, pod: objects.Pod) -> Ref | None:
        """The machine that the pod runs, or will run once it has moved; None for every other pod."""
        ...

    def migration_of(self, pod: objects.Pod) -> Ref | None:
        """The migration that the pod was made for, to move into; None for every other pod."""
        ...

    def unmoved(self, pod: objects.Pod) -> objects.Pod:
        """The pod as its machine alone would have it: without constraints that hold for one migration only."""
        ...

    def read_machine(self, machine: Unstructured, rules: Rules) -> Read[S]:
        """`value` is None where what it says cannot be acted on."""
        ...

    def read_pod(self, pod: objects.Pod, rules: Rules, machine: S | None) -> Read[pods_and_nodes.Pod]:
        """Any pod, of a machine or not; `machine` as far as it is known."""
        ...

    def by_requests(self, pod: objects.Pod, rules: Rules, machine: S | None) -> pods_and_nodes.Pod:
        """What a pod on a node counts for that was never read."""
        ...

    def kept(self, known: pods_and_nodes.Pod, pod: objects.Pod, rules: Rules, machine: S | None) -> pods_and_nodes.Pod:
        """And one that was read before, as `known`, and cannot be any more."""
        ...

    def runner(self, machine: S, pods: Iterable[objects.Pod]) -> str:
        """The name of the pod that runs the machine now, of all that are its; empty where that is not known."""
        ...


class NeonVMSystem:
    """VirtualMachines of `vm.neon.tech/v1`: the pod carries what its machine says (C1), and owners say who moves."""

    machines = MACHINES
    install = "install NeonVM, or try it without: situate crds vm | kubectl apply --server-side -f -"

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

    def unmoved(self, pod: objects.Pod) -> objects.Pod:
        return pod

    def read_machine(self, machine: Unstructured, rules: Rules) -> Read[MachineSeen]:
        return read_machine(machine, rules)

    def read_pod(self, pod: objects.Pod, rules: Rules, machine: MachineSeen | None) -> Read[pods_and_nodes.Pod]:
        return read_pod(pod, rules, machine)

    def by_requests(self, pod: objects.Pod, rules: Rules, machine: MachineSeen | None) -> pods_and_nodes.Pod:
        return by_requests(pod, rules, machine)

    def kept(
        self, known: pods_and_nodes.Pod, pod: objects.Pod, rules: Rules, machine: MachineSeen | None
    ) -> pods_and_nodes.Pod:
        return kept(known, pod, rules, machine)

    def runner(self, machine: MachineSeen, pods: Iterable[objects.Pod]) -> str:  # noqa: ARG002  # the machine says it
        return machine.pod


NEONVM: Final = NeonVMSystem()


def system_of(settings: VmSettings) -> System[Any]:
    """The one that the settings choose."""
    return KubeVirtSystem(pin_target=settings.kubevirt.pin_target) if settings.system == "kubevirt" else NEONVM
