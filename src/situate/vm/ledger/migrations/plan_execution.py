"""Plan migrations for Pods short longer than `demandAfter`, and for nodes over their watermark or draining.

The planner (`situate.vm.planning`) chooses VMs and targets. This module calls it when something is due, for one Pod and
one node at a time. It turns the plans into migrations and claims of the ledger (B1, B16, B24, B26, B46, D6).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from situate.vm.api.eviction_request import must_leave
from situate.vm.api.quantities import format_amount
from situate.vm.api.well_known import NEEDS_NODE
from situate.vm.ledger.grants import wait_queue
from situate.vm.ledger.migrations import claims
from situate.vm.ledger.migrations.completion import fail_claim, relieves
from situate.vm.ledger.transaction import REPEAT_AFTER_S, Draft
from situate.vm.model.actions import Condition, Evict, StartMove
from situate.vm.model.migrations import Beneficiary, BeneficiaryKind, Claim, Move, Stage
from situate.vm.model.pods_and_nodes import Node, Pod, Ref
from situate.vm.model.resource_amounts import Amounts, total
from situate.vm.model.state import LedgerState, Waiter
from situate.vm.planning.drain import has_evacuations
from situate.vm.planning.node_relief import leaving_amount
from situate.vm.planning.plan import Plan

LONGEST_PAUSE_S: Final = 30.0
"""Longest pause between two plans for one waiter."""
NO_REF: Final = Ref("", "")


def make_due_plans(draft: Draft) -> None:
    """Make at most one plan for a Pod and one for a node, so that a decision stays short.

    Another `TimerFired` is then due at once.
    """
    uid = next(_due_pods(draft), None)
    if uid is not None:
        _plan_for(draft, draft.state.waiters[uid])
    node = next(_due_nodes(draft), None)
    if node is not None:
        _plan_for_node(draft, node)


def _due_pods(draft: Draft) -> Iterator[str]:
    """Yield the UIDs of the waiters that are due, by priority and then age."""
    due = [
        (-pod.priority, waiter.since, uid)
        for uid, waiter in draft.state.waiters.items()
        if waiter.next_attempt_at <= draft.now and (pod := draft.state.pod(uid)) is not None
    ]
    return (uid for *_, uid in sorted(due))


def _due_nodes(draft: Draft) -> Iterator[str]:
    due = ((at, node) for node, at in draft.state.looks.items() if at <= draft.now)
    return (node for _, node in sorted(due))


def _plan_for(draft: Draft, waiter: Waiter) -> None:
    # the longer no plan was found, the longer the pause: hundreds may wait, and a plan takes milliseconds
    pause = min(max(draft.rules.retry_s, (draft.now - waiter.since) / 4), LONGEST_PAUSE_S)
    draft.put_waiter(replace(waiter, next_attempt_at=draft.now + pause))
    pod = draft.state.pod(waiter.uid)
    if pod is None or draft.is_migrating(pod):
        return
    plan = draft.planner.plan(draft.state, waiter.uid, draft.now, draft.rules)
    _update_needs_node(draft, pod, plan)
    _execute_plan(draft, plan, pod.ref)


def _update_needs_node(draft: Draft, pod: Pod, plan: Plan) -> None:
    waiter, needs = draft.state.waiters[pod.uid], plan.needs_node is not None
    if needs == waiter.needs_node:
        return
    draft.put_waiter(replace(waiter, needs_node=needs))
    message = ""
    if plan.needs_node is not None:
        pairs = zip(draft.rules.resources, plan.needs_node, strict=True)
        room = " and ".join(f"{format_amount(name, amount)} {name}" for name, amount in pairs if amount)
        message = f"A new node with {room} free would satisfy the request, and no migration does"
        draft.notify(pod.ref, NEEDS_NODE, message, warning=True, room=room)
    draft.add_action(Condition(pod.ref, NEEDS_NODE, needs, "NoMoveHelps" if needs else "NotNeeded", message))


def update_planned_node(draft: Draft, node: Node) -> None:
    """Add or remove the node as one to plan for: VMs have to leave it, or might."""
    emptied = node.draining or draft.rules.consolidate or has_evacuations(draft.state, node.name, draft.now)
    if _stays_over_watermark(draft, node) or (node.pods and emptied):
        if node.name not in draft.state.looks:
            draft.put_planning_time(node.name, draft.now)
    else:
        draft.drop_planning_time(node.name)


def _stays_over_watermark(draft: Draft, node: Node) -> bool:
    """Return whether the node stays over its watermark after all leaving VMs have left."""
    if node.reserved.fits_within(node.watermark):
        return False
    return (node.reserved - leaving_amount(draft.state, node.name)).exceeds(node.watermark)


def _plan_for_node(draft: Draft, name: str) -> None:
    node = draft.state.nodes[name]
    update_planned_node(draft, node)  # the reason for the plan may have lapsed
    if name not in draft.state.looks:
        return
    draft.put_planning_time(name, draft.now + draft.rules.retry_s)
    over = _stays_over_watermark(draft, node) and not node.draining
    leaves_first = not over or has_evacuations(draft.state, name, draft.now)
    plan = (draft.planner.drain if leaves_first else draft.planner.relief)(draft.state, name, draft.now, draft.rules)
    if over and not plan and leaves_first:
        plan = draft.planner.relief(draft.state, name, draft.now, draft.rules)
    _execute_plan(draft, plan)


def _execute_plan(draft: Draft, plan: Plan, whom: Ref = NO_REF) -> None:
    """Carry out a plan completely or not at all. It waits while an object of the same name still exists.

    `whom` is the Pod that is short. Pods are evicted for no other reason.
    """
    if any(move.key in draft.state.moves for move in plan.moves):
        return
    before = draft.state
    for claim in plan.claims:
        draft.put_claim(claim)
    nodes = {claim.node for claim in plan.claims if claim.beneficiary.kind is not BeneficiaryKind.TARGET}
    if any(min(claims.capacity_after_departures(draft.state, node)) < 0 for node in nodes):
        # others overcommit the node: the beneficiary would not get the freed capacity
        draft.state = before
        return
    for move in plan.moves:
        draft.put_move(_with_first_waiter(draft, move))
    for pod in plan.evictions:
        draft.add_action(Evict(pod, "NoMoveHelps", draft.state.where[pod.uid], whom))
    if plan.moves:
        start_migrations(draft)


def _with_first_waiter(draft: Draft, move: Move) -> Move:
    """Give a migration without a beneficiary to the first waiter on its node that has not enough claims.

    The VM that migrates gets no such claim: its whole request is reserved on its target.
    """
    source, node = draft.state.pod(move.source.uid), draft.state.nodes.get(move.source_node)
    if move.claim or source is None or node is None:
        return move
    room = claims.capacity_after_departures(draft.state, node.name) + source.counted_amount(source.reserved)
    for uid in wait_queue.waiters_in_order(draft.state, node.name):
        if uid == move.source.uid:
            continue
        promised = total(
            (claim.amount for claim in claims.claims_of_beneficiary(draft.state, uid)), draft.state.resources
        )
        amount = (draft.state.need(uid) - promised).positive_part().minimum(source.counted_amount(source.reserved))
        amount = amount.minimum(room.positive_part())
        if amount and not draft.is_migrating(node.pods[uid]):
            claim = _new_claim(move, node.pods[uid], amount, draft)
            draft.put_claim(claim)
            return replace(move, claim=claim.id, for_node=True)
    return move


def _new_claim(move: Move, pod: Pod, amount: Amounts, draft: Draft) -> Claim:
    kind = BeneficiaryKind.POD if pod.machine is None else BeneficiaryKind.VM
    return Claim(
        id=f"{move.plan}-{move.source.uid}",
        plan=move.plan,
        node=move.source_node,
        beneficiary=Beneficiary(kind, pod.ref),
        source_uid=move.source.uid,
        amount=amount,
        deadline=_deadline(draft),
    )


def _deadline(draft: Draft) -> float:
    """Return the deadline of a claim whose migration starts now."""
    return draft.now + draft.rules.deadlines.completion_s + draft.rules.deadlines.claim_s


def start_migrations(draft: Draft) -> None:
    """Start the migrations that the concurrency limits allow, if their plan is still valid."""
    for move in draft.planner.startable_migrations(draft.state, draft.rules):
        if why_not := impossible_reason(draft.state, move):
            draft.drop_move(move.key)
            fail_claim(draft, move)
            draft.notify(
                move.machine,
                "MoveDropped",
                f"The migration to node {move.target_node} was dropped before its start: {why_not}",
            )
            continue
        begun = replace(move, requested_at=draft.now, retry_at=draft.now + REPEAT_AFTER_S)
        draft.put_move(begun)
        claim = draft.state.claims.get(move.claim)
        if claim is not None:
            claim = replace(claim, deadline=_deadline(draft))
            draft.put_claim(claim)
        draft.add_action(StartMove(begun, claim))


def drop_impossible_migrations(draft: Draft, node: str) -> None:
    """Drop waiting migrations from or to the node that are not possible any more.

    Also drop a migration that only relieves the node if its VM requests more meanwhile: the VM may grow, and others
    leave.
    """
    for move in list(draft.state.moves.values()):
        if move.stage is not Stage.PLANNED or move.requested_at is not None:
            continue
        if node not in (move.source_node, move.target_node):
            continue
        if _is_impossible(draft.state, move):
            draft.drop_move(move.key)
            fail_claim(draft, move)
        elif move.source.uid in draft.state.waiters and _only_relieves_node(draft, move):
            draft.drop_move(move.key)


def obsolete_reason(draft: Draft, move: Move) -> str:
    """Return the reason not to request the start of a migration again. Empty: its plan is still valid."""
    if _only_relieves_node(draft, move) and not draft.rules.consolidate and not relieves(draft.state, move):
        return "the source node is not over its watermark any more"
    return impossible_reason(draft.state, move)


def _only_relieves_node(draft: Draft, move: Move) -> bool:
    """Return whether the migration only relieves its node: no claim, no drain or eviction, and no growth of its VM."""
    pod, node = draft.state.pod(move.source.uid), draft.state.nodes.get(move.source_node)
    if move.claim or pod is None or node is None or node.draining or must_leave(pod, node.name, draft.now):
        return False
    return move.amount.fits_within(pod.counted_amount(pod.reserved))


def _is_impossible(state: LedgerState, move: Move) -> bool:
    source, target = state.pod(move.source.uid), state.nodes.get(move.target_node)
    may_move = source is not None and source.machine is not None and source.migratable and not source.migrating
    return not may_move or (bool(move.target_node) and (target is None or not target.schedulable))


def impossible_reason(state: LedgerState, move: Move) -> str:
    """Return the reason that a waiting migration is not possible. Empty: it may start."""
    if _is_impossible(state, move):
        return "the VM must not be migrated any more, or its target node is not schedulable"
    if not move.target_node:
        return ""
    target = state.nodes[move.target_node]
    taken = target.reserved + state.incoming_amount(target.name, "") + state.held_for_others(target.name, "")
    if taken.exceeds(target.total):
        return "the capacity on the target node is taken"
    if (target.reserved + state.incoming_amount(target.name, "")).exceeds(target.watermark):
        return "the target node would be over its watermark"
    return ""
