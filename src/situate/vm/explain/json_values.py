"""Parts of explanations that Pods and nodes share, as plain data."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from situate.objects.values.timestamps import rfc3339
from situate.vm.api.quantities import format_amount
from situate.vm.model.migrations import Move
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState
from situate.vm.planning.rules.migration_cost import cost


def amounts_json(amounts: Amounts, rules: Rules) -> dict[str, str]:
    """Return amounts as `{"cpu": "250m", "memory": "1Gi"}`, not below zero."""
    return {
        name: format_amount(name, amount) for name, amount in zip(rules.resources, amounts.positive_part(), strict=True)
    }


def held_capacity_json(state: LedgerState, node: str, uid: str, rules: Rules) -> list[dict[str, Any]]:
    """Return the capacity on the node that is held for others than this Pod.

    `claim` is empty for capacity held for an overtaken waiter (B31).
    """
    return [
        {"claim": claim, "for": str(whom), "amount": amounts_json(amount, rules)}
        for claim, whom, amount in state.holds_for_others(node, uid)
    ]


def migration_json(move: Move, state: LedgerState, now: float, rules: Rules) -> dict[str, Any]:
    """Return a migration as data: `cost` in seconds-equivalents, `progress` from 0 to 1."""
    pod = state.pod(move.source.uid)
    progress = move.progress
    return {
        "vm": str(move.machine),
        "target": move.target_node,
        "cost": None if pod is None or pod.machine is None else round(cost(pod, pod.machine, 0.0, now, rules), 3),
        "state": move.stage.value,
        "progress": None
        if progress is None or not progress.total
        else round(1 - progress.remaining / progress.total, 3),
    }


def format_time(at: float) -> str:
    return rfc3339(datetime.fromtimestamp(at, UTC))
