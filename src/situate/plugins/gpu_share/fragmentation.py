"""How much of the idle GPUs of a node the pods that usually come could not use (Weng et al., USENIX ATC 2023).

What is idle is fragmented, for one kind of pod, as far as that pod could not have it: everything if it wants no GPU or
cannot run on the node; else what is idle on devices with less than it wants. The fragmentation of a node is the mean
over the usual kinds of pods, by how often they come.

Worked out the other way round, as what is *usable*, in whole numbers: thousandths of GPUs times the weights of the pods
that could have them. For pods that want one device each device adds to it by itself, so a table by the node's model,
its idle cpu and what is idle on the device says how much; for pods that want several it matters how many will do.
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
from situate.plugins.gpu_share.devices import Devices, Idle, idle
from situate.plugins.gpu_share.requests import MOST_DEVICES, WHOLE

_RARE: Final = 95
"""Percent of the pods that the usual kinds are cut at."""

Kinds = NDArray[np.intp]
"""(nodes,): by model and idle cpu, a row of the tables."""


class TypicalPod(msgspec.Struct, frozen=True, rename="camel"):
    """A kind of pod that usually comes."""

    cpu_milli: Annotated[int, msgspec.Meta(ge=0)] = 0
    gpu_count: Annotated[int, msgspec.Meta(ge=0, le=MOST_DEVICES)] = 0
    gpu_milli: Annotated[int, msgspec.Meta(ge=0, le=WHOLE)] = 0
    """Of each."""
    gpu_models: tuple[str, ...] = ()
    """One of these; empty is any."""
    weight: Annotated[int, msgspec.Meta(ge=1)] = 1
    """How often it comes, compared with the others."""

    @property
    def wants_gpu(self) -> bool:
        return self.gpu_count > 0 and self.gpu_milli > 0


def typical_pods(pods: Iterable[TypicalPod]) -> tuple[TypicalPod, ...]:
    """The kinds that make up 95 percent of these pods, the most frequent first; equal ones are counted together."""
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
class _Several:
    """For pods that want several devices with this much on each."""

    milli: int
    weight: NDArray[np.int64]
    """(kinds, devices + 1): of the pods that could run where so many devices fit."""


@dataclass(frozen=True, slots=True, eq=False)
class Fragmentation:
    """Of the nodes of one table, for some typical pods."""

    weight: int
    """Of all typical pods."""
    model: Kinds
    """(nodes,): the first row of the node's model."""
    cpus: NDArray[np.int64]
    """Ascending: the cpu that typical pods ask for."""
    one: NDArray[np.int64]
    """(kinds, 0..`WHOLE`): usable of a device with so much idle, for pods that want one."""
    several: tuple[_Several, ...]

    @classmethod
    def of(cls, nodes: NodeTable, typical: Sequence[TypicalPod]) -> Fragmentation:
        devices = Devices.of(nodes)
        wanting = [pod for pod in typical if pod.wants_gpu]
        cpus = np.array(sorted({pod.cpu_milli for pod in wanting}), dtype=np.int64)
        steps = len(cpus) + 1
        models = (*devices.models, "")  # the last one is that of nodes that do not say
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
            tuple(_Several(milli, several[milli]) for milli in sorted(several)),
        )

    def kinds(self, snapshot: Snapshot, *taken: int) -> tuple[Kinds, ...]:
        """Of each node once so much more cpu is taken; in the order of `taken`."""
        model = take(self.model, snapshot.chosen)
        cpu = snapshot.allocatable(0) - snapshot.requested(0)
        return tuple(model + self.cpus.searchsorted(cpu - each if each else cpu, "right") for each in taken)

    def usable(self, kinds: Kinds, free: Idle) -> NDArray[np.int64]:
        """(nodes,): thousandths of GPUs times the weight of the pods that could have them."""
        usable: NDArray[np.int64] = self.one[kinds, free].sum(axis=0)
        for each in self.several:
            fits = free >= each.milli
            usable += (free * fits).sum(axis=0) * each.weight[kinds, fits.sum(axis=0)]
        return usable

    def usable_by_device(self, kinds: Kinds, free: Idle, milli: int) -> NDArray[np.int64]:
        """(devices, nodes): the same once so much of that device is taken; anything where it has less."""
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

    def amount(self, snapshot: Snapshot) -> NDArray[np.float64]:
        """(nodes,): thousandths of GPUs that are fragmented."""
        free = idle(snapshot)
        (kinds,) = self.kinds(snapshot, 0)
        amount: NDArray[np.float64] = free.sum(axis=0) - self.usable(kinds, free) / max(self.weight, 1)
        return amount
