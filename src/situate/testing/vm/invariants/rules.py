"""Invariants of the ledger after every step, in any order of events (docs/spec/vm.md): I1 to I14.

Each function yields the breaches that it finds. Facts that the scheduler cannot refuse, such as a pod that another
scheduler bound, excuse exactly their amount above a node's Total, and nothing else (I1, B8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

from situate.vm.api.eviction_request import must_leave
from situate.vm.model.actions import Approve, Notify, Retarget, StartMove
from situate.vm.model.decision import Decision
from situate.vm.model.events import (
    Event,
    InitialListCompleted,
    MigrationObserved,
    NodeObserved,
    PodObserved,
    PodReserved,
    WriteResult,
)
from situate.vm.model.migrations import BeneficiaryKind, ClaimState
from situate.vm.model.pods_and_nodes import Pod, Role
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts, total
from situate.vm.model.state import LedgerState


@dataclass(frozen=True, slots=True)
class LedgerStep:
    """One step, as the checks see it."""

    before: LedgerState
    event: Event
    decision: Decision
    now: float
    rules: Rules

    @property
    def after(self) -> LedgerState:
        return self.decision.state


def broken_invariants(stepped: LedgerStep) -> Iterator[str]:
    if not stepped.after.started:
        return
    yield from nodes_over_total(stepped)
    yield from growth_into_reserved_capacity(stepped)
    yield from unbacked_claims(stepped)
    yield from bad_approvals(stepped)
    yield from bad_moves(stepped)
    yield from bad_targets(stepped)
    yield from targets_on_source(stepped)
    yield from frozen_pod_changes(stepped)


def nodes_over_total(stepped: LedgerStep) -> Iterator[str]:
    """Check I1: no decision puts a node over its Total, or further over it."""
    if not stepped.before.started or isinstance(stepped.event, NodeObserved):
        return
    for name, node in stepped.after.nodes.items():
        former = stepped.before.nodes.get(name)
        if former is None or not node.reserved.exceeds(node.total):
            continue
        grown = (node.reserved - node.total).positive_part()
        allowed = (former.reserved - former.total).positive_part() + _observed_growth(stepped, name)
        if grown.exceeds(allowed):
            yield f"I1: node {name} is over its total by {grown.values}, and no other process caused that"


def _observed_growth(stepped: LedgerStep, node: str) -> Amounts:
    """Return the growth of a pod's reserved amount that comes from its observation or its placement."""
    nothing = Amounts.zero(stepped.after.resources)
    if not isinstance(stepped.event, PodObserved | PodReserved) or stepped.event.node != node:
        return nothing
    uid = stepped.event.pod.uid
    after, before = stepped.after.pod(uid), stepped.before.pod(uid)
    shown = stepped.event.pod.reserved.maximum(stepped.event.pod.used).maximum(
        _transferred_amount(stepped, stepped.event.pod, node)
    )
    if after is None:
        return nothing
    known = nothing if before is None else before.counted_amount(before.reserved)
    return (after.counted_amount(shown.minimum(after.reserved)) - known).positive_part()


def _transferred_amount(stepped: LedgerStep, seen: Pod, node: str) -> Amounts:
    """Return the amount reserved elsewhere for a VM whose pod appears here without a migration of ours to this node."""
    nothing, machine = Amounts.zero(stepped.after.resources), seen.machine
    if machine is None:
        return nothing
    move = stepped.before.move_of(machine.ref)
    if move is not None and not move.foreign and move.target_node == node:
        return nothing
    others = (each for entry in stepped.before.nodes.values() for each in entry.pods.values())
    here = [each.reserved for each in others if each.machine is not None and each.machine.ref == machine.ref]
    return reduce(Amounts.maximum, here, nothing)


def growth_into_reserved_capacity(stepped: LedgerStep) -> Iterator[str]:
    """Check I4: growth by our decision leaves all amounts held for others or on their way free."""
    seen = stepped.event.pod.uid if isinstance(stepped.event, PodObserved | PodReserved) else ""
    for before, after, name in _changed_pods(stepped):
        uid = after.uid
        if uid == seen or after.reserved.fits_within(before.reserved):
            continue
        node = stepped.after.nodes[name]
        kept = stepped.after.held_for_others(name, uid) + stepped.after.incoming_amount(name, uid)
        grown = _grown_resources(before, after)
        for resource in grown:
            if node.reserved[resource] + kept[resource] > node.total[resource]:
                yield f"I4: {uid} grew on node {name} into capacity of others: {node.reserved} reserved and {kept} held"


