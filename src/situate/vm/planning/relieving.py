"""A node over its watermark: who leaves it, so that it ends a little below (B24)."""

from __future__ import annotations

from situate.vm.amounts import Amounts, total
from situate.vm.planning.building import Step, built, plan_id
from situate.vm.planning.making import cover
from situate.vm.planning.plan import Plan, Way
from situate.vm.planning.targets import Fits, anywhere
from situate.vm.planning.view import View
from situate.vm.rules import Rules
from situate.vm.state import State


def excess(state: State, node: str, rules: Rules) -> Amounts:
    """What has to leave it: nothing where it is not over its watermark, else down to `hysteresis` of Total below.

    What is leaving already counts as gone (C29).
    """
    entry = state.nodes[node]
    staying = entry.reserved - leaving(state, node)
    rows = zip(staying, entry.watermark, entry.total, strict=True)
    return Amounts(
        tuple(
            reserved - watermark + int(size * rules.calm.hysteresis) if reserved > watermark else 0
            for reserved, watermark, size in rows
        )
    )


def leaving(state: State, node: str) -> Amounts:
    """What sources of moves hold of it, begun or not."""
    sources = {move.source.uid for move in state.moves.values() if move.source_node == node}
    pods = (pod for pod in state.nodes[node].pods.values() if pod.migrating or pod.uid in sources)
    return total((pod.counted(pod.reserved) for pod in pods), state.resources)


def relief(state: State, node: str, now: float, rules: Rules, fits: Fits = anywhere) -> Plan:
    """Moves that bring the node under its watermark, at least cost."""
    ident = plan_id(node, now)
    if node not in state.nodes:
        return Plan(ident, reasons=(f"no node is named {node}",))
    wanted = excess(state, node, rules)
    if not wanted:
        return Plan(ident, reasons=(f"node {node} is not over its watermark",))
    view = View.of(state, now, rules, fits, None)
    if waits := view.waits_for_a_place(node):
        return Plan(ident, reasons=(waits,))
    chosen = cover(view, view.may_leave(node, wanted), wanted)
    placed = view.placed(chosen)
    if not chosen or placed is None:
        return Plan(ident, reasons=(f"no machines that may leave node {node} bring it under its watermark",))
    steps = [Step(each, view.targets.names[index]) for each, index in zip(chosen, placed, strict=True)]
    moves, claims = built(ident, steps, now, rules)
    return Plan(ident, Way.RELIEF, moves, claims, cost=sum(each.cost for each in chosen))
