"""The compared ways to place a workload (B33): those of the design goal, its rejected ones, and ours in steps.

A policy defines the mechanism of placement (our webhook or the workload's template), the reaction to a notice, and the
enabled parts of the controller. The deciding functions are always the shipped ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Placement(Enum):
    """The mechanism that puts pods on demand."""

    WEBHOOK = "webhook"
    TWO_DEPLOYMENTS = "two deployments"
    """S16: one Deployment with the floor requires on demand, one with the rest prefers spot."""
    SPREAD = "spread constraints"
    """S18: preferences of weight 100 and 1, and a spread over capacities, in the template."""


class Reaction(Enum):
    """The reaction to a notice."""

    DRAIN = "drained by another tool"
    """Another tool evicts all pods of the node as soon as it sees the notice (S5)."""
    EVICT = "evicted by situate"
    RELEASE = "make before break"


@dataclass(frozen=True, slots=True)
class Policy:
    name: str
    on_demand: str | None = None
    """Value of the annotation. `floor`: the scenario's floor. None: the default."""
    placement: Placement = Placement.WEBHOOK
    reaction: Reaction = Reaction.DRAIN
    returns: bool = False
    """Whether overflowed pods return to spot nodes (B26)."""
    headroom: bool = False
    """Whether on-demand capacity for the largest wave is reserved and paid for (B24)."""

    @property
    def reacts(self) -> bool:
        """Return whether our controller reacts to nodes that end."""
        return self.reaction is not Reaction.DRAIN


FLOOR: Final = "floor"
POLICIES: Final[Sequence[Policy]] = (
    Policy("all-on-demand", "all-on-demand"),
    Policy("all-spot", "all-spot"),
    Policy("note-default"),
    Policy("two-deployments", FLOOR, Placement.TWO_DEPLOYMENTS),
    Policy("spread-constraints", FLOOR, Placement.SPREAD),
    Policy("20-80", "base=0,weight=1:4"),
    Policy("floor-evict", FLOOR, reaction=Reaction.EVICT),
    Policy("floor-release", FLOOR, reaction=Reaction.RELEASE),
    Policy("floor-return", FLOOR, reaction=Reaction.RELEASE, returns=True),
    Policy("floor-headroom", FLOOR, reaction=Reaction.RELEASE, returns=True, headroom=True),
)
BY_NAME: Final = {policy.name: policy for policy in POLICIES}