def _changed_pods(stepped: LedgerStep) -> Iterator[tuple[Pod, Pod, str]]:
    """Yield the pods that were known before and differ now, with their nodes."""
    for name, node in stepped.after.nodes.items():
        if node is stepped.before.nodes.get(name):
            continue
        for uid, pod in node.pods.items():
            before = stepped.before.pod(uid)
            if before is not None and before is not pod:
                yield before, pod, name


def _grown_resources(before: Pod, after: Pod) -> list[int]:
    return [index for index, value in enumerate(after.reserved) if value > before.reserved[index]]


def unbacked_claims(stepped: LedgerStep) -> Iterator[str]:
    """Check I3: one migration backs each claim, until its source is gone."""
    state = stepped.after
    for claim in state.claims.values():
        backing = [move for move in state.moves.values() if move.claim == claim.id]
        if len(backing) > 1:
            yield f"I3: {len(backing)} moves for claim {claim.id}"
        if not backing and claim.state is not ClaimState.FREED:
            yield f"I3: no move for claim {claim.id}"
        if claim.state is ClaimState.FREED and claim.source_uid in state.where:
            yield f"B3: claim {claim.id} is freed, but its source is still there"
        if claim.node not in state.nodes:
            yield f"B7: claim {claim.id} is on node {claim.node}, which does not exist"
        next_move = str(claim.beneficiary.ref)
        dropped = None if next_move in state.moves else stepped.before.moves.get(next_move)
        leads_there = dropped is not None and dropped.target_node == claim.node
        if claim.beneficiary.kind is BeneficiaryKind.TARGET and leads_there:
            yield f"B7: claim {claim.id} is for migration {next_move}, which cannot succeed"
    granted = [action for action in stepped.decision.actions if isinstance(action, Notify) and _is_granted(action)]
    for action in granted:
        if action.fields["claim"] not in stepped.before.claims and not isinstance(
            stepped.event, InitialListCompleted | MigrationObserved
        ):
            yield f"I3: claim {action.fields['claim']} was used, but was not open"


def _is_granted(action: Notify) -> bool:
    return action.reason == "ClaimClosed" and action.fields["outcome"] == "granted"


def bad_approvals(stepped: LedgerStep) -> Iterator[str]:
    """Check I11: no approval exceeds the request and the held amount. Incomplete resources grow by equal units."""
    for action in stepped.decision.actions:
        if not isinstance(action, Approve):
            continue
        before, after = stepped.before.pod(action.pod.uid), stepped.after.pod(action.pod.uid)
        if before is None or after is None:
            continue
        if action.amount.exceeds(action.requested.maximum(before.reserved)):
            yield f"I11: {action.pod} is approved {action.amount.values}, and asks for {action.requested.values}"
        yield from _unbalanced_growth(action, _held_amount(stepped.event, before))


def _held_amount(event: Event, before: Pod) -> Amounts:
    """Return the amount held after this event: after a foreign write of the pod, or after our own decrease."""
    if isinstance(event, PodObserved) and event.pod.uid == before.uid:
        return before.reserved.maximum(event.pod.reserved)
    if isinstance(event, WriteResult) and isinstance(event.action, Approve) and event.action.pod.uid == before.uid:
        return before.reserved.minimum(event.action.amount) if event.outcome == "ok" else before.reserved
    return before.reserved


