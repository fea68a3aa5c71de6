"""Limits on concurrent migrations, and the next ones to start."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import structs

from situate.objects.values.counts import format_count
from situate.vm.model.migrations import BeneficiaryKind, ClaimState, Move, Stage
from situate.vm.model.policy import Rules
from situate.vm.model.state import LedgerState
from situate.vm.planning.rules.migration_cost import bandwidth

_UNLIMITED: Final = 2**31


def is_ongoing(move: Move) -> bool:
    """Return whether the migration counts for the limits: until its VM runs in the target Pod, or it has failed."""
    return move.stage not in (Stage.DONE, Stage.FAILED)


def has_begun(move: Move) -> bool:
    """Return whether the migration has started or its start was requested."""
    return is_ongoing(move) and (move.stage is not Stage.PLANNED or move.requested_at is not None)


def limit_reason(moves: Iterable[Move], source: str, target: str, rules: Rules) -> str:
    """Return why one more migration would exceed a limit. Empty: it may start.

    An empty source or target is not known yet.
    """
    calm = rules.calm
    moves = list(moves)
    if len(moves) >= calm.moves_in_cluster:
        running = format_count(len(moves), "migration is", "migrations are")
        return f"{running} in progress, and at most {calm.moves_in_cluster} may be"
    leaving = sum(1 for move in moves if source and move.source_node == source)
    if leaving >= calm.moves_out_of_node:
        leave = format_count(leaving, "migration leaves", "migrations leave")
        return f"{leave} node {source}, and at most {calm.moves_out_of_node} may"
    arriving = sum(1 for move in moves if target and move.target_node == target)
    if arriving >= calm.moves_into_node:
        come = format_count(arriving, "migration goes", "migrations go")
        return f"{come} to node {target}, and at most {calm.moves_into_node} may"
    for node in filter(None, (source, target)):
        used = sum(move.bandwidth or bandwidth(rules) for move in moves if node in (move.source_node, move.target_node))
        if used + bandwidth(rules) > max(calm.bytes_per_s, bandwidth(rules)):
            return f"migrations from and to node {node} use the whole share of its link for migrations"
    return ""


def unlimited_rules(rules: Rules) -> Rules:
    """Return the rules without limits on the number of migrations. The bandwidth of each stays the same."""
    calm = structs.replace(
        rules.calm,
        moves_in_cluster=_UNLIMITED,
        moves_out_of_node=_UNLIMITED,
        moves_into_node=_UNLIMITED,
        link=str(2**62),
        link_share=1.0,
    )
    return structs.replace(rules, max_bandwidth=str(bandwidth(rules)), calm=calm)


def startable_migrations(state: LedgerState, rules: Rules) -> tuple[Move, ...]:
    """Return the waiting migrations that may start now, by priority of their beneficiary, then age.

    A migration whose target is still being freed waits, and does not delay the others.
    """
    waiting = [move for move in state.moves.values() if is_ongoing(move) and not has_begun(move)]
    waiting.sort(key=lambda move: (-_priority(state, move), move.created_at, move.claim, move.name))
    at_work = [move for move in state.moves.values() if has_begun(move)]
    starting: list[Move] = []
    for move in waiting:
        if is_target_freed(state, move) and not limit_reason(at_work, move.source_node, move.target_node, rules):
            at_work.append(move)
            starting.append(move)
    return tuple(starting)


def is_target_freed(state: LedgerState, move: Move) -> bool:
    """Return whether no other VM has to leave its target first."""
    return not any(
        claim.beneficiary.kind is BeneficiaryKind.TARGET
        and claim.node == move.target_node
        and (claim.beneficiary.ref.namespace, claim.beneficiary.ref.name) == (move.machine.namespace, move.name)
        and claim.state is not ClaimState.FREED
        for claim in state.claims.values()
    )


def _priority(state: LedgerState, move: Move) -> int:
    """Return the priority of the plan's beneficiary, else of the VM that migrates."""
    for claim in state.claims.values():
        if claim.plan == move.plan and claim.beneficiary.kind is not BeneficiaryKind.TARGET:
            pod = state.pod(claim.beneficiary.ref.uid)
            if pod is not None:
                return pod.priority
    pod = state.pod(move.source.uid)
    return 0 if pod is None else pod.priority
