"""How fast one supervisor places objects, how long one waits, and how fast another supervisor takes over (B1, B2, L1).

Executors are stand-ins here: nothing but supervisor, server and the watch of the benchmark uses the processors.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from bench.machine import cpu_s, rss_mib
from bench.shard_place import Bench, Place, Target, place, real
from bench.shard_table import Peer, heading, line, note

EXECUTORS = 10
ROUND_TRIP_S = 0.010


async def placements(bench: Bench) -> dict[str, Any]:
    """B1, from the first assignment to the last, all objects there before the supervisor starts."""
    size, folder = bench.size, bench.folder
    heading(f"B1 placements/s, {size.objects:,} objects, {EXECUTORS} executors")
    found: dict[str, Any] = {}
    kinds: list[tuple[str, str, AbstractContextManager[Target], float]] = [
        ("placements_per_s", "embedded API server", bench.embedded(), 0.0),
        ("placements_per_s_10ms", "embedded API server, answers 10 ms later", bench.embedded(), ROUND_TRIP_S),
    ]
    if size.with_real:
        kinds.append(("placements_per_s_real", "etcd and kube-apiserver", real(folder / "placements"), 0.0))
    for key, title, served, delay_s in kinds:
        with served as target:
            runs = [await _placed(target, folder, size.objects, delay_s) for _ in range(size.runs)]
        rate = median(each["rate"] for each in runs)
        peer = Peer(1000 / (2 * 1000 * delay_s), "KSched: two serial writes each") if delay_s else None
        line(title, rate, least=500 if key != "placements_per_s_real" else None, peer=peer)
        used, served_ms = (median(each[which] for each in runs) for which in ("cpu_ms", "server_ms"))
        writes = max(each["writes"] for each in runs)
        note(
            f"processor ms for each: supervisor {used:.2f}, server {served_ms:.2f}; "
            f"runs: {', '.join(format(each['rate'], '.0f') for each in runs)}"
        )
        line("  writes for each", writes, most=1, peer=Peer(2, "KSched"))
        found |= {key: round(rate, 1), f"{key}_cpu_ms": round(used, 3)}
        found["writes_per_placement"] = writes
    return found


async def _placed(target: Target, folder: Path, count: int, delay_s: float) -> dict[str, float]:
    async with place(target, folder) as here:
        for number in range(EXECUTORS):
            await here.stand_in(f"executor-{number}")
        await here.create(f"unit-{number}" for number in range(count))
        watch = here.watch
        await here.until("all objects are seen", lambda: len(watch.seen) == count)
        with target.answering_later(delay_s) if delay_s else nullcontext():
            process = await here.supervisor("s", ready=False)
            await here.until("the first one is placed", lambda: watch.assigned > 0)
            before, done = _used(target, process.pid), watch.assigned
            await here.until("all are placed", lambda: watch.assigned == count)
            after = _used(target, process.pid)
        left = max(1, count - done)
        return {
            "rate": (count - 1) / max(1e-6, watch.last_at - watch.first_at),
            "cpu_ms": (after[0] - before[0]) / left * 1e3,
            "server_ms": (after[1] - before[1]) / left * 1e3,
            "writes": (sum(seen.versions for seen in watch.seen.values()) - count) / count,
        }


def _used(target: Target, pid: int) -> tuple[float, float]:
    return cpu_s(pid), sum(map(cpu_s, target.pids))


async def assignment(bench: Bench) -> dict[str, Any]:
    """L1: from the answer to a creation until the watch shows the assignment."""
    size, folder = bench.size, bench.folder
    rate, count = size.arrivals_per_s, size.arrivals
    heading(f"L1 seconds from creation to assignment, {count:,} objects, {rate:g} a second")
    with bench.embedded() as target:
        async with place(target, folder) as here:
            for number in range(EXECUTORS):
                await here.stand_in(f"executor-{number}")
            await here.supervisor("s")
            await here.create(["first"])
            await here.until("the supervisor leads", lambda: here.watch.assigned == 1)
            waited = await arrivals(here, count, rate)
    half, most = percentile(waited, 50), percentile(waited, 99)
    line("half within", half)
    line("99 % within", most, most=1.0, peer=Peer(0.099, "ring, p99 of its queue"))
    return {"assignment_s_p50": round(half, 4), "assignment_s_p99": round(most, 4)}


async def arrivals(here: Place, count: int, rate: float) -> list[float]:
    """Creates one after the other at this rate; how long each waited for its first executor."""
    answered: dict[str, float] = {}

    async def one(name: str) -> None:
        await here.create_one(name)
        answered[name] = time.perf_counter()

    seen, due = here.watch.seen, time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(count):
            due += 1 / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            group.create_task(one(f"arrival-{number}"))
    await here.until("all are placed", lambda: all(map(here.watch.placed, answered)))
    return [max(0.0, seen[name].placed[0][0] - at) for name, at in answered.items()]


def percentile(values: list[float], percent: int) -> float:
    """The smallest value that so many percent of all do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


async def takeover(bench: Bench) -> dict[str, Any]:
    """B2: a start with all objects assigned; then the leader is killed while another one stands by."""
    size, folder = bench.size, bench.folder
    heading(f"B2 supervisors, {size.held:,} objects that are assigned, {EXECUTORS} executors")
    with bench.embedded() as target:
        async with place(target, folder) as here:
            for number in range(EXECUTORS):
                await here.stand_in(f"executor-{number}")
            await here.create(f"unit-{number}" for number in range(size.held))
            await here.supervisor("s1")
            watch = here.watch
            await here.until("all are placed", lambda: watch.assigned == size.held)
            await here.stop("s1")

            starts: list[tuple[float, float, float]] = []
            for number in range(size.runs):
                start = time.perf_counter()
                process = await here.supervisor("s2", ready=False)
                await here.create_one(f"probe-{number}")
                ready_s = await here.ready("s2") - start
                await here.until("the probe is placed", partial(watch.placed, f"probe-{number}"))
                starts.append((ready_s, time.perf_counter() - start, cpu_s(process.pid)))
                mib = rss_mib(process.pid)
                if number < size.runs - 1:
                    await here.stop("s2")

            await here.supervisor("s3")
            killed = time.perf_counter()
            if size.silence:
                here.processes.pop("s2").kill()
            else:
                await here.stop("s2")
            await here.create_one("late")
            await here.until("the next one is placed", lambda: watch.placed("late"))
            takeover_s = time.perf_counter() - killed
            await asyncio.sleep(size.settle_s)
            moves = watch.moves
            doubles = sum(seen.epoch != len(seen.placed) or seen.epoch != 1 for seen in watch.seen.values())
    ready_s, steady_s, start_cpu_s = (median(each) for each in zip(*starts, strict=True))
    line("seconds from the start of the process until all is known", ready_s)
    line("  until a new object is assigned", steady_s, most=2.0)
    note(f"medians of {size.runs}; of that on a processor: {start_cpu_s:.2f} s; {mib:.0f} MiB")
    how = "SIGKILL" if size.silence else "SIGTERM"
    line(
        f"seconds from {how} of the leader until the next one assigns",
        takeover_s,
        most=17,
        peer=Peer(15, "controller-runtime"),
    )
    line("  moves", moves, most=0)
    line("  objects assigned twice", doubles, most=0)
    return {
        "ready_s": round(ready_s, 2),
        "steady_s": round(steady_s, 2),
        "steady_cpu_s": round(start_cpu_s, 2),
        "takeover_s": round(takeover_s, 2),
        "takeover_moves": moves,
        "takeover_double_assignments": doubles,
        "held_mib": round(mib, 1),
    }
