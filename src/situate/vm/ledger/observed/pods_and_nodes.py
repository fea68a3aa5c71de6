"""Apply observed Nodes and Pods to the ledger.

The reserved amount is never below the amount in use. A write that does not show yet counts with the larger of both
amounts (C25, C27, D16, D19, I2).
"""

from __future__ import annotations

from dataclasses import replace

from situate.vm.ledger.grants import pod_resize, resource_requests, wait_queue
from situate.vm.ledger.migrations import claims
from situate.vm.ledger.migrations.completion import left
from situate.vm.ledger.observed.migrations import arrived, follow_target, lose_node, source_of
from situate.vm.ledger.observed.write_results import catch_up, judged_by_kubelet
from situate.vm.ledger.transaction import Draft
from situate.vm.model.events import NodeGone, NodeSeen, PodGone, PodReserved, PodSeen, PodUnreserved
from situate.vm.model.node_accounting import with_seen
from situate.vm.model.pods_and_nodes import Machine, Node, Pod, Role
from situate.vm.model.state import Unseen


def node_seen(draft: Draft, event: NodeSeen) -> None:
    former = draft.state.nodes.get(event.node.name)
    if former is not None:
        draft.put_node(with_seen(former, event.node))
        if (former.total, former.static) != (event.node.total, event.node.static):
            pod_resize.node_changed(draft, draft.state.nodes[event.node.name])
    else:
        _returned(draft, event.node)
    draft.stir(event.node.name)


def _returned(draft: Draft, node: Node) -> None:
    """Add a node, with the Pods that were seen on it while it did not exist."""
    draft.put_node(_empty(node))
    for uid, pod in list(draft.state.apart.items()):
        if draft.state.where.get(uid) == node.name:
            draft.book(pod, node.name)
            wait_queue.note(draft, pod)
    pod_resize.node_changed(draft, draft.state.nodes[node.name])


def _empty(node: Node) -> Node:
    nothing = node.total - node.total
    return replace(node, reserved=nothing, committed=nothing, migrating=nothing, pods={})


def node_gone(draft: Draft, event: NodeGone) -> None:
    """Remove a node. Its Pods are stored separately until they are gone or the node returns.

    With `compat`, Pods that were only reserved on it are dropped. Otherwise they stay: the node may return before their
    binding shows.
    """
    node = draft.state.nodes.get(event.name)
    if node is None:
        return
    draft.drop_node(event.name)
    draft.drop_look(event.name)
    for pod in node.pods.values():
        draft.unbook(pod.uid)
        if not (pod.tentative and draft.rules.compat):
            draft.book(pod, event.name)
        draft.drop_waiter(pod.uid)
    lose_node(draft, event.name)


def pod_seen(draft: Draft, event: PodSeen) -> None:
    former = draft.known(event.pod.uid)
    if former is not None and _role(former) is Role.TARGET and _role(event.pod) is not Role.TARGET:
        arrived(draft, former)
    pod = _counted(draft, former, event.pod, event.node)
    if pod.machine is None:
        pod = pod_resize.judged(draft, former, event.pod, pod, event.node)
    _book(draft, pod, event.node)
    if former is not None and former.used.exceeds(pod.used):
        resource_requests.give_back(draft, pod)
    if not draft.state.started:
        return
    if former is None or former.frozen or former.reserved != pod.reserved:
        catch_up(draft, pod)
    judged_by_kubelet(draft, former, pod)


def pod_reserved(draft: Draft, event: PodReserved) -> None:
    """Record a reserved Pod. A repetition changes nothing, and a bound Pod stays as it is."""
    former = draft.state.pod(event.pod.uid)
    if (former is not None and not former.tentative) or event.node not in draft.state.nodes:
        return
    _book(draft, replace(_counted(draft, None, event.pod, event.node), tentative=True), event.node)


def pod_unreserved(draft: Draft, event: PodUnreserved) -> None:
    """Undo exactly the reservation, if the Pod is not seen as bound."""
    pod = draft.known(event.uid)
    if pod is not None and pod.tentative:
        _lost(draft, event.uid)


def pod_gone(draft: Draft, event: PodGone) -> None:
    _lost(draft, event.uid)


def _lost(draft: Draft, uid: str) -> None:
    node = draft.state.where.get(uid, "")
    pod = draft.unbook(uid)
    draft.forget(uid)
    if pod is None:
        return
    follow_target(draft, pod, "")
    claims.freed(draft, uid, pod.counted(pod.reserved))
    left(draft, uid)
    for claim in claims.of_beneficiary(draft.state, uid):
        draft.stir(claim.node)
    draft.stir(node)


def _book(draft: Draft, pod: Pod, node: str) -> None:
    former = draft.state.where.get(pod.uid)
    draft.book(pod, node)
    follow_target(draft, pod, node)
    wait_queue.note(draft, pod)
    if former is not None and former != node:
        draft.stir(former)
    draft.stir(node)


def _counted(draft: Draft, former: Pod | None, seen: Pod, node: str) -> Pod:
    """Return the observed Pod with the facts that only the ledger has."""
    write = draft.state.writes.get(seen.uid)
    if draft.rules.compat:
        return replace(seen, tentative=False)
    source = source_of(draft.state, seen)
    if source is not None:
        # it will hold the amount that is reserved for the VM now, even if no write has reached the copy
        seen = replace(seen, reserved=seen.reserved.most(source.reserved))
        seen = replace(seen, machine=_with_load(source, seen))
    if former is None:
        return replace(seen, reserved=seen.reserved.most(seen.used), tentative=False)
    seen = _with_history(former, seen)
    if write is None:
        booked = seen.reserved
    elif _shows(seen, write) and write.landed:
        draft.drop_write(seen.uid)
        booked = write.amount
    elif _shows(seen, write):
        draft.put_write(seen.uid, replace(write, matched=True, shown=None))
        booked = former.reserved.most(write.amount)
    else:
        # either a later request does not show yet, or another client wrote; a repetition of the write settles it
        booked = write.amount if write.landed else former.reserved.most(seen.reserved).most(write.amount)
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
        booked = booked.most(former.reserved)
    return replace(seen, reserved=booked.most(seen.used), tentative=False)


def _role(pod: Pod) -> Role:
    return Role.IDLE if pod.machine is None else pod.machine.role


def _shows(seen: Pod, write: Unseen) -> bool:
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
    return replace(seen.machine, load=seen.machine.load.beside(former.machine.load))
