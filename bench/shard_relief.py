"""What completed objects cost a control plane as long as they stay, and when they go into an archive (B14)."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.machine import rss_mib
from bench.shard_member import UNITS
from bench.shard_place import Bench, Target, many, place, real
from bench.shard_table import Peer, heading, line, note
from situate.objects.messages import Request
from situate.sharding.model.names import FINALIZER

LISTS: Final = 7


async def relief(bench: Bench) -> dict[str, Any]:
    """B14: the same completed objects twice, on one real control plane, one after the other."""
    size, folder = bench.size, bench.folder
    heading(f"B14 {size.completed:,} completed objects on etcd and kube-apiserver, archived and not")
    with real(folder / "relief") as target:
        without = await relieved(target, folder, size.completed, archived=False)
        within = await relieved(target, folder, size.completed, archived=True)
    for key, title in (
        ("objects", "objects in etcd"),
        ("bytes", "bytes in etcd"),
        ("list_ms", "ms for a full list"),
        ("supervisor_mib", "MiB of a supervisor that has just started"),
    ):
        line(title, within[key], most=without[key], peer=Peer(without[key], "without an archive, in this run"))
    note(
        f"archived at {within['archived_per_s']:.0f} objects/s; a full list without: {without['list_bytes']:,.0f} bytes"
    )
    return {"relief": {"with": within, "without": without}}


async def relieved(target: Target, folder: Path, count: int, *, archived: bool) -> dict[str, float]:
    """What is there when the supervisor has nothing more to do, and what a supervisor takes that starts then."""
    assert target.plane is not None, "etcd is asked, too"
    archive = folder / "archive"
    archive.mkdir(exist_ok=True)
    options = ("--archive", str(archive)) if archived else ()
    async with place(target, folder) as here:
        finalizers = [FINALIZER] if archived else []
        names = (f"unit-{number}" for number in range(count))
        await many(partial(here.create_completed, finalizers=finalizers), names)
        await here.until("all are completed", lambda: here.watch.completed == count)
        rate = 0.0
        if archived:
            await here.supervisor("s1", *options)
            start = time.perf_counter()
            await here.until("all are archived and gone", lambda: here.watch.deleted == count, 900)
            rate = count / (time.perf_counter() - start)
            await here.stop("s1")
        process = await here.supervisor("s2", *options)
        mib = rss_mib(process.pid)
        stored = target.plane.stored(f"{UNITS.group}/{UNITS.plural}/{here.namespace}/")
        times, length = [], 0
        for _ in range(LISTS):
            start = time.perf_counter()
            answer = await here.client.raw(
                Request("GET", UNITS.path(here.namespace), (), {"accept": "application/json"}), timeout_s=120
            )
            times.append(time.perf_counter() - start)
            length = len(answer.body)
    return {
        "objects": len(stored),
        "bytes": sum(stored.values()),
        "list_ms": round(median(times) * 1e3, 2),
        "list_bytes": length,
        "supervisor_mib": round(mib, 1),
        "archived_per_s": round(rate, 1),
    }
