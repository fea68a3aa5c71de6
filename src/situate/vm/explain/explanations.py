"""Why a pod does not have what it wants, what is done about it, and what would help: values, to be shown (B39).

Nothing changes by asking: what is said of plans is what the same functions answer, and is dropped (B41, C10).
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
    """A move for the pod, or the pod's own."""

    move: Move
    cost: float
    """Seconds-equivalents (B17), of nobody's surplus."""
    left_s: float
    """Until its copying is over, if nothing keeps it."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Of one pod on one node."""

    pod: Pod
    node: Node
    reason: Reason
    free: Amounts
    """Of what it is short of, what there is room for, and whoever leads has yet to grant it; before overcommit."""
    queue: tuple[Ref, ...]
    """Who waits on the node, the one to be served first ahead (B31)."""
    incoming: Amounts
    """Reserved for machines that come to the node."""
    moves: tuple[Moving, ...]
    """Under way or planned; where there are none, what `plan` would begin with."""
    plan: Plan
    """What would be planned now, with all ways that were looked at."""
    would_help: tuple[Change, ...]
    eta: float | None
    """When the moves have made the room, seconds of the epoch, if nothing keeps them; None: nothing is on its way."""

    @property
    def short_by(self) -> Amounts:
        """Before overcommit."""
        return (self.pod.wish - self.pod.reserved).positive()

    @property
    def position(self) -> int | None:
        """In the queue, from 1; None: it does not wait."""
        return self.queue.index(self.pod.ref) + 1 if self.pod.ref in self.queue else None


def explanation(state: State, uid: str, now: float, rules: Rules, fits: Fits = anywhere) -> Explanation | None:
    """None: no pod of this uid is on a node that is known."""
    pod = state.pod(uid)
    if pod is None:
        return None
    told = answer(state, Asked(uid, pod.factor, pod.requested, None), rules)
    assert told is not None, "its node is known"
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
    """Those of the plans that somebody's claims name for it, links of chains among them; and its own."""
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
