"""Explain an unmet request: its reason, the migrations for it, and changes that would help.

The module returns values. A question changes nothing: the answers about plans come from the same planning functions,
and their results are dropped (B39, B41, C10).
"""

from __future__ import annotations

from dataclasses import dataclass

from situate.vm.explain.would_help import Change, would_help
from situate.vm.ledger.grants.wait_queue import in_order, with_what_is_free
from situate.vm.model.events import Asked
from situate.vm.model.migrations import Move, Stage
from situate.vm.model.pods_and_nodes import Node, Pod, Ref
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import State
from situate.vm.planning.plan import Plan
from situate.vm.planning.plan_for_pod import plan
from situate.vm.planning.rules.concurrency import under_way
from situate.vm.planning.rules.migration_cost import copying_s, cost
from situate.vm.planning.targets import Fits, anywhere
from situate.vm.protocol.permit import Reason, answer


@dataclass(frozen=True, slots=True)
class Moving:
    """A migration for the Pod, or of its own VM."""

    move: Move
    cost: float
    """Cost in seconds-equivalents (B17), without the surplus."""
    left_s: float
    """Remaining copying time in seconds, if nothing delays it."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The explanation of one Pod on its node."""

    pod: Pod
    node: Node
    reason: Reason
    free: Amounts
    """The missing amount that is free and not granted yet by the leader, before overcommit."""
    queue: tuple[Ref, ...]
    """The waiters on the node, first served first (B31)."""
    incoming: Amounts
    """Amount reserved for VMs that migrate to the node."""
    moves: tuple[Moving, ...]
    """Migrations in progress or planned. If there are none, the first migrations of `plan`."""
    plan: Plan
    """The plan that would be made now, with all evaluated ways."""
    would_help: tuple[Change, ...]
    eta: float | None
    """When the migrations have freed the capacity, in seconds of the epoch, if nothing delays them.

    None: there are no migrations.
    """

    @property
    def short_by(self) -> Amounts:
        """The missing amount, before overcommit."""
        return (self.pod.wish - self.pod.reserved).positive()

    @property
    def position(self) -> int | None:
        """Position in the queue, from 1. None: it does not wait."""
        return self.queue.index(self.pod.ref) + 1 if self.pod.ref in self.queue else None


def explanation(state: State, uid: str, now: float, rules: Rules, fits: Fits = anywhere) -> Explanation | None:
    """Return the explanation of a Pod. None: no Pod of this UID is on a known node."""
    pod = state.pod(uid)
    if pod is None:
        return None
    told = answer(state, Asked(uid, pod.factor, pod.requested, None), rules)
    assert told is not None, "the node of the Pod is known"
    node = state.nodes[state.where[uid]]
    planned = plan(state, uid, now, rules, fits)
    moves = _moves_for(state, pod) or planned.moves
    moving = tuple(each for move in moves if (each := _moving(state, move, now, rules)))
    waits = [each for each in moving if each.move.stage is Stage.PLANNED]
    begun = [each for each in moving if each.move.stage is not Stage.PLANNED]
    left = max((each.left_s for each in begun), default=0.0) + sum(each.left_s for each in waits)
    return Explanation(
        pod,
        node,
        told.reason,
        Amounts.zero(len(pod.reserved))
        if pod.frozen
        else with_what_is_free(state, node.name, pod).reserved - pod.reserved,
        tuple(node.pods[each].ref for each in in_order(state, node.name)),
        state.incoming(node.name, uid),
        moving,
        planned,
        would_help(state, uid, now, rules, fits),
        now + left if moving else None,
    )


def _moves_for(state: State, pod: Pod) -> tuple[Move, ...]:
    """Return the migrations for the Pod, including chain links, and its own.

    They are found by the plans that have claims for the Pod.
    """
    plans = {claim.plan for claim in state.claims.values() if claim.beneficiary.ref.uid == pod.uid}
    moves = (move for move in state.moves.values() if under_way(move))
    return tuple(move for move in moves if move.plan in plans or move.source.uid == pod.uid)


def _moving(state: State, move: Move, now: float, rules: Rules) -> Moving | None:
    pod = state.pod(move.source.uid)
    if pod is None or pod.machine is None:
        return None
    progress = move.progress
    share = 1.0 if progress is None or not progress.total else progress.remaining / progress.total
    return Moving(move, cost(pod, pod.machine, 0.0, now, rules), share * copying_s(pod, pod.machine, rules))
