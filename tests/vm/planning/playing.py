"""What becomes of a plan if all goes well, with a check at every move of what must never be."""

from __future__ import annotations

from dataclasses import replace

from situate.vm.ledger.grants.arithmetic import pod_after_grant
from situate.vm.model.migrations import BeneficiaryKind
from situate.vm.model.node_accounting import with_pod, without_pod
from situate.vm.model.pods_and_nodes import Pod
from situate.vm.model.resource_amounts import Amounts, total
from situate.vm.model.state import LedgerState
from situate.vm.planning.plan import Plan


def played(state: LedgerState, plan: Plan) -> LedgerState:
    """All machines where the plan brings them.

    Each target has room under its watermark when the move begins, with all that came before and without anybody having
    left but those who leave for this very move (B13, B19, I12, I13).
    """
    came: dict[str, Amounts] = {}
    for move in plan.moves:
        assert move.target_node != move.source_node == state.where[move.source.uid]
        node = state.nodes[move.target_node]
        assert node.schedulable
        assert not node.draining
        made = {
            claim.source_uid
            for claim in plan.claims
            if claim.beneficiary.kind is BeneficiaryKind.TARGET and claim.beneficiary.ref.name == move.name
        }
        left = total(pod.counted_amount(pod.reserved) for uid, pod in node.pods.items() if uid in made)
        came[node.name] = came.get(node.name, Amounts.zero()) + move.amount
        booked = node.reserved - left + came[node.name]
        assert booked.fits_within(node.watermark), f"{node.name} would be above its watermark"
        assert booked.fits_within(node.total)
    for move in plan.moves:
        state = moved(state, move.source.uid, move.target_node)
    for pod in plan.evictions:
        state = without(state, pod.uid)
    return state


def moved(state: LedgerState, uid: str, target: str) -> LedgerState:
    pod = state.pod(uid)
    assert pod is not None
    state = without(state, uid)
    nodes = {**state.nodes, target: with_pod(state.nodes[target], pod)}
    return replace(state, nodes=nodes, where={**state.where, uid: target})


def without(state: LedgerState, uid: str) -> LedgerState:
    node = state.nodes[state.where[uid]]
    where = {each: name for each, name in state.where.items() if each != uid}
    return replace(state, nodes={**state.nodes, node.name: without_pod(node, uid)}, where=where)


def granted(state: LedgerState, uid: str) -> Pod:
    """With all that it gets of the room that is free, asked for again until it gets no more (B30)."""
    pod = state.pod(uid)
    assert pod is not None
    node = state.where[uid]
    while True:
        grown = pod_after_grant(pod, state.available(node, uid), joint=True)
        if grown.reserved == pod.reserved:
            return pod
        pod = grown
        state = replace(state, nodes={**state.nodes, node: with_pod(state.nodes[node], pod)})
