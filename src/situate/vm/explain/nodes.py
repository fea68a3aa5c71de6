"""Explain a node: reserved, held and requested amounts, and migrations from and to it."""

from __future__ import annotations

from typing import Any

from situate.vm.explain.json_values import held, moved, quantities
from situate.vm.ledger.grants.wait_queue import in_order
from situate.vm.ledger.migrations.planner import Planner
from situate.vm.model.policy import Rules
from situate.vm.model.state import State
from situate.vm.planning.drain import evacuated
from situate.vm.planning.rules.concurrency import under_way


def explain_node(
    state: State,
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
    away = [move for move in state.moves.values() if move.source_node == name and under_way(move)]
    amounts = {
        "total": node.total,
        "watermark": node.watermark,
        "reserved": node.reserved,
        "committed": node.committed,
        "migrating": node.migrating,
        "incoming": state.incoming(name, ""),
        "free": state.avail(name, ""),
    }
    over = node.reserved.exceeds(node.watermark)
    emptied = node.draining or evacuated(state, name, now)
    plan = (planner.drain if emptied else planner.relief)(state, name, now, rules) if over or emptied else None
    return {
        "node": name,
        **{key: quantities(value, rules) for key, value in amounts.items()},
        "held": held(state, name, "", rules),
        "overBudget": node.over_budget,
        "overWatermark": over,
        "draining": node.draining,
        "schedulable": node.schedulable,
        "queue": [
            {"pod": str(pod.ref), "shortBy": quantities((pod.wish - pod.reserved), rules)}
            for pod in (node.pods[uid] for uid in in_order(state, name))
        ],
        "leaving": [moved(each, state, now, rules) for each in away],
        "arriving": [moved(each, state, now, rules) for each in state.arriving(name)],
        "plan": {
            "moves": [] if plan is None else [moved(each, state, now, rules) for each in plan.moves],
            "reasons": [] if plan is None else list(plan.reasons),
        },
        "pods": [
            {
                "pod": str(pod.ref),
                "vm": None if pod.machine is None else str(pod.machine.ref),
                "reserved": quantities(pod.reserved, rules),
                "requested": quantities(pod.requested, rules),
            }
            for pod in sorted(node.pods.values(), key=lambda each: each.ref)
        ],
    }
