"""Rebalancing: moves of objects that make the load of executors more equal.

Input: objects, their executors, and the live executors. Output: plans with the fewest moves, and the moves due now.
Read `triggers` first: it decides when moves may be made, and how many.
`goals` plans for objects that count one each. `weighted` plans for objects that differ in load, by `exact` and `bins`.
A plan is a pure function. Every voluntary move is a drain with the ack of the holder. Orphans are assigned in any case;
a plan contains them because they need capacity.
"""

from situate.sharding.rebalancing.goals import Goal, misses_goal, plan
from situate.sharding.rebalancing.plans import Move, PlacedObject, Plan, may_move
from situate.sharding.rebalancing.triggers import (
    RebalanceConfig,
    RebalanceDecision,
    RebalanceState,
    RebalanceView,
    bounded_load,
    rebalance,
)
from situate.sharding.rebalancing.weighted import weighted_plan

__all__ = [
    "Goal",
    "Move",
    "PlacedObject",
    "Plan",
    "RebalanceConfig",
    "RebalanceDecision",
    "RebalanceState",
    "RebalanceView",
    "bounded_load",
    "may_move",
    "misses_goal",
    "plan",
    "rebalance",
    "weighted_plan",
]
