"""KubeVirt as a `System` of `situate.vm.backends.systems`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from situate.objects.kinds import pods as objects
from situate.objects.kinds.unstructured import Unstructured
from situate.objects.resources import ResourceType
from situate.vm.api.parse_errors import ParseResult
from situate.vm.api.pods import pod_from_requests, read_pod
from situate.vm.backends.kubevirt_instances import ObservedInstance, read_instance
from situate.vm.backends.kubevirt_migrations import KubeVirtMigrations
from situate.vm.backends.kubevirt_names import INSTANCES
from situate.vm.backends.kubevirt_pods import (
    instance_of,
    migration_of_target,
    read_launcher,
    running_pod_name,
    without_target_constraints,
)
from situate.vm.backends.neonvm import Backend
from situate.vm.model import pods_and_nodes
from situate.vm.model.pods_and_nodes import Ref
from situate.vm.model.policy import Rules


@dataclass(frozen=True, slots=True)
class KubeVirtSystem:
    """VirtualMachineInstances of `kubevirt.io/v1`. They are migrated, but not resized."""

    machines: ClassVar[ResourceType[Unstructured]] = INSTANCES
    install_hint: ClassVar[str] = "install KubeVirt, or remove system: kubevirt from the vm section"

    pin_target: bool = True
    """As in `KubeVirtMigrations`."""

    def backend(self, rules: Rules) -> Backend:
        return KubeVirtMigrations(rules, pin_target=self.pin_target)

    def machine_of(self, pod: objects.Pod) -> Ref | None:
        return instance_of(pod)

    def migration_of(self, pod: objects.Pod) -> Ref | None:
        return migration_of_target(pod)

    def without_target_constraints(self, pod: objects.Pod) -> objects.Pod:
        return without_target_constraints(pod)

    def read_machine(self, machine: Unstructured, rules: Rules) -> ParseResult[ObservedInstance]:
        return read_instance(machine, rules)

    def read_pod(
        self, pod: objects.Pod, rules: Rules, machine: ObservedInstance | None
    ) -> ParseResult[pods_and_nodes.Pod]:
        return read_pod(pod, rules) if instance_of(pod) is None else ParseResult(read_launcher(pod, rules, machine))

    def pod_from_requests(self, pod: objects.Pod, rules: Rules, machine: ObservedInstance | None) -> pods_and_nodes.Pod:
        return pod_from_requests(pod, rules) if instance_of(pod) is None else read_launcher(pod, rules, machine)

    def pod_with_known_reservation(
        self,
        known: pods_and_nodes.Pod,
        pod: objects.Pod,  # noqa: ARG002  # its pods can always be read
        rules: Rules,  # noqa: ARG002
        machine: ObservedInstance | None,  # noqa: ARG002
    ) -> pods_and_nodes.Pod:
        return known

    def running_pod_name(self, machine: ObservedInstance, pods: Iterable[objects.Pod]) -> str:
        return running_pod_name(machine, pods)
