"""The parameters of all decisions, with their defaults.

The settings of the configuration file set them. Times are seconds, amounts bytes, rates bytes a second, unless a name
says otherwise.
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
    """Parameters of the node score."""

    min_usage_score: float = 0.5
    max_usage_score: float = 0.0
    score_peak: float = 0.8
    randomize: bool = True


@dataclass(frozen=True, slots=True)
class CostWeights:
    """Weights of the migration cost."""

    load: float = 2.0
    """For each unit of load1 / vCPUs, as a share of the copying time."""
    downtime: float = 50.0
    """For each second of downtime."""
    recent_move: float = 60.0
    """For each migration in the last 24 hours."""
    surplus: float = 10.0
    """For the amount freed beyond the need, as a share of the node."""
    priority: float = 1e6
    """`slo` = 1 + max(0, priority) / this, at most `highest_slo`."""
    highest_slo: float = 10.0
    downtime_s: float = 0.1
    """Assumed downtime if no migration of the VM was seen."""
    dirty_rate: float = 50.0 * MIB
    """Assumed rate if the dirty rate is unknown."""
    most_dirty: float = 0.9
    """Share of the bandwidth. At or above it, copying does not converge."""
    post_copy: bool = False
    """Whether post-copy is allowed, so that a VM that does not converge may migrate."""


@dataclass(frozen=True, slots=True)
class MigrationLimits:
    """Watermark hysteresis, cool-downs and concurrency limits."""

    hysteresis: float = 0.05
    """Relief stops this share of Total below the watermark."""
    cool_down_s: float = 600.0
    """Doubled for each migration in 24 hours."""
    most_cool_down_s: float = 6 * 3600.0
    after_failure_s: float = 60.0
    """Times 2^k after k earlier failures, for each VM and target."""
    most_after_failure_s: float = 3600.0
    moves_in_cluster: int = 5
    moves_out_of_node: int = 2
    moves_into_node: int = 2
    link: int = 2 * GIB
    """Bandwidth of a node's link."""
    link_share: float = 0.5
    """Share of the link that all migrations of a node may use together."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Time limits of migrations and claims."""

    unbound_s: float = 30.0
    not_running_s: float = 120.0
    no_progress_s: float = 150.0
    total_least_s: float = 60.0
    total_s_per_gib: float = 150.0
    completion_s: float = 3600.0
    """`completionTimeout` of the migration objects that vm creates."""
    claim_s: float = 60.0
    """Time after `completion_s` at which a claim ends in any case."""


@dataclass(frozen=True, slots=True)
class Rules:
    """All parameters of `situate.vm.ledger.step`."""

    scheduler_name: str = "situate-vm"
    compat: bool = False
    """Whether the ledger decides as neondatabase/autoscaling: no claims, no joint grants, oldest VM first."""
    grow_pod: bool = True
    """Whether a grant also resizes the runner Pod, if the server can and the QoS class stays (B47)."""
    server_resizes: bool = True
    """Whether the API server has `pods/resize`: from 1.33 on (B36)."""
    resize_with_restart: bool = False
    """Whether a resize may restart containers by their `resizePolicy` (B36)."""
    denied_retry_s: float = 60.0
    """Pause before the retry of a resize that a quota or a LimitRange forbids (B36)."""
    watermark: float = 0.9
    watermarks: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """By name of a node (B24)."""
    class_watermarks: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    """By the value of `class_label` (B24)."""
    class_label: str = "node.kubernetes.io/instance-type"
    resources: tuple[str, ...] = RESOURCES
    """Names of the accounted resources (B45)."""
    ignored_namespaces: frozenset[str] = frozenset()
    targets_first: bool = False
    """Whether target Pods are scheduled before other Pods of equal priority (N16)."""
    scoring: Scoring = Scoring()
    weights: CostWeights = CostWeights()
    calm: MigrationLimits = MigrationLimits()
    deadlines: Deadlines = Deadlines()
    demand_after_s: float = 5.0
    """How long a request must be unmet before a migration is planned (B16)."""
    permit_s: float = 60.0
    """How long a VM may leave an increase unused before it lapses (B28)."""
    overtakes: int = 3
    """How often a waiter may be overtaken before capacity is held for it (B31)."""
    retry_s: float = 5.0
    """Pause before an unmet request is evaluated again (C26)."""
    patch_retry_s: float = 1.0
    max_bandwidth: int = GIB
    """Bandwidth limit of one migration."""
    cancel_copying: bool = True
    """Whether a migration without a beneficiary is cancelled while copying (B22)."""
    cancel_remaining: float = 0.5
    """Least remaining share of memory for a cancellation while copying (B22)."""
    evict: bool = False
    """Whether lower-priority Pods may be evicted if no migration works (B19)."""
    chain_depth: int = 2
    """Greatest length of a chain of migrations (B19)."""
    consolidate: bool = False
    """Whether thinly used nodes are emptied (B46)."""
    consolidate_below: float = 0.3
    """Share of Total below which a node counts as thinly used."""
