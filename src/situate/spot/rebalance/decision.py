"""What goes into a decision and what comes out: values alone (3.10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from situate.spot.capacity.free_capacity import Room
from situate.spot.model.actions import Action
from situate.spot.model.misplaced import Blocked
from situate.spot.model.pods_nodes_workloads import Capacity
from situate.spot.model.policy_limits import Limits
from situate.spot.nodes.pool_stability import Pools
from situate.spot.nodes.prices import NO_PRICES, Prices
from situate.spot.rebalance.node_termination import Surroundings
from situate.spot.rebalance.settled_cache import NOTHING_SETTLED, AllSettled
from situate.spot.workloads.cluster_view import Cluster, Memory
from situate.spot.workloads.on_demand_target import Rules, Target

POLL_S: Final = 5.0
"""While something is under way."""


class Phase(StrEnum):
    """How a workload fares (3.10)."""

    UNMANAGED = "unmanaged"
    SETTLED = "settled"
    CONVERTING = "converting"
    BLOCKED = "blocked"
    ROLLOUT = "rollout"
    WAVE = "wave"
    RECOVERING = "recovering"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that the workload's owner should know: an Event and a condition on its pods."""

    owner: str
    """Uid of the workload."""
    reason: str
    message: str
    """The same for as long as the same holds: numbers that come and go would have it told again and again."""
    count: str = field(default="", compare=False)
    """How much it is about when it is told; not what tells two notices apart."""

    @property
    def text(self) -> str:
        return f"{self.count}: {self.message}" if self.count else self.message


@dataclass(frozen=True, slots=True)
class Report:
    """What is to be told of a workload."""

    phase: Phase
    target: Target
    asked: int
    """The target without what is owed (B18)."""
    on_demand: int
    """Effectively, and counted."""
    placements: Mapping[Capacity | None, int]
    need: int
    total: int
    """Moves until the target is met."""
    blocked: Blocked | None
    waiting: int
    """On-demand pods that find no room."""
    source: str
    """What says whether it takes part."""
    until: float | None = None
    """When time alone ends what blocks it; None where nobody can say."""


@dataclass(frozen=True, slots=True)
class State:
    """What the controller remembers; lost, it costs some patience and nothing else."""

    memories: Mapping[str, Memory] = field(default_factory=dict)
    """By uid of the workload."""
    pools: Pools = field(default_factory=Pools)
    moved_at: tuple[float, ...] = ()
    """Moves by policy within the last hour."""
    settled: AllSettled[Report] = field(default=NOTHING_SETTLED, compare=False, repr=False)
    """Saves work and changes nothing."""


@dataclass(frozen=True, slots=True)
class Decision:
    actions: tuple[Action, ...]
    state: State
    reports: Mapping[str, Report]
    notices: tuple[Notice, ...] = ()
    would: tuple[Action, ...] = ()
    """In read-only mode what would have been ordered."""
    wave: bool = False
    requeue_after: float | None = None
    """Seconds until time alone may change the decision; None: events will tell."""


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a decision depends on besides memory and time."""

    cluster: Cluster
    room: Room
    rules: Rules = field(default_factory=Rules)
    limits: Limits = field(default_factory=Limits)
    around: Surroundings = field(default_factory=Surroundings)
    prices: Prices = NO_PRICES
