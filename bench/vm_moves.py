"""Hand-over and start of the shipped scheduler, beside an embedded API server; both are processes of their own.

`handover`: neighbours move for machines that want more, and a watch tells when the source of a move is gone, and when
what its beneficiary is approved of is written. The time between is the scheduler's reaction and one write, and the
server's two notifications. `ready`: from the start of the process until it answers that it is ready and its ledger is
made, with all machines listed.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import random
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec
import yaml
from tests.cli.processes import process
from tests.controlplane.ports import ReservedPort
from tests.controlplane.process import Process

from bench.processes import Server, server
from bench.vm_cluster import ASKS, MOVES, NAMESPACE, UNIT, machine
from situate.embedded.kubeconfig import kubeconfig, write_kubeconfig
from situate.kube.client import Client
from situate.kube.connect import connect
from situate.kube.login.connection import Connection
from situate.kube.patches import MergePatch
from situate.objects.resources import NODES, PODS, ResourceType
from situate.sim.vm.account import quantile
from situate.vm.api.quantities import GIB, amounts_text
from situate.vm.api.well_known import APPROVED, REQUESTED, SCALING_UNIT
from situate.vm.backends.neonvm import MACHINES
from situate.vm.model.resource_amounts import Amounts

_READY_S: Final = 60.0
_WAIT_S: Final = 120.0
_POLL_S: Final = 0.2
WANTED: Final = amounts_text(Amounts.from_values(2 * ASKS * 1000, 8 * ASKS * GIB))
RULES: Final[dict[str, Any]] = {
    "watermark": 1.0,
    "demandAfter": "200ms",
    "calm": {"movesInCluster": 1000, "movesIntoNode": 1000, "link": "1000Gi"},
    "permits": {"address": "127.0.0.1:0"},
}
"""So that all moves of the measurement may be under way at a time, and none is made for a node's sake."""


class Scheduler:
    """The process under test; it may be started again and again."""

    def __init__(self, api: Server, folder: Path, rules: dict[str, Any]) -> None:
        self._health = ReservedPort()
        document = {
            "apiVersion": "situate.dev/v1alpha1",
            "kind": "Situate",
            "health": {"address": f"127.0.0.1:{self._health.number}"},
            "leaderElection": {"namespace": NAMESPACE},
            "vm": rules,
        }
        (folder / "situate.yaml").write_text(yaml.safe_dump(document))
        write_kubeconfig(folder / "kube", kubeconfig(api.url))
        options = ("-f", str(folder / "situate.yaml"), "--kubeconfig", str(folder / "kube"))
        self.process: Process = process(folder, "situate", "run", *options)

    def start(self) -> float:
        """Seconds until it is ready, and leads."""
        size = self.process.log.stat().st_size if self.process.log.exists() else 0
        begun = time.perf_counter()
        self.process.start()
        self.process.wait_ready(lambda: self._leads(size) and self._ready(), timeout_s=_READY_S)
        return time.perf_counter() - begun

    def _leads(self, after: int) -> bool:
        with self.process.log.open("rb") as log:
            log.seek(after)
            return b"ledger created" in log.read()

    def _ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self._health.number, timeout=5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()


def ready(machines: int, nodes: int, starts: int) -> dict[str, float]:
    arguments = ("--machines", str(machines), "--nodes", str(nodes))
    with server("bench.vm_cluster", *arguments) as api, tempfile.TemporaryDirectory() as folder:
        scheduler = Scheduler(api, Path(folder), {"permits": RULES["permits"]})
        seconds = []
        for _ in range(starts):
            try:
                seconds.append(scheduler.start())
            finally:
                scheduler.process.stop()
    return {"ready_s": round(median(seconds), 2)}


def handover(pairs: int, per_second: float) -> dict[str, float]:
    with server("bench.vm_cluster", "--pairs", str(pairs)) as api, tempfile.TemporaryDirectory() as folder:
        scheduler = Scheduler(api, Path(folder), RULES)
        try:
            scheduler.start()
            times, writes = asyncio.run(_handed_over(api.url, pairs, per_second))
        finally:
            scheduler.process.stop()
    return {
        "handover_ms_p50": milliseconds(times, 0.5),
        "handover_ms_p99": milliseconds(times, 0.99),
        "write_ms_p50": milliseconds(writes, 0.5),
    }


def milliseconds(seconds: list[float], share: float) -> float:
    return round(quantile(sorted(seconds), share) * 1e3, 2)


