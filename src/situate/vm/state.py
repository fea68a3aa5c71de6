"""All that decisions are made from, as one frozen value.

A decision returns another state; whoever only asks "what if" drops it (C10). What is here can be rebuilt from a listing
of pods, nodes, machines and migrations, but for what is only worth something while this process lives: who waits since
when, and back-offs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from situate.vm.amounts import RESOURCES, Amounts, total
from situate.vm.claims import Claim, ClaimState, Move
from situate.vm.model import Node, Pod

_NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Waiter:
    """A pod that wants more than it got."""

    uid: str
    since: float
    """Seconds of the epoch."""
    overtaken: int = 0
    """So many times others were served before it (B31)."""


@dataclass(frozen=True, slots=True)
class Failures:
    """Of moving a machine to one target."""

    count: int
    until: float
    """No further attempt before this."""


@dataclass(frozen=True, slots=True)
class Permit:
    """An increase that was granted and is not used yet (B28)."""

    amount: Amounts
    expires: float


@dataclass(frozen=True, slots=True)
class State:
    """The ledger."""

    nodes: Mapping[str, Node] = _NOTHING
    where: Mapping[str, str] = _NOTHING
    """Uid of a pod to the name of its node, which may be one that does not exist (see `apart`)."""
    apart: Mapping[str, Pod] = _NOTHING
    """By uid: pods on nodes that do not exist, kept for their return (D19)."""
    moves: Mapping[str, Move] = _NOTHING
    """By `namespace/name` of the migration."""
    claims: Mapping[str, Claim] = _NOTHING
    """By id; open ones."""
    waiters: Mapping[str, Waiter] = _NOTHING
    """By uid of the pod."""
    permits: Mapping[str, Permit] = _NOTHING
    """By uid of the pod."""
    failures: Mapping[tuple[str, str], Failures] = _NOTHING
    """By uid of the machine and name of the target node (B25)."""
    started: bool = False
    """Everything was listed and taken in: nothing is granted before (C30)."""
    resources: int = len(RESOURCES)

    def pod(self, uid: str) -> Pod | None:
        """A pod on a node that exists."""
        node = self.nodes.get(self.where.get(uid, ""))
        return None if node is None else node.pods.get(uid)

    def held(self, node: str, uid: str) -> Amounts:
        """Room of freed claims on the node whose beneficiary is not this pod (B4)."""
        open_ones = (
            claim.amount
            for claim in self.claims.values()
            if claim.node == node and claim.state is ClaimState.FREED and claim.beneficiary.ref.uid != uid
        )
        return total(open_ones, self.resources)

    def incoming(self, node: str, uid: str) -> Amounts:
        """Reservations on the node of targets that are not booked yet, but this pod's own (B4)."""
        return total((move.amount for move in self.arriving(node) if not _own(move, uid)), self.resources)

    def arriving(self, node: str) -> Iterator[Move]:
        """Moves for which room is reserved on the node."""
        return (move for move in self.moves.values() if move.target_node == node and not move.target_booked)

    def avail(self, node: str, uid: str) -> Amounts:
        """Room that the pod may use, the one measure for all: max(0, Total - Reserved - held - incoming) (B4)."""
        entry = self.nodes[node]
        return (entry.total - entry.reserved - self.held(node, uid) - self.incoming(node, uid)).positive()


def _own(move: Move, uid: str) -> bool:
    return move.target is not None and move.target.uid == uid
