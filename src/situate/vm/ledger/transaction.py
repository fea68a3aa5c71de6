"""The state and actions of one decision while the ledger computes it.

Nothing is decided here. All changes of `situate.vm.ledger.step` go through this class, so each kind of change has one
form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, TypeVar

from situate.vm.ledger.grants import runner_pod_resize
from situate.vm.ledger.migrations.planner import Planner
from situate.vm.model.actions import Action, Approve, Notify, ResizePod
from situate.vm.model.migrations import Claim, Move
from situate.vm.model.node_accounting import with_pod, without_pod
from situate.vm.model.pods_and_nodes import Machine, Node, Pod, Ref
from situate.vm.model.policy import Rules
from situate.vm.model.replace import replace_fields
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import DeniedResize, LedgerState, PendingWrite, Permit, RunnerResize, Waiter

REPEAT_AFTER_S: Final = 30.0
"""How long a requested change may stay unseen before it is requested again: it was lost, or another client wrote."""
K = TypeVar("K")
V = TypeVar("V")


class Draft:
    """The working state of one decision. Mutable, and used by that decision only."""

    def __init__(self, state: LedgerState, now: float, rules: Rules, planner: Planner) -> None:
        self.state, self.now, self.rules, self.planner = state, now, rules, planner
        self.actions: list[Action] = []
        self.changed_nodes: dict[str, None] = {}
        """Changed nodes, in order. Each is run before the decision ends."""
        self.touched_nodes: dict[str, None] = {}
        """All nodes that were ever in `changed_nodes`."""
        self.dropped_targets: dict[str, str] = {}
        """Target nodes of the migrations that the decision dropped, by migration key."""
        self._approvals: dict[str, Amounts] = {}
        self._used_claims: dict[str, list[str]] = {}

    def add_action(self, action: Action) -> None:
        self.actions.append(action)

    def notify(self, about: Ref, reason: str, message: str, *, warning: bool = False, **fields: Any) -> None:
        self.add_action(Notify(self.state.event_subject(about), reason, message, warning, fields))

    def mark_changed(self, node: str) -> None:
        if node in self.state.nodes:
            self.changed_nodes[node] = self.touched_nodes[node] = None

    def mark_ends_changed(self, move: Move) -> None:
        """Mark both nodes of a migration as changed, and all nodes on which its VM waits.

        If another client migrated the VM meanwhile, it may wait on a third node.
        """
        self.mark_changed(move.source_node)
        self.mark_changed(move.target_node)
        for uid in self.state.waiters:
            pod = self.state.pod(uid)
            if pod is not None and pod.machine is not None and move.is_of(pod.machine.ref):
                self.mark_changed(self.state.where[uid])

    def put_node(self, node: Node) -> None:
        self.state = replace_fields(self.state, nodes=_with_entry(self.state.nodes, node.name, node))

    def drop_node(self, name: str) -> None:
        self.state = replace_fields(self.state, nodes=_without_entry(self.state.nodes, name))

    def reserve(self, pod: Pod, node: str) -> None:
        """Reserve the Pod's amount on this node and remove it from any other.

        A Pod on a node that does not exist is stored separately (D19).
        """
        state = self.state
        former = state.where.get(pod.uid)
        if former is not None and former != node:
            self.release(pod.uid)
            state = self.state
        if node in state.nodes:
            self.state = replace_fields(
                state,
                nodes=_with_entry(state.nodes, node, with_pod(state.nodes[node], pod)),
                where=state.where if former == node else _with_entry(state.where, pod.uid, node),
                apart=_without_entry(state.apart, pod.uid),
            )
        else:
            self.state = replace_fields(
                state, where=_with_entry(state.where, pod.uid, node), apart=_with_entry(state.apart, pod.uid, pod)
            )

    def release(self, uid: str) -> Pod | None:
        """Remove a Pod and return its entry. None: there was none."""
        state = self.state
        name = state.where.get(uid)
        if name is None:
            return None
        node = state.nodes.get(name)
        pod = state.apart.get(uid) if node is None else node.pods.get(uid)
        nodes = state.nodes if node is None else _with_entry(state.nodes, name, without_pod(node, uid))
        self.state = replace_fields(
            state, nodes=nodes, where=_without_entry(state.where, uid), apart=_without_entry(state.apart, uid)
        )
        return pod

    def known_pod(self, uid: str) -> Pod | None:
        """Return the entry of a Pod, also if its node does not exist."""
        return self.state.pod(uid) or self.state.apart.get(uid)

    def put_move(self, move: Move) -> None:
        self.state = replace_fields(self.state, moves=_with_entry(self.state.moves, move.key, move))

    def drop_move(self, key: str) -> None:
        """Remove a migration: its VM may grow again, and its target reservation ends."""
        move = self.state.moves[key]
        self.mark_ends_changed(move)
        self.dropped_targets[key] = move.target_node
        self.state = replace_fields(self.state, moves=_without_entry(self.state.moves, key))

    def put_claim(self, claim: Claim) -> None:
        self.state = replace_fields(self.state, claims=_with_entry(self.state.claims, claim.id, claim))

    def drop_claim(self, claim: str) -> None:
        self.state = replace_fields(self.state, claims=_without_entry(self.state.claims, claim))

    def put_waiter(self, waiter: Waiter) -> None:
        self.state = replace_fields(self.state, waiters=_with_entry(self.state.waiters, waiter.uid, waiter))

    def drop_waiter(self, uid: str) -> None:
        self.state = replace_fields(self.state, waiters=_without_entry(self.state.waiters, uid))

    def put_permit(self, uid: str, permit: Permit) -> None:
        self.state = replace_fields(self.state, permits=_with_entry(self.state.permits, uid, permit))

    def put_write(self, uid: str, write: PendingWrite) -> None:
        self.state = replace_fields(self.state, writes=_with_entry(self.state.writes, uid, write))

    def drop_write(self, uid: str) -> None:
        self.state = replace_fields(self.state, writes=_without_entry(self.state.writes, uid))

    def drop_approval(self, uid: str) -> None:
        """Drop the Pod's pending approval and any write in progress, so that neither is sent again."""
        self._approvals.pop(uid, None)
        self.drop_write(uid)

    def put_denied(self, uid: str, denied: DeniedResize) -> None:
        self.state = replace_fields(self.state, denied=_with_entry(self.state.denied, uid, denied))

    def drop_denied(self, uid: str) -> None:
        self.state = replace_fields(self.state, denied=_without_entry(self.state.denied, uid))

    def put_account(self, uid: str, account: RunnerResize) -> None:
        self.state = replace_fields(self.state, accounts=_with_entry(self.state.accounts, uid, account))

    def drop_account(self, uid: str) -> None:
        self.state = replace_fields(self.state, accounts=_without_entry(self.state.accounts, uid))

    def put_planning_time(self, node: str, at: float) -> None:
        self.state = replace_fields(self.state, looks=_with_entry(self.state.looks, node, at))

    def drop_planning_time(self, node: str) -> None:
        self.state = replace_fields(self.state, looks=_without_entry(self.state.looks, node))

    def forget(self, uid: str) -> None:
        """Remove all entries of a Pod except its reserved amount."""
        state = self.state
        self.state = replace_fields(
            state,
            waiters=_without_entry(state.waiters, uid),
            permits=_without_entry(state.permits, uid),
            writes=_without_entry(state.writes, uid),
            denied=_without_entry(state.denied, uid),
            accounts=_without_entry(state.accounts, uid),
        )
        self._approvals.pop(uid, None)

    def is_migrating(self, pod: Pod) -> bool:
        """Return whether the Pod's VM migrates or is about to.

        Its reserved amount does not grow meanwhile (D13, I14).
        """
        return pod.frozen or (pod.machine is not None and self.state.may_migrate(pod.machine.ref))

    def approve(self, uid: str, amount: Amounts) -> None:
        """Request a write of the whole amount that the Pod may use."""
        self._approvals[uid] = amount

    def approve_more(self, pod: Pod, increase: Amounts) -> None:
        """Request a write of an increase. `pod` is the entry before the increase.

        A decrease that is being written stays for the other resources. A resource that grows starts from its reserved
        amount.
        """
        write = self.state.writes.get(pod.uid)
        others = self._approvals.get(pod.uid, pod.reserved if write is None else write.amount)
        rows = zip(pod.reserved, increase, others, strict=True)
        self._approvals[pod.uid] = Amounts(tuple(held + more if more else other for held, more, other in rows))

    def expect_request(self, pod: Pod) -> None:
        """Record that the requester wrote the request to the VM.

        Until the Pod shows it, other values on the Pod are outdated.
        """
        write = self.state.writes.get(pod.uid)
        if write is not None and not write.landed:
            self.approve(pod.uid, write.amount)
        elif pod.machine is not None:
            retry_at = self.now + REPEAT_AFTER_S
            closed = "" if write is None else write.closed_claim
            write = PendingWrite(
                pod.reserved, pod.requested, pod.factor, closed, landed=True, retry_at=retry_at, at=self.now
            )
            self.put_write(pod.uid, write)

    def record_used_claim(self, uid: str, claim: str) -> None:
        """Request that the write of the Pod's approved amount also records this claim as used."""
        self._used_claims.setdefault(uid, []).append(claim)

    def is_claim_used(self, uid: str, claim: str) -> bool:
        return claim in self._used_claims.get(uid, ())

    def is_claim_closing(self, claim: str) -> bool:
        """Return whether the record that the claim was used is not yet known to be written to a VM."""
        for uid, used in self._used_claims.items():
            pod = self.state.pod(uid)
            if claim in used and pod is not None and pod.machine is not None:
                return True
        under_way = (write.closed_claim for write in self.state.writes.values() if not write.landed)
        return any(claim in closed.split(",") for closed in under_way if closed)

    def write_approvals(self) -> None:
        """Emit one write for each Pod with an approval, however often it changed."""
        for uid, amount in self._approvals.items():
            pod = self.state.pod(uid)
            if pod is not None:
                self._write_approval(pod, amount)
        self._approvals.clear()

    def _write_approval(self, pod: Pod, amount: Amounts) -> None:
        closed = "" if pod.machine is None else self._closed_claims(pod, pod.machine)
        former = self.state.writes.get(pod.uid)
        shown = None if former is None else former.shown
        write = PendingWrite(amount, pod.requested, pod.factor, closed, at=self.now, shown=shown)
        self.put_write(pod.uid, write)
        self._grow_account(pod, amount)
        self.add_action(approval_action(pod, write))

    def _grow_account(self, pod: Pod, amount: Amounts) -> None:
        """Resize the runner Pod before its VM grows.

        The decrease that an earlier write planned is now part of this write.
        """
        known = self.state.accounts.get(pod.uid)
        if known is not None and known.lowers_to is not None:
            self.put_account(pod.uid, replace(known, lowers_to=None))
        resize = runner_pod_resize.resize_before_growth(pod, amount)
        if resize is not None and (known is None or known.target != resize.amount):
            self.add_action(resize)

    def _closed_claims(self, pod: Pod, machine: Machine) -> str:
        """Return the ids of used claims whose migration objects still exist, comma-separated.

        After a restart, the leader reads these ids and uses none of the claims again (B9).
        """
        former = self.state.writes.get(pod.uid)
        written = [] if former is None else former.closed_claim.split(",")
        claims = [*machine.closed_claim.split(","), *written, *self._used_claims.get(pod.uid, [])]
        there = {move.claim for move in self.state.moves.values()}
        return ",".join(claim for claim in dict.fromkeys(claims) if claim and claim in there)


def approval_action(pod: Pod, write: PendingWrite) -> Approve | ResizePod:
    """Return the action that writes the approved amount, the first time and on each retry."""
    if pod.machine is None and pod.resize is not None:
        own, wish = pod.resize.container_amount(write.amount), pod.resize.text
        return ResizePod(pod.ref, write.amount, pod.resize.container, own, wish)
    if pod.machine is None:
        return ResizePod(pod.ref, write.amount)
    return Approve(pod.machine.ref, pod.ref, write.amount, write.unit, write.requested, write.closed_claim)


def _with_entry(entries: Mapping[K, V], key: K, value: V) -> Mapping[K, V]:
    return {**entries, key: value}


def _without_entry(entries: Mapping[K, V], key: K) -> Mapping[K, V]:
    if key not in entries:
        return entries
    return {each: value for each, value in entries.items() if each != key}
