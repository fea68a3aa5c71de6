"""The GPUs of nodes, and which of them a pod gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from situate.framework.results.verdict import Mask
from situate.framework.snapshot.device_allocations import Holding
from situate.framework.snapshot.labels import Ids
from situate.framework.snapshot.node_table import NodeTable
from situate.framework.snapshot.snapshot import Snapshot
from situate.plugins.gpu_share.requests import COUNT, MODEL, MOST_DEVICES, WHOLE, GpuRequest, held_devices

Idle = NDArray[np.int64]
"""(devices, nodes): thousandths of each GPU that nobody holds; 0 where the node has no such device."""

_HELD: Final = Holding("GpuShare", held_devices)


@dataclass(frozen=True, slots=True, eq=False)
class Devices:
    """The GPUs of a table's nodes."""

    count: NDArray[np.int64]
    """(nodes,)"""
    capacity: Idle
    """(devices, nodes): `WHOLE` where there is a device."""
    model: Ids
    """(nodes,): number of the model; -1 where the node does not say."""
    models: tuple[str, ...]
    """By number."""

    @classmethod
    def of(cls, nodes: NodeTable) -> Devices:
        """Worked out once for each table."""
        return nodes.plan(("GpuShare", "devices"), lambda: cls._read(nodes))

    @classmethod
    def _read(cls, nodes: NodeTable) -> Devices:
        column = nodes.vocabulary.resources.known(COUNT)
        count = np.zeros(len(nodes), dtype=np.int64)
        if column is not None and column < len(nodes.allocatable):
            count = np.clip(nodes.allocatable[column], 0, MOST_DEVICES)
        width = int(count.max(initial=0))
        domains = nodes.labels.domains(MODEL)
        capacity = np.where(np.arange(width)[:, None] < count, WHOLE, 0).astype(np.int64)
        return cls(count, capacity, domains.of_node, tuple(domains.values))

    def are(self, models: tuple[str, ...]) -> Mask:
        """(nodes,): whether the node's GPUs are of one of these models; no models are any."""
        if not models:
            return np.ones(len(self.count), dtype=np.bool_)
        wanted = [number for number, model in enumerate(self.models) if model in models]
        return np.isin(self.model, wanted)


def idle(snapshot: Snapshot) -> Idle:
    """Of each GPU of the snapshot's nodes."""
    capacity = Devices.of(snapshot.nodes).capacity
    if snapshot.chosen is not None:
        capacity = capacity.take(snapshot.chosen, axis=1)
    free: Idle = capacity - snapshot.held(_HELD, len(capacity))
    return np.maximum(free, 0, out=free)  # two schedulers may have promised the same device


def tightest(free: NDArray[np.int64], request: GpuRequest) -> list[int]:
    """The devices of one node with the least room that is enough, the first among equals; none if they are too few.

    `free`: (devices,). They come in ascending order.
    """
    fitting = np.flatnonzero(free >= request.milli)
    if len(fitting) < request.count:
        return []
    order = np.argsort(free[fitting], kind="stable")[: request.count]
    return sorted(fitting[order].tolist())


def without(free: Idle, request: GpuRequest) -> Idle:
    """What would be idle if each node gave the pod its tightest devices; the devices of a node in another order.

    All nodes must have enough.
    """
    left: Idle = np.sort(free, axis=0)
    return left - np.where(given(left, request), request.milli, 0)


def given(ascending: Idle, request: GpuRequest) -> NDArray[np.bool_]:
    """(devices, nodes): which devices a pod would get, the tightest; each node's come in ascending order."""
    fits = ascending >= request.milli
    taken: NDArray[np.bool_] = fits & (np.cumsum(fits, axis=0) <= request.count)
    return taken
