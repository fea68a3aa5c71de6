"""Loads for a scheduler of VMs: those of docs/spec/vm.md, and one more.

The loads are steady, burst, full, unequal nodes, and a lost node. The further one is the hardest for our rules: every
node is at its watermark, so that none may accept a VM (B13).

Each VM has 4 GiB per CPU, uses half of its memory, and dirties some of it while it is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from situate.sim.vm.trace import Bounds, Change, Trace, Vector
from situate.vm.model.policy import GIB, MIB
from situate.vm.model.resource_amounts import Amounts

GIB_PER_CPU: Final = 4
DAY_S: Final = 24 * 3600.0


class RandomSource(Protocol):
    """A source of random numbers, such as `random.Random`."""

    def random(self) -> float: ...
    def randint(self, a: int, b: int, /) -> int: ...


def cpus(number: float) -> Amounts:
    """Return this many CPUs with their memory."""
    return Amounts.from_values(int(number * 1000), int(number * GIB_PER_CPU * GIB))


def steady(chance: RandomSource, nodes: int = 6) -> Trace:
    """Build a day without changed requests. Some nodes begin over their watermark."""
    begin = _Cluster(chance, [16] * nodes, lambda node: 0.97 if node % 3 == 0 else 0.6)
    return Trace("steady", DAY_S, tuple(begin.changes))


def burst(chance: RandomSource, nodes: int = 6) -> Trace:
    """Build bursts: every few minutes some VMs of one node want twice their size for ten minutes."""
    cluster = _Cluster(chance, [16] * nodes, lambda _: 0.75)
    cluster.add_bursts(begin=600, end=6600, every=240, share=0.4, lasts=600)
    return Trace("burst", 7800, cluster.sorted_changes())


def full_cluster(chance: RandomSource, nodes: int = 6) -> Trace:
    """Build a full cluster: a VM that wants more waits until other VMs of its node want less for a while."""
    cluster = _Cluster(chance, [16] * nodes, lambda _: 1.0)
    cluster.add_bursts(begin=600, end=6600, every=240, share=0.3, lasts=600)
    cluster.add_lulls(begin=800, end=6600, every=400, lasts=500)
    return Trace("full-cluster", 7800, cluster.sorted_changes())


def at_watermark(chance: RandomSource, nodes: int = 6) -> Trace:
    """Build a cluster at its watermark: each node has a tenth left for growth, and some VMs want more for a while."""
    cluster = _Cluster(chance, [16] * nodes, lambda _: 0.9)
    cluster.add_bursts(begin=600, end=6600, every=240, share=0.3, lasts=600)
    return Trace("at-watermark", 7800, cluster.sorted_changes())


def heterogeneous(chance: RandomSource, nodes: int = 6) -> Trace:
    """Build nodes of 10 and of 40 CPUs: a VM that fits on a large node may be too big for any small one."""
    cluster = _Cluster(chance, [10 if number % 2 else 40 for number in range(nodes)], lambda _: 0.75)
    cluster.add_bursts(begin=600, end=6600, every=240, share=0.3, lasts=600)
    return Trace("heterogeneous", 7800, cluster.sorted_changes())


def node_loss(chance: RandomSource, nodes: int = 6) -> Trace:
    """Build a loss: one node is lost during bursts, and returns empty after half an hour."""
    cluster = _Cluster(chance, [16] * nodes, lambda _: 0.65)
    cluster.add_bursts(begin=600, end=6600, every=300, share=0.4, lasts=600)
    lost = cluster.changes[0]
    cluster.changes.append(Change(time=1200, event="node-deleted", uid=lost.uid))
    cluster.changes.append(Change(time=3000, event="node-added", uid=lost.uid, allocatable=lost.allocatable))
    return Trace("node-loss", 7800, cluster.sorted_changes())


SCENARIOS: Final[Mapping[str, Callable[[RandomSource, int], Trace]]] = {
    "steady": steady,
    "burst": burst,
    "full-cluster": full_cluster,
    "at-watermark": at_watermark,
    "heterogeneous": heterogeneous,
    "node-loss": node_loss,
}


class _Cluster:
    """The changes of a trace under construction: nodes of given CPUs, filled with VMs up to a share."""

    def __init__(self, chance: RandomSource, sizes: list[int], share: Callable[[int], float]) -> None:
        self._chance = chance
        self.changes: list[Change] = []
        self._machines: dict[int, list[tuple[str, float]]] = {}
        """By node: UID and CPUs of each VM."""
        for number, size in enumerate(sizes):
            self.changes.append(
                Change(time=0, event="node-added", uid=f"n{number}", allocatable=Vector.from_amounts(cpus(size)))
            )
        for number, size in enumerate(sizes):
            self._fill_node(number, size * share(number))

    def sorted_changes(self) -> tuple[Change, ...]:
        return tuple(sorted(self.changes, key=lambda change: change.time))

    def add_bursts(self, begin: float, end: float, every: float, share: float, lasts: float) -> None:
        """Add bursts on a share of the VMs of one node after the other. Bursts of one VM never overlap."""
        at, free_at = begin, dict.fromkeys(self._machines, 0.0)
        while at < end:
            ready = [node for node, until in free_at.items() if until <= at]
            if ready:
                node = ready[self._chance.randint(0, len(ready) - 1)]
                free_at[node] = at + lasts + 30
                machines = self._machines[node]
                for uid, held in machines[: max(1, round(len(machines) * share))]:
                    starts = at + self._chance.random() * 20
                    self._add_request(starts, uid, held * 2)
                    self._add_request(starts + lasts, uid, held)
            at += every

    def add_lulls(self, begin: float, end: float, every: float, lasts: float) -> None:
        """Add lulls: the last VM of a random node needs half of its size for a while."""
        at, nodes = begin, list(self._machines)
        while at < end:
            uid, held = self._machines[nodes[self._chance.randint(0, len(nodes) - 1)]][-1]
            self._add_request(at, uid, held / 2)
            self._add_request(at + lasts, uid, held)
            at += every

    def _fill_node(self, node: int, room: float) -> None:
        machines = self._machines[node] = []
        while room >= 1:
            size = min(float(self._chance.randint(1, 3)), room // 0.5 * 0.5)
            room -= size
            uid = f"n{node}-{len(machines)}"
            machines.append((uid, size))
            self.changes.append(
                Change(
                    time=0,
                    event="pod-added",
                    uid=uid,
                    node=f"n{node}",
                    resources=Vector.from_amounts(cpus(size)),
                    bounds=Bounds(min=Vector.from_amounts(cpus(0.25)), max=Vector.from_amounts(cpus(size * 2))),
                    used_memory=int(size * GIB_PER_CPU * GIB / 2),
                    dirty_rate=self._chance.random() * 300 * MIB,
                )
            )

    def _add_request(self, time: float, uid: str, amount: float) -> None:
        self.changes.append(
            Change(time=time, event="pod-changed", uid=uid, resources=Vector.from_amounts(cpus(amount)))
        )