def _unbalanced_growth(action: Approve, held: Amounts) -> Iterator[str]:
    if held.exceeds(action.amount):
        return  # a decrease is in progress, and any growth comes later
    units = []
    for new, old, wanted, unit in zip(action.amount, held, action.requested, action.unit, strict=True):
        if wanted > old and new < wanted:
            units.append((new - old) // unit)
    complete = [
        -(-(wanted - old) // unit)
        for new, old, wanted, unit in zip(action.amount, held, action.requested, action.unit, strict=True)
        if wanted > old and new >= wanted
    ]
    if len(set(units)) > 1 or (units and complete and min(complete) > max(units)):
        yield f"I11: {action.pod} got {units} units of the amounts that it still lacks, and {complete} of the rest"


def bad_moves(stepped: LedgerStep) -> Iterator[str]:
    """Check I12, I13 and B2: a migration goes to another node, with capacity for it below the watermark."""
    state = stepped.after
    for action in stepped.decision.actions:
        if not isinstance(action, StartMove):
            continue
        move = action.move
        target = state.nodes.get(move.target_node)
        if move.target_node == move.source_node:
            yield f"I12: {move.name} has its source node as target"
        if target is None:
            yield f"I6: {move.name} begins without a target"
            continue
        if stepped.before.moves.get(move.key) is None or stepped.before.moves[move.key].requested_at is None:
            coming = target.reserved + state.incoming_amount(target.name, "")
            if coming.exceeds(target.watermark):
                yield f"I13: {move.name} brings node {target.name} to {coming.values} of {target.watermark.values}"
        if (action.claim is None) != (move.claim not in state.claims):
            yield f"B2: {move.name} begins without its claim"


def bad_targets(stepped: LedgerStep) -> Iterator[str]:
    """Check B14, I4, I12 and I13: the target node changes once, before copying, to one with unreserved capacity."""
    state = stepped.after
    for action in stepped.decision.actions:
        if not isinstance(action, Retarget):
            continue
        key = f"{action.machine.namespace}/{action.name}"
        former, move = stepped.before.moves[key], state.moves.get(key)
        if former.rechosen_at == action.at:
            continue  # a repeated write
        if move is None or move.target_node != action.target_node:
            yield f"B14: {key} gets the target {action.target_node}, but capacity is reserved on another node"
            continue
        if former.choices > 1 or not former.waits_for_its_target:
            yield f"B14: {key} gets another target, but its target is already fixed"
        if move.target_node in (move.source_node, former.target_node):
            yield f"I12: {key} gets the target {move.target_node}, which it leaves or which refused it"
        target = state.nodes[move.target_node]
        coming = target.reserved + state.incoming_amount(target.name, "")
        if coming.exceeds(target.watermark):
            yield f"I13: {key} brings node {target.name} to {coming.values} of {target.watermark.values}"
        if (coming + state.held_for_others(target.name, "")).exceeds(target.total):
            yield f"I4: {key} gets the target node {target.name}, in capacity that is held for others"


def targets_on_source(stepped: LedgerStep) -> Iterator[str]:
    """Check I12: a migration whose target is bound to the node that its VM should leave does not go on (N9)."""
    for key, move in stepped.after.moves.items():
        if move.alive and move.target is not None and stepped.after.where.get(move.target.uid) == move.source_node:
            yield f"I12: the target of {key} is on node {move.source_node}, which it must leave"


def frozen_pod_changes(stepped: LedgerStep) -> Iterator[str]:
    """Check I14: a frozen VM's reserved amount changes only if it is seen to use or hold more."""
    for before, after, _ in _changed_pods(stepped):
        uid = after.uid
        if not _is_leaving(before) or not _is_leaving(after):
            continue
        shown = after.used
        if isinstance(stepped.event, PodObserved) and stepped.event.pod.uid == uid:
            shown = shown.maximum(stepped.event.pod.reserved)
        if after.reserved != before.reserved and after.reserved != before.reserved.maximum(shown):
            yield f"I14: {uid} is frozen, and went from {before.reserved.values} to {after.reserved.values}"
    for action in stepped.decision.actions:
        if isinstance(action, Approve) and _stays_frozen(stepped, action.pod.uid):
            yield f"I14: {action.pod} is frozen, but is approved {action.amount.values}"
    if stepped.after.permits is not stepped.before.permits:
        for uid, permit in stepped.after.permits.items():
            if permit != stepped.before.permits.get(uid) and _stays_frozen(stepped, uid):
                yield f"I14: {uid} is frozen, but is granted {permit.amount.values}"


def _stays_frozen(stepped: LedgerStep, uid: str) -> bool:
    before, after = stepped.before.pod(uid), stepped.after.pod(uid)
    return before is not None and after is not None and _is_leaving(before) and _is_leaving(after)


def _is_leaving(pod: Pod) -> bool:
    return pod.frozen and pod.machine is not None and pod.machine.role is not Role.TARGET


def unjustified_moves(stepped: LedgerStep) -> Iterator[str]:
    """Check I9: without a beneficiary, VMs leave only nodes that exceed the watermark without their ignored pods."""
    before, after = stepped.before, stepped.after
    if not after.started or isinstance(stepped.event, MigrationObserved | InitialListCompleted):
        return  # the decision is older
    for key, move in after.moves.items():
        if key in before.moves or move.foreign or (move.claim and not move.for_node):
            continue
        node, source = after.nodes.get(move.source_node), after.pod(move.source.uid)
        if node is None or source is None or node.draining or source.uid in after.waiters:
            continue
        if must_leave(source, node.name, stepped.now):
            continue  # an eviction was requested (B48)
        pressing = [pod.counted_amount(pod.reserved) for pod in node.pods.values() if not pod.ignored]
        if total(pressing, after.resources).fits_within(node.watermark):
            yield f"I9: {key} leaves node {node.name}, which is not over its watermark by the counted amounts"


def regrant_differences(before: LedgerState, after: LedgerState) -> Iterator[str]:
    """Check I8: if nothing is in progress, a new leader reserves the same amounts as the one before.

    An exception is a pod that its VM has left and that remains: the new leader knows only what the pod shows. The new
    leader may also grant a waiter the capacity of such pods. It may grant capacity that was saved for another waiter,
    which was often overtaken (decision 33).
    """
    booked, were = _pods_by_uid(after), _pods_by_uid(before)
    for uid in dict.fromkeys((*were, *booked)):
        pod, was = booked.get(uid), were.get(uid)
        if pod is None or was is None:
            yield f"I8: {was and was.reserved} was reserved for {uid}, and after a restart {pod and pod.reserved}"
        elif not pod.frozen and was.reserved != pod.reserved and not _was_denied(before, after, was, pod):
            yield f"I8: {was.reserved} was reserved for {uid}, and after a restart {pod.reserved}"


def _was_denied(before: LedgerState, after: LedgerState, was: Pod, pod: Pod) -> bool:
    """Return whether the pod waited for this amount, and was denied it only by saved or left capacity.

    Saved capacity is held for an overtaken waiter. Left capacity is reserved for pods that their VMs have left. No
    claim is open at this point, so all held capacity was saved.
    """
    node = before.where[was.uid]
    kept = before.held_for_others(node, was.uid) + _freed_by_left_pods(before, after, node)
    if (
        not kept
        or was.uid not in before.waiters
        or was.reserved.exceeds(pod.reserved)
        or pod.reserved.exceeds(was.limited_request.maximum(was.reserved))
    ):
        return False
    grown = was.counted_amount(pod.reserved) - was.counted_amount(was.reserved)
    return grown.fits_within((before.margin(node, was.uid) + kept).positive_part())


def _freed_by_left_pods(before: LedgerState, after: LedgerState, node: str) -> Amounts:
    """Return by how much the reserved amounts of left pods fell."""
    left = [(each, after.pod(uid)) for uid, each in before.nodes[node].pods.items() if each.frozen]
    freed = [
        was.counted_amount(was.reserved) - now.counted_amount(now.reserved) for was, now in left if now is not None
    ]
    return total([each.positive_part() for each in freed], before.resources)


def _pods_by_uid(state: LedgerState) -> dict[str, Pod]:
    return {uid: pod for node in state.nodes.values() for uid, pod in node.pods.items()}


def restart_losses(state: LedgerState, uids: Iterable[str], shown: Callable[[str], Pod]) -> Iterator[str]:
    """Check I8: no granted amount is smaller or lost after a restart. A larger one was granted since."""
    for uid in uids:
        pod = state.pod(uid)
        if pod is not None and shown(uid).reserved.maximum(shown(uid).used).exceeds(pod.reserved):
            granted = shown(uid).reserved.values
            yield f"I8: {uid} was granted {granted}, but has reserved {pod.reserved.values} after a restart"


def under_reserved_pods(state: LedgerState, uses: Mapping[str, Amounts]) -> Iterator[str]:
    """Check I2. `uses`: by UID of a VM's runner pod, the amount that the VM uses or may use."""
    for uid, use in uses.items():
        pod = state.pod(uid)
        if pod is not None and use.exceeds(pod.reserved):
            yield f"I2: {uid} may use {use.values}, but {pod.reserved.values} are reserved"
