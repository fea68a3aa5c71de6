"""Work that is done by more and more executor processes, and placed by more and more supervisors (B13)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.machine import cpu_s
from bench.shard_place import Bench, Target, place
from bench.shard_played import partitions_placements_per_s
from bench.shard_table import Peer, heading, line, note

WORK_S = 0.1
_RING = {1: 1.0, 2: 1.54, 3: 2.19, 4: 2.64, 5: 3.0}


async def scale(bench: Bench) -> dict[str, Any]:
    """B13: handlers that wait 100 ms, one at a time in each process; counted while all of them are at work."""
    size, folder = bench.size, bench.folder
    heading(f"B13 objects completed/s, handlers of {WORK_S * 1e3:g} ms, one at a time in each process")
    found: dict[int, float] = {}
    for executors in size.executors:
        with bench.embedded() as target:
            rate, cores = await _completed(target, folder, executors, executors * size.units_each)
        found[executors] = rate
        peer = Peer(_RING[executors] * found[1], "ring's factor") if executors in _RING and 1 in found else None
        line(
            f"{executors} executors",
            rate,
            least=0.9 * executors * found[size.executors[0]] / size.executors[0],
            peer=peer,
        )
        note(f"cores: {cores}")
    return {"scale_out": {str(executors): round(rate, 2) for executors, rate in found.items()}}


async def _completed(target: Target, folder: Path, executors: int, count: int) -> tuple[float, str]:
    async with place(target, folder) as here:
        for number in range(executors):
            await here.executor(f"e{number}", "--work-s", str(WORK_S), "--concurrency", "1", ready=False)
        for number in range(executors):
            await here.ready(f"e{number}")
        await here.create(f"unit-{number}" for number in range(count))
        process = await here.supervisor("s")
        await here.until("a tenth is completed", lambda: here.watch.completed >= count // 10)
        groups = {
            "supervisor": [process.pid],
            "server": [*target.pids],
            "executors": [each.pid for name, each in here.processes.items() if name != "s"],
        }
        before = {name: sum(map(cpu_s, pids)) for name, pids in groups.items()}
        since = here.watch.completed
        await here.until("all are completed", lambda: here.watch.completed == count)
        used = {name: sum(map(cpu_s, pids)) - before[name] for name, pids in groups.items()}
        at = sorted(seen.completed_at for seen in here.watch.seen.values() if seen.completed_at is not None)
        first, last = count // 10, count - count // 10 - 1  # not while some begin, and others have ended
        seconds = at[-1] - at[since - 1]
        cores = ", ".join(f"{name} {value / seconds:.2f}" for name, value in used.items())
        return (last - first) / (at[last] - at[first]), cores


async def partitions(bench: Bench) -> dict[str, Any]:
    """B13: supervisors of so many partitions in the simulator, each with few writes at a time; what all place."""
    size = bench.size
    heading("B13 placements/s by partitions, on virtual time, 4 writes at a time in each")
    found = {count: partitions_placements_per_s(count, size.simulated) for count in (1, 2, 4)}
    for fewer, more in pairwise([0, *found]):
        line(f"{more} partitions", found[more], least=0.9 * more * found[1] if fewer else None)
    return {"partitions": {str(count): round(rate, 1) for count, rate in found.items()}}
