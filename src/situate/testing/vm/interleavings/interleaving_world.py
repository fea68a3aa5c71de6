"""The world of interleavings: plain, with agents, and with some pods of an ignored namespace."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from situate.sim.vm.world import VMWorld
from situate.vm.model.events import ResourcesRequested
from situate.vm.model.pods_and_nodes import Evacuation, Pod
from situate.vm.model.resource_amounts import Amounts

UNIT: Final = Amounts.from_values(1, 1)
IGNORED: Final = "i"
"""Prefix of the names of pods in an ignored namespace."""


@dataclass
class InterleavingAgent:
    machine: str
    lowers: bool
    permit: Amounts
    unit: Amounts
    sequence: int = 0
    waits_for: ResourcesRequested | None = None
    """The request whose answer it waits for."""


@dataclass
class InterleavingWorld(VMWorld):
    """A world whose VMs may be evicted."""

    evacuations: dict[str, Evacuation] = field(default_factory=dict)
    """By name of the VM."""

    def pod(self, uid: str) -> Pod:
        pod = super().pod(uid)
        wish = self.evacuations.get(self.pods[uid].machine)
        if wish is not None and pod.machine is not None:
            pod = replace(pod, machine=replace(pod.machine, evacuation=wish))
        return replace(pod, ignored=True) if uid.startswith(IGNORED) else pod


def equal_amounts(number: int) -> Amounts:
    return Amounts.from_values(number, number)
