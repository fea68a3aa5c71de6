"""Moves that make executors more equal: plans with the fewest of them, and when they may be made.

A plan is a function of what is where. Every voluntary move is a drain with the holder's consent; orphans are placed
anyway, and stand in a plan only because they take room.
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
