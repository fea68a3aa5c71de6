"""How many writes one object costs, and what a supervisor costs beside many objects that change (B10)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

from bench.machine import cpu_s, rss_mib
from bench.shard_member import UNITS
from bench.shard_place import Bench, Place, place
from bench.shard_placing import percentile
from bench.shard_size import Size
from bench.shard_table import Peer, heading, line, note
from situate.kube.patches import MergePatch


async def writes(bench: Bench) -> dict[str, Any]:
    """From creation to the archive, each version that a watch shows being one write."""
    size, folder = bench.size, bench.folder
    count = size.lives
    heading(f"writes in an object's life, {count:,} objects that are created, done, archived and deleted")
    archive = Path(mkdtemp(dir=folder))
    with bench.embedded() as target:
        async with place(target, folder) as here:
            for number in range(size.members):
                await here.executor(f"executor-{number}", "--work-s", "0")
            await here.supervisor("s", "--archive", str(archive))
            await here.create(f"unit-{number}" for number in range(count))
            await here.until("all are archived and gone", lambda: here.watch.deleted == count)
            each = sum(seen.versions for seen in here.watch.seen.values()) / count
    kept = _records(archive)
    line("writes for each: create, assign, complete, release, delete", each, most=5, peer=Peer(6, "KSched"))
    line("records in the archive", kept, least=count)
    return {"writes_per_life": round(each, 3)}


def _records(archive: Path) -> int:
    return sum(1 for _ in archive.rglob("[!.]*.json"))


async def cost(bench: Bench) -> dict[str, Any]:
    """B10: objects that stay and change."""
    size, folder = bench.size, bench.folder
    heading(f"B10 {size.changing:,} objects, {size.changes_per_s:g} changes/s, {size.members} executors")
    with bench.embedded() as target:
        async with place(target, folder) as here:
            for number in range(size.members):
                await here.executor(f"executor-{number}")
            process = await here.supervisor("s")
            empty_mib = rss_mib(process.pid)
            await here.create(f"unit-{number}" for number in range(size.changing))
            await here.until("all are placed", lambda: here.watch.assigned == size.changing, 600)
            placed_mib = rss_mib(process.pid)
            await asyncio.sleep(size.settle_s)
            before, start, resident = cpu_s(process.pid), time.perf_counter(), [rss_mib(process.pid)]
            others = [each.pid for name, each in here.processes.items() if name != "s"]
            theirs = sum(map(cpu_s, others))
            served = sum(map(cpu_s, target.pids))
            made = 0
            async with _changes(here, size) as changed:
                while time.perf_counter() < start + size.changing_s:
                    await asyncio.sleep(0.5)
                    resident.append(rss_mib(process.pid))
                made = changed[0]
            seconds = time.perf_counter() - start
            cores = (cpu_s(process.pid) - before) / seconds
            executors = (sum(map(cpu_s, others)) - theirs) / seconds / size.members
            server = (sum(map(cpu_s, target.pids)) - served) / seconds
            most = max(resident)
            moves = here.watch.moves

            created = {"with": await _created(here, size, "a"), "without": []}
            await here.stop("s")
            created["without"] += await _created(here, size, "b")
            process = await here.supervisor("s")
            await asyncio.sleep(size.settle_s)
            listed_mib = rss_mib(process.pid)
            created["with"] += await _created(here, size, "c")
            await here.stop("s")
            created["without"] += await _created(here, size, "d")
    rate = made / seconds
    line("changes/s that were made", rate)
    line("cores of the supervisor", cores, most=0.15, peer=Peer(0.033, "ring's sharder, active"))
    note(
        f"{cores / rate * 1e3:.3f} ms for each change; server {server:.3f} cores; executors {executors:.3f} cores each"
    )
    line("MiB of the supervisor, most", most, most=150, peer=Peer(17.6, "ring's sharder, active"))
    note(
        f"mean {sum(resident) / len(resident):.0f}; when all were placed {placed_mib:.0f}; "
        f"after a new start {listed_mib:.0f}"
    )
    line("moves meanwhile", moves, most=0)
    ms = {key: (percentile(each, 50) * 1e3, percentile(each, 99) * 1e3) for key, each in created.items()}
    added = ms["with"][1] - ms["without"][1]
    line("ms that a creation takes longer beside a supervisor, p99", added, peer=Peer(62, "ring's webhook"))
    line("  half of the creations", ms["with"][0] - ms["without"][0])
    note("; ".join(f"{key}: p50 {half:.2f} ms, p99 {p99:.2f} ms" for key, (half, p99) in ms.items()))
    return {
        "cost": {
            "changes_per_s": round(rate, 1),
            "cores": round(cores, 4),
            "ms_per_change": round(cores / rate * 1e3, 4),
            "server_ms_per_change": round(server / rate * 1e3, 4),
            "mib": round(most, 1),
            "kib_per_object": round((most - empty_mib) * 1024 / size.changing, 2),
            "mib_mean": round(sum(resident) / len(resident), 1),
            "executor_cores": round(executors, 4),
            "moves": moves,
            "create_ms": {key: {"p50": round(half, 2), "p99": round(p99, 2)} for key, (half, p99) in ms.items()},
        }
    }


@asynccontextmanager
async def _changes(here: Place, size: Size) -> AsyncIterator[list[int]]:
    """Of specs, as users make them, at moments of their own; gives how many were answered."""
    rng, made = Random(5), [0]

    async def one(name: str, work: int) -> None:
        await here.client.patch(UNITS, name, MergePatch({"spec": {"work": work}}), here.namespace)
        made[0] += 1

    async def go_on() -> None:
        due = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for work in range(1 << 30):
                due += rng.expovariate(size.changes_per_s)
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                group.create_task(one(f"unit-{rng.randrange(size.changing)}", work))

    going = asyncio.create_task(go_on())
    try:
        yield made
        if going.done():
            going.result()
    finally:
        going.cancel()
        await asyncio.wait([going])


async def _created(here: Place, size: Size, prefix: str) -> list[float]:
    """Seconds that creations take, one after the other."""
    found = []
    for number in range(size.creations):
        start = time.perf_counter()
        await here.create_one(f"{prefix}-{number}")
        found.append(time.perf_counter() - start)
        await asyncio.sleep(0.01)
    return found
