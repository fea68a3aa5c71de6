"""Savings and risks of spot, as separate figures; never one mixed score.

Money is in the currency of the prices; names give the unit of time. `prices` reads the prices. Rules: B29, B30.
"""

from __future__ import annotations

import math
from typing import Final

HOURS_PER_MONTH: Final = 730.0
DEFAULT_DISCOUNT: Final = 0.7
"""Discount of spot without a known price; every use of it is reported."""


def cost_share(replicas: int, on_demand: int, discount: float) -> float:
    """Return a workload's cost as a share of all on demand: (M + (R - M)(1 - d)) / R; 1 without replicas."""
    if replicas <= 0:
        return 1.0
    return (on_demand + (replicas - on_demand) * (1 - discount)) / replicas


def hazard_per_hour(monthly_share: float, hours_per_month: float = HOURS_PER_MONTH) -> float:
    """Return a node's reclaim rate for this monthly share of reclaimed nodes; infinite for 1 and more."""
    if monthly_share >= 1:
        return math.inf
    return -math.log1p(-monthly_share) / hours_per_month if monthly_share > 0 else 0.0


def mean_hours_between(hazard: float) -> float:
    return 1 / hazard if hazard else math.inf


def interruption_probability(hazard: float, hours: float) -> float:
    """Return the probability that one node is reclaimed within this many hours."""
    return -math.expm1(-hazard * hours)


def any_interruption_probability(monthly_share: float, pods: int) -> float:
    """Return the probability that at least one of the pods is reclaimed in a month, if reclaims are independent."""
    return float(1 - (1 - monthly_share) ** pods)


def expected_interruptions(monthly_share: float, pods: int) -> float:
    """Return the expected interruptions per month, over all pods."""
    return pods * hazard_per_hour(monthly_share) * HOURS_PER_MONTH


def break_even_hours(restart_cost: float, on_demand_price_h: float, discount: float, share_of_node: float) -> float:
    """Return the hours on spot that pay for a restart; infinite if nothing is saved."""
    saved = on_demand_price_h * discount * share_of_node
    return restart_cost / saved if saved > 0 else math.inf


def premium_per_month(on_demand_price_h: float, discount: float, share_of_node: float, pods: int = 1) -> float:
    """Return the monthly price of this many more on-demand pods."""
    return pods * on_demand_price_h * discount * share_of_node * HOURS_PER_MONTH


def outage_cost_per_month(waves_per_month: float, outage_s_per_wave: float, value_per_minute: float) -> float:
    return waves_per_month * outage_s_per_wave / 60 * value_per_minute


def outages_exceed_premium(outage_cost: float, premium: float) -> bool:
    """Return whether outages cost more than the on-demand pods that prevent them."""
    return outage_cost > premium
