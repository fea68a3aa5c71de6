"""Choose a new target for a migration whose target is lost or refuses it: one new choice."""

from __future__ import annotations

from dataclasses import replace

from situate.vm.model.migrations import Move
from situate.vm.model.policy import Rules
from situate.vm.model.state import LedgerState
from situate.vm.planning.search.view import PlanningView
from situate.vm.planning.targets import Fits, accept_any_node


def another_target(state: LedgerState, move: Move, now: float, rules: Rules, fits: Fits = accept_any_node) -> str:
    """Return the best other node with capacity for the reserved amount.

    Empty: no node accepts it, or its VM is gone. The migration's own reservation does not count against it. The VM may
    be frozen by now, and the migration goes on.
    """
    pod = state.pod(move.source.uid)
    if pod is None or pod.machine is None:
        return ""
    others = {key: each for key, each in state.moves.items() if key != move.key}
    view = PlanningView.from_state(replace(state, moves=others), now, rules, fits, None)
    if move.target_node in view.targets.names:
        view = view.without_target(move.target_node)
    aimed = view.with_targets([view.candidate(pod, move.source_node, move.amount, move.amount)])
    placed = view.best_targets(aimed)
    return placed[0] if placed else ""
