"""How soon a move ends that room has made needless, beside an embedded API server (B23).

Each of many nodes is full: one machine wants more, its neighbour is being copied away for it, and a plain pod leaves.
Its room is what was wanted. A watch tells when the pod is gone, and when the migration is asked to end. The scheduler
under test, the server and the benchmark are processes of their own.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.processes import server
from bench.vm_cluster import ASKS, MOVES, NAMESPACE, UNIT, machine
from bench.vm_moves import RULES, WANTED, Scheduler, follow, milliseconds, running, until, value_of
from situate.kube.client import Client
from situate.kube.connect import connect
from situate.kube.login.connection import Connection
from situate.kube.patches import MergePatch
from situate.objects.resources import NODES, PODS
from situate.vm.api.well_known import REQUESTED, SCALING_UNIT
from situate.vm.backends.neonvm import MACHINES, MIGRATIONS


def cancelled(pairs: int, per_second: float) -> dict[str, float]:
    """`per_second`: so many pods leave."""
    with server("bench.vm_cluster", "--pairs", str(pairs), "--crowded") as api, tempfile.TemporaryDirectory() as folder:
        scheduler = Scheduler(api, Path(folder), RULES)
        try:
            scheduler.start()
            times = asyncio.run(_cancelled(api.url, pairs, per_second))
        finally:
            scheduler.process.stop()
    return {"cancel_ms_p50": milliseconds(times, 0.5), "cancel_ms_p99": milliseconds(times, 0.99)}


async def _cancelled(url: str, pairs: int, per_second: float) -> list[float]:
    client = connect(Connection(url, "bench"), random.Random(1), qps=100_000, burst=100_000)
    try:
        for number in range(pairs):
            await client.create(PODS, _plain(number), NAMESPACE)
        await _create(client, "b", MOVES, pairs, stallAtPercent=10)
        await _create(client, "a", ASKS, pairs)
        await _all_copy(client, pairs)
        return await _watched(client, pairs, per_second)
    finally:
        await client.close()


async def _create(client: Client, kind: str, cpus: int, pairs: int, **behaviour: Any) -> None:
    for number in range(pairs):
        body = machine(f"{kind}{number}", cpus, migratable=kind == "b", **behaviour)
        await client.create(MACHINES, body, NAMESPACE)
    await until(lambda: running(client, kind), lambda found: len(found) == pairs)


async def _all_copy(client: Client, pairs: int) -> None:
    """Every `a` asks for what its node has not, and every `b` is copied for it, and stays at that."""
    for node in (await client.list(NODES)).items:
        if node.metadata.name.startswith("spare"):
            await client.patch(NODES, node.metadata.name, MergePatch({"spec": {"unschedulable": False}}))
    notes = MergePatch({"metadata": {"annotations": {SCALING_UNIT: UNIT, REQUESTED: WANTED}}})
    for number in range(pairs):
        await client.patch(MACHINES, f"a{number}", notes, NAMESPACE)

    async def copied() -> int:
        moves = (await client.list(MIGRATIONS, NAMESPACE)).items
        return sum("info" in each.content.get("status", {}) for each in moves)

    await until(copied, lambda found: found == pairs)


async def _watched(client: Client, pairs: int, per_second: float) -> list[float]:
    home = {each.metadata.name: each.spec.node_name for each in (await client.list(PODS, NAMESPACE)).items}
    moves = (await client.list(MIGRATIONS, NAMESPACE)).items
    leaves = {each.metadata.name: home[str(each.content["status"]["sourcePodName"])] for each in moves}
    gone: dict[str, float] = {}
    ended: dict[str, float] = {}

    def pod_seen(kind: str, found: dict[str, Any], at: float) -> None:
        over = found.get("status", {}).get("phase") in ("Succeeded", "Failed")
        if found["metadata"]["name"].startswith("plain-") and (kind == "DELETED" or over):
            gone.setdefault(found["spec"]["nodeName"], at)

    def move_seen(kind: str, found: dict[str, Any], at: float) -> None:
        if kind == "DELETED" or "deletionTimestamp" in found["metadata"]:
            ended.setdefault(leaves[found["metadata"]["name"]], at)

    async with asyncio.TaskGroup() as group:
        version = (await client.list(PODS, NAMESPACE)).resource_version
        watches = [
            group.create_task(follow(client, resource, version, seen))
            for resource, seen in ((PODS, pod_seen), (MIGRATIONS, move_seen))
        ]
        began = time.perf_counter()
        for number in range(pairs):
            await asyncio.sleep(max(0.0, began + number / per_second - time.perf_counter()))
            await client.delete(PODS, f"plain-{number}", NAMESPACE, grace_period_s=0)
        await until(value_of(ended), lambda found: len(found) == pairs)
        for watch in watches:
            watch.cancel()
    return [ended[node] - gone[node] for node in ended]


def _plain(number: int) -> dict[str, Any]:
    requests = {"cpu": str(ASKS), "memory": f"{4 * ASKS}Gi"}
    container = {"name": "c", "image": "example.com/c:1", "resources": {"requests": requests}}
    return {"metadata": {"name": f"plain-{number}"}, "spec": {"nodeName": f"n{number}", "containers": [container]}}
