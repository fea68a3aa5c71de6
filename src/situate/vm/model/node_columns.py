"""The ledger's amounts for the nodes of a snapshot, as arrays for the plugin's Filter and Score.

The reserved amount of a node counts exactly the Pods that the snapshot has there (C19). Pods in the ledger count with
their amount in the ledger, others with the requests of their objects. So a dry run can remove Pods and put them back
without an undo. Amounts that are held for migrations come from the ledger only (B4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from situate.framework.pod.pods import PodInfo
from situate.framework.results.verdict import Mask
from situate.framework.snapshot.node_table import NodeTable
from situate.framework.snapshot.snapshot import Snapshot
from situate.vm.model.migrations import Move
from situate.vm.model.pods_and_nodes import Node, Pod, Ref
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState

Column: TypeAlias = NDArray[np.int64]
"""(resources, nodes): milli-CPU, bytes and the other accounted resources."""
MAX_AMOUNT: Final = 2**56
"""Cap for all amounts: more than any node has, and sums of several still fit into 64 bits."""
_UNCOUNTED: Final = object()


@dataclass(frozen=True, slots=True, eq=False)
class NodeSums:
    """Amounts of the nodes of a snapshot, in their order."""

    reserved: Column
    """The reserved amounts, over the snapshot's Pods."""
    total: Column
    known: Mask
    """(nodes,): whether the ledger has the node. If not, both amounts are zero."""
    draining: Mask
    """(nodes,): whether VMs should leave the node (B46)."""


class NodeColumns:
    """Amounts of nodes, cached until a node changes. Mutable; results are new arrays."""

    def __init__(self, read: Callable[[PodInfo], Pod]) -> None:
        """Create an empty cache. `read` returns the ledger entry of a Pod from its object alone."""
        self._read = read
        self._nodes: NodeTable | None = None
        self._lineage: object = None
        self._position = 0
        self._entries: list[object] = []
        """By row of the table: the ledger's entry at the time when the row was counted."""
        self._sums = _zero_sums(0, 0)
        """Amounts of all rows."""

    def sums(self, snapshot: Snapshot, state: LedgerState) -> NodeSums:
        if not self._cache_applies(snapshot, state):
            found = _zero_sums(state.resources, snapshot.count)
            for index in range(snapshot.count):
                self._count(found, index, snapshot, state, index)
            return found
        nodes, names, entries = state.nodes, snapshot.nodes.names, self._entries
        rows = range(len(snapshot.nodes)) if snapshot.chosen is None else snapshot.chosen.tolist()
        for index, row in enumerate(rows):
            entry = nodes.get(names[row])
            if entries[row] is not entry:
                entries[row] = entry
                self._count(self._sums, row, snapshot, state, index)
        kept = self._sums
        if snapshot.chosen is None:
            return NodeSums(kept.reserved.copy(), kept.total.copy(), kept.known.copy(), kept.draining.copy())
        chosen = snapshot.chosen
        return NodeSums(
            kept.reserved.take(chosen, axis=1),
            kept.total.take(chosen, axis=1),
            kept.known.take(chosen),
            kept.draining.take(chosen),
        )

    def _count(self, sums: NodeSums, row: int, snapshot: Snapshot, state: LedgerState, index: int) -> None:
        entry = state.nodes.get(snapshot.name(index))
        sums.known[row], sums.draining[row] = entry is not None, entry is not None and entry.draining
        nothing = Amounts.zero(state.resources)
        pair = (nothing, nothing) if entry is None else (self._reserved_sum(snapshot, state, index, entry), entry.total)
        amounts = column(pair, state.resources)
        sums.reserved[:, row], sums.total[:, row] = amounts[:, 0], amounts[:, 1]

    def _cache_applies(self, snapshot: Snapshot, state: LedgerState) -> bool:
        """Return whether cached amounts apply. They do not for a single node cut out for a dry run."""
        if snapshot.nodes is self._nodes and snapshot.lineage is self._lineage:
            changed = snapshot.rows_changed_since(self._position)
            for row in range(len(self._entries)) if changed is None else changed:
                self._entries[row] = _UNCOUNTED
        elif snapshot.chosen is None:
            self._nodes, self._lineage = snapshot.nodes, snapshot.lineage
            self._entries = [_UNCOUNTED] * snapshot.count
            self._sums = _zero_sums(state.resources, snapshot.count)
        else:
            return False
        self._position = snapshot.log_position
        return True

    def _reserved_sum(self, snapshot: Snapshot, state: LedgerState, index: int, entry: Node) -> Amounts:
        proposed = {info.uid: info for info in snapshot.pods_on(index)}
        booked = entry.reserved
        for uid, pod in entry.pods.items():
            if uid not in proposed:
                booked = booked - pod.counted_amount(pod.reserved)
        for uid, info in proposed.items():
            if uid not in entry.pods:
                pod = state.pod(uid) or self._read(info)
                booked = booked + pod.counted_amount(pod.reserved)
        return booked


def _zero_sums(resources: int, nodes: int) -> NodeSums:
    """Return zero amounts, which the caller fills in."""
    booked, total = (np.zeros((resources, nodes), dtype=np.int64) for _ in range(2))
    return NodeSums(booked, total, np.zeros(nodes, dtype=np.bool_), np.zeros(nodes, dtype=np.bool_))


def held_for_others(snapshot: Snapshot, state: LedgerState, pod: Ref, own: Move | None) -> Column:
    """Return the amount of each node that is held for others than the Pod.

    Grants count the same amounts: claims, target reservations, and capacity held for waiters (B4). `own` is the
    migration that brings the Pod. Its reservation belongs to the Pod, even if the migration object does not name the
    Pod yet.
    """
    kept = np.zeros((state.resources, snapshot.count), dtype=np.int64)
    concerned = {claim.node for claim in state.claims.values()}
    concerned.update(move.target_node for move in state.moves.values())
    concerned.update(state.where.get(each.uid, "") for each in state.waiters.values() if each.held_capacity is not None)
    if not concerned:
        return kept
    if own is not None:
        state = replace(state, moves={**state.moves, own.key: replace(own, target=pod)})
    for index in range(snapshot.count):
        name = snapshot.name(index)
        if name in concerned and name in state.nodes:
            kept[:, index] = (state.held_for_others(name, pod.uid) + state.incoming_amount(name, pod.uid)).values
    return kept


def column(amounts: Sequence[Amounts], resources: int) -> Column:
    """Return an array (resources, len(amounts)). Amounts above `MAX_AMOUNT` become `MAX_AMOUNT`."""
    rows = [each.values for each in amounts]
    if len(rows) == 1 and max(rows[0]) <= MAX_AMOUNT:
        return np.array(rows, dtype=np.int64).T
    try:
        values = np.array(rows, dtype=np.int64)
    except OverflowError:  # an absurd amount in one object must not stop the placement of other Pods
        values = np.array([[min(value, MAX_AMOUNT) for value in row] for row in rows], dtype=np.int64)
    capped: Column = np.minimum(values, MAX_AMOUNT).reshape(len(amounts), resources).T
    return capped
