"""How many moves may be at work at a time, and whose turn is next (B26)."""

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
    """Whether it still takes a place: until its machine runs at the target, or it has failed."""
    return move.stage not in (Stage.DONE, Stage.FAILED)


def begun(move: Move) -> bool:
    """Whether it takes a place and does not wait for one."""
    return under_way(move) and (move.stage is not Stage.PLANNED or move.asked_at is not None)


def no_place(moves: Iterable[Move], source: str, target: str, rules: Rules) -> str:
    """Why one more move would be too many beside these; empty: it may begin. An end may be empty: not known yet."""
    calm = rules.calm
    moves = list(moves)
    if len(moves) >= calm.moves_in_cluster:
        return (
            f"{counted(len(moves), 'move is', 'moves are')} under way, and no more than {calm.moves_in_cluster} may be"
        )
    leaving = sum(1 for move in moves if source and move.source_node == source)
    if leaving >= calm.moves_out_of_node:
        leave = counted(leaving, "move leaves", "moves leave")
        return f"{leave} node {source}, and no more than {calm.moves_out_of_node} may"
    arriving = sum(1 for move in moves if target and move.target_node == target)
    if arriving >= calm.moves_into_node:
        come = counted(arriving, "move goes", "moves go")
        return f"{come} to node {target}, and no more than {calm.moves_into_node} may"
    for node in filter(None, (source, target)):
        used = sum(move.bandwidth or bandwidth(rules) for move in moves if node in (move.source_node, move.target_node))
        if used + bandwidth(rules) > max(int(calm.link * calm.link_share), bandwidth(rules)):
            return f"moves from and to node {node} use all of its link that moves may use"
    return ""


def unlimited(rules: Rules) -> Rules:
    """With places for all moves; each still as fast as it is."""
    calm = replace(
        rules.calm, moves_in_cluster=_ANY, moves_out_of_node=_ANY, moves_into_node=_ANY, link=2**62, link_share=1.0
    )
    return replace(rules, max_bandwidth=bandwidth(rules), calm=calm)


def ready(state: State, rules: Rules) -> tuple[Move, ...]:
    """Of the moves that wait, those that may be started now, in order: priority of whom they are for, then age.

    A move whose room is still being made waits for that, and nobody waits for it.
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
    """Whether no other move has to leave its target first (B19)."""
    return not any(
        claim.beneficiary.kind is BeneficiaryKind.TARGET
        and claim.node == move.target_node
        and (claim.beneficiary.ref.namespace, claim.beneficiary.ref.name) == (move.machine.namespace, move.name)
        and claim.state is not ClaimState.FREED
        for claim in state.claims.values()
    )


def _priority(state: State, move: Move) -> int:
    """Of the one whom its plan is for, else of the machine that moves."""
    for claim in state.claims.values():
        if claim.plan == move.plan and claim.beneficiary.kind is not BeneficiaryKind.TARGET:
            pod = state.pod(claim.beneficiary.ref.uid)
            if pod is not None:
                return pod.priority
    pod = state.pod(move.source.uid)
    return 0 if pod is None else pod.priority
