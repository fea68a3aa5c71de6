"""How soon the objects of an executor that is gone are somebody else's, however it has gone (B2)."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

from bench.shard_place import Bench, Place, place
from bench.shard_table import Peer, heading, line, note
from situate.objects.resources import LEASES
from situate.sharding.leases.membership import LeaseTimes
from situate.sharding.model.names import EXECUTOR

_TIMES = LeaseTimes()


async def failover(bench: Bench) -> dict[str, Any]:
    """B2, with executors as processes of their own: one is asked to end, one is killed, one is reported dead."""
    size, folder = bench.size, bench.folder
    heading(f"B2 executors, {size.open:,} open objects, Leases of {_TIMES.lease_s:g} s")
    with bench.embedded() as target:
        async with place(target, folder) as here:
            for name in "abcd" if size.silence else "acd":
                await here.executor(name)
            await here.supervisor("s")
            await here.create(f"unit-{number}" for number in range(size.open))
            await here.until("all are placed", lambda: here.watch.assigned == size.open)

            names, start = here.watch.held_by("a"), time.perf_counter()
            ending = asyncio.create_task(here.stop("a"))
            released_s = await _moved(here, "a", names) - start
            each_s = max(_gap(here, name) for name in names)
            await ending

            names = here.watch.held_by("c")
            here.processes.pop("c").kill()
            start = time.perf_counter()
            await here.tell_pod("c", {"terminated": {"exitCode": 137}}, ready=False)
            death_s = await _moved(here, "c", names) - start

            silence_s = 0.0
            if size.silence:
                names = here.watch.held_by("b")
                here.processes.pop("b").kill()
                renewed = await _renewed(here, "b")
                silence_s = await _moved(here, "b", names) - renewed
            wrong = sum(seen.epoch != len(seen.placed) for seen in here.watch.seen.values())
    line("seconds from the release of an object until its next assignment, most", each_s, most=1.0)
    note(f"from SIGTERM until the last of them is assigned: {released_s:.2f} s")
    line("seconds from the proof of death until the last is assigned", death_s, most=1.0)
    if size.silence:
        peer = Peer(30, "ring; Kopf: up to 60")
        line("seconds from the last renewal until the last is assigned", silence_s, most=_TIMES.lease_s + 2, peer=peer)
    line("assignments that nobody saw", wrong, most=0)
    told = {"failover_release_s": round(each_s, 3), "failover_death_s": round(death_s, 3)}
    return told | ({"failover_s": round(silence_s, 2)} if size.silence else {})


async def _moved(here: Place, executor: str, names: list[str]) -> float:
    """When the last of them was another executor's."""
    seen = here.watch.seen
    await here.until(f"nothing is {executor}'s", lambda: all(seen[name].placed[-1][1] != executor for name in names))
    return max(seen[name].placed[-1][0] for name in names)


def _gap(here: Place, name: str) -> float:
    seen = here.watch.seen[name]
    assert seen.released_at is not None, f"{name} was moved without the consent of its holder, which had not lost it"
    return seen.placed[-1][0] - seen.released_at


async def _renewed(here: Place, executor: str) -> float:
    """When it last renewed its Lease, on the clock of this process."""
    leases = await here.client.list(LEASES, here.namespace)
    lease = next(each for each in leases.items if each.metadata.annotations.get(EXECUTOR) == executor)
    renewed = lease.spec.renew_time
    assert renewed is not None
    return time.perf_counter() - (datetime.now(UTC) - renewed).total_seconds()
