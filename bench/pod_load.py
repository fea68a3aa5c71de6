"""Creates pods as fast as a server takes them, while watchers read every event: the load of `bench.embedded`.

    python -m bench.pod_load KUBECONFIG --name RUN [--count N] [--watchers N] [--concurrency N] [--distinct] [--core N]

Every answer's status is checked. Watchers count the lines that they get and decode none: a process of one core could
not decode what four of them are sent. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from pathlib import Path
from random import Random

import msgspec

from bench.machine import pin
from bench.pods import to_create
from situate.kube.client import Client
from situate.kube.connect import connect, find_connection
from situate.objects.messages import Request
from situate.objects.resources import PODS

_CREATED_IN_TIME_S = 600.0
_QUIET_S = 60.0
"""How long the watchers may take for what is still on its way."""


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str


class _Object(msgspec.Struct):
    metadata: _Meta


class _Event(msgspec.Struct):
    object: _Object


class Watching:
    """Watches of all pods of a namespace, begun before the first is created."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self.delivered = 0
        self.reopened = 0
        """kube-apiserver ends the watch of a client that falls behind; it goes on where it was."""
        self.wanted = sys.maxsize
        self.done = asyncio.Event()

    async def watch(self, begun: asyncio.Event, version: str) -> None:
        while True:
            last = b""
            async with self._client.watch(PODS, self._namespace, resource_version=version) as lines:
                begun.set()
                async for line in lines:
                    last = line
                    self.delivered += 1
                    if self.delivered >= self.wanted:
                        self.done.set()
            self.reopened += 1
            if last:
                version = msgspec.json.decode(last, type=_Event).object.metadata.resource_version


async def _load(chosen: argparse.Namespace) -> dict[str, float]:
    connection = find_connection(Path(chosen.kubeconfig), environ={})
    client = connect(connection, Random(1))
    namespace = chosen.name
    body = msgspec.json.encode({"metadata": {"name": namespace}})
    headers = {"content-type": "application/json", "accept": "application/json"}
    await client.raw(Request("POST", "/api/v1/namespaces", (), headers, body))
    watching = Watching(client, namespace)
    version = (await client.list(PODS, namespace, limit=1)).resource_version
    begun = [asyncio.Event() for _ in range(chosen.watchers)]
    tasks = [asyncio.create_task(watching.watch(each, version)) for each in begun]
    for each in begun:
        await each.wait()
    path = PODS.path(namespace)
    numbers = iter(range(chosen.count))

    async def create() -> None:
        for number in numbers:
            more = {"number": str(number)} if chosen.distinct else {}
            pod = msgspec.json.encode(to_create(f"pod-{number:06d}", **more))
            await client.raw(Request("POST", path, (), headers, pod), timeout_s=_CREATED_IN_TIME_S)

    start, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(create() for _ in range(chosen.concurrency)))
    created = time.perf_counter()
    watching.wanted = chosen.count * chosen.watchers
    if chosen.watchers and watching.delivered < watching.wanted:
        waiting = asyncio.create_task(watching.done.wait())
        ended, _ = await asyncio.wait((waiting, *tasks), timeout=_QUIET_S, return_when=asyncio.FIRST_COMPLETED)
        if waiting not in ended:
            failures = [task.exception() for task in ended]
            raise SystemExit(f"watchers got {watching.delivered} events of {watching.wanted}: {failures or 'silence'}")
    end, used = time.perf_counter(), time.process_time() - cpu
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await client.close()
    return {
        "writes_per_s": chosen.count / (created - start),
        "watch_events_per_s": watching.delivered / (end - start),
        "delivered": watching.delivered,
        "reopened": watching.reopened,
        "load_cpu_s": used,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.pod_load")
    parser.add_argument("kubeconfig")
    parser.add_argument("--name", required=True, help="of the namespace, which must not exist")
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--watchers", type=int, default=4)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--distinct", action="store_true", help="no two pods share all that they ask for")
    parser.add_argument("--core", type=int, help="stay on this one")
    chosen = parser.parse_args()
    if chosen.core is not None:
        pin(0, chosen.core)
    sys.stdout.write(json.dumps(asyncio.run(_load(chosen))) + "\n")


if __name__ == "__main__":
    main()
