"""Explain an unmet request: its reason, the migrations for it, and changes that would help.

The module returns values. A question changes nothing: the answers about plans come from the same planning functions,
and their results are dropped (B39, B41, C10).
"""

from __future__ import annotations

from dataclasses import dataclass

from situate.vm.explain.would_help import HelpfulChange, helpful_changes
from situate.vm.ledger.grants.wait_queue import pod_with_free_capacity, waiters_in_order
from situate.vm.model.events import ResourcesRequested
from situate.vm.model.migrations import Move, Stage
from situate.vm.model.pods_and_nodes import Node, Pod, Ref
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState
from situate.vm.planning.plan import Plan
from situate.vm.planning.plan_for_pod import plan
from situate.vm.planning.rules.concurrency import is_ongoing
from situate.vm.planning.rules.migration_cost import copying_s, cost
from situate.vm.planning.targets import Fits, accept_any_node
from situate.vm.protocol.permit import PermitReason, decide_permit


@dataclass(frozen=True, slots=True)
class ExplainedMigration:
    """A migration for the Pod, or of its own VM."""

    move: Move
    cost: float
    """Cost in seconds-equivalents (B17), without the surplus."""
    remaining_s: float
    """Remaining copying time in seconds, if nothing delays it."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one Pod on its node."""

    pod: Pod
    node: Node
    reason: PermitReason
    free: Amounts
    """The missing amount that is free and not granted yet by the leader, before overcommit."""
    queue: tuple[Ref, ...]
    """The waiters on the node, first served first (B31)."""
    incoming: Amounts
    """Amount reserved for VMs that migrate to the node."""
    moves: tuple[ExplainedMigration, ...]
    """Migrations in progress or planned. If there are none, the first migrations of `plan`."""
    plan: Plan
    """The plan that would be made now, with all evaluated ways."""
    would_help: tuple[HelpfulChange, ...]
    eta: float | None
    """When the migrations have freed the capacity, in seconds of the epoch, if nothing delays them.

    None: there are no migrations.
    """

    @property
    def short_by(self) -> Amounts:
        """The missing amount, before overcommit."""
        return (self.pod.limited_request - self.pod.reserved).positive_part()

    @property
    def position(self) -> int | None:
        """Position in the queue, from 1. None: it does not wait."""
        return self.queue.index(self.pod.ref) + 1 if self.pod.ref in self.queue else None


def build_explanation(
    state: LedgerState, uid: str, now: float, rules: Rules, fits: Fits = accept_any_node
) -> Explanation | None:
    """Return the explanation of a Pod. None: no Pod of this UID is on a known node."""
    pod = state.pod(uid)
    if pod is None:
        return None
    told = decide_permit(state, ResourcesRequested(uid, pod.factor, pod.requested, None), rules)
    assert told is not None, "the node of the Pod is known"
    node = state.nodes[state.where[uid]]
    planned = plan(state, uid, now, rules, fits)
    moves = _migrations_for(state, pod) or planned.moves
    moving = tuple(each for move in moves if (each := _explained_migration(state, move, now, rules)))
    waits = [each for each in moving if each.move.stage is Stage.PLANNED]
    begun = [each for each in moving if each.move.stage is not Stage.PLANNED]
    left = max((each.remaining_s for each in begun), default=0.0) + sum(each.remaining_s for each in waits)
    return Explanation(
        pod,
        node,
        told.reason,
        Amounts.zero(len(pod.reserved))
        if pod.frozen
        else pod_with_free_capacity(state, node.name, pod).reserved - pod.reserved,
        tuple(node.pods[each].ref for each in waiters_in_order(state, node.name)),
        state.incoming_amount(node.name, uid),
        moving,
        planned,
        helpful_changes(state, uid, now, rules, fits),
        now + left if moving else None,
    )


def _migrations_for(state: LedgerState, pod: Pod) -> tuple[Move, ...]:
    """Return the migrations for the Pod, including chain links, and its own.

    They are found by the plans that have claims for the Pod.
    """
    plans = {claim.plan for claim in state.claims.values() if claim.beneficiary.ref.uid == pod.uid}
    moves = (move for move in state.moves.values() if is_ongoing(move))
    return tuple(move for move in moves if move.plan in plans or move.source.uid == pod.uid)


def _explained_migration(state: LedgerState, move: Move, now: float, rules: Rules) -> ExplainedMigration | None:
    pod = state.pod(move.source.uid)
    if pod is None or pod.machine is None:
        return None
    progress = move.progress
    share = 1.0 if progress is None or not progress.total else progress.remaining / progress.total
    return ExplainedMigration(move, cost(pod, pod.machine, 0.0, now, rules), share * copying_s(pod, pod.machine, rules))
