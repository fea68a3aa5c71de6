"""Speed of the scheduling engine: pods per processor second, on one thread, every node scored.

    python -m bench.engine [--rows NAME ...] [--quick] [--runs N] [--verify N | --verify-all] [--far] [--profile]

Driven is the public `Engine` with the default profile: all plugins, queue, hints, reasons.

- The rows of the prototype's table (`plain_5000`, ..): the pods wait in the queue when the clock starts, and it stops
  when the last one has its node; `queue` is what reading them and queueing them took before, per pod. `parse_bind..`
  begin with the bytes of a watch and end with the answers to the bindings, through our client and real connections,
  of a server that only answers; `related` are pods with spread or affinity.
- The workloads of scheduler_perf: from the pod's event to its reported binding, with what happens beside. The official
  threshold counts etcd and apiserver as well, on 4 to 6 cores; a live scheduler is bounded by its API server (some
  1,000 bindings/s), whatever stands here.
- `memory`: 15,000 nodes and 150,000 pods. `far` (`--far`): 1,000,000 pods of 100 shapes onto 1,000,000 nodes.

The decisions of each row are held against those of the plain path, every plugin asked about every node for every pod:
the first `--verify` pods of the row (1,000), or all of them. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import json
import pstats
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from bench.engine_binding import PODS_OF, parse_and_bind
from bench.engine_play import Play, played, verify
from bench.engine_prototype import KINDS, preemption, workload
from bench.engine_scheduler_perf import Build, workloads
from bench.machine import load, machine
from bench.processes import measured
from situate.runtime.process.memory import keep_freed_memory
from situate.runtime.process.startup import COLLECT_AFTER

QUICK = 10
"""With `--quick`: one in so many pods, and in scheduler_perf's workloads nodes."""
SIZES = (5000, 15_000)
TARGETS = {
    "plain": (20_000, 7500),
    "classes": (40_000, 25_000),
    "equal": (1_000_000, 500_000),
    "spread": (8000, 3500),
    "affinity": (10_000, 4000),
    "preemption": (1000, None),
    "parse_bind": (6000, 4000),
    "parse_bind_classes": (8000, 7000),
    "parse_bind_related": (4000, 2500),
}
"""Pods per second at each size."""
TIMES_THRESHOLD = 10
"""The target in scheduler_perf's workloads."""
MEMORY_MIB = 1024


@dataclass
class Report:
    """Prints the rows as they come, and keeps what the last line says."""

    runs: int
    of: int
    verify: int | None
    profile: bool
    rows: frozenset[str]
    pods_per_cpu_s: dict[str, float] = field(default_factory=dict)
    scheduler_perf: dict[str, dict[str, float]] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)

    def wants(self, *names: str) -> bool:
        return not self.rows or not self.rows.isdisjoint(names)

    def best(self, run: Callable[[], tuple[Play, float]]) -> tuple[Play, float]:
        """The fastest run: what else the machine does can only make it slower."""
        if not self.profile:
            return min((run() for _ in range(self.runs)), key=lambda found: found[1])
        profiler = cProfile.Profile()
        found = profiler.runcall(run)
        pstats.Stats(profiler).sort_stats("tottime").print_stats(40)
        return found

    def compared(self, play: Play) -> str:
        count = verify(play, self.verify)
        return "all" if count == len(play.story()) else f"{count:,}"


def row(*cells: object) -> str:
    return "".join(f"{cell!s:>{width}}" for cell, width in zip(cells, WIDTHS, strict=False)).rstrip()


WIDTHS = (48, 12, 10, 11, 8, 10, 10)


def prototype(report: Report) -> None:
    print("\nkinds of pods")
    print(row("row", "pods/cpu-s", "us/pod", "target", "ratio", "queue us", "verified"))
    for place, count in enumerate(SIZES):
        for kind, targets in TARGETS.items():
            name = f"{kind}_{count}"
            if not report.wants(name, kind):
                continue
            play, spent = report.best(lambda kind=kind, count=count: _run(kind, count, report.of))  # type: ignore[misc]  # default arguments
            pods = len(play.workload.measured)
            found = report.pods_per_cpu_s[name] = pods / spent
            target = targets[place]
            ratio = f"{found / target:.2f}" if target else ""
            queue = "" if kind in PODS_OF else f"{play.queue_s / pods * 1e6:.1f}"
            per_pod = f"{spent / pods * 1e6:.1f}"
            print(
                row(name, f"{found:,.0f}", per_pod, f"{target or 0:,}", ratio, queue, report.compared(play)), flush=True
            )


