"""Resource use of each node with a Pod, which the resource plugins score.

The requests of a kind of Pod are computed once (`ScoredRequests`, the PreScore state), and the node's use each time.
All resources of a plugin are processed together, as arrays of (resources, nodes). For few nodes NumPy's cost is the
number of calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from situate.framework.plugin_api.plugin import HIGHEST
from situate.framework.pod.pods import PodInfo
from situate.framework.pod.resources import CPU, EPHEMERAL, MEMORY
from situate.framework.snapshot.node_load import SCORED
from situate.framework.snapshot.node_table import NodeTable
from situate.framework.snapshot.snapshot import Snapshot

Amounts = NDArray[np.int64] | NDArray[np.float64]
"""(resources, nodes): floats if they give whole percentages exactly, else integers."""

NATIVE: Final = (CPU, MEMORY, EPHEMERAL)
"""Resources that are scored even for Pods that do not request them."""
_EXACT: Final = 2**53
"""Below this limit floats are exact, and the error of a true division is too small to cross an integer."""


@dataclass(frozen=True, slots=True, eq=False)
class ScoredRequests:
    """A kind of Pod's requests of the resources that are scored for it, on one table of nodes."""

    columns: tuple[int, ...]
    """Columns of `ResourceColumns`."""
    amounts: NDArray[np.int64]
    """(resources, 1)"""
    without_and_with: NDArray[np.int64]
    """(2, resources, 1): zeros, and `amounts`."""
    weights: tuple[int, ...]
    with_defaults: bool
    """Whether containers without a request count default amounts of cpu and memory."""
    exact: bool
    """Whether floats are exact enough."""
    everywhere: bool
    """Whether every node has some of each resource."""

    def amounts_in_use(self, snapshot: Snapshot) -> Amounts:
        """Return the amounts in use without the Pod."""
        if self.exact:
            return snapshot.requested_floats(self.columns, scored=self.with_defaults)
        whole = (
            snapshot.scored_requested if self.with_defaults and column < SCORED else snapshot.requested
            for column in self.columns
        )
        return np.stack([of(column) for of, column in zip(whole, self.columns, strict=True)])

    def node_capacity(self, snapshot: Snapshot) -> Amounts:
        """Return the capacity of the nodes; 0 if they lack the resource."""
        if self.exact:
            return snapshot.allocatable_floats(self.columns)
        return np.stack([snapshot.allocatable(column) for column in self.columns])


def scored_requests_of(
    pod: PodInfo, nodes: NodeTable, resources: Sequence[tuple[str, int]], *, with_defaults: bool
) -> ScoredRequests | None:
    """Collect the Pod's requests of these resources with weights; None if none is scored for the Pod.

    Resources other than cpu, memory and ephemeral-storage are scored only if the Pod requests them.
    """
    request = pod.template.request
    columns: list[int] = []
    amounts: list[int] = []
    weights: list[int] = []
    exact = everywhere = True
    for name, weight in resources:
        column = nodes.vocabulary.resources.existing_column(name)
        amount = request.amount_of(name)
        if column is None or (name not in NATIVE and not amount):
            continue
        if with_defaults and column < SCORED:
            amount = request.wanted_memory if column else request.wanted_cpu
        columns.append(column)
        amounts.append(amount)
        weights.append(weight)
        least, most = nodes.range_of(column)
        exact = exact and 0 < most < _EXACT // HIGHEST
        everywhere = everywhere and least > 0
    if not columns:
        return None
    both = np.array(([0] * len(amounts), amounts), dtype=np.int64).reshape(2, -1, 1)
    return ScoredRequests(
        tuple(columns),
        both[1],
        both,
        tuple(weights),
        with_defaults,
        exact=exact,
        everywhere=everywhere,
    )


def percent(part: Amounts, room: Amounts, *, everywhere: bool) -> Amounts:
    """Return `part * 100 // room` for non-negative parts; undefined where the capacity is 0."""
    if not everywhere:
        room = np.maximum(room, 1)
    if room.dtype == np.int64:
        return part * HIGHEST // room
    found = part * _HUNDRED
    found /= room
    return np.floor(found, out=found)


_HUNDRED: Final = np.float64(HIGHEST)
