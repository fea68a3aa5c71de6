"""The ways of placing a workload that are compared (B33): the note's own and its rejected ones, and ours in steps.

A policy says who places pods (our webhook, or the workload's own template), who reacts to a notice, and what else of
the controller is switched on. The deciding functions are the shipped ones in every case.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Placement(Enum):
    """Who says which pods must be on demand."""

    WEBHOOK = "webhook"
    TWO_DEPLOYMENTS = "two deployments"
    """S16: one of the floor's size that requires on demand, one with the rest that prefers spot."""
    SPREAD = "spread constraints"
    """S18: wishes of weight 100 and 1 and a spread over capacities in the template."""


class Reaction(Enum):
    """Who does something about a notice."""

    DRAIN = "drained by others"
    """Every pod of the node is evicted as soon as the notice is seen (S5: draining is done by others)."""
    EVICT = "evicted by us"
    RELEASE = "make before break"


@dataclass(frozen=True, slots=True)
class Policy:
    name: str
    on_demand: str | None = None
    """As the annotation says it; `floor`: the scenario's floor; None: the default."""
    placement: Placement = Placement.WEBHOOK
    reaction: Reaction = Reaction.DRAIN
    returns: bool = False
    """Whether pods that overflowed onto on demand go back (B26)."""
    headroom: bool = False
    """Whether on-demand room for the largest wave is kept and paid for (B24)."""

    @property
    def reacts(self) -> bool:
        """Whether our controller deals with nodes that end."""
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
