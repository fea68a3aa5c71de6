"""Decide whether an eviction becomes a migration: then the VM migrates, and its Pod goes when it has left.

All other evictions proceed as usual. The questions here change nothing (B48).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from situate.vm.api.eviction_request import RENEWAL_AGE_S, must_leave
from situate.vm.ledger.migrations.planner import Planner
from situate.vm.model.migrations import Move
from situate.vm.model.pods_and_nodes import Evacuation, Pod, Role
from situate.vm.model.policy import Rules
from situate.vm.model.state import LedgerState
from situate.vm.planning.candidates import stay_reason
from situate.vm.planning.rules.concurrency import has_begun, is_ongoing


class EvictionRefusalReason(Enum):
    """Why an eviction is refused: the reason of the Event."""

    MOVES = "EvictionMoves"
    """The VM migrates, or will in a moment."""
    WAITS = "EvictionWaits"
    """The VM cannot migrate now. The leader retries as long as evictions are requested."""


@dataclass(frozen=True, slots=True)
class EvictionRefusal:
    """A refusal of an eviction: the Pod stays until its VM has left."""

    reason: EvictionRefusalReason
    message: str
    """A sentence for the client that evicts."""
    evacuation: Evacuation | None
    """The request to write to the VM. None: it is there already, or not needed."""


def eviction_refusal(
    state: LedgerState, uid: str, now: float, rules: Rules, planner: Planner
) -> EvictionRefusal | None:
    """Return the refusal of an eviction. None: the Pod is evicted as usual."""
    pod, node = state.pod(uid), state.where.get(uid, "")
    machine = None if pod is None else pod.machine
    if pod is None or machine is None or not machine.own or pod.ignored or rules.compat:
        return None
    move = state.move_of(machine.ref)
    if move is not None and not is_ongoing(move):
        move = None
    if machine.role is Role.TARGET:
        if move is None:
            return None
        said = f"VirtualMachine {machine.ref} is being migrated into this pod; its next migration starts afterwards"
        return EvictionRefusal(EvictionRefusalReason.WAITS, said, _evacuation_request(pod, node, now))
    if not machine.migratable:
        return None
    wish = _evacuation_request(pod, node, now)
    if move is not None:
        return EvictionRefusal(EvictionRefusalReason.MOVES, _migration_message(pod, move), wish)
    return _refusal_by_plan(_with_evacuation(state, pod, node, now), pod, node, now, rules, planner, wish)


def stay_message(state: LedgerState, pod: Pod, now: float, rules: Rules, planner: Planner) -> str:
    """Return the message about a Pod that should leave its node. Empty: it should not."""
    node = state.where.get(pod.uid, "")
    if not must_leave(pod, node, now):
        return ""
    found = eviction_refusal(state, pod.uid, now, rules, planner)
    return "" if found is None else found.message


def _evacuation_request(pod: Pod, node: str, now: float) -> Evacuation | None:
    assert pod.machine is not None
    known = pod.machine.evacuation
    fresh = known is not None and known.node == node and abs(now - known.at) < RENEWAL_AGE_S
    return None if fresh else Evacuation(node, now)


def _migration_message(pod: Pod, move: Move) -> str:
    assert pod.machine is not None
    whither = f"node {move.target_node}" if move.target_node else "another node"
    if has_begun(move):
        return f"VirtualMachine {pod.machine.ref} is being migrated to {whither}; its pod ends after the migration"
    return f"VirtualMachine {pod.machine.ref} waits for its migration to {whither}; its pod ends after the migration"


def _refusal_by_plan(
    state: LedgerState, pod: Pod, node: str, now: float, rules: Rules, planner: Planner, wish: Evacuation | None
) -> EvictionRefusal:
    """Return the refusal for a VM without a migration, by the plan that the leader would make."""
    assert pod.machine is not None
    about = f"VirtualMachine {pod.machine.ref}"
    why = stay_reason(state, pod, now, rules, None)
    if why:
        return EvictionRefusal(EvictionRefusalReason.WAITS, f"{about} cannot be migrated now: it {why}", wish)
    plan = planner.drain(state, node, now, rules)
    target = next((move.target_node for move in plan.moves if move.source.uid == pod.uid), "")
    if target:
        said = f"{about} is about to be migrated to node {target}; its pod ends after the migration"
        return EvictionRefusal(EvictionRefusalReason.MOVES, said, wish)
    return EvictionRefusal(
        EvictionRefusalReason.WAITS, f"{about} cannot be migrated now: it {_reason_for_pod(pod, plan.reasons)}", wish
    )


def _reason_for_pod(pod: Pod, reasons: Iterable[str]) -> str:
    prefix = f"{pod.ref} "
    found = (each.removeprefix(prefix) for each in reasons if each.startswith(prefix))
    return next(found, "waits for other VMs that leave the node first")


def _with_evacuation(state: LedgerState, pod: Pod, node: str, now: float) -> LedgerState:
    """Return the state as if the VM should leave its node.

    On a node that does not drain, all other such requests are removed.
    """
    entry = state.nodes[node]
    pods = entry.pods if entry.draining else {uid: _without_evacuation(each) for uid, each in entry.pods.items()}
    assert pod.machine is not None
    leaving = replace(pod, machine=replace(pod.machine, evacuation=Evacuation(node, now)))
    return replace(state, nodes={**state.nodes, node: replace(entry, pods={**pods, pod.uid: leaving})})


def _without_evacuation(pod: Pod) -> Pod:
    if pod.machine is None or pod.machine.evacuation is None:
        return pod
    return replace(pod, machine=replace(pod.machine, evacuation=None))
