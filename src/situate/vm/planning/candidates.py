"""Who may be moved (B17): a machine that stays where it is has a reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from situate.vm.model.pods_and_nodes import Machine, Phase, Pod, Role
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import State
from situate.vm.planning.rules.concurrency import under_way
from situate.vm.planning.rules.cooldown import ANYWHERE, avoided_until, cools_down, cools_until
from situate.vm.planning.rules.migration_cost import converges

USED_AFTER_S: Final = 10.0
"""From a grant until an agent has given up to use it at the latest (C39): then it is moved like any other."""
MOST_S: Final = 1e9
"""Whatever costs more than so many seconds costs too much to be told from it."""


def price(cost: float) -> int:
    """Costs are compared as whole millionths of a second."""
    return round(min(cost, MOST_S) * 1e6)


@dataclass(frozen=True, slots=True)
class Asker:
    """For whom others are moved. None in its place: for nobody."""

    uid: str
    priority: int


@dataclass(frozen=True, slots=True)
class Mover:
    """A machine that may leave its node."""

    pod: Pod
    machine: Machine
    node: str
    amount: Amounts
    """What has to be reserved where it goes; as a rule what it leaves, as that counts after overcommit."""
    cost: float
    """Seconds-equivalents."""
    targets: tuple[int, ...] = ()
    """Of `Targets`: those that would take it and have room for it alone, by name. Empty: they were not looked for."""

    @property
    def price(self) -> int:
        """The cost as a whole number."""
        return price(self.cost)

    @property
    def order(self) -> tuple[float, str]:
        """Ties: creation time, then UID (B18)."""
        return (self.pod.created_at, self.pod.uid)


def stays(state: State, pod: Pod, now: float, rules: Rules, asker: Asker | None) -> str:
    """Why it is not moved, whatever room there is elsewhere; empty: it may be.

    A machine that was moved here may be moved on during its cool-down for one of higher priority only (B25), and so
    never for a node that is over its watermark, or is drained.
    """
    machine = pod.machine
    if machine is None:
        return "is no virtual machine"
    if not machine.own:
        return "belongs to another scheduler"
    if not machine.migratable:
        return "has no label that allows moving it"
    if pod.tentative:
        return "is not bound yet"
    if pod.ignored:
        return "is in a namespace that is ignored"
    if machine.role is not Role.IDLE or any(
        move.source.uid == pod.uid for move in state.moves.values() if under_way(move)
    ):
        return "is moving already"
    if machine.phase is not Phase.RUNNING:
        return "is not running, or is frozen"
    if any(claim.beneficiary.ref.uid == pod.uid for claim in state.claims.values()):
        return "stays for the room that is being made for it"
    if _grows(state, pod, now):
        return "has just been granted more, and is about to use it"
    if asker is not None and pod.priority > asker.priority:
        return f"has priority {pod.priority}, which is above {asker.priority}"
    higher = asker is not None and asker.priority > pod.priority
    if cools_down(machine, now, rules.calm) and not higher:
        return f"was moved, and cools down for another {cools_until(machine, rules.calm) - now:.0f} s"
    if now < (until := avoided_until(state, machine, ANYWHERE)):
        return f"could not be copied, and is left alone for another {until - now:.0f} s"
    if not converges(machine, rules) and not rules.weights.post_copy:
        return "writes memory about as fast as it could be copied"
    return ""


def _grows(state: State, pod: Pod, now: float) -> bool:
    """Whether it would be frozen before it uses what it was given: it were short for as long as its move takes."""
    permit = state.permits.get(pod.uid)
    return permit is not None and now < permit.raised_at + USED_AFTER_S and permit.amount.exceeds(pod.used)
