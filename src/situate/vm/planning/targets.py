"""Where machines may go: what every node has room for, without rising above its own watermark (B13)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from situate.vm.model.node_columns import MOST, Column, column
from situate.vm.model.node_score import scores
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import State
from situate.vm.planning.rules.concurrency import no_place, under_way

Fits: TypeAlias = Callable[[str, str], bool]
"""Whether a node would take the pod of this uid, but for amounts: taints, selectors, affinity (B12)."""

NOBODY: Final = "-"
"""In place of a uid: everything that is held on a node is held for others."""


def anywhere(_uid: str, _node: str) -> bool:
    """Where nobody knows better: every node that is schedulable takes everything."""
    return True


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """Nodes in the order of their names; arrays are never changed."""

    names: tuple[str, ...]
    total: Column
    avail: Column
    """(resources, nodes): what nobody holds (B4)."""
    spare: Column
    """(resources, nodes): the part of it that is below the watermark; negative above it."""
    open: NDArray[np.bool_]
    """(nodes,): takes machines at all."""
    largest: Amounts
    """The largest Total of any, a resource each."""

    @classmethod
    def of(cls, state: State, rules: Rules) -> Targets:
        names = tuple(sorted(state.nodes))
        nodes = [state.nodes[name] for name in names]
        totals = column([node.total for node in nodes], state.resources)
        free = totals - column([node.reserved for node in nodes], state.resources)
        avail = np.maximum(free, 0)
        kept = _kept(state)
        for index, name in enumerate(names):
            if name in kept:
                avail[:, index] = column([state.avail(name, NOBODY)], state.resources)[:, 0]
        above = np.maximum(totals - column([node.watermark for node in nodes], state.resources), 0)
        takes = np.array([node.schedulable and not node.draining for node in nodes], dtype=np.bool_)
        moves = [move for move in state.moves.values() if under_way(move)]
        if moves:
            takes &= np.array([not no_place(moves, "", name, rules) for name in names], dtype=np.bool_)
        largest = Amounts(tuple(totals.max(axis=1, initial=0).tolist()))
        return cls(names, totals, avail, avail - above, takes & (free >= 0).all(axis=0), largest)

    @property
    def room(self) -> Column:
        """(resources, nodes): what a machine may take of it; nothing where that is not above zero."""
        return np.minimum(self.avail, self.spare)

    @property
    def most(self) -> Amounts:
        """What any of them has room for, each resource by itself: whoever holds more goes nowhere."""
        return Amounts(tuple(self.room[:, self.open].max(axis=1, initial=0).tolist()))

    def room_for(self, amount: Amounts) -> NDArray[np.bool_]:
        """(nodes,): has room for it, and is not above its watermark with it."""
        wanted = column([amount], len(amount))
        fits: NDArray[np.bool_] = self.open & ((self.room >= wanted) & (wanted < MOST)).all(axis=0)
        return fits

    def best_first(self, indices: Sequence[int], amount: Amounts, rules: Rules) -> list[int]:
        """By the score that the plugin would give with the amount there (C20), ties by name."""
        if len(indices) < 2:
            return list(indices)
        chosen = np.array(indices, dtype=np.int64)
        totals = self.total[:, chosen]
        booked = totals - self.avail[:, chosen] + column([amount], len(amount))
        found = scores(booked, totals, self.largest, rules.scoring)
        return [int(each) for each in chosen[np.lexsort((chosen, -found))]]


def _kept(state: State) -> frozenset[str]:
    """Nodes on which something may be held for somebody; on all others everything is free that is not booked."""
    savers = (uid for uid, waiter in state.waiters.items() if waiter.saving is not None)
    return frozenset(
        (
            *(claim.node for claim in state.claims.values()),
            *(move.target_node for move in state.moves.values()),
            *(state.where.get(uid, "") for uid in savers),
        )
    )
