"""Planning of moves: how long one plan takes on 100 nodes, and how far from the optimum its choices are.

    python -m bench.vm_plan [--plans N] [--cases N] [--seed S]

Two thousand plans, each for one pod that is short on a cluster of 100 nodes and about 200 machines of its own: with
room all around, with hardly any, so that chains are looked for, and with none. Targets pass all Filter plugins of the
shipped profile (B12), which are asked anew by each plan, since the cluster has changed since the last one.
`plan_ms_p99` is the wall clock's; where it is far above `plan_cpu_ms_p99` the machine was busy with other things.
`plan_unfiltered_cpu_ms_p99` is the same without any filter: the ledger's own part.

Then the choice among 13 to 15 candidates, against the best of all sets: `plan_cost_ratio_mean` and
`plan_cost_ratio_worst` over 10,000 random cases, and as many among up to 12, of whom at most three may go:
`plan_cost_ratio_few` is the worst of them, and the choice is to be exact. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from statistics import mean
from typing import Final

from tests.vm.ledgers import Bench
from tests.vm.objects import VM_OWNER, container, node, pod
from tests.vm.planning.covers import cover_case, ratio, ratio_of_few

from situate.objects.kinds.nodes import Node as WireNode
from situate.runtime.process.startup import pause_collector
from situate.vm.backends.systems import NEONVM
from situate.vm.model.node_accounting import recount
from situate.vm.model.pods_and_nodes import Load, Machine, Node, Pod, Ref
from situate.vm.model.policy import GIB, MIB, Rules
from situate.vm.model.resource_amounts import Amounts
from situate.vm.model.state import LedgerState
from situate.vm.placement.target_filter import TargetFilter, planner_with_filter
from situate.vm.planning.plan import Plan
from situate.vm.planning.plan_for_pod import plan
from situate.vm.planning.search.cheapest_cover import EXACT_LIMIT

NODES: Final = 100
MACHINES: Final = 200
ON_FIRST: Final = 20
"""Of them beside the one that is short."""
SIZE: Final = 64
"""CPUs and GiB of a node."""
SHAPES: Final = ((10.0, 0.0, 12), (2.5, 0.0, 12), (1.2, 1.0, 2), (1.2, 1.0, 12), (0.0, 0.0, 12))
"""`cluster`'s arguments: room for all, room for some, targets that can be made ready, those where that is too little,
and none at all."""
NOW: Final = 1_000_000.0
RULES: Final = Rules()


def cost_ratios(cases: int, seed: int) -> dict[str, float]:
    rng = Random(seed)
    ratios = [ratio(cover_case(rng, rng.randint(EXACT_LIMIT + 1, EXACT_LIMIT + 3))) for _ in range(cases)]
    of_few = [ratio_of_few(cover_case(rng, rng.randint(4, EXACT_LIMIT))) for _ in range(cases)]
    return {
        "plan_cost_ratio_mean": round(mean(ratios), 4),
        "plan_cost_ratio_worst": round(max(ratios), 4),
        "plan_cost_ratio_few": round(max((each for each in of_few if each is not None), default=1.0), 4),
    }


def cluster(rng: Random, free: float, small: float, most: int) -> LedgerState:
    """One pod lacks 1 to `most` CPUs. `free`: of each other node below its watermark; `small`: of one machine there."""
    first = [_machine(rng, f"a{number}", rng.choice((2.0, 3.0))) for number in range(ON_FIRST)]
    held = sum(pod.reserved.cpu for pod in first) / 1000
    asker = _machine(rng, "short", 2, wants=SIZE - held + rng.randint(1, most))
    nodes = [_node("n0", [*first, asker])]
    count = round((MACHINES - ON_FIRST) / (NODES - 1))
    for number in range(1, NODES):
        taken = SIZE * RULES.watermark - free
        sizes = [small, *([(taken - small) / count] * count)] if small else [taken / count] * count
        nodes.append(_node(f"n{number}", [_machine(rng, f"b{number}-{at}", size) for at, size in enumerate(sizes)]))
    where = {uid: node.name for node in nodes for uid in node.pods}
    return LedgerState(nodes={node.name: node for node in nodes}, where=where, started=True)


def _machine(rng: Random, name: str, cpus: float, wants: float = 0.0) -> Pod:
    held, asked = _amount(cpus), _amount(max(cpus, wants))
    load = Load(load1=rng.uniform(0, cpus), memory_used=held.memory // 2, dirty_rate=rng.uniform(0, 500) * MIB)
    machine = Machine(Ref("bench", name, f"vm-{name}"), autoscaled=True, migratable=True, load=load)
    factor, counted = Amounts.from_values(250, GIB), Amounts.from_values(1000, 1000)
    return Pod(Ref("bench", name, name), held, asked, held, factor, counted, rng.random(), machine=machine)


def _amount(cpus: float) -> Amounts:
    """A GiB for each CPU."""
    return Amounts.from_values(int(cpus * 1000), int(cpus * GIB))


def _node(name: str, pods: Sequence[Pod]) -> Node:
    total, nothing = Amounts.from_values(SIZE * 1000, SIZE * GIB), Amounts.zero()
    below = Amounts(tuple(int(each * RULES.watermark) for each in total))
    return recount(Node(name, total, below, nothing, nothing, nothing, {pod.uid: pod for pod in pods}))


class Product:
    """The shipped filters over an engine, whose nodes and pods are those of the ledger's state."""

    def __init__(self) -> None:
        self._bench = Bench(RULES)
        self.engine_sees(*(node(f"n{each}", str(SIZE), f"{SIZE}Gi", further={"pods": "110"}) for each in range(NODES)))
        self._planner = planner_with_filter(TargetFilter(self._bench.engine, self._bench.ledger, NEONVM))
        self._pods: dict[str, tuple[str, Amounts]] = {}
        """As the engine has them: on which node, with which requests."""

    def engine_sees(self, *nodes: WireNode) -> None:
        for each in nodes:
            self._bench.engine.set_node(each, self._bench.now)

    def see(self, state: LedgerState) -> None:
        """As watches tell it: only of what has changed."""
        pods = {uid: (node, pod.reserved) for node, each in state.nodes.items() for uid, pod in each.pods.items()}
        for uid, (name, held) in pods.items():
            if self._pods.get(uid) != (name, held):
                requests = container(cpu=f"{held.cpu}m", memory=str(held.memory))
                seen = pod(uid, requests, nodeName=name, metadata={"uid": uid}, owners=(VM_OWNER,))
                self._bench.engine.set_pod(seen, self._bench.now)
        for uid in self._pods.keys() - pods.keys():
            self._bench.engine.remove_pod(uid, self._bench.now)
        self._pods, self._bench.ledger.state = pods, state

    def plan(self, state: LedgerState) -> Plan:
        return self._planner.plan(state, "short", NOW, RULES)


