"""Plan the migrations that empty a draining or thinly used node.

A VM leaves in the same way, alone, after an eviction of its Pod was refused (B46, B48).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import fsum
from typing import TypeAlias

import numpy as np

from situate.vm.api.eviction_request import must_leave
from situate.vm.model.pods_and_nodes import Pod
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState
from situate.vm.planning.candidates import Candidate
from situate.vm.planning.plan import Plan, Way
from situate.vm.planning.plan_builder import Step, build_migrations, plan_id
from situate.vm.planning.search.view import PlanningView
from situate.vm.planning.targets import Fits, accept_any_node

MakeView: TypeAlias = Callable[[LedgerState], PlanningView]
"""Creates the view of a state."""
PodSelector: TypeAlias = Callable[[Pod], bool]
"""Selects the Pods of a node that should leave."""


def plan_drain(state: LedgerState, node: str, now: float, rules: Rules, fits: Fits = accept_any_node) -> Plan:
    """Plan the next migrations away from the node, cheapest first, and say why the other Pods stay.

    The plan has as many migrations as may start now (B26). VMs with a refused eviction leave before the node is emptied
    for any other reason. A node that does not drain is emptied only under these conditions:

    - `Rules.consolidate` allows it.
    - No waiter exists on any node.
    - All its VMs fit on nodes that are fuller than this one. So no two nodes ever empty into each other.
    """
    ident = plan_id(node, now)
    entry = state.nodes.get(node)
    if entry is None:
        return Plan(ident, reasons=(f"node {node} is not known",))

    def look(seen: LedgerState) -> PlanningView:
        return PlanningView.from_state(seen, now, rules, fits, None)

    if entry.draining:
        return _plan_emptying(ident, state, node, look, Way.DRAIN)
    if has_evacuations(state, node, now):
        return _plan_emptying(ident, state, node, look, Way.EVACUATION, lambda pod: must_leave(pod, node, now))
    if why := _consolidation_obstacle(state, node, rules):
        return Plan(ident, reasons=(why,))

    def look_up(seen: LedgerState) -> PlanningView:
        return _with_fuller_targets(look(seen), node)

    if why := _emptying_obstacle(look_up(state), node):
        return Plan(ident, reasons=(why,))
    return _plan_emptying(ident, state, node, look_up, Way.CONSOLIDATION)


def has_evacuations(state: LedgerState, node: str, now: float) -> bool:
    """Return whether VMs on the node should leave it after a refused eviction."""
    return any(must_leave(pod, node, now) for pod in state.nodes[node].pods.values())


def _plan_emptying(
    ident: str, state: LedgerState, node: str, look: MakeView, way: Way, who: PodSelector = lambda _: True
) -> Plan:
    chosen: list[Candidate] = []
    targets: list[str] = []
    view = look(state)
    waits = view.limit_reason(node)
    while not waits:
        there = view.movable_candidates(node, Amounts.zero(state.resources))
        movers = view.with_targets([each for each in there if who(each.pod)])
        if not movers:
            break
        first = min(movers, key=lambda each: (each.price, each.order))
        placed = view.best_targets([first])
        assert placed is not None, "the VM has a target"
        chosen.append(first)
        targets += placed
        move = build_migrations(ident, [Step(first, placed[0])], view.now, view.rules)[0][0]
        view = look(replace(view.state, moves={**view.state.moves, move.key: move}))
        waits = view.limit_reason(node)
    steps = [Step(mover, target) for mover, target in zip(chosen, targets, strict=True)]
    moves, claims = build_migrations(ident, steps, view.now, view.rules)
    cost = fsum(each.cost for each in chosen)
    left = _remaining_pods(view, node, who)
    reasons = tuple(_remaining_reason(view, pod, waits) for pod in left)
    unsolved = any(pod.machine is not None and bool(view.stay_reason(pod) or not waits) for pod in left)
    return Plan(ident, way if moves else None, moves, claims, cost=cost, reasons=reasons, unsolved=unsolved)


def _remaining_pods(view: PlanningView, node: str, who: PodSelector) -> tuple[Pod, ...]:
    """Return the Pods that should leave the node and have no migration in this plan."""
    leaving = {move.source.uid for move in view.moves}
    pods = view.state.nodes[node].pods.values()
    return tuple(pod for pod in pods if pod.uid not in leaving and who(pod))


def _remaining_reason(view: PlanningView, pod: Pod, waits: str) -> str:
    return f"{pod.ref} {view.stay_reason(pod) or (f'waits: {waits}' if waits else _NO_TARGET)}"


_NO_TARGET = "stays because no schedulable node has capacity for it below the watermark"


def _consolidation_obstacle(state: LedgerState, node: str, rules: Rules) -> str:
    entry = state.nodes[node]
    if not rules.consolidate:
        return f"node {node} is not being drained, and consolidation is off (consolidate)"
    if state.waiters:
        return f"node {node} is not consolidated while pods wait for capacity"
    rows = zip(entry.reserved, entry.total, strict=True)
    if any(reserved >= rules.consolidate_below * size for reserved, size in rows if size):
        return f"node {node} is used too much for consolidation (consolidateBelow)"
    return ""


def _with_fuller_targets(view: PlanningView, node: str) -> PlanningView:
    """Return the view with only fuller nodes as targets. Of equally full nodes, those later by name are targets."""
    seen = view.targets
    own = seen.names.index(node)
    used = ((seen.total - seen.available) / np.maximum(seen.total, 1)).max(axis=0)
    fuller = (used > used[own]) | ((used == used[own]) & (np.arange(len(seen.names)) > own))
    return replace(view, targets=replace(seen, open=seen.open & fuller))


def _emptying_obstacle(view: PlanningView, node: str) -> str:
    """Return why the node would not become empty. Empty text: it would."""
    moving = {move.source.uid for move in view.moves}
    for pod in view.state.nodes[node].pods.values():
        if pod.uid not in moving and not pod.ignored and (why := view.stay_reason(pod)):
            return f"node {node} would not become empty: {pod.ref} {why}"
    staying = view.movable_candidates(node, Amounts.zero(view.state.resources))
    if not staying:
        return f"node {node} is empty, or becomes empty"
    movers = view.with_targets(staying)
    if len(movers) < len(staying) or view.best_targets(movers) is None:
        return f"the VMs on node {node} do not fit on fuller nodes"
    return ""
