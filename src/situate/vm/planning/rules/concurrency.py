"""Limits on concurrent migrations, and the next ones to start."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from situate.objects.values.counts import counted
from situate.vm.model.migrations import BeneficiaryKind, ClaimState, Move, Stage
from situate.vm.model.policy import Rules
from situate.vm.model.state import State
from situate.vm.planning.rules.migration_cost import bandwidth

_ANY: Final = 2**31


def under_way(move: Move) -> bool:
    """Return whether the migration counts for the limits: until its VM runs in the target Pod, or it has failed."""
    return move.stage not in (Stage.DONE, Stage.FAILED)


def begun(move: Move) -> bool:
    """Return whether the migration has started or its start was requested."""
    return under_way(move) and (move.stage is not Stage.PLANNED or move.asked_at is not None)


def no_place(moves: Iterable[Move], source: str, target: str, rules: Rules) -> str:
    """Return why one more migration would exceed a limit. Empty: it may start.

    An empty source or target is not known yet.
    """
    calm = rules.calm
    moves = list(moves)
    if len(moves) >= calm.moves_in_cluster:
        running = counted(len(moves), "migration is", "migrations are")
        return f"{running} in progress, and at most {calm.moves_in_cluster} may be"
    leaving = sum(1 for move in moves if source and move.source_node == source)
    if leaving >= calm.moves_out_of_node:
        leave = counted(leaving, "migration leaves", "migrations leave")
        return f"{leave} node {source}, and at most {calm.moves_out_of_node} may"
    arriving = sum(1 for move in moves if target and move.target_node == target)
    if arriving >= calm.moves_into_node:
        come = counted(arriving, "migration goes", "migrations go")
        return f"{come} to node {target}, and at most {calm.moves_into_node} may"
    for node in filter(None, (source, target)):
        used = sum(move.bandwidth or bandwidth(rules) for move in moves if node in (move.source_node, move.target_node))
        if used + bandwidth(rules) > max(int(calm.link * calm.link_share), bandwidth(rules)):
            return f"migrations from and to node {node} use the whole share of its link for migrations"
    return ""


def unlimited(rules: Rules) -> Rules:
    """Return the rules without limits on the number of migrations. The bandwidth of each stays the same."""
    calm = replace(
        rules.calm, moves_in_cluster=_ANY, moves_out_of_node=_ANY, moves_into_node=_ANY, link=2**62, link_share=1.0
    )
    return replace(rules, max_bandwidth=bandwidth(rules), calm=calm)


def ready(state: State, rules: Rules) -> tuple[Move, ...]:
    """Return the waiting migrations that may start now, by priority of their beneficiary, then age.

    A migration whose target is still being freed waits, and does not delay the others.
    """
    waiting = [move for move in state.moves.values() if under_way(move) and not begun(move)]
    waiting.sort(key=lambda move: (-_priority(state, move), move.created_at, move.claim, move.name))
    at_work = [move for move in state.moves.values() if begun(move)]
    starting: list[Move] = []
    for move in waiting:
        if room_is_made(state, move) and not no_place(at_work, move.source_node, move.target_node, rules):
            at_work.append(move)
            starting.append(move)
    return tuple(starting)


def room_is_made(state: State, move: Move) -> bool:
    """Return whether no other VM has to leave its target first."""
    return not any(
        claim.beneficiary.kind is BeneficiaryKind.TARGET
        and claim.node == move.target_node
        and (claim.beneficiary.ref.namespace, claim.beneficiary.ref.name) == (move.machine.namespace, move.name)
        and claim.state is not ClaimState.FREED
        for claim in state.claims.values()
    )


def _priority(state: State, move: Move) -> int:
    """Return the priority of the plan's beneficiary, else of the VM that migrates."""
    for claim in state.claims.values():
        if claim.plan == move.plan and claim.beneficiary.kind is not BeneficiaryKind.TARGET:
            pod = state.pod(claim.beneficiary.ref.uid)
            if pod is not None:
                return pod.priority
    pod = state.pod(move.source.uid)
    return 0 if pod is None else pod.priority
