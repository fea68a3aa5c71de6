"""All that decisions are made from, as one frozen value.

A decision returns another state; whoever only asks "what if" drops it (C10). What is here can be rebuilt from a listing
of pods, nodes, machines and migrations, but for what is only worth something while this process lives: who waits since
when, and back-offs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from situate.vm.model.migrations import Claim, ClaimState, Move, Stage
from situate.vm.model.pods_and_nodes import NO_OVERCOMMIT, Node, Pod, Ref, Refusal
from situate.vm.model.resource_amounts import RESOURCES, Amounts, total

_NOTHING: Final[Mapping[Any, Any]] = MappingProxyType({})
_RELEASED: Final = (Stage.FAILED, Stage.ENDING)
"""From then on nothing is reserved for a move."""


@dataclass(frozen=True, slots=True)
class Waiter:
    """A pod that wants more than it got."""

    uid: str
    since: float
    """Seconds of the epoch."""
    overtaken: int = 0
    """So many times others were served before it (B31)."""
    saving: Amounts | None = None
    """What is saved up for it as counted on the node, once it was overtaken too often; None: nothing (B31)."""
    look_at: float = 0.0
    """When room is looked for again, by a plan or, in `compat`, by another try (B16, C26)."""
    needs_node: bool = False
    """Whether it was said that only a bigger node helps (B50)."""


@dataclass(frozen=True, slots=True)
class Failures:
    """Of moving a machine to one target."""

    count: int
    until: float
    """No further attempt before this."""


@dataclass(frozen=True, slots=True)
class Permit:
    """What the next answer to an agent says that it may use."""

    amount: Amounts
    expires: float
    """An increase in it that is not used until then lapses (B28)."""
    sequence: int | None = None
    """Of the last request, where its agent numbers them."""
    lowered: bool = False
    """Whether its agent holds no more than that, heard or unheard: the booking follows what its machine uses (D24)."""
    raised_at: float = -math.inf
    """When it was last given more, seconds of the epoch."""
    run: str = ""
    """In which its agent has numbered that request."""


@dataclass(frozen=True, slots=True)
class Unseen:
    """What is being written to a machine and does not show on its pod yet; the larger amount counts until it does."""

    amount: Amounts
    """Approved, in whole."""
    requested: Amounts
    unit: Amounts
    closed_claim: str = ""
    landed: bool = False
    """Whether the write is known to have been carried out: whatever else the pod shows is older."""
    retry_at: float | None = None
    """When it is written again, because it failed, or nobody knows, or it does not show; None: it is under way."""
    at: float = 0.0
    """When it was decided on."""
    shown: tuple[Amounts, Amounts] | None = None
    """Request and unit that the pod shows instead; None: it was not seen since."""
    refused: bool = False
    """Whether the write was refused: then the machine's request is another one, which its pod will show, or shows."""
    matched: bool = False
    """Whether the pod shows it although nobody has answered yet; it may have been so before, and not be any more."""


@dataclass(frozen=True, slots=True)
class Denied:
    """A wish of a plain pod that the API server does not carry out (B36)."""

    text: str
    """The wish; another one is decided on anew."""
    refusal: Refusal
    until: float | None
    """Not asked for again before; None: not at all."""


@dataclass(frozen=True, slots=True)
class Account:
    """A resize of a runner pod that is under way, or was not carried out (B47)."""

    target: Amounts
    """What the pod is to request."""
    lowers_to: Amounts | None = None
    """What is booked once it is answered, whatever the answer; None: nothing changes then."""
    told: bool = False
    """Whether the pod says that it was not resized."""
    retry_at: float | None = None


