"""Who may be moved, and at what cost (B17); whoever may not has a reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from situate.vm.amounts import Amounts
from situate.vm.model import Machine, Phase, Pod, Role
from situate.vm.planning.calm import avoided_until, cools_down, cools_until
from situate.vm.planning.costs import converges, cost, surplus_share
from situate.vm.planning.limits import under_way
from situate.vm.planning.targets import Fits, Targets
from situate.vm.rules import Rules
from situate.vm.state import State

MICRO: Final = 1_000_000
"""Costs are compared in millionths of a second."""


@dataclass(frozen=True, slots=True)
class Mover:
    """A machine that may leave its node."""

    pod: Pod
    machine: Machine
    node: str
    freed: Amounts
    """As it counts on its node: also what has to be reserved where it goes."""
    cost: float
    """Seconds-equivalents."""
    targets: tuple[int, ...]
    """Of `Targets`: those that have room for it alone."""

    @property
    def price(self) -> int:
        """The cost as a whole number."""
        return round(self.cost * MICRO)

    @property
    def order(self) -> tuple[float, str]:
        """Ties: creation time, then UID (B18)."""
        return (self.pod.created_at, self.pod.uid)


@dataclass(frozen=True, slots=True)
class Asker:
    """For whom others are moved. None in its place: for nobody."""

    uid: str
    priority: int


def stays(state: State, pod: Pod, now: float, rules: Rules, asker: Asker | None) -> str:
    """Why the pod is not moved, whatever the nodes; empty: it may be."""
    machine = pod.machine
    if machine is None:
        return "is no virtual machine"
    if not machine.own:
        return "belongs to another scheduler"
    if not machine.migratable:
        return "has no label that allows moving it"
    if pod.tentative or pod.ignored:
        return "is not bound yet" if pod.tentative else "is in a namespace that is ignored"
    if machine.role is not Role.IDLE or any(
        move.source.uid == pod.uid for move in state.moves.values() if under_way(move)
    ):
        return "is moving already"
    if machine.phase is not Phase.RUNNING:
        return "is not running, or is frozen"
    if any(claim.beneficiary.ref.uid == pod.uid for claim in state.claims.values()):
        return "waits for room that is being made for it here"
    if asker is not None and pod.priority > asker.priority:
        return f"has priority {pod.priority}, above {asker.priority}"
    above = asker is not None and asker.priority > pod.priority
    if cools_down(machine, now, rules.calm) and not above:
        return f"was moved and stays until {cools_until(machine, rules.calm):.0f}"
    if not converges(machine, rules) and not rules.weights.post_copy:
        return "writes memory faster than it can be copied"
    return ""


def mover(
    state: State,
    pod: Pod,
    node: str,
    targets: Targets,
    now: float,
    rules: Rules,
    fits: Fits,
    need: Amounts,
    amount: Amounts,
) -> Mover | None:
    """The pod as a candidate that goes with this amount; None if it is no machine."""
    machine = pod.machine
    if machine is None:
        return None
    roomy = np.flatnonzero(targets.room_for(amount)).tolist()
    possible = tuple(
        index
        for index in roomy
        if targets.names[index] != node
        and avoided_until(state, machine, targets.names[index]) <= now
        and fits(pod.uid, targets.names[index])
    )
    price = cost(pod, machine, surplus_share(amount, need, state.nodes[node].total), now, rules)
    return Mover(pod, machine, node, amount, price, possible)
