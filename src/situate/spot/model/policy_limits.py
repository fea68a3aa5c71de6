"""Settings of decisions, as plain numbers. Times are seconds.

The defaults are those of P35.
"""

from __future__ import annotations

from dataclasses import dataclass

from situate.spot.model.maintenance_windows import Window


@dataclass(frozen=True, slots=True)
class Limits:
    cool_down_s: float = 60.0
    per_cluster: int = 5
    """Policy moves that may be in flight at once."""
    per_hour: int = 60
    failures: int = 3
    stop_s: float = 3600.0
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
    returns: bool = True
    node_age_s: float = 600.0
    calm_s: float = 1800.0
    return_every_s: float = 600.0
    longest_wait_s: float = 21600.0
    flaps: int = 2
    flap_s: float = 900.0
    distrust_s: float = 7200.0
    restart_cost: float = 0.002
    pays_within_h: float = 24.0
    read_only: bool = False
