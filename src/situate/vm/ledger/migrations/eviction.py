"""What an eviction of a pod comes to: a machine that may be moved is moved instead, and its pod goes when it has (B48).

Of every other pod an eviction is what it is without us. Nothing changes by asking.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from situate.vm.api.evacuation import RENEWED_S, leaves
from situate.vm.ledger.migrations.planner import Planner
from situate.vm.model.migrations import Move
from situate.vm.model.pods_and_nodes import Evacuation, Pod, Role
from situate.vm.model.policy import Rules
from situate.vm.model.state import State
from situate.vm.planning.candidates import stays
from situate.vm.planning.rules.concurrency import begun, under_way


class Because(Enum):
    """Why a pod is not evicted: the reason of the Event."""

    MOVES = "EvictionMoves"
    """Its machine is on its way, or will be in a moment."""
    WAITS = "EvictionWaits"
    """It cannot be moved now; it is tried as long as somebody asks."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The pod stays until its machine has left it."""

    because: Because
    message: str
    """A sentence for whoever evicts."""
    wish: Evacuation | None
    """To be written to the machine; None: it says so already, or it need not."""


def refused(state: State, uid: str, now: float, rules: Rules, planner: Planner) -> Refused | None:
    """None: the pod is evicted as any other."""
    pod, node = state.pod(uid), state.where.get(uid, "")
    machine = None if pod is None else pod.machine
    if pod is None or machine is None or not machine.own or pod.ignored or rules.compat:
        return None
    move = state.move_of(machine.ref)
    if move is not None and not under_way(move):
        move = None
    if machine.role is Role.TARGET:
        if move is None:
            return None
        said = f"VirtualMachine {machine.ref} is just being moved into it, and is moved on once it runs here"
        return Refused(Because.WAITS, said, _wish(pod, node, now))
    if not machine.migratable:
        return None
    wish = _wish(pod, node, now)
    if move is not None:
        return Refused(Because.MOVES, _on_its_way(pod, move), wish)
    return _planned(_wishing(state, pod, node, now), pod, node, now, rules, planner, wish)


def why_it_stays(state: State, pod: Pod, now: float, rules: Rules, planner: Planner) -> str:
    """Of a pod that is to leave its node, what becomes of that; empty: it is not to leave."""
    node = state.where.get(pod.uid, "")
    if not leaves(pod, node, now):
        return ""
    found = refused(state, pod.uid, now, rules, planner)
    return "" if found is None else found.message


def _wish(pod: Pod, node: str, now: float) -> Evacuation | None:
    assert pod.machine is not None
    known = pod.machine.evacuation
    fresh = known is not None and known.node == node and abs(now - known.at) < RENEWED_S
    return None if fresh else Evacuation(node, now)


def _on_its_way(pod: Pod, move: Move) -> str:
    assert pod.machine is not None
    whither = f"node {move.target_node}" if move.target_node else "another node"
    if begun(move):
        return f"VirtualMachine {pod.machine.ref} is being moved to {whither}; its pod goes when it has left"
    return f"VirtualMachine {pod.machine.ref} is moved to {whither} when its turn comes; its pod goes when it has left"


def _planned(
    state: State, pod: Pod, node: str, now: float, rules: Rules, planner: Planner, wish: Evacuation | None
) -> Refused:
    """What a plan would say of it."""
    assert pod.machine is not None
    about = f"VirtualMachine {pod.machine.ref}"
    why = stays(state, pod, now, rules, None)
    if why:
        return Refused(Because.WAITS, f"{about} cannot be moved now: it {why}", wish)
    plan = planner.drain(state, node, now, rules)
    target = next((move.target_node for move in plan.moves if move.source.uid == pod.uid), "")
    if target:
        said = f"{about} is about to be moved to node {target}; its pod goes when it has left"
        return Refused(Because.MOVES, said, wish)
    return Refused(Because.WAITS, f"{about} cannot be moved now: it {_of_pod(pod, plan.reasons)}", wish)


def _of_pod(pod: Pod, reasons: Iterable[str]) -> str:
    prefix = f"{pod.ref} "
    found = (each.removeprefix(prefix) for each in reasons if each.startswith(prefix))
    return next(found, "waits for others that leave the node first")


def _wishing(state: State, pod: Pod, node: str, now: float) -> State:
    """As if it were to leave, and on a node that nobody drains as a whole nobody else."""
    entry = state.nodes[node]
    pods = entry.pods if entry.draining else {uid: _without_wish(each) for uid, each in entry.pods.items()}
    assert pod.machine is not None
    leaving = replace(pod, machine=replace(pod.machine, evacuation=Evacuation(node, now)))
    return replace(state, nodes={**state.nodes, node: replace(entry, pods={**pods, pod.uid: leaving})})


def _without_wish(pod: Pod) -> Pod:
    if pod.machine is None or pod.machine.evacuation is None:
        return pod
    return replace(pod, machine=replace(pod.machine, evacuation=None))
