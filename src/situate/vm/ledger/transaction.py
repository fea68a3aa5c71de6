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
from situate.vm.model.actions import Action, Approve, ResizePod, Tell
from situate.vm.model.migrations import Claim, Move
from situate.vm.model.node_accounting import with_pod, without_pod
from situate.vm.model.pods_and_nodes import Machine, Node, Pod, Ref
from situate.vm.model.policy import Rules
from situate.vm.model.replace import amended
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import Account, Denied, Permit, State, Unseen, Waiter

SHOWN_AFTER_S: Final = 30.0
"""How long a requested change may stay unseen before it is requested again: it was lost, or another client wrote."""
K = TypeVar("K")
V = TypeVar("V")


class Draft:
    """The working state of one decision. Mutable, and used by that decision only."""

    def __init__(self, state: State, now: float, rules: Rules, planner: Planner) -> None:
        self.state, self.now, self.rules, self.planner = state, now, rules, planner
        self.actions: list[Action] = []
        self.stirred: dict[str, None] = {}
        """Changed nodes, in order. Each is run before the decision ends."""
        self.touched: dict[str, None] = {}
        """All nodes that were ever in `stirred`."""
        self.dropped: dict[str, str] = {}
        """Target nodes of the migrations that the decision dropped, by migration key."""
        self._approvals: dict[str, Amounts] = {}
        self._used_claims: dict[str, list[str]] = {}

    def do(self, action: Action) -> None:
        self.actions.append(action)

    def tell(self, about: Ref, reason: str, message: str, *, warning: bool = False, **fields: Any) -> None:
        self.do(Tell(self.state.told_of(about), reason, message, warning, fields))

    def stir(self, node: str) -> None:
        if node in self.state.nodes:
            self.stirred[node] = self.touched[node] = None

    def stir_ends(self, move: Move) -> None:
        """Mark both nodes of a migration as changed, and all nodes on which its VM waits.

        If another client migrated the VM meanwhile, it may wait on a third node.
        """
        self.stir(move.source_node)
        self.stir(move.target_node)
        for uid in self.state.waiters:
            pod = self.state.pod(uid)
            if pod is not None and pod.machine is not None and move.is_of(pod.machine.ref):
                self.stir(self.state.where[uid])

    def put_node(self, node: Node) -> None:
        self.state = amended(self.state, nodes=_with(self.state.nodes, node.name, node))

    def drop_node(self, name: str) -> None:
        self.state = amended(self.state, nodes=_without(self.state.nodes, name))

    def book(self, pod: Pod, node: str) -> None:
        """Reserve the Pod's amount on this node and remove it from any other.

        A Pod on a node that does not exist is stored separately (D19).
        """
        state = self.state
        former = state.where.get(pod.uid)
        if former is not None and former != node:
            self.unbook(pod.uid)
            state = self.state
        if node in state.nodes:
            self.state = amended(
                state,
                nodes=_with(state.nodes, node, with_pod(state.nodes[node], pod)),
                where=state.where if former == node else _with(state.where, pod.uid, node),
                apart=_without(state.apart, pod.uid),
            )
        else:
            self.state = amended(state, where=_with(state.where, pod.uid, node), apart=_with(state.apart, pod.uid, pod))

    def unbook(self, uid: str) -> Pod | None:
        """Remove a Pod and return its entry. None: there was none."""
        state = self.state
        name = state.where.get(uid)
        if name is None:
            return None
        node = state.nodes.get(name)
        pod = state.apart.get(uid) if node is None else node.pods.get(uid)
        nodes = state.nodes if node is None else _with(state.nodes, name, without_pod(node, uid))
        self.state = amended(state, nodes=nodes, where=_without(state.where, uid), apart=_without(state.apart, uid))
        return pod

    def known(self, uid: str) -> Pod | None:
        """Return the entry of a Pod, also if its node does not exist."""
        return self.state.pod(uid) or self.state.apart.get(uid)

    def put_move(self, move: Move) -> None:
        self.state = amended(self.state, moves=_with(self.state.moves, move.key, move))

    def drop_move(self, key: str) -> None:
        """Remove a migration: its VM may grow again, and its target reservation ends."""
        move = self.state.moves[key]
        self.stir_ends(move)
        self.dropped[key] = move.target_node
        self.state = amended(self.state, moves=_without(self.state.moves, key))

    def put_claim(self, claim: Claim) -> None:
        self.state = amended(self.state, claims=_with(self.state.claims, claim.id, claim))

    def drop_claim(self, claim: str) -> None:
        self.state = amended(self.state, claims=_without(self.state.claims, claim))

    def put_waiter(self, waiter: Waiter) -> None:
        self.state = amended(self.state, waiters=_with(self.state.waiters, waiter.uid, waiter))

    def drop_waiter(self, uid: str) -> None:
        self.state = amended(self.state, waiters=_without(self.state.waiters, uid))

    def put_permit(self, uid: str, permit: Permit) -> None:
        self.state = amended(self.state, permits=_with(self.state.permits, uid, permit))

    def put_write(self, uid: str, write: Unseen) -> None:
        self.state = amended(self.state, writes=_with(self.state.writes, uid, write))

    def drop_write(self, uid: str) -> None:
        self.state = amended(self.state, writes=_without(self.state.writes, uid))

    def drop_approval(self, uid: str) -> None:
        """Drop the Pod's pending approval and any write in progress, so that neither is sent again."""
        self._approvals.pop(uid, None)
        self.drop_write(uid)

    def put_denied(self, uid: str, denied: Denied) -> None:
        self.state = amended(self.state, denied=_with(self.state.denied, uid, denied))

    def drop_denied(self, uid: str) -> None:
        self.state = amended(self.state, denied=_without(self.state.denied, uid))

    def put_account(self, uid: str, account: Account) -> None:
        self.state = amended(self.state, accounts=_with(self.state.accounts, uid, account))

    def drop_account(self, uid: str) -> None:
        self.state = amended(self.state, accounts=_without(self.state.accounts, uid))

    def put_look(self, node: str, at: float) -> None:
        self.state = amended(self.state, looks=_with(self.state.looks, node, at))

    def drop_look(self, node: str) -> None:
        self.state = amended(self.state, looks=_without(self.state.looks, node))

    def forget(self, uid: str) -> None:
        """Remove all entries of a Pod except its reserved amount."""
        state = self.state
        self.state = amended(
            state,
            waiters=_without(state.waiters, uid),
            permits=_without(state.permits, uid),
            writes=_without(state.writes, uid),
            denied=_without(state.denied, uid),
            accounts=_without(state.accounts, uid),
        )
        self._approvals.pop(uid, None)

    def moves(self, pod: Pod) -> bool:
        """Return whether the Pod's VM migrates or is about to.

        Its reserved amount does not grow meanwhile (D13, I14).
        """
        return pod.frozen or (pod.machine is not None and self.state.may_leave(pod.machine.ref))

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

    def expect(self, pod: Pod) -> None:
        """Record that the requester wrote the request to the VM.

        Until the Pod shows it, other values on the Pod are outdated.
        """
        write = self.state.writes.get(pod.uid)
        if write is not None and not write.landed:
            self.approve(pod.uid, write.amount)
        elif pod.machine is not None:
            retry_at = self.now + SHOWN_AFTER_S
            closed = "" if write is None else write.closed_claim
            write = Unseen(pod.reserved, pod.requested, pod.factor, closed, landed=True, retry_at=retry_at, at=self.now)
            self.put_write(pod.uid, write)

    def used_claim(self, uid: str, claim: str) -> None:
        """Request that the write of the Pod's approved amount also records this claim as used."""
        self._used_claims.setdefault(uid, []).append(claim)

    def used(self, uid: str, claim: str) -> bool:
        return claim in self._used_claims.get(uid, ())

    def being_closed(self, claim: str) -> bool:
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
                self._write(pod, amount)
        self._approvals.clear()

    def _write(self, pod: Pod, amount: Amounts) -> None:
        closed = "" if pod.machine is None else self._closed_claims(pod, pod.machine)
        former = self.state.writes.get(pod.uid)
        shown = None if former is None else former.shown
        write = Unseen(amount, pod.requested, pod.factor, closed, at=self.now, shown=shown)
        self.put_write(pod.uid, write)
        self._grow_account(pod, amount)
        self.do(approval(pod, write))

    def _grow_account(self, pod: Pod, amount: Amounts) -> None:
        """Resize the runner Pod before its VM grows.

        The decrease that an earlier write planned is now part of this write.
        """
        known = self.state.accounts.get(pod.uid)
        if known is not None and known.lowers_to is not None:
            self.put_account(pod.uid, replace(known, lowers_to=None))
        resize = runner_pod_resize.grown(pod, amount)
        if resize is not None and (known is None or known.target != resize.amount):
            self.do(resize)

    def _closed_claims(self, pod: Pod, machine: Machine) -> str:
        """Return the ids of used claims whose migration objects still exist, comma-separated.

        After a restart, the leader reads these ids and uses none of the claims again (B9).
        """
        former = self.state.writes.get(pod.uid)
        written = [] if former is None else former.closed_claim.split(",")
        claims = [*machine.closed_claim.split(","), *written, *self._used_claims.get(pod.uid, [])]
        there = {move.claim for move in self.state.moves.values()}
        return ",".join(claim for claim in dict.fromkeys(claims) if claim and claim in there)


def approval(pod: Pod, write: Unseen) -> Approve | ResizePod:
    """Return the action that writes the approved amount, the first time and on each retry."""
    if pod.machine is None and pod.resize is not None:
        own, wish = pod.resize.own_of(write.amount), pod.resize.text
        return ResizePod(pod.ref, write.amount, pod.resize.container, own, wish)
    if pod.machine is None:
        return ResizePod(pod.ref, write.amount)
    return Approve(pod.machine.ref, pod.ref, write.amount, write.unit, write.requested, write.closed_claim)


def _with(entries: Mapping[K, V], key: K, value: V) -> Mapping[K, V]:
    return {**entries, key: value}


def _without(entries: Mapping[K, V], key: K) -> Mapping[K, V]:
    if key not in entries:
        return entries
    return {each: value for each, value in entries.items() if each != key}
