"""Figures of the risk of spot that only the vectors ask for: interruptions, and what outages cost (B30).

Money is in the currency of the prices; names give the unit of time.
"""

from __future__ import annotations

import math

from situate.spot.nodes.savings import HOURS_PER_MONTH


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


def outage_cost_per_month(waves_per_month: float, outage_s_per_wave: float, value_per_minute: float) -> float:
    return waves_per_month * outage_s_per_wave / 60 * value_per_minute


def outages_exceed_premium(outage_cost: float, premium: float) -> bool:
    """Return whether outages cost more than the on-demand pods that prevent them."""
    return outage_cost > premium
