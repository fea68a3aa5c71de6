"""Nominated Pods by node, and the capacity to keep free for them as columns.

A burst of preemptors may cause a thousand nominations. Every Pod placed in the meantime must respect them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from situate.framework.pod.pods import PodInfo
from situate.framework.results.verdict import Indices

Amounts = NDArray[np.int64]


class NominatedPods(dict[int, tuple[PodInfo, ...]]):
    """The nominated Pods by the index of their node; mutable, of one owner, and changed only by `replace_pods`."""

    def __init__(self, nodes: int) -> None:
        super().__init__()
        self.pod_count: Amounts = np.zeros(nodes, dtype=np.int64)
        """(nodes,): the number of Pods."""
        self.version = 0
        """Increased with every change."""
        self._requested: dict[int, Amounts] = {}

    def replace_pods(self, node: int, pods: tuple[PodInfo, ...]) -> None:
        """Replace the Pods that are nominated to the node."""
        self.version += 1
        self._count(node, self.pop(node, ()), -1)
        self._count(node, pods, 1)
        if pods:
            self[node] = pods

    def without_pod(self, node: int, uid: str) -> NominatedPods:
        """Return a copy without one Pod that is nominated to the node."""
        twin = NominatedPods(0)
        twin.update(self)
        twin.pod_count = self.pod_count.copy()
        twin._requested = {column: amounts.copy() for column, amounts in self._requested.items()}
        twin.replace_pods(node, tuple(pod for pod in self.get(node, ()) if pod.uid != uid))
        return twin

    @property
    def nodes(self) -> Indices:
        """The nodes with nominated Pods."""
        return np.flatnonzero(self.pod_count)

    def requested_amounts(self, column: int) -> Amounts:
        """Return (nodes,): the nominated Pods' requests of the resource with this column."""
        amounts = self._requested.get(column)
        return np.zeros(len(self.pod_count), dtype=np.int64) if amounts is None else amounts

    def requests_at(self, nodes: Indices, columns: int) -> tuple[Amounts, Amounts]:
        """Return the requests on these nodes, (resources, nodes), and the Pod counts.

        The first array has at least `columns` rows.
        """
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
