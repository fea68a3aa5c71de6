"""What the chapters on virtual machines see: what is booked on nodes and for whom, and what each machine wants."""

from __future__ import annotations

from dataclasses import dataclass

from situate.cli.demo.vm.objects import CPUS, NODES


@dataclass(frozen=True, slots=True)
class DemoMachine:
    """CPUs are in thousandths."""

    name: str
    node: str
    """Empty until it runs."""
    pod: str
    phase: str
    uses: int
    asks: int
    """What it asks the scheduler for; what it uses while it has asked for nothing."""
    may: int
    """What it was granted."""


@dataclass(frozen=True, slots=True)
class DemoMove:
    machine: str
    source: str
    target: str
    """The node where its room is reserved."""
    phase: str
    copied: float | None
    """A share; None while nothing is copied."""
    beneficiary: str
    """The machine that gets what it leaves; empty: nobody in particular."""
    claims: int
    """So many thousandths of a CPU."""
    ends: bool
    """It is being cancelled, or over."""


@dataclass(frozen=True, slots=True)
class DemoPlainPod:
    name: str
    node: str
    why: str
    """What is said of it while it has none."""
    requests: int


@dataclass(frozen=True, slots=True)
class VmScene:
    """Everything at one moment."""

    nodes: tuple[str, ...]
    machines: tuple[DemoMachine, ...]
    """By name."""
    moves: tuple[DemoMove, ...]
    pods: tuple[DemoPlainPod, ...]

    def machine(self, name: str) -> DemoMachine | None:
        return next((each for each in self.machines if each.name == name), None)

    def move_of(self, name: str) -> DemoMove | None:
        return next((each for each in self.moves if each.machine == name), None)

    def pod(self, name: str) -> DemoPlainPod | None:
        return next((each for each in self.pods if each.name == name), None)

    def granted(self, name: str) -> int:
        found = self.machine(name)
        return 0 if found is None else found.may

    def run(self, where: str = NODES[0]) -> bool:
        """Whether every machine runs there."""
        return bool(self.machines) and all((each.phase, each.node) == ("Running", where) for each in self.machines)

    def booked(self, node: str) -> int:
        """By machines and pods that are there, without those that come."""
        machines = sum(max(each.may, each.uses) for each in self.machines if each.node == node)
        return machines + sum(each.requests for each in self.pods if each.node == node)

    def free(self, node: str) -> int:
        coming = sum(max(each.may, each.uses) for each in self.machines if self._comes(each, node))
        return CPUS * 1000 - self.booked(node) - coming

    def coming(self, node: str) -> tuple[DemoMachine, ...]:
        """Machines that have room there and are elsewhere as yet."""
        return tuple(each for each in self.machines if self._comes(each, node))

    def _comes(self, machine: DemoMachine, node: str) -> bool:
        move = self.move_of(machine.name)
        return move is not None and move.target == node != machine.node and not move.ends
