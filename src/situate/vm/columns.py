"""What the ledger says of the nodes of a snapshot, in columns: the plugin's Filter and Score compare these.

What is booked on a node is counted over exactly the pods that the snapshot has there (C19): those that the ledger knows
with what they hold by it, the others with what their objects ask for. So pods that a dry run has taken away do not
count, those that it has put back do, and nothing has to be undone. Amounts that are held for moves come from the ledger
alone (B4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from situate.framework.nodes import NodeTable
from situate.framework.pods import PodInfo
from situate.framework.snapshot import Snapshot
from situate.vm.amounts import Amounts
from situate.vm.claims import Move
from situate.vm.model import Node, Pod, Ref
from situate.vm.state import State

Column: TypeAlias = NDArray[np.int64]
"""(resources, nodes): milli-CPU, bytes and what else is accounted for."""
MOST: Final = 2**56
"""No node has as much of anything, and sums of some of them still fit into 64 bits."""


class Columns:
    """Mutable: remembers sums of nodes on which nothing has changed. Answers are new arrays."""

    def __init__(self, read: Callable[[PodInfo], Pod]) -> None:
        """`read`: what a pod books by its object alone."""
        self._read = read
        self._nodes: NodeTable | None = None
        self._lineage: object = None
        self._position = 0
        self._entries: list[Node | None] = []
        """By row of the table: the ledger's entry as it was when the row was counted; None if it has to be counted."""
        self._booked = np.zeros((0, 0), dtype=np.int64)
        """(resources, rows)"""

    def booked(self, snapshot: Snapshot, state: State) -> Column:
        """Reserved of each node, over the snapshot's pods."""
        if not self._follows(snapshot, state):
            sums = [self._sum(snapshot, state, index) for index in range(snapshot.count)]
            return column(sums, state.resources)
        rows = range(len(snapshot.nodes)) if snapshot.chosen is None else snapshot.chosen.tolist()
        for index, row in enumerate(rows):
            entry = entry_of(state, snapshot.nodes.names[row])
            if self._entries[row] is not entry:
                self._entries[row] = entry
                self._booked[:, row] = self._sum(snapshot, state, index).values
        return self._booked.copy() if snapshot.chosen is None else self._booked.take(snapshot.chosen, axis=1)

    def _follows(self, snapshot: Snapshot, state: State) -> bool:
        """Whether sums may be remembered: not those of a node that is cut off from the others for a dry run."""
        if snapshot.nodes is self._nodes and snapshot.lineage is self._lineage:
            changed = snapshot.changed_since(self._position)
            for row in range(len(self._entries)) if changed is None else changed:
                self._entries[row] = None
        elif snapshot.chosen is None:
            self._nodes, self._lineage = snapshot.nodes, snapshot.lineage
            self._entries = [None] * snapshot.count
            self._booked = np.zeros((state.resources, snapshot.count), dtype=np.int64)
        else:
            return False
        self._position = snapshot.log_position
        return True

    def _sum(self, snapshot: Snapshot, state: State, index: int) -> Amounts:
        entry = entry_of(state, snapshot.name(index))
        proposed = {info.uid: info for info in snapshot.pods_on(index)}
        booked = entry.reserved
        for uid, pod in entry.pods.items():
            if uid not in proposed:
                booked = booked - pod.counted(pod.reserved)
        for uid, info in proposed.items():
            if uid not in entry.pods:
                pod = state.pod(uid) or self._read(info)
                booked = booked + pod.counted(pod.reserved)
        return booked


def totals(snapshot: Snapshot, state: State) -> Column:
    """Total of each node."""
    nodes = (entry_of(state, snapshot.name(index)) for index in range(snapshot.count))
    return column([node.total for node in nodes], state.resources)


def held(snapshot: Snapshot, state: State, pod: Ref, own: Move | None) -> Column:
    """What of each node is kept for others than the pod, as grants see it (B4): claims, targets, what is saved up.

    `own`: the move that brings the pod, whose reservation is the pod's whether or not its object names it yet.
    """
    kept = np.zeros((state.resources, snapshot.count), dtype=np.int64)
    concerned = {claim.node for claim in state.claims.values()}
    concerned.update(move.target_node for move in state.moves.values())
    concerned.update(state.where.get(each.uid, "") for each in state.waiters.values() if each.saving is not None)
    if not concerned:
        return kept
    if own is not None:
        state = replace(state, moves={**state.moves, own.key: replace(own, target=pod)})
    for index in range(snapshot.count):
        name = snapshot.name(index)
        if name in concerned and name in state.nodes:
            kept[:, index] = (state.held(name, pod.uid) + state.incoming(name, pod.uid)).values
    return kept


def column(amounts: Sequence[Amounts], resources: int) -> Column:
    """(resources, len(amounts)); what is more than `MOST` counts as that."""
    rows = [each.values for each in amounts]
    try:
        values = np.array(rows, dtype=np.int64)
    except OverflowError:  # somebody wrote an absurd amount, which must not keep others from being placed
        values = np.array([[min(value, MOST) for value in row] for row in rows], dtype=np.int64)
    capped: Column = np.minimum(values, MOST).reshape(len(amounts), resources).T
    return capped


def entry_of(state: State, name: str) -> Node:
    """The ledger's entry of a node; one without any room if it has none."""
    entry = state.nodes.get(name)
    if entry is None:
        nothing = Amounts.zero(state.resources)
        return Node(name, nothing, nothing, nothing, nothing, nothing)
    return entry
