"""The GPUs of nodes, and the selection of a Pod's devices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from situate.framework.results.verdict import Mask
from situate.framework.snapshot.device_allocations import AllocationDefinition
from situate.framework.snapshot.labels import Ids
from situate.framework.snapshot.node_table import NodeTable
from situate.framework.snapshot.snapshot import Snapshot
from situate.plugins.gpu_share.requests import COUNT, MODEL, MOST_DEVICES, WHOLE, GpuRequest, held_devices

IdleAmounts = NDArray[np.int64]
"""(devices, nodes): unallocated thousandths of each GPU; 0 if the node has no such device."""

_DEVICES: Final = AllocationDefinition("GpuShare", held_devices)


@dataclass(frozen=True, slots=True, eq=False)
class Devices:
    """The GPUs of a table's nodes."""

    count: NDArray[np.int64]
    """(nodes,)"""
    capacity: IdleAmounts
    """(devices, nodes): `WHOLE` if the device exists."""
    model: Ids
    """(nodes,): number of the model; -1 if the node has no model label."""
    models: tuple[str, ...]
    """By number."""

    @classmethod
    def from_nodes(cls, nodes: NodeTable) -> Devices:
        """Return the GPUs of the table's nodes, computed once for each table."""
        return nodes.plan(("GpuShare", "devices"), lambda: cls._read(nodes))

    @classmethod
    def _read(cls, nodes: NodeTable) -> Devices:
        column = nodes.vocabulary.resources.existing_column(COUNT)
        count = np.zeros(len(nodes), dtype=np.int64)
        if column is not None and column < len(nodes.allocatable):
            count = np.clip(nodes.allocatable[column], 0, MOST_DEVICES)
        width = int(count.max(initial=0))
        domains = nodes.labels.domains(MODEL)
        capacity = np.where(np.arange(width)[:, None] < count, WHOLE, 0).astype(np.int64)
        return cls(count, capacity, domains.of_node, tuple(domains.values))

    def have_model(self, models: tuple[str, ...]) -> Mask:
        """Return (nodes,): whether the node's GPUs are of one of these models; no models means any."""
        if not models:
            return np.ones(len(self.count), dtype=np.bool_)
        wanted = [number for number, model in enumerate(self.models) if model in models]
        return np.isin(self.model, wanted)


def idle_amounts(snapshot: Snapshot) -> IdleAmounts:
    """Return the idle thousandths of each GPU of the snapshot's nodes."""
    capacity = Devices.from_nodes(snapshot.nodes).capacity
    if snapshot.chosen is not None:
        capacity = capacity.take(snapshot.chosen, axis=1)
    free: IdleAmounts = capacity - snapshot.allocated_units(_DEVICES, len(capacity))
    return np.maximum(free, 0, out=free)  # two schedulers may have allocated the same device


def tightest_devices(free: NDArray[np.int64], request: GpuRequest) -> list[int]:
    """Return the devices of one node with the least sufficient free capacity, the first among equals.

    The result is ascending, and empty if there are too few devices. `free` is (devices,).
    """
    fitting = np.flatnonzero(free >= request.milli)
    if len(fitting) < request.count:
        return []
    order = np.argsort(free[fitting], kind="stable")[: request.count]
    return sorted(fitting[order].tolist())


def idle_after_placement(free: IdleAmounts, request: GpuRequest) -> IdleAmounts:
    """Return the idle amounts if each node allocated its tightest devices. The devices of a node are reordered.

    All nodes must have enough devices.
    """
    left: IdleAmounts = np.sort(free, axis=0)
    return left - np.where(allotted_devices(left, request), request.milli, 0)


def allotted_devices(ascending: IdleAmounts, request: GpuRequest) -> NDArray[np.bool_]:
    """Return (devices, nodes): the devices that a Pod would get, the tightest ones. Each column must be ascending."""
    fits = ascending >= request.milli
    taken: NDArray[np.bool_] = fits & (np.cumsum(fits, axis=0) <= request.count)
    return taken
