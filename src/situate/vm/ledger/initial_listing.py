"""Handle the end of the first listing: from now on the ledger grants capacity.

Claims and migrations come from the migration objects (C30, B43). A Pod or VM itself records the claims that it used
(B9).
"""

from __future__ import annotations

from dataclasses import replace

from situate.vm.ledger.grants import pod_resize, wait_queue
from situate.vm.ledger.migrations import retarget
from situate.vm.ledger.migrations.completion import close_claim
from situate.vm.ledger.neon_compat import step
from situate.vm.ledger.observed.migration_from_event import ref_with_uid
from situate.vm.ledger.observed.migrations import check_adopted_claim, finish_migration, update_target_reservation
from situate.vm.ledger.observed.write_results import resize_outdated_runner, update_kubelet_condition
from situate.vm.ledger.transaction import Draft
from situate.vm.model.migrations import ClaimOutcome, Stage
from situate.vm.model.pods_and_nodes import Role


def start_granting(draft: Draft) -> None:
    """Start to grant, after all listed objects are recorded. A second call changes nothing."""
    if draft.state.started:
        return
    draft.state = replace(draft.state, started=True)
    for move in list(draft.state.moves.values()):
        source = move.source if move.source.uid else ref_with_uid(draft.state, move.source)
        pod = draft.state.pod(source.uid)
        amount = move.amount if pod is None else move.amount.maximum(pod.counted_amount(pod.reserved))
        source_node = move.source_node or draft.state.where.get(source.uid, "")
        draft.put_move(replace(move, source=source, amount=amount, source_node=source_node))
    for node in list(draft.state.nodes.values()):
        for pod in node.pods.values():
            if pod.machine is not None and pod.machine.role is Role.TARGET:
                update_target_reservation(draft, pod, node.name)
            wait_queue.update_waiter(draft, pod)
            wait_queue.restore_needs_node(draft, pod)
            resize_outdated_runner(draft, pod)
            update_kubelet_condition(draft, None, pod)
            if draft.rules.compat:
                step.evaluate_pod(draft, pod.uid)
        # decisions on resize requests during the listing produced no writes
        pod_resize.reconsider_node(draft, draft.state.nodes[node.name])
        draft.mark_changed(node.name)
    for claim in list(draft.state.claims.values()):
        if claim.node not in draft.state.nodes:
            close_claim(draft, claim, ClaimOutcome.WITHDRAWN)
        else:
            check_adopted_claim(draft, claim)
    for move in list(draft.state.moves.values()):
        if move.stage in (Stage.DONE, Stage.FAILED):
            finish_migration(draft, move)
        elif move.target_node not in draft.state.nodes:
            retarget.refuse_target(draft, move, f"node {move.target_node} is gone")
