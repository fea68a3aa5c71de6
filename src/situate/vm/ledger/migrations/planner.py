"""The interface to the planner: `situate.vm.planning`, unless the caller supplies other functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from situate.vm.model.migrations import Move
from situate.vm.model.policy import Rules
from situate.vm.model.state import LedgerState
from situate.vm.planning import drain as draining
from situate.vm.planning import node_relief, plan_for_pod, retarget
from situate.vm.planning.plan import Plan
from situate.vm.planning.rules import concurrency
from situate.vm.planning.targets import Fits, accept_any_node

PlanFunction: TypeAlias = Callable[[LedgerState, str, float, Rules], Plan]
"""A function of state, subject (Pod UID or node name), time and rules."""


@dataclass(frozen=True, slots=True)
class Planner:
    """Planning functions.

    If the plugins of a scheduler filter the targets (B12), the functions are bound to these filters.
    """

    plan: PlanFunction = plan_for_pod.plan
    """Plan for a Pod that is short."""
    relief: PlanFunction = node_relief.plan_relief
    """Plan for a node over its watermark (B24)."""
    drain: PlanFunction = draining.plan_drain
    """Plan for a node that should become empty (B46)."""
    startable_migrations: Callable[[LedgerState, Rules], Iterable[Move]] = concurrency.startable_migrations
    """Select the waiting migrations that may start now (B26)."""
    another_target: Callable[[LedgerState, Move, float, Rules], str] = retarget.another_target
    """Choose a new target for a migration whose target is lost or refuses it. Empty: there is none (B14)."""
    fits: Fits = accept_any_node
    """Return whether a node would accept another Pod like that of a VM: the filters of the functions above."""
