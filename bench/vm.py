"""vm in numbers: what each rule of its reference promises, what was measured, what the reference's scheduler needs.

    python -m bench.vm [--quick] [--rows NAME,NAME,…] [--seed S]

`plans` and `permits` are `bench.vm_plan` and `bench.vm_permits`; `handover`, `cancel` and `ready` start the shipped
scheduler as a process of its own beside an embedded API server (`bench.vm_moves`, `bench.vm_cancels`). `loads` plays
six loads on virtual time, under the reference's rules (`compat`) and under ours, by the same code. Ours must be no
worse on VM-seconds short, frozen and overcommitted seconds, and better on moves and on the time to grant for those
who waited, p50 and p99 (section 6). The figures of the reference in the last columns are those of section 6. Server,
scheduler and the benchmark share the processors, and others may, too: the lines in between say what was used of them.
A line that is not as it is to be bears a `!` and is told again at the end.

The last line is one JSON object: `plan_ms_p99`, `plan_cost_ratio_mean`, `plan_cost_ratio_worst`,
`plan_cost_ratio_few` (where the choice is to be exact), `decision_ms_p99`, `answer_ms_p99`, `explain_ms_p99`,
`explain_node_ms_p99`, `what_if_ms_p99`, `handover_ms_p50`, `handover_ms_p99`, `write_ms_p50` (part of both),
`cancel_ms_p50`, `cancel_ms_p99` (from the pod that leaves to the request to end the move), `ready_s` (from the start
of the process until it is ready and leads), `steady_last_move_s` (within 24 simulated hours), `loads` {load: {figure:
[ours, compat's]}}. Beside a `…_ms_p99` may stand `…_ms_p50`, the middle one, and `…_cpu_ms_p99`, what of it was
processor time; `plan_unfiltered_cpu_ms_p99` is that of plans that ask no filter.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from bench import vm_permits, vm_plan
from bench.machine import load, machine
from bench.shard_table import Peer, heading, line, missed, note
from bench.vm_cancels import cancelled
from bench.vm_moves import handover as measured_handover
from bench.vm_moves import ready as measured_ready
from situate.runtime.process.logs import configure_logging
from situate.sim.vm.comparison import Comparison, compare_traces
from situate.sim.vm.scenarios import DAY_S, SCENARIOS
from situate.sim.vm.simulation import VMSimulation
from situate.vm.model.policy import Rules

SETTLED_S: Final = 600.0
"""B27: from then on nothing moves under a steady load."""
_STEADY: Final = 4
"""So many times as many seeds of the steady load: each has but a few moves, and is over when it has settled."""
_AGAIN: Final = Peer(7.0e3, "the reference: up to 5 s until it looks again, and 2 s until the agent asks")


@dataclass(frozen=True)
class Size:
    plans: int
    cases: int
    machines: int
    nodes: int
    requests: int
    pairs: int
    starts: int
    loads: int
    """Seeds of each load."""
    load_nodes: int
    day_s: float
    tick_s: float
    """Between two requests of agents that have what they want."""
    day_tick_s: float
    """The same of a whole day."""


FULL: Final = Size(2000, 10_000, 2000, 100, 400, 100, 3, 3, 6, DAY_S, 15.0, 60.0)
QUICK: Final = Size(20, 20, 20, 4, 20, 2, 1, 1, 3, 3600.0, 60.0, 300.0)


def plans(size: Size, seed: int) -> dict[str, Any]:
    found = vm_plan.plan_times(size.plans, seed) | vm_plan.cost_ratios(size.cases, seed)
    heading("Plans: 200 machines on 100 nodes, and choices among 13 to 15 candidates")
    line("ms for a plan by all filters, p99", found["plan_ms_p99"], most=20)
    line("ms of processor time for a plan by all filters, p99", found["plan_cpu_ms_p99"], most=20)
    line("the same without filters: the ledger's own part", found["plan_unfiltered_cpu_ms_p99"])
    line("cost beside the optimum, mean", found["plan_cost_ratio_mean"], most=1.05)
    line("cost beside the optimum, worst", found["plan_cost_ratio_worst"], most=1.5)
    line("the same among up to 12, of whom up to 3 go, worst", found["plan_cost_ratio_few"], most=1)
    return found


def permits(size: Size, seed: int) -> dict[str, Any]:
    arguments = ["--machines", str(size.machines), "--nodes", str(size.nodes), "--requests", str(size.requests)]
    found = vm_permits.measure(vm_permits.parser().parse_args([*arguments, "--seed", str(seed)]))
    heading(f"Permits: {size.machines:,} machines on {size.nodes} nodes")
    line("ms for a decision, p99", found["decision_ms_p99"], most=5)
    line("ms of processor time for a decision, p99", found["decision_cpu_ms_p99"], most=5)
    waits = Peer(1000.0, "the reference: a denial is answered after 1 s")
    line("ms from a request to its answer, p99", found["answer_ms_p99"], most=250, peer=waits)
    line("ms for an explanation of a pod, p99", found["explain_ms_p99"], most=100)
    line("ms for an explanation of a node, p99", found["explain_node_ms_p99"], most=100)
    line("ms for a what-if, p99", found["what_if_ms_p99"], most=100)
    return found


def handover(size: Size, _seed: int) -> dict[str, Any]:
    found = measured_handover(size.pairs, per_second=4.0)
    heading(f"Hand-over: {size.pairs} moves, from the source being gone until its beneficiary's approval is seen")
    line("ms, p50", found["handover_ms_p50"], most=20, peer=_AGAIN)
    line("ms, p99", found["handover_ms_p99"], most=100, peer=_AGAIN)
    line(
        "ms, p50, of as many writes of the benchmark's own until they are seen: part of the above",
        found["write_ms_p50"],
    )
    return found


def cancel(size: Size, _seed: int) -> dict[str, Any]:
    found = cancelled(size.pairs, per_second=4.0)
    heading(f"Cancel: {size.pairs} moves, from the pod whose room makes one needless until it is asked to end")
    line("ms, p50", found["cancel_ms_p50"])
    line("ms, p99", found["cancel_ms_p99"], most=200)
    note("the reference never ends one")
    return found


def ready(size: Size, _seed: int) -> dict[str, Any]:
    found = measured_ready(size.machines, size.nodes, size.starts)
    heading(f"Start: {size.machines:,} machines on {size.nodes} nodes")
    limit = Peer(15.0, "the reference's limit, and about 5 s without free room after each restart")
    line("s from the start of the process until it is ready and leads", found["ready_s"], most=5, peer=limit)
    return found


def loads(size: Size, seed: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, make in SCENARIOS.items():
        steady = name == "steady"
        # a steady load is over when it has settled: more of them, and shorter
        seeds = range(seed, seed + size.loads * (_STEADY if steady else 1))
        traces = [make(Random(each), size.load_nodes) for each in seeds]
        if steady:
            traces = [replace(trace, duration_s=2 * SETTLED_S) for trace in traces]
        comparison = compare_traces(traces, size.tick_s)
        _told(name, len(traces), comparison)
        found[name] = {row.name: [round(row.ours, 3), round(row.theirs, 3)] for row in comparison.rows()}
    day = replace(SCENARIOS["steady"](Random(seed), size.load_nodes), duration_s=size.day_s)
    last = max(VMSimulation(day, Rules(), tick_s=size.day_tick_s).play().moves, default=0.0)
    heading(f"{size.day_s / 3600:g} simulated hours of steady load")
    line("s until the last move", last, most=SETTLED_S)
    return {"loads": found, "steady_last_move_s": round(last, 1)}


def _told(name: str, traces: int, found: Comparison) -> None:
    heading(f"Load {name}, {traces} times, {len(found.waiting_requests)} wishes waited (peer: compat)")
    for row in found.rows():
        line(row.name, row.ours, most=row.maximum, peer=Peer(row.theirs, ""))


Row = Callable[[Size, int], dict[str, Any]]
ROWS: Final[dict[str, Row]] = {row.__name__: row for row in (plans, permits, handover, cancel, ready, loads)}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.vm", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="as little of each as shows that it runs")
    parser.add_argument("--rows", default=",".join(ROWS), help=f"of {', '.join(ROWS)}, joined by commas")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    wanted = chosen.rows.split(",")
    if unknown := [name for name in wanted if name not in ROWS]:
        parser.error(f"--rows: found {', '.join(unknown)}, allowed: {', '.join(ROWS)}")
    configure_logging("error")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))  # servers and schedulers end with it
    print(f"{machine()}; load before: {load()}")
    found: dict[str, Any] = {}
    for name in wanted:
        found |= ROWS[name](QUICK if chosen.quick else FULL, chosen.seed)
        note(f"load: {load()}")
    print()
    for text in missed():
        print(f"missed: {text}")
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
