"""Observed state of the chapters on VMs: the reservations on nodes, and the CPUs that each VM wants."""

from __future__ import annotations

from dataclasses import dataclass

from situate.cli.demo.plain_pods import DemoPlainPod
from situate.cli.demo.vm.objects import CPUS, NODES, PLAIN_MILLI


@dataclass(frozen=True, slots=True)
class DemoMachine:
    """VM, with CPUs in thousandths."""

    name: str
    node: str
    """Empty until it runs."""
    pod: str
    phase: str
    used_cpus: int
    requested_cpus: int
    """CPUs that it requests from the scheduler; the CPUs that it uses if it has requested nothing."""
    allowed_cpus: int
    """CPUs that it was granted."""


@dataclass(frozen=True, slots=True)
class DemoMigration:
    machine: str
    source: str
    target: str
    """Node with its reservation."""
    phase: str
    copied: float | None
    """Copied share; None before copying starts."""
    beneficiary: str
    """VM that gets the freed capacity; empty without one."""
    claimed_cpus: int
    """Claimed thousandths of a CPU."""
    is_over: bool
    """Whether it is being cancelled, or is over."""


@dataclass(frozen=True, slots=True)
class VmScene:
    """State of the cluster at one moment."""

    nodes: tuple[str, ...]
    machines: tuple[DemoMachine, ...]
    """By name."""
    moves: tuple[DemoMigration, ...]
    pods: tuple[DemoPlainPod, ...]

    def machine(self, name: str) -> DemoMachine | None:
        return next((each for each in self.machines if each.name == name), None)

    def move_of(self, name: str) -> DemoMigration | None:
        return next((each for each in self.moves if each.machine == name), None)

    def pod(self, name: str) -> DemoPlainPod | None:
        return next((each for each in self.pods if each.name == name), None)

    def granted_cpus(self, name: str) -> int:
        found = self.machine(name)
        return 0 if found is None else found.allowed_cpus

    def all_running_on(self, where: str = NODES[0]) -> bool:
        """Return whether every VM runs on this node."""
        return bool(self.machines) and all((each.phase, each.node) == ("Running", where) for each in self.machines)

    def reserved_on(self, node: str) -> int:
        """Return the CPUs reserved by VMs and Pods on the node, without arriving VMs."""
        machines = sum(max(each.allowed_cpus, each.used_cpus) for each in self.machines if each.node == node)
        return machines + sum(PLAIN_MILLI for each in self.pods if each.node == node)

    def free_on(self, node: str) -> int:
        coming = sum(max(each.allowed_cpus, each.used_cpus) for each in self.machines if self._is_arriving(each, node))
        return CPUS * 1000 - self.reserved_on(node) - coming

    def arriving_on(self, node: str) -> tuple[DemoMachine, ...]:
        """Return the VMs with a reservation on the node that still run elsewhere."""
        return tuple(each for each in self.machines if self._is_arriving(each, node))

    def _is_arriving(self, machine: DemoMachine, node: str) -> bool:
        move = self.move_of(machine.name)
        return move is not None and move.target == node != machine.node and not move.is_over

    def __str__(self) -> str:
        """Describe the scene in one line, for errors."""
        machines = ", ".join(
            f"{each.name} ({each.phase or 'new'}) on {each.node or 'none'} uses {each.used_cpus}m of "
            f"{each.allowed_cpus}m, requests {each.requested_cpus}m"
            for each in self.machines
        )
        moves = ", ".join(
            f"{each.machine} to {each.target} ({each.phase}, {each.copied}) for {each.beneficiary}"
            for each in self.moves
        )
        pods = ", ".join(f"{each.name} on {each.node or 'none'} {each.reason}" for each in self.pods)
        return f"VMs: {machines or 'none'}; migrations: {moves or 'none'}; pods: {pods or 'none'}"
