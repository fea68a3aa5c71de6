"""Another target for a move whose target is lost, or refuses it: one new choice (B14)."""

from __future__ import annotations

from dataclasses import replace

from situate.vm.model.migrations import Move
from situate.vm.model.policy import Rules
from situate.vm.model.state import State
from situate.vm.planning.search.view import View
from situate.vm.planning.targets import Fits, anywhere


def another_target(state: State, move: Move, now: float, rules: Rules, fits: Fits = anywhere) -> str:
    """The best other node with room for what was reserved (B13); empty: none takes it, or its machine is gone.

    What the move itself has reserved is no obstacle to it. The machine may be frozen by now: it goes on all the same.
    """
    pod = state.pod(move.source.uid)
    if pod is None or pod.machine is None:
        return ""
    others = {key: each for key, each in state.moves.items() if key != move.key}
    view = View.of(replace(state, moves=others), now, rules, fits, None)
    if move.target_node in view.targets.names:
        view = view.without_target(move.target_node)
    aimed = view.aimed([view.mover(pod, move.source_node, move.amount, move.amount)])
    placed = view.placed(aimed)
    return placed[0] if placed else ""
