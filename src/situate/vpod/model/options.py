"""The settings that deciding functions read. `config.settings` reads them from YAML.

`Options` is Python API with names of its own, so it exists next to the entry of the file, which fills it. The blocks
`drain` and `rebalance` and the names of choices are the same in both. All durations are seconds. Every field may change
at run time (B15): the caller passes a changed `Options` to `State.reconfigure`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from situate.objects.settings.section import ALLOWED, FORM, Duration, PositiveDuration
from situate.vpod.model.vpod import INT32_MAX
from situate.vpod.policy.registry import DEFAULT_PLACING, DEFAULT_REMOVING, Policy

SHORTEST_PERIOD = 0.1
"""Seconds; the shortest period of a loop, and the shortest `retryPeriod` above 0."""

Count = Annotated[int, Meta(ge=0, le=INT32_MAX)]
PositiveCount = Annotated[int, Meta(ge=1, le=INT32_MAX)]
Period = Annotated[float, Meta(ge=SHORTEST_PERIOD, extra={FORM: "duration"})]
"""Seconds between two rounds of a loop that never ends. A shorter period would leave no pause between rounds."""
Percentage = Annotated[str, Meta(pattern=r"^(100|[0-9]{1,2})%$", extra={ALLOWED: 'a percentage from "0%" to "100%"'})]


class PolicyName(StrEnum):
    PACK = "pack"
    POLICY = "policy"
    SPREAD = "spread"


class Profile(StrEnum):
    REFERENCE = "reference"
    SAFE = "safe"


class ReferenceVersion(StrEnum):
    """The version whose answers the reference profile reproduces; the safe profile ignores it."""

    MAIN = "main"
    V0_43_1 = "v0.43.1"


class Shrink(StrEnum):
    AUTO = "auto"
    ORDINAL = "ordinal"
    SPREAD = "spread"


class Topology(StrEnum):
    NODE = "node"
    NONE = "none"
    ZONE = "zone"


class PackOrder(StrEnum):
    LOWEST = "lowest"
    OWN = "own"


class Rescale(StrEnum):
    KEEP = "keep"
    REPLACE = "replace"


class Fairness(StrEnum):
    MAXMIN = "maxmin"
    NONE = "none"


class DrainOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Scale-down in two phases: vpod moves vreplicas away first, and then lowers `spec.replicas`."""

    enabled: Annotated[
        bool,
        Meta(
            description="Move vreplicas away before `spec.replicas` is lowered. `false`: lower `spec.replicas` first, "
            "as Knative does."
        ),
    ] = True
    settle: Annotated[Duration, Meta(description="Pause between the last move and the smaller `spec.replicas`.")] = 10.0
    timeout: Annotated[
        PositiveDuration,
        Meta(description="How long a drain may take. A longer drain is cancelled and logged."),
    ] = 600.0
    surge: Annotated[
        Count,
        Meta(
            description="Most extra vreplicas of one source during a drain. vpod adds vreplicas on other Pods before "
            "it removes the old ones. `0`: a source moves in one write."
        ),
    ] = 0


class RebalanceOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Moves that only make sources more even. Refused with `policy: pack`."""

    enabled: Annotated[bool, Meta(description="Spread satisfied sources evenly, a few moves at a time.")] = False
    interval: Annotated[Period, Meta(description="Time between two rounds of moves.")] = 300.0
    max_moves_per_vpod: Annotated[PositiveCount, Meta(description="Most moves of one source in one round.")] = (
        msgspec.field(default=1, name="maxMovesPerVPod")
    )
    max_moves: Annotated[
        PositiveCount | Percentage,
        Meta(description="Most moves of all sources in one round: a number, or a percentage of all placed vreplicas."),
    ] = "5%"

    def allowed_moves(self, placed: int) -> int:
        """Return how many moves one round may have, of all `placed` vreplicas. A percentage allows at least one."""
        if isinstance(self.max_moves, int):
            return self.max_moves
        return max(1, int(int(self.max_moves.rstrip("%")) / 100 * placed))


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of one StatefulSet. Raises ValueError with the field, its value and the allowed values."""

    statefulset_namespace: str
    statefulset_name: str
    capacity: int
    """Units that one Pod holds; a vreplica costs its vpod's weight."""
    min_replicas: int = 0
    policy: PolicyName = PolicyName.SPREAD
    profile: Profile = Profile.SAFE
    version: ReferenceVersion = ReferenceVersion.MAIN
    refresh_period: float = 100.0
    retry_period: float = 1.0
    max_replicas: int | None = 100
    max_scale_up_step: int | None = 10
    """Upper limits (None: no limit), so that a mistake in one source cannot fill the cluster with Pods."""
    scale_down_stabilization: float = 300.0
    pod_grace: float = 60.0
    require_ready: bool = False
    drain: DrainOptions = field(default_factory=DrainOptions)
    shrink: Shrink = Shrink.AUTO
    topology: Topology = Topology.NONE
    topology_required: bool = False
    pack_order: PackOrder = PackOrder.OWN
    placing: Policy = DEFAULT_PLACING
    """Predicates and priorities of policy `policy`, from the ConfigMap named by schedulerConfig."""
    removing: Policy = DEFAULT_REMOVING
    """The same for vreplicas to remove, from the ConfigMap named by deschedulerConfig."""
    rescale: Rescale = Rescale.KEEP
    rebalance: RebalanceOptions = field(default_factory=RebalanceOptions)
    namespace_max_share: float | None = None
    """Largest share of `maxReplicas` x capacity that one namespace may ask for.

    Without `maxReplicas` the share is of the Pods' capacity or the demand, whichever is larger.
    """
    fairness: Fairness = Fairness.NONE

    def __post_init__(self) -> None:
        _at_least("podCapacity", self.capacity, 1)
        _at_least("minReplicas", self.min_replicas, 0)
        _at_least("podGrace", self.pod_grace, 0)
        _at_least("scaleDownStabilization", self.scale_down_stabilization, 0)
        _at_least("drain.settle", self.drain.settle, 0)
        _at_least("drain.timeout", self.drain.timeout, 0)
        _at_least("drain.surge", self.drain.surge, 0)
        _at_least("rebalance.maxMovesPerVPod", self.rebalance.max_moves_per_vpod, 0)
        if self.max_scale_up_step is not None:
            _at_least("maxScaleUpStep", self.max_scale_up_step, 1)
        if self.max_replicas is not None and self.max_replicas < self.min_replicas:
            raise ValueError(f"maxReplicas is {self.max_replicas}, allowed: at least minReplicas ({self.min_replicas})")
        if self.namespace_max_share is not None and not 0 < self.namespace_max_share <= 1:
            raise ValueError(f"quota.namespaceMaxShare is {self.namespace_max_share}, allowed: above 0, at most 1")
        if self.topology_required and self.topology is Topology.NONE:
            raise ValueError("topologyRequired is true with topology none; set topology to zone or node")
        if self.rebalance.enabled and self.policy is PolicyName.PACK:
            raise ValueError("rebalance.enabled is true with policy pack; set policy to spread for even pods")

    @property
    def safe(self) -> bool:
        return self.profile is Profile.SAFE

    @property
    def statefulset(self) -> str:
        """`namespace/name`, for messages."""
        return f"{self.statefulset_namespace}/{self.statefulset_name}"

    @property
    def shrinks_evenly(self) -> bool:
        """Whether a surplus leaves the fullest own Pod first and not the highest ordinal.

        `pack` fills low ordinals (V7), so with `pack` the value `auto` means the highest ordinal. Rule B9.
        """
        if self.shrink is not Shrink.AUTO or not self.safe:
            return self.safe and self.shrink is Shrink.SPREAD
        return self.min_replicas > 0 and self.policy is not PolicyName.PACK


def _at_least(name: str, value: float, least: float) -> None:
    if value < least:
        raise ValueError(f"{name} is {value}, allowed: {least} or more")
