"""The share of a node's idle GPUs that typical Pods cannot use (Weng et al., USENIX ATC 2023).

For one kind of Pod, idle GPU capacity is fragmented if that Pod cannot use it. This is all idle capacity if the Pod
requests no GPU or cannot run on the node. Otherwise it is the idle capacity of devices with less than the Pod requests.
The fragmentation of a node is the mean over the typical kinds of Pods, weighted by frequency.

The module computes the complement, the *usable* amount, in integers: thousandths of GPUs times the weights of the Pods
that can use them. For Pods with one device, each device adds to it separately. A table by the node's model, its idle
cpu and the device's idle amount has this addend. For Pods with several devices the number of fitting devices matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from situate.framework.snapshot.node_table import NodeTable, take
from situate.framework.snapshot.snapshot import Snapshot
from situate.plugins.gpu_share.devices import Devices, IdleAmounts, idle_amounts
from situate.plugins.gpu_share.requests import MOST_DEVICES, WHOLE

_RARE: Final = 95
"""Percentage of Pods that the typical kinds cover."""

Kinds = NDArray[np.intp]
"""(nodes,): a row of the tables, by model and idle cpu."""


class TypicalPod(msgspec.Struct, frozen=True, rename="camel"):
    """A typical kind of Pod."""

    cpu_milli: Annotated[int, msgspec.Meta(ge=0)] = 0
    gpu_count: Annotated[int, msgspec.Meta(ge=0, le=MOST_DEVICES)] = 0
    gpu_milli: Annotated[int, msgspec.Meta(ge=0, le=WHOLE)] = 0
    """Thousandths of each GPU."""
    gpu_models: tuple[str, ...] = ()
    """One of these models; empty means any."""
    weight: Annotated[int, msgspec.Meta(ge=1)] = 1
    """Frequency relative to the other kinds."""

    @property
    def wants_gpu(self) -> bool:
        return self.gpu_count > 0 and self.gpu_milli > 0


def typical_pods(pods: Iterable[TypicalPod]) -> tuple[TypicalPod, ...]:
    """Return the kinds that cover 95 percent of these Pods, the most frequent first; equal Pods are one kind."""
    counts: dict[TypicalPod, int] = {}
    for pod in pods:
        kind = msgspec.structs.replace(pod, weight=1)
        counts[kind] = counts.get(kind, 0) + pod.weight
    total = sum(counts.values())
    kept: list[TypicalPod] = []
    reached = 0
    for kind in sorted(counts, key=lambda kind: (counts[kind], _order(kind)), reverse=True):
        if reached * 100 >= total * _RARE:
            break
        reached += counts[kind]
        kept.append(msgspec.structs.replace(kind, weight=counts[kind]))
    return tuple(kept)


def _order(pod: TypicalPod) -> tuple[int, int, int, str]:
    return pod.cpu_milli, pod.gpu_milli, pod.gpu_count, "|".join(pod.gpu_models)


@dataclass(frozen=True, slots=True, eq=False)
class _MultiDeviceTable:
    """The table for Pods with several devices and this amount on each."""

    milli: int
    weight: NDArray[np.int64]
    """(kinds, devices + 1): the weight of the Pods that can run with that number of fitting devices."""


@dataclass(frozen=True, slots=True, eq=False)
class Fragmentation:
    """The fragmentation measure for the nodes of one table and some typical Pods."""

    weight: int
    """The weight of all typical Pods."""
    model: Kinds
    """(nodes,): the first row of the node's model."""
    cpus: NDArray[np.int64]
    """Ascending: the cpu requests of typical Pods."""
    one: NDArray[np.int64]
    """(kinds, 0..`WHOLE`): the usable amount of a device with this idle amount, for Pods with one device."""
    several: tuple[_MultiDeviceTable, ...]

    @classmethod
    def from_nodes(cls, nodes: NodeTable, typical: Sequence[TypicalPod]) -> Fragmentation:
        devices = Devices.from_nodes(nodes)
        wanting = [pod for pod in typical if pod.wants_gpu]
        cpus = np.array(sorted({pod.cpu_milli for pod in wanting}), dtype=np.int64)
        steps = len(cpus) + 1
        models = (*devices.models, "")  # the last one is for nodes without a model label
        width = len(devices.capacity)
        one = np.zeros((len(models) * steps, WHOLE + 1), dtype=np.int64)
        several: dict[int, NDArray[np.int64]] = {}
        for pod in wanting:
            enough = int(np.searchsorted(cpus, pod.cpu_milli, "right"))
            rows = [
                number * steps + step
                for number, model in enumerate(models)
                if not pod.gpu_models or model in pod.gpu_models
                for step in range(enough, steps)
            ]
            if pod.gpu_count == 1:
                one[rows, pod.gpu_milli :] += pod.weight
            else:
                table = several.setdefault(pod.gpu_milli, np.zeros((len(one), width + 1), dtype=np.int64))
                table[rows, pod.gpu_count :] += pod.weight
        one *= np.arange(WHOLE + 1)
        return cls(
            sum(pod.weight for pod in typical),
            np.where(devices.model < 0, len(models) - 1, devices.model).astype(np.intp) * steps,
            cpus,
            one,
            tuple(_MultiDeviceTable(milli, several[milli]) for milli in sorted(several)),
        )

    def kinds(self, snapshot: Snapshot, *taken: int) -> tuple[Kinds, ...]:
        """Return the table row of each node after this much more cpu is taken, for each value of `taken`."""
        model = take(self.model, snapshot.chosen)
        cpu = snapshot.allocatable(0) - snapshot.requested(0)
        return tuple(model + self.cpus.searchsorted(cpu - each if each else cpu, "right") for each in taken)

    def usable_amount(self, kinds: Kinds, free: IdleAmounts) -> NDArray[np.int64]:
        """Return (nodes,): thousandths of GPUs times the weight of the Pods that can use them."""
        usable: NDArray[np.int64] = self.one[kinds, free].sum(axis=0)
        for each in self.several:
            fits = free >= each.milli
            usable += (free * fits).sum(axis=0) * each.weight[kinds, fits.sum(axis=0)]
        return usable

    def usable_amount_by_device(self, kinds: Kinds, free: IdleAmounts, milli: int) -> NDArray[np.int64]:
        """Return (devices, nodes): the same after `milli` is taken from that device; undefined if it has less."""
        left = np.maximum(free - milli, 0)
        now = self.one[kinds, free]
        usable: NDArray[np.int64] = now.sum(axis=0) - now + self.one[kinds, left]
        for each in self.several:
            fits = free >= each.milli
            still = left >= each.milli
            room = free * fits
            after = room.sum(axis=0) - room + left * still
            usable += after * each.weight[kinds, fits.sum(axis=0) - fits + still]
        return usable

    def fragmented_amount(self, snapshot: Snapshot) -> NDArray[np.float64]:
        """Return (nodes,): fragmented thousandths of GPUs."""
        free = idle_amounts(snapshot)
        (kinds,) = self.kinds(snapshot, 0)
        amount: NDArray[np.float64] = free.sum(axis=0) - self.usable_amount(kinds, free) / max(self.weight, 1)
        return amount
