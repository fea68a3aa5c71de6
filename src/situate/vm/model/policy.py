"""The numbers that decisions go by, each with the default of its rule; settings of the configuration file become these.

Times are seconds, amounts bytes, rates bytes a second, unless a name says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from situate.vm.model.resource_amounts import RESOURCES

MIB: Final = 2**20
GIB: Final = 2**30


@dataclass(frozen=True, slots=True)
class Scoring:
    """C20, C21 and C31."""

    min_usage_score: float = 0.5
    max_usage_score: float = 0.0
    score_peak: float = 0.8
    randomize: bool = True


@dataclass(frozen=True, slots=True)
class CostWeights:
    """B17."""

    load: float = 2.0
    """For each unit of load1 / vCPUs, as a share of the time of copying."""
    downtime: float = 50.0
    """For each second of downtime."""
    recent_move: float = 60.0
    """For each move in 24 hours."""
    surplus: float = 10.0
    """For what is freed beyond the need, as a share of the node."""
    priority: float = 1e6
    """`slo` = 1 + max(0, priority) / this, at most `highest_slo`."""
    highest_slo: float = 10.0
    downtime_s: float = 0.1
    """Where no move of the machine was seen."""
    dirty_rate: float = 50.0 * MIB
    """Where it is not known."""
    most_dirty: float = 0.9
    """Of the bandwidth: from here on copying does not converge."""
    post_copy: bool = False
    """Allowed, so that a machine that does not converge may move all the same."""


@dataclass(frozen=True, slots=True)
class Calm:
    """B24 to B26."""

    hysteresis: float = 0.05
    """Relief stops this share of Total below the watermark."""
    cool_down_s: float = 600.0
    """Doubled for each move in 24 h."""
    most_cool_down_s: float = 6 * 3600.0
    after_failure_s: float = 60.0
    """Times 2^k, for each machine and target."""
    most_after_failure_s: float = 3600.0
    moves_in_cluster: int = 5
    moves_out_of_node: int = 2
    moves_into_node: int = 2
    link: int = 2 * GIB
    """Bandwidth of a node's link."""
    link_share: float = 0.5
    """What all moves of a node together may use of it."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """B7 and B15."""

    unbound_s: float = 30.0
    not_running_s: float = 120.0
    no_progress_s: float = 150.0
    total_least_s: float = 60.0
    total_s_per_gib: float = 150.0
    completion_s: float = 3600.0
    """`completionTimeout` of migrations that we create."""
    claim_s: float = 60.0
    """Beyond the completion's: when a claim ends whatever happens."""


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything that `situate.vm.ledger.step` goes by."""

    scheduler_name: str = "situate-vm"
    compat: bool = False
    """Section 2 of the reference to the letter: no claims, no joint grants, oldest first."""
    grow_pod: bool = True
    """A grant resizes the runner pod too, where the server can and its QoS class stays (B47)."""
    server_resizes: bool = True
    """Whether the API server has `pods/resize`, as it does from 1.33 on (B36)."""
    resize_with_restart: bool = False
    """Whether containers may be resized whose `resizePolicy` restarts them then (B36)."""
    denied_retry_s: float = 60.0
    """A resize that a quota or a LimitRange forbids is asked for again after this (B36)."""
    watermark: float = 0.9
    watermarks: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """By name of a node (B24)."""
    class_watermarks: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """By the value of `class_label` (B24)."""
    class_label: str = "node.kubernetes.io/instance-type"
    resources: tuple[str, ...] = RESOURCES
    """What is accounted for (B45)."""
    ignored_namespaces: frozenset[str] = frozenset()
    targets_first: bool = False
    """Pods that machines move into are placed before other pods of their priority (N16)."""
    scoring: Scoring = Scoring()
    weights: CostWeights = CostWeights()
    calm: Calm = Calm()
    deadlines: Deadlines = Deadlines()
    demand_after_s: float = 5.0
    """B16."""
    permit_s: float = 60.0
    """An increase that the machine does not use lapses after this (B28)."""
    overtakes: int = 3
    """B31."""
    retry_s: float = 5.0
    """A short grant is looked at again (C26)."""
    patch_retry_s: float = 1.0
    max_bandwidth: int = GIB
    """Of one move."""
    cancel_copying: bool = True
    """B22."""
    cancel_remaining: float = 0.5
    """B22: cancelled only while at least this share remains."""
    evict: bool = False
    """B19's last resort."""
    chain_depth: int = 2
    """B19."""
    consolidate: bool = False
    """B46."""
    consolidate_below: float = 0.3
    """Share of Total under which a node counts as thinly used."""
