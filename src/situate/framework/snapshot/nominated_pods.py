"""Pods that nodes are promised to, and as columns what has to be kept free for them.

A burst of preemptors may hold a thousand promises, and every pod that is placed meanwhile has to heed them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from situate.framework.pod.pods import PodInfo
from situate.framework.results.verdict import Indices

Amounts = NDArray[np.int64]


class Promised(dict[int, tuple[PodInfo, ...]]):
    """The pods by their node's index; mutable, of one owner, and changed by `put` alone."""

    def __init__(self, nodes: int) -> None:
        super().__init__()
        self.pod_count: Amounts = np.zeros(nodes, dtype=np.int64)
        """(nodes,): so many pods."""
        self.version = 0
        """Counts up with every change."""
        self._requested: dict[int, Amounts] = {}

    def put(self, node: int, pods: tuple[PodInfo, ...]) -> None:
        """The node is promised to these now."""
        self.version += 1
        self._count(node, self.pop(node, ()), -1)
        self._count(node, pods, 1)
        if pods:
            self[node] = pods

    def without(self, node: int, uid: str) -> Promised:
        """A copy without a pod that is promised the node."""
        twin = Promised(0)
        twin.update(self)
        twin.pod_count = self.pod_count.copy()
        twin._requested = {column: amounts.copy() for column, amounts in self._requested.items()}
        twin.put(node, tuple(pod for pod in self.get(node, ()) if pod.uid != uid))
        return twin

    @property
    def nodes(self) -> Indices:
        """Those that are promised to anyone."""
        return np.flatnonzero(self.pod_count)

    def requested(self, column: int) -> Amounts:
        """(nodes,): what the pods ask for of the resource with this column."""
        amounts = self._requested.get(column)
        return np.zeros(len(self.pod_count), dtype=np.int64) if amounts is None else amounts

    def at(self, nodes: Indices, columns: int) -> tuple[Amounts, Amounts]:
        """What is asked for on these nodes, (resources, nodes), of so many resources; and by how many pods."""
        requested = np.zeros((max([columns, *(column + 1 for column in self._requested)]), len(nodes)), dtype=np.int64)
        for column, amounts in self._requested.items():
            requested[column] = amounts[nodes]
        return requested, self.pod_count[nodes]

    def _count(self, node: int, pods: Sequence[PodInfo], sign: int) -> None:
        self.pod_count[node] += sign * len(pods)
        for pod in pods:
            for column, amount in pod.template.columns:
                if column not in self._requested:
                    self._requested[column] = np.zeros(len(self.pod_count), dtype=np.int64)
                self._requested[column][node] += sign * amount
