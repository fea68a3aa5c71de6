"""Explain a node: reserved, held and requested amounts, and migrations from and to it."""

from __future__ import annotations

from typing import Any

from situate.vm.explain.json_values import amounts_json, held_capacity_json, migration_json
from situate.vm.ledger.grants.wait_queue import waiters_in_order
from situate.vm.ledger.migrations.planner import Planner
from situate.vm.model.policy import Rules
from situate.vm.model.state import LedgerState
from situate.vm.planning.drain import has_evacuations
from situate.vm.planning.rules.concurrency import is_ongoing


def explain_node(
    state: LedgerState,
    name: str,
    now: float,
    rules: Rules,
    planner: Planner = Planner(),  # noqa: B008  # frozen
) -> dict[str, Any] | None:
    """Return the explanation of a node. None: no such node is known.

    Amounts count after overcommit, those of its Pods before.
    """
    node = state.nodes.get(name)
    if node is None:
        return None
    away = [move for move in state.moves.values() if move.source_node == name and is_ongoing(move)]
    amounts = {
        "total": node.total,
        "watermark": node.watermark,
        "reserved": node.reserved,
        "committed": node.committed,
        "migrating": node.migrating,
        "incoming": state.incoming_amount(name, ""),
        "free": state.available(name, ""),
    }
    over = node.reserved.exceeds(node.watermark)
    emptied = node.draining or has_evacuations(state, name, now)
    plan = (planner.drain if emptied else planner.relief)(state, name, now, rules) if over or emptied else None
    return {
        "node": name,
        **{key: amounts_json(value, rules) for key, value in amounts.items()},
        "held": held_capacity_json(state, name, "", rules),
        "overBudget": node.over_budget,
        "overWatermark": over,
        "draining": node.draining,
        "schedulable": node.schedulable,
        "queue": [
            {"pod": str(pod.ref), "shortBy": amounts_json((pod.limited_request - pod.reserved), rules)}
            for pod in (node.pods[uid] for uid in waiters_in_order(state, name))
        ],
        "leaving": [migration_json(each, state, now, rules) for each in away],
        "arriving": [migration_json(each, state, now, rules) for each in state.arriving_migrations(name)],
        "plan": {
            "moves": [] if plan is None else [migration_json(each, state, now, rules) for each in plan.moves],
            "reasons": [] if plan is None else list(plan.reasons),
        },
        "pods": [
            {
                "pod": str(pod.ref),
                "vm": None if pod.machine is None else str(pod.machine.ref),
                "reserved": amounts_json(pod.reserved, rules),
                "requested": amounts_json(pod.requested, rules),
            }
            for pod in sorted(node.pods.values(), key=lambda each: each.ref)
        ],
    }
