"""Rebalancing: moves of objects that make the load of executors more equal.

Input: objects, their executors, and the live executors. Output: plans with the fewest moves, and the moves due now.
Read `triggers` first: it decides when moves may be made, and how many.
`goals` plans for objects that count one each. `weighted` plans for objects that differ in load, by `exact` and `bins`.
A plan is a pure function. Every voluntary move is a drain with the ack of the holder. Orphans are assigned in any case;
a plan contains them because they need capacity.
"""

from situate.sharding.rebalancing.goals import Goal, is_beyond, plan
from situate.sharding.rebalancing.plans import Held, Move, Plan, may_move
from situate.sharding.rebalancing.triggers import (
    RebalanceConfig,
    RebalanceState,
    Rebalancing,
    Surface,
    bounded_load,
    rebalance,
)
from situate.sharding.rebalancing.weighted import weighted_plan

__all__ = [
    "Goal",
    "Held",
    "Move",
    "Plan",
    "RebalanceConfig",
    "RebalanceState",
    "Rebalancing",
    "Surface",
    "bounded_load",
    "is_beyond",
    "may_move",
    "plan",
    "rebalance",
    "weighted_plan",
]
