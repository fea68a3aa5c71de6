"""Who moves whither, and for whom: what `situate.vm.planning` answers.

`situate.vm.planning.plan_for_pod.plan` makes room for a pod that is short, `relieving.relief` for a node over its
watermark, `draining.drain` empties a node. All three are functions of the state, the time and the rules, and do
nothing.

To carry a plan out, add its claims and moves to the state and start the moves that `limits.ready` names, now and
whenever something ends: a move waits while room for it is still being made, or while there are enough at work.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from situate.vm.model.migrations import Claim, Move
from situate.vm.model.pods_and_nodes import Ref
from situate.vm.model.resource_amounts import Amounts


class Way(Enum):
    """How somebody may come to room."""

    NEIGHBOURS = "neighbours"
    """Others leave the node."""
    ITSELF = "itself"
    """The one who is short moves to a node that has the room."""
    WAITING = "waiting"
    """Moves under way will leave enough that nobody claims."""
    CHAIN = "chain"
    """Others leave the node, once room is made for one of them where it goes."""
    PART = "part"
    """Others leave, and that is not all that is missing, but at least one unit."""
    EVICTION = "eviction"
    RELIEF = "relief"
    """Nobody asked: the node is over its watermark."""
    DRAIN = "drain"
    EVACUATION = "evacuation"
    """Pods were to be evicted."""
    CONSOLIDATION = "consolidation"


@dataclass(frozen=True, slots=True)
class Alternative:
    """A way that was looked at and not taken (B39)."""

    kind: Way
    cost: float | None
    """Seconds-equivalents (B17); None: this way does not lead there."""
    why_not: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do; nothing, where all lists are empty, and then `reasons` says why."""

    id: str
    way: Way | None = None
    """None: nothing is done."""
    moves: tuple[Move, ...] = ()
    """In the order in which they are to begin. One that an open claim names as its beneficiary of kind Target waits
    until that claim is freed; its reservation then stands on the room, and the claim is closed."""
    claims: tuple[Claim, ...] = ()
    """One for each move made for someone, as `Move.claim` names it. A machine that moves for its own growth makes no
    room and claims none: what it will hold is reserved where it goes."""
    evictions: tuple[Ref, ...] = ()
    """Pods (B19). Without claims: those go with moves."""
    cost: float = 0.0
    """Of all moves, in seconds-equivalents (B17)."""
    needs_node: Amounts | None = None
    """No move helps and a new node with room for this much, below its watermark, would (B50)."""
    alternatives: tuple[Alternative, ...] = ()
    reasons: tuple[str, ...] = ()
    """Sentences for people: what kept a node, a machine or a way from being taken."""
    unsolved: bool = False
    """Whether a pod stays short, or a machine stays on a node that it is to leave. What only waits for the limits of
    moves at work (B26) is not meant."""

    def __bool__(self) -> bool:
        """Whether anything is to be done."""
        return bool(self.moves or self.evictions)
