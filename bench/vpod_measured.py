"""What `bench.vpod` measures: vpod's deciding half on the inputs that `benchmarks.json` of the vectors describes.

P pods on a node each, V vpods of R vreplicas scheduled once each in order, safe profile, reasons on. Each call of a
fill is decide + commit + the status that comes back from the watch. Durations are seconds of the clock that is given.
"""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import mean, median
from typing import Any

from situate.vpod.model.options import Options, PolicyName
from situate.vpod.model.pod_classes import NodeFacts, PodFacts
from situate.vpod.model.vpod import Key, Placement, PlainVPod
from situate.vpod.placement.decide import commit, decide
from situate.vpod.scaling.autoscaler import AutoscalerMemory, decide_round
from situate.vpod.state.state import State

NAME = "statefulset-name"
LOADED = 21
"""Vpods that are tried at full load."""
_NODES_OF_POLICIES = 60

Clock = Callable[[], float]


@dataclass(frozen=True)
class Size:
    vpods: int
    vreplicas: int
    pods: int
    capacity: int

    def __str__(self) -> str:
        return f"{self.vpods}x{self.vreplicas}x{self.pods}"


@dataclass(frozen=True)
class Filled:
    """A StatefulSet with every vpod placed, and what that took."""

    state: State
    vpods: list[PlainVPod]
    clock: Clock
    total: float
    calls: list[float]

    @property
    def call(self) -> float:
        return median(self.calls)

    @property
    def first(self) -> float:
        """The median of the first 5 % of the calls."""
        return median(self.calls[: self._twentieth])

    @property
    def last(self) -> float:
        return median(self.calls[-self._twentieth :])

    @property
    def _twentieth(self) -> int:
        return max(1, len(self.calls) // 20)


def timed(clock: Clock, work: Callable[[], object]) -> float:
    start = clock()
    work()
    return clock() - start


def empty(size: Size, **options: Any) -> tuple[State, list[PlainVPod]]:
    nodes_in_use = min(size.pods, _NODES_OF_POLICIES) if options else size.pods
    pods = [PodFacts(f"{NAME}-{i}", f"node-{i % nodes_in_use}") for i in range(size.pods)]
    nodes = [NodeFacts(f"node-{i}", f"zone-{i % 3}") for i in range(nodes_in_use)]
    vpods = [PlainVPod(Key(f"ns-{i}", f"vpod-{i}"), size.vreplicas) for i in range(size.vpods)]
    settings = Options("knative-eventing", NAME, size.capacity, **options)
    return State.rebuild(settings, size.pods, pods, vpods, 0.0, nodes), vpods


def place(state: State, vpod: PlainVPod) -> None:
    """One call and its commit, without what the watch shows of it."""
    commit(state, decide(state, vpod, 1.0))


def schedule(state: State, vpods: list[PlainVPod], index: int) -> None:
    """One call, and its result as the status that the watch shows."""
    vpod = vpods[index]
    decision = decide(state, vpod, 1.0)
    commit(state, decision)
    vpods[index] = PlainVPod(vpod.key, vpod.vreplicas, decision.placements)
    state.observe_vpod(vpods[index], 1.0)


def fill(clock: Clock, size: Size, **options: Any) -> Filled:
    state, vpods = empty(size, **options)
    gc.freeze()  # as the manager does once everything is listed
    start = clock()
    calls = [timed(clock, partial(schedule, state, vpods, index)) for index in range(size.vpods)]
    total = clock() - start
    gc.unfreeze()
    return Filled(state, vpods, clock, total, calls)


def best_fill(clock: Clock, size: Size, runs: int, **options: Any) -> Filled:
    """The fastest run: what else the machine does can only make it slower."""
    return min((fill(clock, size, **options) for _ in range(runs)), key=lambda filled: filled.total)


def _chosen(filled: Filled, seed: int) -> list[int]:
    return random.Random(seed).sample(range(len(filled.vpods)), min(LOADED, len(filled.vpods)))


def noop(filled: Filled) -> float:
    """Scheduling what is satisfied."""
    return median(timed(filled.clock, partial(place, filled.state, filled.vpods[i])) for i in _chosen(filled, 1))


def one_more_and_back(filled: Filled) -> tuple[float, float]:
    """Scheduling one vreplica more, and then one less. What the watch shows of it is told, but not part of it."""
    more, less = [], []
    for index in _chosen(filled, 2):
        wanted = filled.vpods[index].vreplicas
        more.append(_resized(filled, index, wanted + 1))
        less.append(_resized(filled, index, wanted))
    return median(more), median(less)


def _resized(filled: Filled, index: int, vreplicas: int) -> float:
    state, vpod = filled.state, filled.vpods[index]
    vpod = PlainVPod(vpod.key, vreplicas, vpod.placements)
    state.observe_vpod(vpod, 1.0)
    spent = timed(filled.clock, partial(place, state, vpod))
    filled.vpods[index] = PlainVPod(vpod.key, vreplicas, state.vpods[vpod.key].result)
    state.observe_vpod(filled.vpods[index], 1.0)
    return spent


def one_beat(filled: Filled) -> float:
    """Of the autoscaler, decided and not carried out."""
    work = partial(decide_round, filled.state, AutoscalerMemory(), 1.0, False)
    return median(timed(filled.clock, work) for _ in range(LOADED))


def rebuild(filled: Filled) -> float:
    """A new leader's state, from listings."""
    state = filled.state
    pods = [slot.pod for slot in state.slots.values() if slot.pod is not None]
    nodes = state.nodes.values()
    return timed(filled.clock, lambda: State.rebuild(state.options, state.replicas, pods, filled.vpods, 1.0, nodes))


def lost_pod(filled: Filled) -> float:
    """All the work for one pod that is lost for good: the event, its end of grace, and every vpod on it."""
    state = filled.state
    slot = max(state.slots.values(), key=lambda slot: slot.committed)
    pod = slot.pod
    assert pod is not None

    def work() -> None:
        state.remove_pod(slot.name, 2.0)
        state.advance(1000.0)
        for index, vpod in enumerate(filled.vpods):
            entry = state.vpods[vpod.key]
            if not state.ousted.isdisjoint(entry.reserved or ()):
                schedule(state, filled.vpods, index)

    spent = timed(filled.clock, work)
    state.observe_pod(pod, 1000.0)
    return spent


def kib_per_call(size: Size) -> float:
    """The mean over a fill of the most that a call held beside what there was before it; what it leaves included."""
    state, vpods = empty(size)
    held = []
    tracemalloc.start()
    try:
        for index in range(size.vpods):
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            schedule(state, vpods, index)
            held.append(tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()
    return mean(held) / 1024


def policy_call(clock: Clock, size: Size, preloaded: int, calls: int) -> float:
    """Placing one vpod by the shipped predicates and priorities, the others placed round robin."""
    state, vpods = empty(size, policy=PolicyName.POLICY)
    turn = 0
    for index in range(preloaded):
        placements = tuple(
            Placement(f"{NAME}-{ordinal}", 1)
            for ordinal in sorted({(turn + offset) % size.pods for offset in range(size.vreplicas)})
        )
        turn += size.vreplicas
        vpods[index] = PlainVPod(vpods[index].key, size.vreplicas, placements)
        state.observe_vpod(vpods[index], 0.0)
    state.reserve_from_status()
    return median(timed(clock, partial(schedule, state, vpods, i)) for i in range(preloaded, preloaded + calls))
