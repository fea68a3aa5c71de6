"""Where interleavings play: a plain world with agents, some of whose pods are of a namespace that is ignored."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from situate.sim.vm.world import World
from situate.vm.model.events import Asked
from situate.vm.model.pods_and_nodes import Evacuation, Pod
from situate.vm.model.resource_amounts import Amounts

UNIT: Final = Amounts.of(1, 1)
IGNORED: Final = "i"
"""Names of pods of an ignored namespace begin so."""


@dataclass
class Agent:
    machine: str
    lowers: bool
    permit: Amounts
    unit: Amounts
    sequence: int = 0
    waits_for: Asked | None = None
    """The request that it waits for an answer of."""


@dataclass
class Town(World):
    """Machines in it may be evicted."""

    evacuations: dict[str, Evacuation] = field(default_factory=dict)
    """By name of the machine."""

    def pod(self, uid: str) -> Pod:
        pod = super().pod(uid)
        wish = self.evacuations.get(self.pods[uid].machine)
        if wish is not None and pod.machine is not None:
            pod = replace(pod, machine=replace(pod.machine, evacuation=wish))
        return replace(pod, ignored=True) if uid.startswith(IGNORED) else pod


def both(number: int) -> Amounts:
    return Amounts.of(number, number)
