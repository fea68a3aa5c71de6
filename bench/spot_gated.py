"""Whole workloads of fifty pods behind the gate of strict mode, one a second: the other load of `bench.spot` (P9).

    python -m bench.spot_gated API_PORT [--workloads N] [--first N] [--core N]

Pods are created as admission leaves them in strict mode, all fifty of a workload at once. A pod's time runs from when
its creation is asked for until a watch shows it without the gate. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import aiohttp

from bench.machine import pin
from bench.spot_cluster import GROWING, ON_DEMAND, REPLICAS
from situate.spot.model.pods_nodes_workloads import CLASS, GATE, TEMPLATE_HASH

_PODS: Final = f"/api/v1/namespaces/{GROWING}/pods"
_SETS: Final = f"/apis/apps/v1/namespaces/{GROWING}/replicasets"
_EVERY_S: Final = 1.0
_PATIENCE_S: Final = 60.0
_LINE: Final = 1 << 22
"""Bytes that an event may have."""


class Load:
    """Creates pods and looks when they are let go."""

    def __init__(self, http: aiohttp.ClientSession) -> None:
        self._http = http
        self._asked: dict[str, float] = {}
        self.seconds: dict[str, float] = {}
        """Until the gate was gone, by name."""
        self.classes: dict[str, Counter[str]] = {}
        """By workload."""
        self._all = asyncio.Event()

    async def run(self, workloads: int, first: int) -> None:
        async with self._http.get(_SETS) as answer:
            sets = {each["metadata"]["labels"]["app"]: each for each in (await answer.json())["items"]}
        chosen = [sets[f"new-{number}"] for number in range(first, first + workloads)]
        async with self._http.get(_PODS, params={"watch": "true"}) as watch:
            watching = asyncio.create_task(self._watch(watch, workloads * REPLICAS))
            for each in chosen:
                begun = time.perf_counter()
                await asyncio.gather(*(self._create(each, ordinal) for ordinal in range(REPLICAS)))
                await asyncio.sleep(max(0.0, begun + _EVERY_S - time.perf_counter()))
            async with asyncio.timeout(_PATIENCE_S):
                await self._all.wait()
            watching.cancel()

    async def _create(self, replica_set: dict[str, Any], ordinal: int) -> None:
        metadata, spec = replica_set["metadata"], replica_set["spec"]["template"]["spec"]
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": metadata["name"], "uid": metadata["uid"]}
        labels = {"app": metadata["labels"]["app"], TEMPLATE_HASH: metadata["labels"][TEMPLATE_HASH]}
        name = f"{metadata['name']}-gated-{ordinal}"
        pod = {
            "metadata": {"name": name, "labels": labels, "ownerReferences": [{**reference, "controller": True}]},
            "spec": {**spec, "schedulingGates": [{"name": GATE}]},
        }
        self._asked[name] = time.perf_counter()
        async with self._http.post(_PODS, json=pod) as answer:
            if answer.status >= 300:
                raise SystemExit(f"{name} could not be created: {await answer.text()}")

    async def _watch(self, watch: aiohttp.ClientResponse, wanted: int) -> None:
        async for line in watch.content:
            pod = json.loads(line)["object"]
            metadata = pod["metadata"]
            name = metadata["name"]
            if name in self.seconds or name not in self._asked or pod["spec"].get("schedulingGates"):
                continue
            self.seconds[name] = time.perf_counter() - self._asked[name]
            found = self.classes.setdefault(metadata["labels"]["app"], Counter())
            found[metadata["labels"].get(CLASS, "")] += 1
            if len(self.seconds) == wanted:
                self._all.set()


async def measured(port: int, workloads: int, first: int) -> dict[str, Any]:
    connector = aiohttp.TCPConnector(limit=REPLICAS + 1)
    address = f"http://127.0.0.1:{port}"
    async with aiohttp.ClientSession(address, connector=connector, read_bufsize=_LINE) as http:
        load = Load(http)
        await load.run(workloads, first)
    times = sorted(1e3 * each for each in load.seconds.values())
    return {
        "pods": len(times),
        "ms_p50": _quantile(times, 0.5),
        "ms_p99": _quantile(times, 0.99),
        "ms_max": times[-1],
        "exact": sum(each["on-demand"] == ON_DEMAND for each in load.classes.values()),
        "workloads": workloads,
    }


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.spot_gated")
    parser.add_argument("port", type=int)
    parser.add_argument("--workloads", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--core", type=int)
    chosen = parser.parse_args()
    if chosen.core is not None:
        pin(0, chosen.core)
    json.dump(asyncio.run(measured(chosen.port, chosen.workloads, chosen.first)), sys.stdout)
    print()


if __name__ == "__main__":
    main()
