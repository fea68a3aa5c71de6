"""Loads that a scheduler of machines must bear (section 6): steady, burst, full, unequal nodes, and a lost node.

One beyond them is the hardest for our rules: every node is at its watermark, so that none may take anybody (B13).

Each machine has 4 GiB for each CPU, uses half of its memory, and dirties some of that while it is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from situate.sim.vm.trace import Bounds, Change, Trace, Vector
from situate.vm.model.policy import GIB, MIB
from situate.vm.model.resource_amounts import Amounts

GIB_PER_CPU: Final = 4
DAY_S: Final = 24 * 3600.0


class Chance(Protocol):
    """Where numbers by chance come from (`random.Random` is one)."""

    def random(self) -> float: ...
    def randint(self, a: int, b: int, /) -> int: ...


def cpus(number: float) -> Amounts:
    """So many CPUs, and the memory that goes with them."""
    return Amounts.of(int(number * 1000), int(number * GIB_PER_CPU * GIB))


def steady(chance: Chance, nodes: int = 6) -> Trace:
    """A day in which nobody's wish changes; some nodes are over their watermark in the beginning."""
    begin = _Cluster(chance, [16] * nodes, lambda node: 0.97 if node % 3 == 0 else 0.6)
    return Trace("steady", DAY_S, tuple(begin.changes))


def burst(chance: Chance, nodes: int = 6) -> Trace:
    """Every few minutes some machines of one node want twice what they have, for ten minutes."""
    cluster = _Cluster(chance, [16] * nodes, lambda _: 0.75)
    cluster.bursts(begin=600, end=6600, every=240, share=0.4, lasts=600)
    return Trace("burst", 7800, cluster.in_order())


def full_cluster(chance: Chance, nodes: int = 6) -> Trace:
    """All room is taken: who wants more waits until others of the node want less, which some of them do for a while."""
    cluster = _Cluster(chance, [16] * nodes, lambda _: 1.0)
    cluster.bursts(begin=600, end=6600, every=240, share=0.3, lasts=600)
    cluster.lulls(begin=800, end=6600, every=400, lasts=500)
    return Trace("full-cluster", 7800, cluster.in_order())


def at_watermark(chance: Chance, nodes: int = 6) -> Trace:
    """Every node is as full as its watermark, and has a tenth left for those who grow; some want more for a while."""
    cluster = _Cluster(chance, [16] * nodes, lambda _: 0.9)
    cluster.bursts(begin=600, end=6600, every=240, share=0.3, lasts=600)
    return Trace("at-watermark", 7800, cluster.in_order())


def heterogeneous(chance: Chance, nodes: int = 6) -> Trace:
    """Nodes of 10 and of 40 CPUs: what fits on a large one may be too big for any small one."""
    cluster = _Cluster(chance, [10 if number % 2 else 40 for number in range(nodes)], lambda _: 0.75)
    cluster.bursts(begin=600, end=6600, every=240, share=0.3, lasts=600)
    return Trace("heterogeneous", 7800, cluster.in_order())


def node_loss(chance: Chance, nodes: int = 6) -> Trace:
    """One node is lost while others burst, and comes back after half an hour, empty."""
    cluster = _Cluster(chance, [16] * nodes, lambda _: 0.65)
    cluster.bursts(begin=600, end=6600, every=300, share=0.4, lasts=600)
    lost = cluster.changes[0]
    cluster.changes.append(Change(time=1200, event="node-deleted", uid=lost.uid))
    cluster.changes.append(Change(time=3000, event="node-added", uid=lost.uid, allocatable=lost.allocatable))
    return Trace("node-loss", 7800, cluster.in_order())


SCENARIOS: Final[Mapping[str, Callable[[Chance, int], Trace]]] = {
    "steady": steady,
    "burst": burst,
    "full-cluster": full_cluster,
    "at-watermark": at_watermark,
    "heterogeneous": heterogeneous,
    "node-loss": node_loss,
}


class _Cluster:
    """Changes in the making: nodes of so many CPUs, filled with machines up to a share."""

    def __init__(self, chance: Chance, sizes: list[int], share: Callable[[int], float]) -> None:
        self._chance = chance
        self.changes: list[Change] = []
        self._machines: dict[int, list[tuple[str, float]]] = {}
        """By node: uid and CPUs of each."""
        for number, size in enumerate(sizes):
            self.changes.append(Change(time=0, event="node-added", uid=f"n{number}", allocatable=Vector.of(cpus(size))))
        for number, size in enumerate(sizes):
            self._fill(number, size * share(number))

    def in_order(self) -> tuple[Change, ...]:
        return tuple(sorted(self.changes, key=lambda change: change.time))

    def bursts(self, begin: float, end: float, every: float, share: float, lasts: float) -> None:
        """`share` of the machines of one node after the other; nobody's wishes overlap."""
        at, free_at = begin, dict.fromkeys(self._machines, 0.0)
        while at < end:
            ready = [node for node, until in free_at.items() if until <= at]
            if ready:
                node = ready[self._chance.randint(0, len(ready) - 1)]
                free_at[node] = at + lasts + 30
                machines = self._machines[node]
                for uid, held in machines[: max(1, round(len(machines) * share))]:
                    starts = at + self._chance.random() * 20
                    self._wish(starts, uid, held * 2)
                    self._wish(starts + lasts, uid, held)
            at += every

    def lulls(self, begin: float, end: float, every: float, lasts: float) -> None:
        """The last machine of one node after the other needs half of what it has for a while."""
        at, nodes = begin, list(self._machines)
        while at < end:
            uid, held = self._machines[nodes[self._chance.randint(0, len(nodes) - 1)]][-1]
            self._wish(at, uid, held / 2)
            self._wish(at + lasts, uid, held)
            at += every

    def _fill(self, node: int, room: float) -> None:
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
                    resources=Vector.of(cpus(size)),
                    bounds=Bounds(min=Vector.of(cpus(0.25)), max=Vector.of(cpus(size * 2))),
                    used_memory=int(size * GIB_PER_CPU * GIB / 2),
                    dirty_rate=self._chance.random() * 300 * MIB,
                )
            )

    def _wish(self, time: float, uid: str, amount: float) -> None:
        self.changes.append(Change(time=time, event="pod-changed", uid=uid, resources=Vector.of(cpus(amount))))
