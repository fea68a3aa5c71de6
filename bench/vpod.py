"""Speed of vpod's deciding half, beside the reference's figures (section 14 of the reference).

    python -m bench.vpod [--quick] [--no-policy]

Inputs as `benchmarks.json` of the vectors describes them: P pods on a node each, V vpods of R vreplicas scheduled once
each in order, safe profile, reasons on; each call is decide + commit + the status that comes back from the watch. The
reference ran in Go on another machine, so read the ratios, not the times. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from bench.machine import machine
from situate.vpod.autoscaler import Memory, beat
from situate.vpod.decide import commit, decide
from situate.vpod.model import Key, Placement, PlainVPod
from situate.vpod.options import Options, PolicyName
from situate.vpod.pods import NodeFacts, PodFacts
from situate.vpod.state import State

REFERENCE = Path(__file__).parent.parent / "tests" / "conformance" / "vectors" / "knative" / "benchmarks.json"
NAME = "statefulset-name"
LOADED = 21  # vpods that are tried at full load


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
    """A StatefulSet with every vpod placed, and what that took in seconds."""

    state: State
    vpods: list[PlainVPod]
    total: float
    calls: list[float]


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def empty(size: Size, **options: Any) -> tuple[State, list[PlainVPod]]:
    nodes_in_use = min(size.pods, 60) if options else size.pods
    pods = [PodFacts(f"{NAME}-{i}", f"node-{i % nodes_in_use}") for i in range(size.pods)]
    nodes = [NodeFacts(f"node-{i}", f"zone-{i % 3}") for i in range(nodes_in_use)]
    vpods = [PlainVPod(Key(f"ns-{i}", f"vpod-{i}"), size.vreplicas) for i in range(size.vpods)]
    settings = Options("knative-eventing", NAME, size.capacity, **options)
    return State.rebuilt(settings, size.pods, pods, vpods, 0.0, nodes), vpods


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


def fill(size: Size) -> Filled:
    state, vpods = empty(size)
    gc.collect()
    gc.freeze()  # as the manager does once everything is listed
    start = time.perf_counter()
    calls = [timed(partial(schedule, state, vpods, index)) for index in range(size.vpods)]
    total = time.perf_counter() - start
    gc.unfreeze()
    return Filled(state, vpods, total, calls)


def best_fill(size: Size, runs: int) -> Filled:
    """The fastest run: what else the machine does can only make it slower."""
    return min((fill(size) for _ in range(runs)), key=lambda filled: filled.total)


def noop(filled: Filled) -> float:
    """Scheduling what is satisfied."""
    chosen = random.Random(1).sample(filled.vpods, min(LOADED, len(filled.vpods)))
    return median(timed(partial(place, filled.state, vpod)) for vpod in chosen)


def one_more(filled: Filled) -> float:
    """Deciding on one vreplica more; not committed, so that every call finds the same load."""
    chosen = random.Random(2).sample(filled.vpods, min(LOADED, len(filled.vpods)))
    larger = [PlainVPod(vpod.key, vpod.vreplicas + 1, vpod.placements) for vpod in chosen]
    return median(timed(partial(decide, filled.state, vpod, 1.0)) for vpod in larger)


def rebuild(filled: Filled) -> float:
    """A new leader's state, from listings."""
    state = filled.state
    pods = [slot.pod for slot in state.slots.values() if slot.pod is not None]
    return timed(lambda: State.rebuilt(state.options, state.replicas, pods, filled.vpods, 1.0, state.nodes.values()))


def lost_pod(filled: Filled) -> float:
    """All the work for one pod that is lost for good: the event, its end of grace, and every vpod on it."""
    state = filled.state
    slot = max(state.slots.values(), key=lambda slot: slot.committed)
    pod = slot.pod
    assert pod is not None

    def work() -> None:
        state.pod_gone(slot.name, 2.0)
        state.advance(1000.0)
        for index, vpod in enumerate(filled.vpods):
            entry = state.vpods[vpod.key]
            if not state.ousted.isdisjoint(entry.reserved or ()):
                schedule(state, filled.vpods, index)

    spent = timed(work)
    state.observe_pod(pod, 1000.0)
    return spent


def policy_call(size: Size, preloaded: int, calls: int) -> float:
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
    return median(timed(partial(schedule, state, vpods, i)) for i in range(preloaded, preloaded + calls))


