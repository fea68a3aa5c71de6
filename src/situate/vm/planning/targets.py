"""Target nodes of migrations: the capacity of each node up to its own watermark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from situate.vm.model.node_columns import MAX_AMOUNT, Column, column
from situate.vm.model.node_score import scores
from situate.vm.model.policy import Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState
from situate.vm.planning.rules.concurrency import is_ongoing, limit_reason

Fits: TypeAlias = Callable[[str, str], bool]
"""Returns whether a node would accept the Pod of this UID, apart from amounts: taints, selectors, affinity (B12)."""

NO_UID: Final = "-"
"""In place of a UID: all held capacity counts as held for others."""


def accept_any_node(_uid: str, _node: str) -> bool:
    """Accept every schedulable node, where no filters are known."""
    return True


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """Nodes in the order of their names. The arrays never change."""

    names: tuple[str, ...]
    total: Column
    available: Column
    """(resources, nodes): free and not held (B4)."""
    spare: Column
    """(resources, nodes): the part of `available` below the watermark. Negative above it."""
    open: NDArray[np.bool_]
    """(nodes,): whether the node accepts VMs at all."""
    largest: Amounts
    """The largest Total of any node, for each resource."""

    @classmethod
    def from_state(cls, state: LedgerState, rules: Rules) -> Targets:
        names = tuple(sorted(state.nodes))
        nodes = [state.nodes[name] for name in names]
        totals = column([node.total for node in nodes], state.resources)
        free = totals - column([node.reserved for node in nodes], state.resources)
        avail = np.maximum(free, 0)
        kept = _nodes_with_held_capacity(state)
        for index, name in enumerate(names):
            if name in kept:
                avail[:, index] = column([state.available(name, NO_UID)], state.resources)[:, 0]
        above = np.maximum(totals - column([node.watermark for node in nodes], state.resources), 0)
        takes = np.array([node.schedulable and not node.draining for node in nodes], dtype=np.bool_)
        moves = [move for move in state.moves.values() if is_ongoing(move)]
        if moves:
            takes &= np.array([not limit_reason(moves, "", name, rules) for name in names], dtype=np.bool_)
        largest = Amounts(tuple(totals.max(axis=1, initial=0).tolist()))
        return cls(names, totals, avail, avail - above, takes & (free >= 0).all(axis=0), largest)

    @property
    def capacity(self) -> Column:
        """(resources, nodes): the capacity for a VM. None where not above zero."""
        return np.minimum(self.available, self.spare)

    @property
    def largest_capacity(self) -> Amounts:
        """The largest capacity of any open node, for each resource alone. A VM above it has no target."""
        return Amounts(tuple(self.capacity[:, self.open].max(axis=1, initial=0).tolist()))

    def fitting_nodes(self, amount: Amounts) -> NDArray[np.bool_]:
        """Return (nodes,): whether the amount fits and the node stays within its watermark."""
        wanted = column([amount], len(amount))
        fits: NDArray[np.bool_] = self.open & ((self.capacity >= wanted) & (wanted < MAX_AMOUNT)).all(axis=0)
        return fits

    def nodes_by_score(self, indices: Sequence[int], amount: Amounts, rules: Rules) -> list[int]:
        """Sort nodes by the plugin's score with the amount added. Ties go by name."""
        if len(indices) < 2:
            return list(indices)
        chosen = np.array(indices, dtype=np.int64)
        totals = self.total[:, chosen]
        booked = totals - self.available[:, chosen] + column([amount], len(amount))
        found = scores(booked, totals, self.largest, rules.scoring)
        return [int(each) for each in chosen[np.lexsort((chosen, -found))]]


def _nodes_with_held_capacity(state: LedgerState) -> frozenset[str]:
    """Return the nodes on which capacity may be held. On all others, everything not reserved is free."""
    savers = (uid for uid, waiter in state.waiters.items() if waiter.held_capacity is not None)
    return frozenset(
        (
            *(claim.node for claim in state.claims.values()),
            *(move.target_node for move in state.moves.values()),
            *(state.where.get(uid, "") for uid in savers),
        )
    )