@dataclass(frozen=True, slots=True)
class State:
    """The ledger."""

    nodes: Mapping[str, Node] = field(default_factory=lambda: _NOTHING)
    where: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    """Uid of a pod to the name of its node, which may be one that does not exist (see `apart`)."""
    apart: Mapping[str, Pod] = field(default_factory=lambda: _NOTHING)
    """By uid: pods on nodes that do not exist, kept for their return (D19)."""
    moves: Mapping[str, Move] = field(default_factory=lambda: _NOTHING)
    """By `namespace/name` of the migration."""
    claims: Mapping[str, Claim] = field(default_factory=lambda: _NOTHING)
    """By id; open ones."""
    waiters: Mapping[str, Waiter] = field(default_factory=lambda: _NOTHING)
    """By uid of the pod."""
    permits: Mapping[str, Permit] = field(default_factory=lambda: _NOTHING)
    """By uid of the pod."""
    writes: Mapping[str, Unseen] = field(default_factory=lambda: _NOTHING)
    """By uid of the pod."""
    looks: Mapping[str, float] = field(default_factory=lambda: _NOTHING)
    """By name of a node over its watermark, or one that is being drained: when it is next looked at (B24, B46)."""
    denied: Mapping[str, Denied] = field(default_factory=lambda: _NOTHING)
    """By uid of the pod."""
    accounts: Mapping[str, Account] = field(default_factory=lambda: _NOTHING)
    """By uid of the runner pod."""
    failures: Mapping[tuple[str, str], Failures] = field(default_factory=lambda: _NOTHING)
    """By uid of the machine and name of the target node, empty where it could not be copied at all (B25)."""
    started: bool = False
    """Everything was listed and taken in: nothing is granted before (C30)."""
    resources: int = len(RESOURCES)

    def pod(self, uid: str) -> Pod | None:
        """A pod on a node that exists."""
        node = self.nodes.get(self.where.get(uid, ""))
        return None if node is None else node.pods.get(uid)

    def told_of(self, about: Ref) -> Ref:
        """The machine that runs in this pod, or leaves it: what concerns the one is told of the other (B41)."""
        pod = self.pod(about.uid)
        return about if pod is None or pod.machine is None else pod.machine.ref

    def held(self, node: str, uid: str) -> Amounts:
        """Room on the node kept for others than this pod: of freed claims, and saved up for waiters (B4, B31)."""
        claims = (claim.holds for claim in self.freed(node) if claim.beneficiary.ref.uid != uid)
        return total(claims, self.resources) + self._saved(node, uid)

    def keeps(self, node: str, uid: str) -> Iterator[tuple[str, Ref, Amounts]]:
        """What `held` is made of: for whom, how much, and under which claim; saved up for him where that is empty."""
        for claim in self.freed(node):
            if claim.beneficiary.ref.uid != uid:
                yield claim.id, claim.beneficiary.ref, claim.holds
        for waiter in self.waiters.values():
            if waiter.saving is not None and waiter.uid != uid and waiter.uid in self.nodes[node].pods:
                yield "", self.nodes[node].pods[waiter.uid].ref, waiter.saving

    def incoming(self, node: str, uid: str) -> Amounts:
        """Reservations on the node of targets that are not booked yet, but this pod's own (B4)."""
        return total((self._due(move) for move in self.arriving(node) if not _own(move, uid)), self.resources)

    def arriving(self, node: str) -> Iterator[Move]:
        """Moves for which room is reserved on the node, or booked by their target already."""
        return (move for move in self.moves.values() if move.target_node == node and move.stage not in _RELEASED)

    def avail(self, node: str, uid: str) -> Amounts:
        """Room that the pod may use, the one measure for all: max(0, Total - Reserved - held - incoming) (B4)."""
        return self.margin(node, uid).positive()

    def margin(self, node: str, uid: str) -> Amounts:
        """The same, below zero where so much has to leave before there is any room."""
        entry = self.nodes[node]
        return entry.total - entry.reserved - self.held(node, uid) - self.incoming(node, uid)

    def need(self, uid: str) -> Amounts:
        """What a pod is short of its request, in whole units, as that counts on its node; zero of one that is on none.

        Less room than for a whole one is of no use to it, however little of that it wants (2.4, B16).
        """
        pod = self.pod(uid)
        if pod is None:
            return Amounts.zero(self.resources)
        if pod.deferred:
            return self._put_off(pod)
        rows = zip(pod.wish.most(pod.reserved) - pod.reserved, pod.factor, pod.overcommit, strict=True)
        return Amounts(
            tuple(-(-_whole(short, factor) * NO_OVERCOMMIT // overcommit) for short, factor, overcommit in rows)
        )

    def _put_off(self, pod: Pod) -> Amounts:
        """What has to leave for a pod whose wish is booked already, for everybody but itself (B35): of its own wish.

        Where the node is overdrawn by more than all such wishes are, none of them is served before that has gone too.
        """
        node = self.where[pod.uid]
        overdrawn = (Amounts.zero(self.resources) - self.margin(node, pod.uid)).positive()
        wishes = total((_wished(each) for each in self.nodes[node].pods.values() if each.deferred), self.resources)
        return overdrawn.least(_wished(pod) + (overdrawn - wishes).positive())

    def move_of(self, machine: Ref) -> Move | None:
        """The move of a machine that is not over, by the name of the machine."""
        return next((move for move in self._moves_of(machine) if move.alive), None)

    def may_leave(self, machine: Ref) -> bool:
        """Whether one of its moves is not over, or is to end: it may still arrive before that is heard of."""
        return any(move.alive or move.stage is Stage.ENDING for move in self._moves_of(machine))

    def _moves_of(self, machine: Ref) -> Iterator[Move]:
        return (move for move in self.moves.values() if move.is_of(machine))

    def freed(self, node: str) -> Iterator[Claim]:
        """Claims on room that nobody has to leave any more."""
        return (claim for claim in self.claims.values() if claim.node == node and claim.state is ClaimState.FREED)

    def _due(self, move: Move) -> Amounts:
        """What of a reservation is not booked yet: nothing once its target is, unless more was reserved for it."""
        if not move.target_booked:
            return move.amount
        if move.foreign or move.target is None:
            return Amounts.zero(self.resources)
        target = self.pod(move.target.uid)
        return move.amount if target is None else (move.amount - target.counted(target.reserved)).positive()

    def _saved(self, node: str, uid: str) -> Amounts:
        """What is free beside all claims and reservations, up to the needs of those for whom it is saved up.

        It binds nobody of higher priority, and of those for whom room is saved up nobody who waits longer.
        """
        savers = [
            (waiter, waiter.saving)
            for waiter in self.waiters.values()
            if waiter.saving is not None and waiter.uid != uid and self.where.get(waiter.uid) == node
        ]
        if not savers:
            return Amounts.zero(self.resources)
        own, own_rank = self.waiters.get(uid), self._rank(uid)
        binding = [
            amount
            for waiter, amount in savers
            if self._rank(waiter.uid) < own_rank
            or (self._rank(waiter.uid)[0] == own_rank[0] and (own is None or own.saving is None))
        ]
        entry = self.nodes[node]
        claimed = total((claim.holds for claim in self.freed(node)), self.resources)
        reserved = total((self._due(move) for move in self.arriving(node)), self.resources)
        return total(binding, self.resources).least((entry.total - entry.reserved - claimed - reserved).positive())

    def _rank(self, uid: str) -> tuple[int, float, str]:
        pod, waiter = self.pod(uid), self.waiters.get(uid)
        return (-pod.priority if pod else 0, waiter.since if waiter else math.inf, uid)


def _whole(amount: int, unit: int) -> int:
    return -(-amount // (unit or 1)) * (unit or 1)


def _wished(pod: Pod) -> Amounts:
    """By a pod whose kubelet has put its resize off, as it counts on its node."""
    return (pod.counted(pod.reserved) - pod.counted(pod.used)).positive()


def _own(move: Move, uid: str) -> bool:
    return move.target is not None and move.target.uid == uid