def row(*cells: object) -> str:
    return "".join(f"{cell!s:>{width}}" for cell, width in zip(cells, WIDTHS, strict=False)).rstrip()


WIDTHS = (20, 13, 13, 10, 13, 13, 10, 11, 11, 11)


def ratio(theirs: float, ours: float) -> str:
    return f"{theirs / ours:,.0f}x"


def sizes_of(rows: list[dict[str, Any]]) -> Iterator[tuple[Size, dict[str, Any]]]:
    for each in rows:
        yield Size(each["V"], each["R"], each["P"], each["C"]), each


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.vpod", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one run of each, without the largest sizes")
    parser.add_argument("--no-policy", action="store_true", help="leave out the policy of predicates and priorities")
    chosen = parser.parse_args(arguments)
    reference = json.loads(REFERENCE.read_text(encoding="utf-8"))
    found: dict[str, Any] = {key: {} for key in ("fill_s", "noop_us", "policy_call_s", "rebuild_s", "lost_pod_s")}
    found |= {"plus1_us": {}, "beat_us": {}, "last_by_first": {}, "sweep_s": {}}
    print(f"ours:      {machine()}\nreference: {reference['machine']}")
    fill(Size(50, 10, 100, 7))  # warm: the first run pays for what the interpreter learns once
    runs = 1 if chosen.quick else 5
    largest = 1500 if chosen.quick else sys.maxsize

    print("\nfilling, ours beside the reference's")
    timings = ("total ms", "reference", "ratio", "no-op us", "reference", "ratio", "last/first", "rebuild s", "loss s")
    print(row("V x R x P", *timings))
    for size, theirs in sizes_of([each for each in reference["results"] if each["log"] == "nop"]):
        if size.vpods > largest:
            continue
        filled = best_fill(size, runs)
        part = max(1, size.vpods // 20)
        by_first = median(filled.calls[-part:]) / median(filled.calls[:part])
        name = str(size)
        found["fill_s"][name] = filled.total
        found["last_by_first"][name] = by_first
        found["noop_us"][name] = noop(filled) * 1e6
        found["plus1_us"][name] = one_more(filled) * 1e6
        found["beat_us"][name] = timed(partial(beat, filled.state, Memory(), 1.0, False)) * 1e6
        found["rebuild_s"][name] = rebuild(filled)
        found["lost_pod_s"][name] = lost_pod(filled)
        total, idle = theirs["total_ms"] / 1e3, theirs["loaded_us"]["noop"]
        print(
            row(
                name,
                f"{filled.total * 1e3:.1f}",
                f"{total * 1e3:.1f}",
                ratio(total, filled.total),
                f"{found['noop_us'][name]:.1f}",
                f"{idle:.0f}",
                ratio(idle, found["noop_us"][name]),
                f"{by_first:.2f}",
                f"{found['rebuild_s'][name]:.2f}",
                f"{found['lost_pod_s'][name]:.3f}",
            )
        )

    print("\nsweeps: one of V, R, P varied")
    print(row("V x R x P", "total ms", "reference", "ratio"))
    for size, theirs in sizes_of(reference["sweeps"]):
        if size.vpods > largest:
            continue
        total = best_fill(size, runs).total
        found["sweep_s"][str(size)] = total
        print(row(size, f"{total * 1e3:.1f}", f"{theirs['total_ms']:.1f}", ratio(theirs["total_ms"] / 1e3, total)))
    swept = found["sweep_s"]
    if "3200x10x100" in swept:
        found["growth_50_to_3200"] = swept["3200x10x100"] / swept["50x10x100"] / 64
        print(f"V from 50 to 3200: {found['growth_50_to_3200']:.2f} x linear growth (reference: 39 x)")

    if not chosen.no_policy:
        print("\npolicy as shipped (predicates and priorities): one call, seconds")
        print(row("V x R x P", "ours s", "reference", "ratio"))
        for size, theirs in sizes_of(reference["policy_mode_v0_43_0"]["results"]):
            if size.vpods > largest:
                continue
            spent = policy_call(size, theirs["preloaded"], theirs["calls"])
            found["policy_call_s"][str(size)] = spent
            wall = theirs["call_us"]["median"] / 1e6
            print(row(size, f"{spent:.4f}", f"{wall:.4f}", ratio(wall, spent)))
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
