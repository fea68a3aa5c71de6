"""Handle the end of the first listing: from now on the ledger grants capacity.

Claims and migrations come from the migration objects (C30, B43). A Pod or VM itself records the claims that it used
(B9).
"""

from __future__ import annotations

from dataclasses import replace

from situate.vm.ledger.grants import pod_resize, wait_queue
from situate.vm.ledger.migrations import retarget
from situate.vm.ledger.migrations.completion import close
from situate.vm.ledger.neon_compat import step
from situate.vm.ledger.observed.migration_from_event import named
from situate.vm.ledger.observed.migrations import check_adopted, finish, follow_target
from situate.vm.ledger.observed.write_results import catch_up, judged_by_kubelet
from situate.vm.ledger.transaction import Draft
from situate.vm.model.migrations import Outcome, Stage
from situate.vm.model.pods_and_nodes import Role


def listed(draft: Draft) -> None:
    """Start to grant, after all listed objects are recorded. A second call changes nothing."""
    if draft.state.started:
        return
    draft.state = replace(draft.state, started=True)
    for move in list(draft.state.moves.values()):
        source = move.source if move.source.uid else named(draft.state, move.source)
        pod = draft.state.pod(source.uid)
        amount = move.amount if pod is None else move.amount.most(pod.counted(pod.reserved))
        source_node = move.source_node or draft.state.where.get(source.uid, "")
        draft.put_move(replace(move, source=source, amount=amount, source_node=source_node))
    for node in list(draft.state.nodes.values()):
        for pod in node.pods.values():
            if pod.machine is not None and pod.machine.role is Role.TARGET:
                follow_target(draft, pod, node.name)
            wait_queue.note(draft, pod)
            wait_queue.recall(draft, pod)
            catch_up(draft, pod)
            judged_by_kubelet(draft, None, pod)
            if draft.rules.compat:
                step.look_at_pod(draft, pod.uid)
        # decisions on resize requests during the listing produced no writes
        pod_resize.node_changed(draft, draft.state.nodes[node.name])
        draft.stir(node.name)
    for claim in list(draft.state.claims.values()):
        if claim.node not in draft.state.nodes:
            close(draft, claim, Outcome.WITHDRAWN)
        else:
            check_adopted(draft, claim)
    for move in list(draft.state.moves.values()):
        if move.stage in (Stage.DONE, Stage.FAILED):
            finish(draft, move)
        elif move.target_node not in draft.state.nodes:
            retarget.refuse(draft, move, f"node {move.target_node} is gone")
