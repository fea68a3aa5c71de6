"""Settings of decisions. The defaults are those of P35.

The blocks `evictions` and `return` of the configuration file are checked here and read as they are.
`situate.spot.config.settings` derives the other limits from the rest of the section.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

import msgspec

from situate.objects.settings.section import Duration, Mistake, PositiveDuration, format_value, key_of
from situate.spot.model.maintenance_windows import Window

Positive = Annotated[int, msgspec.Meta(ge=1, le=10_000)]


class EvictionLimits(msgspec.Struct, frozen=True, kw_only=True, rename=key_of):
    """Limits on moves that only policy requires."""

    cool_down_s: Duration = 60.0
    per_owner: Positive = 1
    """Moves in flight at a time; at most one for each workload."""
    per_cluster: Positive = 5
    """Policy moves that may be in flight at once."""
    per_hour: Positive = 60
    failures: Positive = 3
    """Successive moves whose replacement finds no node. After that many, the workload is not moved for `stop`."""
    stop_s: PositiveDuration = 3600.0

    def mistakes(self) -> Iterable[Mistake]:
        if self.per_owner > 1:
            yield Mistake(
                "perOwner", format_value(self.per_owner), "1", "two moves at once leave fewer than replicas - 1 ready"
            )


class ReturnConditions(msgspec.Struct, frozen=True, kw_only=True, rename=key_of):
    """Conditions under which overflowed pods return from on-demand nodes to spot nodes.

    Rules: B26, B27.
    """

    enabled: bool = True
    node_age_s: Duration = 600.0
    calm_s: Duration = 1800.0
    every_s: Duration = 600.0
    """Shortest time between two returns of one workload."""
    longest_wait_s: Duration = 21600.0
    flaps: Positive = 2
    """Number of nodes that came back within `flap` after which the pool is at risk for `distrust`."""
    flap_s: Duration = 900.0
    distrust_s: Duration = 7200.0
    restart_cost: Annotated[float, msgspec.Meta(ge=0)] = 0.002
    """Cost of one restart, in the currency of the prices; the saving must exceed it within `pays_within_s`."""
    pays_within_s: PositiveDuration = 86400.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What decisions read of the settings. Times are seconds."""

    evictions: EvictionLimits = EvictionLimits()  # noqa: RUF009  # frozen
    returns: ReturnConditions = ReturnConditions()  # noqa: RUF009  # frozen
    windows: tuple[Window, ...] = ()
    pend_s: float = 60.0
    """How long a pod may wait for a node before it counts as unschedulable."""
    degrade_after_s: float | None = None
    """None: on-demand pods wait for free capacity without limit."""
    on_demand_autoscaling: bool = False
    spot_autoscaling: bool = False
    make_before_break: bool = True
    start_s: float = 25.0
    """Usual time from a pod's creation until it is ready."""
    eviction_s: int | None = 20
    """Seconds for which spot pods stay on a lost node; None leaves the defaults."""
    read_only: bool = False
