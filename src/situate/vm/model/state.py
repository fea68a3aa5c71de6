"""The input of every decision, as one frozen value.

A decision returns a new state. A what-if drops it (C10). A listing of Pods, nodes, VMs and migration objects rebuilds
the state. Two parts live only as long as the process: since when requests wait, and back-offs.
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

_EMPTY: Final[Mapping[Any, Any]] = MappingProxyType({})
_STAGES_WITHOUT_RESERVATION: Final = (Stage.FAILED, Stage.ENDING)
"""Stages in which a migration has no target reservation."""


@dataclass(frozen=True, slots=True)
class Waiter:
    """A Pod that requests more than it got."""

    uid: str
    since: float
    """Since when it waits, in seconds of the epoch."""
    overtaken_count: int = 0
    """How many times the ledger served others before it (B31)."""
    held_capacity: Amounts | None = None
    """Free capacity held for it after too many overtakings, as counted on the node. None: nothing (B31)."""
    next_attempt_at: float = 0.0
    """When the next plan is due. In `compat` mode: when the next grant is tried (B16, C26)."""
    needs_node: bool = False
    """Whether the leader reported that only a bigger node helps (B50)."""


@dataclass(frozen=True, slots=True)
class MigrationFailures:
    """Failed migrations of one VM to one target."""

    count: int
    until: float
    """No further attempt before this time, in seconds of the epoch."""


@dataclass(frozen=True, slots=True)
class Permit:
    """The amount that the next answer to an agent permits."""

    amount: Amounts
    expires: float
    """When an unused increase lapses, in seconds of the epoch (B28)."""
    sequence: int | None = None
    """Number of the last request. None: its agent does not number requests."""
    lowered: bool = False
    """Whether its agent holds no larger permit, even if it missed this answer.

    The reserved amount then follows the amount that the VM uses (D24).
    """
    raised_at: float = -math.inf
    """When the last increase was granted, in seconds of the epoch."""
    run: str = ""
    """The run of the agent that numbered that request."""


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """A write to a VM or Pod that the Pod does not show yet. Until the Pod shows it, the larger amount counts."""

    amount: Amounts
    """The whole approved amount."""
    requested: Amounts
    unit: Amounts
    closed_claim: str = ""
    landed: bool = False
    """Whether the write is known to have succeeded. A Pod that shows anything else is outdated."""
    retry_at: float | None = None
    """When the write is repeated: it failed, its result is unknown, or it does not show.

    None: the write is in progress.
    """
    at: float = 0.0
    """When it was decided, in seconds of the epoch."""
    shown: tuple[Amounts, Amounts] | None = None
    """Request and unit that the Pod shows instead. None: no update of the Pod arrived since."""
    refused: bool = False
    """Whether the write was refused. Then the VM has another request, which its Pod shows or will show."""
    matched: bool = False
    """Whether the Pod shows the written values before an answer. It may show values from an earlier write."""


@dataclass(frozen=True, slots=True)
class DeniedResize:
    """A resize request of a plain Pod that the API server refused."""

    text: str
    """The text of the request. A changed request is decided again."""
    refusal: Refusal
    until: float | None
    """No retry before this time, in seconds of the epoch. None: no retry."""


@dataclass(frozen=True, slots=True)
class RunnerResize:
    """A resize of a runner Pod that is in progress or failed."""

    target: Amounts
    """The requests that the Pod should have."""
    lowers_to: Amounts | None = None
    """The reserved amount after any answer. None: unchanged."""
    condition_set: bool = False
    """Whether the Pod has the condition `PodNotResized`."""
    retry_at: float | None = None


@dataclass(frozen=True, slots=True)
class LedgerState:
    """All entries of the ledger."""

    nodes: Mapping[str, Node] = field(default_factory=lambda: _EMPTY)
    where: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    """Node name by Pod UID. The node may not exist: see `apart`."""
    apart: Mapping[str, Pod] = field(default_factory=lambda: _EMPTY)
    """By UID: Pods on nodes that do not exist, stored until the node returns (D19)."""
    moves: Mapping[str, Move] = field(default_factory=lambda: _EMPTY)
    """By `namespace/name` of the migration object."""
    claims: Mapping[str, Claim] = field(default_factory=lambda: _EMPTY)
    """Open claims by id."""
    waiters: Mapping[str, Waiter] = field(default_factory=lambda: _EMPTY)
    """By UID of the Pod."""
    permits: Mapping[str, Permit] = field(default_factory=lambda: _EMPTY)
    """By UID of the Pod."""
    writes: Mapping[str, PendingWrite] = field(default_factory=lambda: _EMPTY)
    """By UID of the Pod."""
    looks: Mapping[str, float] = field(default_factory=lambda: _EMPTY)
    """When a node is planned for next, by its name.

    Only nodes that are over their watermark or that VMs should leave (B24, B46, B48).
    """
    denied: Mapping[str, DeniedResize] = field(default_factory=lambda: _EMPTY)
    """By UID of the Pod."""
    accounts: Mapping[str, RunnerResize] = field(default_factory=lambda: _EMPTY)
    """By UID of the runner Pod."""
    failures: Mapping[tuple[str, str], MigrationFailures] = field(default_factory=lambda: _EMPTY)
    """By UID of the VM and name of the target node. The name is empty if the copying itself failed (B25)."""
    started: bool = False
    """Whether the first listing is complete. No grants before (C30)."""
    resources: int = len(RESOURCES)

    def pod(self, uid: str) -> Pod | None:
        """Return the Pod of this UID on an existing node."""
        node = self.nodes.get(self.where.get(uid, ""))
        return None if node is None else node.pods.get(uid)

    def event_subject(self, about: Ref) -> Ref:
        """Return the VM of this Pod, else the Pod itself: the object that carries its Events."""
        pod = self.pod(about.uid)
        return about if pod is None or pod.machine is None else pod.machine.ref

    def held_for_others(self, node: str, uid: str) -> Amounts:
        """Return the capacity on the node that is held for others than this Pod.

        That is freed claims, and capacity held for overtaken waiters (B4, B31).
        """
        claims = (claim.held_amount for claim in self.freed_claims(node) if claim.beneficiary.ref.uid != uid)
        return total(claims, self.resources) + self._held_for_waiters(node, uid)

    def holds_for_others(self, node: str, uid: str) -> Iterator[tuple[str, Ref, Amounts]]:
        """Yield the parts of `held_for_others`: claim id, beneficiary and amount.

        The claim id is empty for capacity held for an overtaken waiter.
        """
        for claim in self.freed_claims(node):
            if claim.beneficiary.ref.uid != uid:
                yield claim.id, claim.beneficiary.ref, claim.held_amount
        for waiter in self.waiters.values():
            if waiter.held_capacity is not None and waiter.uid != uid and waiter.uid in self.nodes[node].pods:
                yield "", self.nodes[node].pods[waiter.uid].ref, waiter.held_capacity

    def incoming_amount(self, node: str, uid: str) -> Amounts:
        """Return the target reservations on the node without a Pod in the ledger yet, except this Pod's own."""
        return total(
            (self._uncovered_amount(move) for move in self.arriving_migrations(node) if not _is_own_target(move, uid)),
            self.resources,
        )

    def arriving_migrations(self, node: str) -> Iterator[Move]:
        """Yield the migrations to this node that have a target reservation or a target Pod in the ledger."""
        return (
            move
            for move in self.moves.values()
            if move.target_node == node and move.stage not in _STAGES_WITHOUT_RESERVATION
        )

    def available(self, node: str, uid: str) -> Amounts:
        """Return the capacity that the Pod may use: max(0, Total - Reserved - held - incoming).

        All callers use this one measure (B4).
        """
        return self.margin(node, uid).positive_part()

    def margin(self, node: str, uid: str) -> Amounts:
        """Return `available` before the cut at zero.

        A negative amount must leave the node before any capacity is free.
        """
        entry = self.nodes[node]
        return entry.total - entry.reserved - self.held_for_others(node, uid) - self.incoming_amount(node, uid)

    def need(self, uid: str) -> Amounts:
        """Return the missing amount of a Pod in whole units, as counted on its node. Zero if it is on no node.

        Capacity for less than a unit is of no use to a Pod, even if less is missing (B16).
        """
        pod = self.pod(uid)
        if pod is None:
            return Amounts.zero(self.resources)
        if pod.deferred:
            return self._deferred_need(pod)
        rows = zip(pod.limited_request.maximum(pod.reserved) - pod.reserved, pod.factor, pod.overcommit, strict=True)
        return Amounts(
            tuple(-(-_whole_units(short, factor) * NO_OVERCOMMIT // overcommit) for short, factor, overcommit in rows)
        )

    def _deferred_need(self, pod: Pod) -> Amounts:
        """Return the amount that must leave before a deferred Pod gets its increase.

        The ledger already counts the increase for all others (B35). A node may be overcommitted by more than all its
        deferred increases. Then that excess must leave too, before any of them is served.
        """
        node = self.where[pod.uid]
        overdrawn = (Amounts.zero(self.resources) - self.margin(node, pod.uid)).positive_part()
        wishes = total(
            (_deferred_increase(each) for each in self.nodes[node].pods.values() if each.deferred), self.resources
        )
        return overdrawn.minimum(_deferred_increase(pod) + (overdrawn - wishes).positive_part())

    def move_of(self, machine: Ref) -> Move | None:
        """Return the unfinished migration of a VM, found by the name of the VM."""
        return next((move for move in self._moves_of(machine) if move.alive), None)

    def may_migrate(self, machine: Ref) -> bool:
        """Return whether a migration of the VM may still complete: it is unfinished or being cancelled."""
        return any(move.alive or move.stage is Stage.ENDING for move in self._moves_of(machine))

    def _moves_of(self, machine: Ref) -> Iterator[Move]:
        return (move for move in self.moves.values() if move.is_of(machine))

    def freed_claims(self, node: str) -> Iterator[Claim]:
        """Yield the claims on this node whose source is gone."""
        return (claim for claim in self.claims.values() if claim.node == node and claim.state is ClaimState.FREED)

    def _uncovered_amount(self, move: Move) -> Amounts:
        """Return the part of a target reservation that no Pod in the ledger covers.

        Zero once the target Pod is in the ledger, unless more was reserved for it.
        """
        if not move.target_counted:
            return move.amount
        if move.foreign or move.target is None:
            return Amounts.zero(self.resources)
        target = self.pod(move.target.uid)
        return move.amount if target is None else (move.amount - target.counted_amount(target.reserved)).positive_part()

    def _held_for_waiters(self, node: str, uid: str) -> Amounts:
        """Return the free capacity that overtaken waiters hold against this Pod, up to their needs.

        It does not bind Pods of higher priority. Of Pods that hold capacity themselves, it binds only those with a
        shorter wait.
        """
        savers = [
            (waiter, waiter.held_capacity)
            for waiter in self.waiters.values()
            if waiter.held_capacity is not None and waiter.uid != uid and self.where.get(waiter.uid) == node
        ]
        if not savers:
            return Amounts.zero(self.resources)
        own, own_rank = self.waiters.get(uid), self._rank(uid)
        binding = [
            amount
            for waiter, amount in savers
            if self._rank(waiter.uid) < own_rank
            or (self._rank(waiter.uid)[0] == own_rank[0] and (own is None or own.held_capacity is None))
        ]
        entry = self.nodes[node]
        claimed = total((claim.held_amount for claim in self.freed_claims(node)), self.resources)
        reserved = total((self._uncovered_amount(move) for move in self.arriving_migrations(node)), self.resources)
        return total(binding, self.resources).minimum(
            (entry.total - entry.reserved - claimed - reserved).positive_part()
        )

    def _rank(self, uid: str) -> tuple[int, float, str]:
        pod, waiter = self.pod(uid), self.waiters.get(uid)
        return (-pod.priority if pod else 0, waiter.since if waiter else math.inf, uid)


def _whole_units(amount: int, unit: int) -> int:
    return -(-amount // (unit or 1)) * (unit or 1)


def _deferred_increase(pod: Pod) -> Amounts:
    """Return the deferred increase of a Pod, as counted on its node."""
    return (pod.counted_amount(pod.reserved) - pod.counted_amount(pod.used)).positive_part()


def _is_own_target(move: Move, uid: str) -> bool:
    return move.target is not None and move.target.uid == uid
