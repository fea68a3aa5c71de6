"""What both sides of `bench.client` do, and how it is timed. Nothing but the standard library: the peer brings its own.

A side gives three coroutines; this module runs the one that is asked for and prints one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

Call = Callable[[int], Awaitable[object]]


class Side(Protocol):
    """A client library at work against one server."""

    version: str

    def writes(self, kind: str) -> Call:
        """One write, by its number: `patch` or `create`; the answer decoded and its status checked."""
        ...

    async def follow(self, events: int, keep: bool, begin: Callable[[], None]) -> int:
        """Lists pods, watches on until so many events were seen; `begin` at the first. Gives the objects kept."""
        ...

    async def hold(self) -> object:
        """Lists all pods in pages and keeps them by namespace and name."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class Task:
    what: str
    url: str
    kind: str
    count: int
    concurrency: int


def run(make: Callable[[str], Awaitable[Side]]) -> None:
    """The command of a side."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("writes", "watch", "memory"))
    parser.add_argument("url")
    parser.add_argument("--kind", default="patch")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--loop", choices=("asyncio", "uvloop"), default="asyncio")
    chosen = parser.parse_args()
    task = Task(chosen.what, chosen.url, chosen.kind, chosen.count, chosen.concurrency)
    if chosen.loop == "uvloop":
        import uvloop

        result = uvloop.run(_carried_out(make, task))
    else:
        result = asyncio.run(_carried_out(make, task))
    sys.stdout.write(json.dumps(result) + "\n")


async def _carried_out(make: Callable[[str], Awaitable[Side]], task: Task) -> dict[str, float | str]:
    side = await make(task.url)
    try:
        measure = {"writes": _writes, "watch": _watch, "memory": _memory}[task.what]
        return {"version": side.version, **await measure(side, task)}
    finally:
        await side.close()


async def _writes(side: Side, task: Task) -> dict[str, float]:
    call = side.writes(task.kind)
    await _spread(call, max(20, task.count // 10), task.concurrency)
    start, cpu = time.perf_counter(), time.process_time()
    await _spread(call, task.count, task.concurrency)
    return _rates(task.count, time.perf_counter() - start, time.process_time() - cpu)


async def _spread(call: Call, count: int, concurrency: int) -> None:
    """So many calls, so many of them in flight."""
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await call(number)

    await asyncio.gather(*(worker() for _ in range(concurrency)))


async def _watch(side: Side, task: Task) -> dict[str, float]:
    begun: list[float] = []

    def begin() -> None:
        begun.extend((time.perf_counter(), time.process_time()))

    kept = await side.follow(task.count, task.kind != "forget", begin)
    start, cpu = begun
    return {"kept": kept, **_rates(task.count, time.perf_counter() - start, time.process_time() - cpu)}


async def _memory(side: Side, task: Task) -> dict[str, float]:
    gc.collect()
    before, start, cpu = _resident(), time.perf_counter(), time.process_time()
    held = await side.hold()
    took, used = time.perf_counter() - start, time.process_time() - cpu
    gc.collect()
    after = _resident()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    del held
    return {"bytes": after - before, "peak_bytes": peak - before, "wall_s": took, "cpu_s": used}


def _resident() -> int:
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # the best that other systems tell without a package


def _rates(count: int, wall: float, cpu: float) -> dict[str, float]:
    return {"per_s": count / wall, "cpu_us": cpu / count * 1e6, "wall_s": wall, "cpu_s": cpu}
