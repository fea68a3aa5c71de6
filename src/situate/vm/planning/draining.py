"""Emptying a node, by the same ledger and limits as every move (B46)."""

from __future__ import annotations

from situate.vm.amounts import Amounts
from situate.vm.planning.building import Step, built, plan_id
from situate.vm.planning.plan import Plan, Way
from situate.vm.planning.targets import Fits, anywhere
from situate.vm.planning.view import View
from situate.vm.rules import Rules
from situate.vm.state import State


def drain(state: State, node: str, now: float, rules: Rules, fits: Fits = anywhere) -> Plan:
    """The next moves off the node, cheapest first, as many as may begin now; for each machine that stays, why."""
    ident = plan_id(node, now)
    if node not in state.nodes:
        return Plan(ident, reasons=(f"no node is named {node}",))
    view = View.of(state, now, rules, fits, None)
    if waits := view.waits_for_a_place(node):
        return Plan(ident, reasons=(waits,))
    movers = sorted(view.may_leave(node, Amounts.zero(state.resources)), key=lambda each: (each.price, each.order))
    if not movers:
        pods = state.nodes[node].pods.values()
        return Plan(ident, reasons=tuple(f"{pod.ref} {view.stays(pod) or 'has no target'}" for pod in pods))
    first = movers[0]
    best = view.targets.best_first(first.targets, first.freed, rules)[0]
    moves, claims = built(ident, [Step(first, view.targets.names[best])], now, rules)
    return Plan(ident, Way.DRAIN, moves, claims, cost=first.cost)
