"""One decision while it is made: a state that is replaced entry by entry, and what is to be done.

Nothing is decided here. What the steps of `situate.vm.ledger.step` change goes through this, so that each change has
one form.
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
"""What was asked for and does not show after this long is asked for once more: it was lost, or somebody else wrote."""
K = TypeVar("K")
V = TypeVar("V")


class Draft:
    """Mutable, and known to nobody but the one decision that it is for."""

    def __init__(self, state: State, now: float, rules: Rules, planner: Planner) -> None:
        self.state, self.now, self.rules, self.planner = state, now, rules, planner
        self.actions: list[Action] = []
        self.stirred: dict[str, None] = {}
        """Nodes of which something changed, in order: each is run before the decision is done."""
        self.touched: dict[str, None] = {}
        """All that were ever stirred."""
        self.dropped: dict[str, str] = {}
        """Where moves that were forgotten were to go, by their keys."""
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
        """Also where else its machine waits: one that others moved meanwhile is on neither node."""
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
        """It counts on this node and on no other; on one that does not exist it is kept aside (D19)."""
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
        """What was known of it; None: nothing."""
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
        """Also one that is kept aside because its node is not there."""
        return self.state.pod(uid) or self.state.apart.get(uid)

    def put_move(self, move: Move) -> None:
        self.state = amended(self.state, moves=_with(self.state.moves, move.key, move))

    def drop_move(self, key: str) -> None:
        """Whoever moved may grow again, and what was reserved for it is free."""
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
        """Nothing is written of what it may use, nor written again."""
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
        """What was kept of a pod beside its booking."""
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
        """Whether it is being moved or is about to be: what it holds does not grow meanwhile (D13, I14)."""
        return pod.frozen or (pod.machine is not None and self.state.may_leave(pod.machine.ref))

    def approve(self, uid: str, amount: Amounts) -> None:
        """Have it written what the pod may use, in whole."""
        self._approvals[uid] = amount

    def approve_more(self, pod: Pod, increase: Amounts) -> None:
        """The same, beside a decrease that is being written: `pod` as it was booked before.

        What grows does so from what is booked, whatever it was to be lowered to.
        """
        write = self.state.writes.get(pod.uid)
        others = self._approvals.get(pod.uid, pod.reserved if write is None else write.amount)
        rows = zip(pod.reserved, increase, others, strict=True)
        self._approvals[pod.uid] = Amounts(tuple(held + more if more else other for held, more, other in rows))

    def expect(self, pod: Pod) -> None:
        """Whoever asked has written the request to the machine: until the pod shows it, what it shows is older."""
        write = self.state.writes.get(pod.uid)
        if write is not None and not write.landed:
            self.approve(pod.uid, write.amount)
        elif pod.machine is not None:
            retry_at = self.now + SHOWN_AFTER_S
            closed = "" if write is None else write.closed_claim
            write = Unseen(pod.reserved, pod.requested, pod.factor, closed, landed=True, retry_at=retry_at, at=self.now)
            self.put_write(pod.uid, write)

    def used_claim(self, uid: str, claim: str) -> None:
        """Have it written together with the pod's approved amount that this claim is used (B9)."""
        self._used_claims.setdefault(uid, []).append(claim)

    def used(self, uid: str, claim: str) -> bool:
        return claim in self._used_claims.get(uid, ())

    def being_closed(self, claim: str) -> bool:
        """Whether it is still to be written to a machine that it was used, or nobody knows yet that it is."""
        for uid, used in self._used_claims.items():
            pod = self.state.pod(uid)
            if claim in used and pod is not None and pod.machine is not None:
                return True
        under_way = (write.closed_claim for write in self.state.writes.values() if not write.landed)
        return any(claim in closed.split(",") for closed in under_way if closed)

    def write_approvals(self) -> None:
        """One write a pod, whatever has been decided of it."""
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
        """The pod before its machine (B47). What was to be lowered after an earlier write is booked by this one."""
        known = self.state.accounts.get(pod.uid)
        if known is not None and known.lowers_to is not None:
            self.put_account(pod.uid, replace(known, lowers_to=None))
        resize = runner_pod_resize.grown(pod, amount)
        if resize is not None and (known is None or known.target != resize.amount):
            self.do(resize)

    def _closed_claims(self, pod: Pod, machine: Machine) -> str:
        """Ids of all that were used and whose migrations a restart would find: none of them is used again (B9)."""
        former = self.state.writes.get(pod.uid)
        written = [] if former is None else former.closed_claim.split(",")
        claims = [*machine.closed_claim.split(","), *written, *self._used_claims.get(pod.uid, [])]
        there = {move.claim for move in self.state.moves.values()}
        return ",".join(claim for claim in dict.fromkeys(claims) if claim and claim in there)


def approval(pod: Pod, write: Unseen) -> Approve | ResizePod:
    """What writes it, the first time and again."""
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
