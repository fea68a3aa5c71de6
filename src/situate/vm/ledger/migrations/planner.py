"""Who says who moves whither: `situate.vm.planning`, as far as nobody puts something else in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from situate.vm.model.migrations import Move
from situate.vm.model.policy import Rules
from situate.vm.model.state import State
from situate.vm.planning import drain as draining
from situate.vm.planning import node_relief, plan_for_pod, retarget
from situate.vm.planning.plan import Plan
from situate.vm.planning.rules import concurrency
from situate.vm.planning.targets import Fits, anywhere

Planning: TypeAlias = Callable[[State, str, float, Rules], Plan]
"""Of the state, whom it is for (a pod's uid, a node's name), the time and the rules."""


@dataclass(frozen=True, slots=True)
class Planner:
    """Plain functions; where targets are filtered by a scheduler's plugins (B12), they are bound to these filters."""

    plan: Planning = plan_for_pod.plan
    """For a pod that is short."""
    relief: Planning = node_relief.relief
    """For a node over its watermark (B24)."""
    drain: Planning = draining.drain
    """For a node that is to become empty (B46)."""
    ready: Callable[[State, Rules], Iterable[Move]] = concurrency.ready
    """Of the moves that wait, those that may start now (B26)."""
    another_target: Callable[[State, Move, float, Rules], str] = retarget.another_target
    """For a move whose target is lost, or refuses it; empty: there is none (B14)."""
    fits: Fits = anywhere
    """Which nodes would take another pod like that of a machine: the filters that they are bound to."""