def _run(kind: str, count: int, of: int) -> tuple[Play, float]:
    if kind in PODS_OF:
        return parse_and_bind(kind, count, of)
    made = workload(kind, count, of) if kind in KINDS else preemption(count, of)
    play = played(made, to_the_end=False)
    return play, play.cpu_s - play.queue_s


def scheduler_perf(report: Report, builds: Iterable[tuple[str, Build]]) -> None:
    print("\nworkloads of scheduler_perf")
    print(row("row", "pods/cpu-s", "us/pod", "threshold", "ratio", "queue us", "verified"))
    for name, build in builds:
        if not report.wants(name, "scheduler_perf"):
            continue
        made = build(report.of)
        play, spent = report.best(lambda made=made: _to_the_end(made))  # type: ignore[misc]  # default arguments
        pods = len(made.measured)
        found = pods / spent
        ratio = ""
        if made.threshold:
            report.scheduler_perf[name] = {"ours": found, "threshold": made.threshold}
            ratio = f"{found / made.threshold:.0f}x"
        queue, per_pod = f"{play.queue_s / pods * 1e6:.1f}", f"{spent / pods * 1e6:.1f}"
        print(
            row(name, f"{found:,.0f}", per_pod, made.threshold or "none", ratio, queue, report.compared(play)),
            flush=True,
        )


def _to_the_end(made: Any) -> tuple[Play, float]:
    play = played(made)
    return play, play.cpu_s


def sized(report: Report, name: str, *arguments: str) -> None:
    """In a process of its own, since its peak of memory is measured."""
    found = measured((sys.executable, "-m", "bench.engine_size", *arguments))
    report.more[name] = found
    print(f"\n{name}: {found['nodes']:,} nodes, {found['pods']:,} pods: {found['mib']:,.0f} MiB at most", end="")
    print(f", {found['cpu_s']:.1f} CPU-s for {found['placed']:,} placed ({found['placed'] / found['cpu_s']:,.0f}/s)")


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.engine", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--rows", nargs="+", default=[], help="only these: plain_5000, plain, scheduler_perf, memory, .."
    )
    parser.add_argument("--quick", action="store_true", help=f"a {QUICK}th of the pods")
    parser.add_argument("--runs", type=int, default=3, help="of each row; the fastest counts")
    parser.add_argument("--verify", type=int, default=1000, help="so many pods of each row")
    parser.add_argument("--verify-all", action="store_true", help="all pods of each row")
    parser.add_argument("--far", action="store_true", help="a million pods onto a million nodes as well")
    parser.add_argument("--profile", action="store_true", help="say where the time of each row goes")
    chosen = parser.parse_args(arguments)
    of = QUICK if chosen.quick else 1
    verified = None if chosen.verify_all else chosen.verify
    keep_freed_memory()  # as every process of ours does, and this too
    gc.set_threshold(*COLLECT_AFTER)
    report = Report(1 if chosen.quick else chosen.runs, of, verified, chosen.profile, frozenset(chosen.rows))
    print(f"{machine()}, load {load()}; one thread, default profile, all nodes scored")
    prototype(report)
    scheduler_perf(report, workloads())
    if report.wants("memory"):
        sized(report, "memory", "--nodes", str(15_000 // of), "--pods", str(150_000 // of))
    if chosen.far:
        sized(report, "far", "--nodes", str(1_000_000 // of), "--pods", str(1_000_000 // of), "--shapes", "100")
    print(json.dumps({"pods_per_cpu_s": report.pods_per_cpu_s, "scheduler_perf": report.scheduler_perf, **report.more}))


if __name__ == "__main__":
    main(sys.argv[1:])
