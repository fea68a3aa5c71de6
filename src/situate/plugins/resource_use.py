"""How resources would be in use with a pod on each node: what the plugins of resources score.

What pods of a kind ask for is looked up once (`Asked`, PreScore's answer), what is in use each time. All resources of a
plugin are dealt with together, in arrays of (resources, nodes): NumPy's time for few nodes is its time for each call.
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
"""Resources that count even for pods that do not ask for them."""
_EXACT: Final = 2**53
"""Below this floats are exact, and a true division's error is too small to cross an integer."""


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """What pods of a kind ask for of the resources that count for them, on one table of nodes."""

    columns: tuple[int, ...]
    """Of `ResourceColumns`."""
    amounts: NDArray[np.int64]
    """(resources, 1)"""
    without_and_with: NDArray[np.int64]
    """(2, resources, 1): nothing, and `amounts`."""
    weights: tuple[int, ...]
    with_defaults: bool
    """Whether containers that name no request count for some cpu and memory."""
    exact: bool
    """Whether floats will do."""
    everywhere: bool
    """Whether every node has some of each."""

    def before(self, snapshot: Snapshot) -> Amounts:
        """What is in use without the pod."""
        if self.exact:
            return snapshot.in_use(self.columns, scored=self.with_defaults)
        whole = (
            snapshot.scored_requested if self.with_defaults and column < SCORED else snapshot.requested
            for column in self.columns
        )
        return np.stack([of(column) for of, column in zip(whole, self.columns, strict=True)])

    def room(self, snapshot: Snapshot) -> Amounts:
        """What the nodes have; 0 where they lack the resource."""
        if self.exact:
            return snapshot.room(self.columns)
        return np.stack([snapshot.allocatable(column) for column in self.columns])


def asked_by(
    pod: PodInfo, nodes: NodeTable, resources: Sequence[tuple[str, int]], *, with_defaults: bool
) -> Asked | None:
    """Of these resources, with their weights; None if none of them counts for the pod.

    Resources beside cpu, memory and ephemeral storage count only if the pod asks for them.
    """
    request = pod.template.request
    columns: list[int] = []
    amounts: list[int] = []
    weights: list[int] = []
    exact = everywhere = True
    for name, weight in resources:
        column = nodes.vocabulary.resources.known(name)
        amount = request.of(name)
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
    return Asked(
        tuple(columns),
        both[1],
        both,
        tuple(weights),
        with_defaults,
        exact=exact,
        everywhere=everywhere,
    )


def percent(part: Amounts, room: Amounts, *, everywhere: bool) -> Amounts:
    """`part * 100 // room` for parts that are not negative; anything where there is no room."""
    if not everywhere:
        room = np.maximum(room, 1)
    if room.dtype == np.int64:
        return part * HIGHEST // room
    found = part * _HUNDRED
    found /= room
    return np.floor(found, out=found)


_HUNDRED: Final = np.float64(HIGHEST)
