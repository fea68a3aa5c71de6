"""Inputs and results of a decision: values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from situate.spot.capacity.free_capacity import FreeCapacity
from situate.spot.model.actions import Action
from situate.spot.model.misplaced_pods import BlockReason
from situate.spot.model.pods_nodes_workloads import Capacity
from situate.spot.model.policy_limits import Limits
from situate.spot.nodes.pool_stability import Pools
from situate.spot.nodes.prices import NO_PRICES, Prices
from situate.spot.rebalance.node_termination import MoveConstraints
from situate.spot.rebalance.settled_cache import NOTHING_SETTLED, SettledCache
from situate.spot.workloads.cluster_objects import Cluster, WorkloadMemory
from situate.spot.workloads.on_demand_target import Target, TargetRules

POLL_S: Final = 5.0
"""Time until the next decision while a move is in progress."""


class Phase(StrEnum):
    """Phase of a workload."""

    UNMANAGED = "unmanaged"
    SETTLED = "settled"
    CONVERTING = "converting"
    BLOCKED = "blocked"
    ROLLOUT = "rollout"
    WAVE = "wave"
    RECOVERING = "recovering"


@dataclass(frozen=True, slots=True)
class Notice:
    """Message for the workload's owner: an Event and a condition on its pods."""

    owner: str
    """Uid of the workload."""
    reason: str
    message: str
    """Text that stays the same while the state lasts; a changing number in it would repeat the Event."""
    count: str = field(default="", compare=False)
    """Number at the time of the report; not part of the identity of a notice."""

    @property
    def text(self) -> str:
        return f"{self.count}: {self.message}" if self.count else self.message


@dataclass(frozen=True, slots=True)
class Report:
    """Status of a workload."""

    phase: Phase
    target: Target
    effective_target: int
    """The target minus the debt (B18)."""
    on_demand: int
    """Pods that count and are effectively on demand."""
    placements: Mapping[Capacity | None, int]
    need: int
    total: int
    """Moves until the target is met."""
    blocked: BlockReason | None
    waiting: int
    """On-demand pods that find no free capacity."""
    source: str
    """Setting that decides whether the workload takes part."""
    until: float | None = None
    """Time at which the block ends without any event; None if unknown."""


@dataclass(frozen=True, slots=True)
class State:
    """Memory of the controller; its loss delays some moves and has no other effect."""

    memories: Mapping[str, WorkloadMemory] = field(default_factory=dict)
    """By uid of the workload."""
    pools: Pools = field(default_factory=Pools)
    moved_at: tuple[float, ...] = ()
    """Policy moves within the last hour."""
    settled: SettledCache[Report] = field(default=NOTHING_SETTLED, compare=False, repr=False)
    """A cache without influence on decisions."""


@dataclass(frozen=True, slots=True)
class Decision:
    actions: tuple[Action, ...]
    state: State
    reports: Mapping[str, Report]
    notices: tuple[Notice, ...] = ()
    read_only_actions: tuple[Action, ...] = ()
    """Actions that would be ordered without read-only mode."""
    wave: bool = False
    requeue_after: float | None = None
    """Seconds until time alone may change the decision; None: only events can."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """All inputs of a decision besides memory and time."""

    cluster: Cluster
    capacity: FreeCapacity
    rules: TargetRules = field(default_factory=TargetRules)
    limits: Limits = field(default_factory=Limits)
    constraints: MoveConstraints = field(default_factory=MoveConstraints)
    prices: Prices = NO_PRICES
