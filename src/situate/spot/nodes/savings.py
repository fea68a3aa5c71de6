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


def break_even_hours(restart_cost: float, on_demand_price_h: float, discount: float, share_of_node: float) -> float:
    """Return the hours on spot that pay for a restart; infinite if nothing is saved."""
    saved = on_demand_price_h * discount * share_of_node
    return restart_cost / saved if saved > 0 else math.inf


def premium_per_month(on_demand_price_h: float, discount: float, share_of_node: float, pods: int = 1) -> float:
    """Return the monthly price of this many more on-demand pods."""
    return pods * on_demand_price_h * discount * share_of_node * HOURS_PER_MONTH
