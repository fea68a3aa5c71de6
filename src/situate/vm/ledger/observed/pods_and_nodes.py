"""Apply observed Nodes and Pods to the ledger.

The reserved amount is never below the amount in use. A write that does not show yet counts with the larger of both
amounts (C25, C27, D16, D19, I2).
"""

from __future__ import annotations

from dataclasses import replace

from situate.vm.ledger.grants import pod_resize, resource_requests, wait_queue
from situate.vm.ledger.migrations import claims
from situate.vm.ledger.migrations.completion import end_migrations_of
from situate.vm.ledger.observed.migrations import (
    handle_arrival,
    handle_node_removal,
    source_of,
    update_target_reservation,
)
from situate.vm.ledger.observed.write_results import resize_outdated_runner, update_kubelet_condition
from situate.vm.ledger.transaction import Draft
from situate.vm.model.events import NodeObserved, NodeRemoved, PodObserved, PodRemoved, PodReserved, PodUnreserved
from situate.vm.model.node_accounting import with_observed
from situate.vm.model.pods_and_nodes import Machine, Node, Pod, Role
from situate.vm.model.state import PendingWrite


def record_node(draft: Draft, event: NodeObserved) -> None:
    former = draft.state.nodes.get(event.node.name)
    if former is not None:
        draft.put_node(with_observed(former, event.node))
        if (former.total, former.static) != (event.node.total, event.node.static):
            pod_resize.reconsider_node(draft, draft.state.nodes[event.node.name])
    else:
        _add_node(draft, event.node)
    draft.mark_changed(event.node.name)


def _add_node(draft: Draft, node: Node) -> None:
    """Add a node, with the Pods that were seen on it while it did not exist."""
    draft.put_node(_node_without_pods(node))
    for uid, pod in list(draft.state.apart.items()):
        if draft.state.where.get(uid) == node.name:
            draft.reserve(pod, node.name)
            wait_queue.update_waiter(draft, pod)
    pod_resize.reconsider_node(draft, draft.state.nodes[node.name])


def _node_without_pods(node: Node) -> Node:
    nothing = node.total - node.total
    return replace(node, reserved=nothing, committed=nothing, migrating=nothing, pods={})


def remove_node(draft: Draft, event: NodeRemoved) -> None:
    """Remove a node. Its Pods are stored separately until they are gone or the node returns.

    With `compat`, Pods that were only reserved on it are dropped. Otherwise they stay: the node may return before their
    binding shows.
    """
    node = draft.state.nodes.get(event.name)
    if node is None:
        return
    draft.drop_node(event.name)
    draft.drop_planning_time(event.name)
    for pod in node.pods.values():
        draft.release(pod.uid)
        if not (pod.tentative and draft.rules.compat):
            draft.reserve(pod, event.name)
        draft.drop_waiter(pod.uid)
    handle_node_removal(draft, event.name)


def record_pod(draft: Draft, event: PodObserved) -> None:
    former = draft.known_pod(event.pod.uid)
    if former is not None and _role(former) is Role.TARGET and _role(event.pod) is not Role.TARGET:
        handle_arrival(draft, former)
    pod = _merged_pod(draft, former, event.pod, event.node)
    if pod.machine is None:
        pod = pod_resize.decide_resize(draft, former, event.pod, pod, event.node)
    _reserve(draft, pod, event.node)
    if former is not None and former.used.exceeds(pod.used):
        resource_requests.release_unused(draft, pod)
    if not draft.state.started:
        return
    if former is None or former.frozen or former.reserved != pod.reserved:
        resize_outdated_runner(draft, pod)
    update_kubelet_condition(draft, former, pod)


def record_reservation(draft: Draft, event: PodReserved) -> None:
    """Record a reserved Pod. A repetition changes nothing, and a bound Pod stays as it is."""
    former = draft.state.pod(event.pod.uid)
    if (former is not None and not former.tentative) or event.node not in draft.state.nodes:
        return
    _reserve(draft, replace(_merged_pod(draft, None, event.pod, event.node), tentative=True), event.node)


def undo_reservation(draft: Draft, event: PodUnreserved) -> None:
    """Undo exactly the reservation, if the Pod is not seen as bound."""
    pod = draft.known_pod(event.uid)
    if pod is not None and pod.tentative:
        _remove_pod_entries(draft, event.uid)