@dataclass
class Times:
    """Seconds for each plan."""

    clock: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    def note(self, planned: Callable[[], Plan]) -> None:
        begun, used = time.perf_counter(), time.thread_time()
        planned()
        self.clock.append(time.perf_counter() - begun)
        self.processor.append(time.thread_time() - used)


def _plan_times(plans: int, seed: int) -> tuple[Times, Times]:
    """With the shipped filters, and without any; after a few that do not count."""
    rng, products = Random(seed), [Product() for _ in SHAPES]
    filtered, unfiltered = Times(), Times()
    for number in range(plans + len(SHAPES)):
        shape = number % len(SHAPES)
        seen, product = cluster(rng, *SHAPES[shape]), products[shape]
        product.see(seen)
        counts = number >= len(SHAPES)
        (filtered if counts else Times()).note(partial(product.plan, seen))
        (unfiltered if counts else Times()).note(partial(plan, seen, "short", NOW, RULES))
    return filtered, unfiltered


def plan_times(plans: int, seed: int) -> dict[str, float]:
    with pause_collector():  # as the shipped process makes its ledger
        cluster(Random(seed), *SHAPES[0])
    filtered, unfiltered = _plan_times(plans, seed)
    return {
        "plan_ms_p50": _ms(filtered.clock, 0.5),
        "plan_ms_p99": _ms(filtered.clock, 0.99),
        "plan_cpu_ms_p99": _ms(filtered.processor, 0.99),
        "plan_unfiltered_cpu_ms_p99": _ms(unfiltered.processor, 0.99),
    }


def _ms(seconds: Sequence[float], share: float) -> float:
    return round(sorted(seconds)[int(len(seconds) * share)] * 1e3, 3)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plans", type=int, default=2000)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    found = plan_times(options.plans, options.seed) | cost_ratios(options.cases, options.seed)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
