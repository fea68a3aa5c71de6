"""Who says who moves whither: `situate.vm.planning`, as far as nobody puts something else in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from situate.vm.claims import Move
from situate.vm.planning import draining, limits, making, rechoosing, relieving
from situate.vm.planning.plan import Plan
from situate.vm.planning.targets import Fits, anywhere
from situate.vm.rules import Rules
from situate.vm.state import State

Planning: TypeAlias = Callable[[State, str, float, Rules], Plan]
"""Of the state, whom it is for (a pod's uid, a node's name), the time and the rules."""


@dataclass(frozen=True, slots=True)
class Planner:
    """Plain functions; where targets are filtered by a scheduler's plugins (B12), they are bound to these filters."""

    plan: Planning = making.plan
    """For a pod that is short."""
    relief: Planning = relieving.relief
    """For a node over its watermark (B24)."""
    drain: Planning = draining.drain
    """For a node that is to become empty (B46)."""
    ready: Callable[[State, Rules], Iterable[Move]] = limits.ready
    """Of the moves that wait, those that may start now (B26)."""
    another_target: Callable[[State, Move, float, Rules], str] = rechoosing.another_target
    """For a move whose target is lost, or refuses it; empty: there is none (B14)."""
    fits: Fits = anywhere
    """Which nodes would take another pod like that of a machine: the filters that they are bound to."""