async def _handed_over(url: str, pairs: int, per_second: float) -> tuple[list[float], list[float]]:
    """And, of as many writes of the benchmark's own, how long each takes until it is seen."""
    client = connect(Connection(url, "bench"), random.Random(1), qps=100_000, burst=100_000)
    try:
        for cpus, kind in ((MOVES, "b"), (ASKS, "a")):
            for number in range(pairs):
                body = machine(f"{kind}{number}", cpus, migratable=kind == "b")
                await client.create(MACHINES, body, NAMESPACE)
            await until(lambda kind=kind: running(client, kind), lambda found: len(found) == pairs)  # type: ignore[misc]  # bound early
        return await _watched(client, pairs, per_second)
    finally:
        await client.close()


async def _watched(client: Client, pairs: int, per_second: float) -> tuple[list[float], list[float]]:
    asking, moving = await running(client, "a"), await running(client, "b")
    neighbour = {node: name for name, (_, node) in asking.items()}
    sources = {pod: neighbour[node] for pod, node in moving.values()}
    gone: dict[str, float] = {}
    written: dict[str, float] = {}
    sent: dict[str, float] = {}
    seen_at: dict[str, float] = {}
    listing = await client.list(PODS, NAMESPACE)

    def pod_seen(kind: str, found: dict[str, Any], at: float) -> None:
        name = found["metadata"]["name"]
        ended = found.get("status", {}).get("phase") in ("Succeeded", "Failed")
        if name in sources and (kind == "DELETED" or ended):
            gone.setdefault(sources[name], at)

    def machine_seen(_: str, found: dict[str, Any], at: float) -> None:
        metadata = found["metadata"]
        annotations = metadata.get("annotations", {})
        if annotations.get(REQUESTED) == WANTED:
            seen_at.setdefault(metadata["name"], at)
        if annotations.get(APPROVED) == WANTED:
            written.setdefault(metadata["name"], at)

    async with asyncio.TaskGroup() as group:
        watches = [
            group.create_task(follow(client, resource, listing.resource_version, seen))
            for resource, seen in ((PODS, pod_seen), (MACHINES, machine_seen))
        ]
        for node in (await client.list(NODES)).items:
            if node.metadata.name.startswith("spare"):
                await client.patch(NODES, node.metadata.name, MergePatch({"spec": {"unschedulable": False}}))
        notes = {SCALING_UNIT: UNIT, REQUESTED: WANTED}
        for name in asking:
            sent[name] = time.perf_counter()
            await client.patch(MACHINES, name, MergePatch({"metadata": {"annotations": notes}}), NAMESPACE)
            await asyncio.sleep(1 / per_second)
        await until(value_of(written), lambda found: len(found) == pairs)
        for watch in watches:
            watch.cancel()
    return [written[name] - gone[name] for name in asking], [seen_at[name] - sent[name] for name in asking]


async def follow(
    client: Client, resource: ResourceType[Any], version: str, seen: Callable[[str, dict[str, Any], float], None]
) -> None:
    async with client.watch(resource, NAMESPACE, resource_version=version, timeout_s=3600) as batches:
        async for lines in batches:
            at = time.perf_counter()
            for line in lines:
                event = msgspec.json.decode(line)
                if event["type"] == "ERROR":
                    raise SystemExit(f"the watch of the benchmark ended: {json.dumps(event)[:300]}")
                if event["type"] != "BOOKMARK":
                    seen(event["type"], event["object"], at)


async def running(client: Client, kind: str) -> dict[str, tuple[str, str]]:
    """Pod and node of each machine of a kind that runs, by name."""
    items = [each for each in (await client.list(MACHINES, NAMESPACE)).items if each.metadata.name.startswith(kind)]
    statuses = {each.metadata.name: each.content.get("status", {}) for each in items}
    return {
        name: (str(status["podName"]), str(status["node"]))
        for name, status in statuses.items()
        if status.get("phase") == "Running"
    }


def value_of(found: dict[str, float]) -> Callable[[], Awaitable[dict[str, float]]]:
    async def now() -> dict[str, float]:
        return found

    return now


async def until(look: Callable[[], Awaitable[Any]], holds: Callable[[Any], bool]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not holds(found := await look()):
        if time.monotonic() > deadline:
            raise SystemExit(f"after {_WAIT_S:g} s there is only {found}")
        await asyncio.sleep(_POLL_S)