def remove_pod(draft: Draft, event: PodRemoved) -> None:
    _remove_pod_entries(draft, event.uid)


def _remove_pod_entries(draft: Draft, uid: str) -> None:
    node = draft.state.where.get(uid, "")
    pod = draft.release(uid)
    draft.forget(uid)
    if pod is None:
        return
    update_target_reservation(draft, pod, "")
    claims.mark_freed(draft, uid, pod.counted_amount(pod.reserved))
    end_migrations_of(draft, uid)
    for claim in claims.claims_of_beneficiary(draft.state, uid):
        draft.mark_changed(claim.node)
    draft.mark_changed(node)


def _reserve(draft: Draft, pod: Pod, node: str) -> None:
    former = draft.state.where.get(pod.uid)
    draft.reserve(pod, node)
    update_target_reservation(draft, pod, node)
    wait_queue.update_waiter(draft, pod)
    if former is not None and former != node:
        draft.mark_changed(former)
    draft.mark_changed(node)


def _merged_pod(draft: Draft, former: Pod | None, seen: Pod, node: str) -> Pod:
    """Return the observed Pod with the facts that only the ledger has."""
    write = draft.state.writes.get(seen.uid)
    if draft.rules.compat:
        return replace(seen, tentative=False)
    source = source_of(draft.state, seen)
    if source is not None:
        # it will hold the amount that is reserved for the VM now, even if no write has reached the copy
        seen = replace(seen, reserved=seen.reserved.maximum(source.reserved))
        seen = replace(seen, machine=_with_load(source, seen))
    if former is None:
        return replace(seen, reserved=seen.reserved.maximum(seen.used), tentative=False)
    seen = _with_history(former, seen)
    if write is None:
        booked = seen.reserved
    elif _shows_write(seen, write) and write.landed:
        draft.drop_write(seen.uid)
        booked = write.amount
    elif _shows_write(seen, write):
        draft.put_write(seen.uid, replace(write, matched=True, shown=None))
        booked = former.reserved.maximum(write.amount)
    else:
        # either a later request does not show yet, or another client wrote; a repetition of the write settles it
        booked = write.amount if write.landed else former.reserved.maximum(seen.reserved).maximum(write.amount)
        # a migrating Pod does not change (I14), and no decision is made while the node does not exist (D19)
        if write.refused and not seen.frozen and node in draft.state.nodes:
            draft.drop_write(seen.uid)
            draft.approve(seen.uid, write.amount)
        else:
            draft.put_write(seen.uid, replace(write, shown=(seen.requested, seen.factor), matched=False))
            if seen.resize is None and former.resize is None:  # resize requests are on the Pod: never outdated
                seen = replace(seen, requested=former.requested, factor=former.factor)
    lowering = draft.state.accounts.get(seen.uid)
    if (former.frozen and seen.frozen) or (lowering is not None and lowering.lowers_to is not None):
        booked = booked.maximum(former.reserved)
    return replace(seen, reserved=booked.maximum(seen.used), tentative=False)


def _role(pod: Pod) -> Role:
    return Role.IDLE if pod.machine is None else pod.machine.role


def _shows_write(seen: Pod, write: PendingWrite) -> bool:
    if seen.machine is None:
        return seen.reserved == write.amount
    return seen.approved and (seen.reserved, seen.requested, seen.factor) == (
        write.amount,
        write.requested,
        write.unit,
    )


def _with_history(former: Pod, seen: Pod) -> Pod:
    """Return the observed Pod with its known migration times and load.

    Its annotation may not show the migration times yet (B25), and only its agent reports the load (B17).
    """
    machine = _with_load(former, seen)
    if former.machine is None or machine is None:
        return seen
    moved = tuple(sorted({*former.machine.moved_at, *machine.moved_at}))
    return replace(seen, machine=replace(machine, moved_at=moved))


def _with_load(former: Pod, seen: Pod) -> Machine | None:
    if former.machine is None or seen.machine is None or former.machine.load is seen.machine.load:
        return seen.machine
    return replace(seen.machine, load=seen.machine.load.with_missing_from(former.machine.load))
