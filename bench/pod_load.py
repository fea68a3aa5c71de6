"""Creates pods as fast as a server takes them, while watchers verify every event: the load of `bench.embedded`.

    python -m bench.pod_load KUBECONFIG --name RUN [--count N] [--watchers N] [--concurrency N] [--distinct] [--core N]

Every creation must be answered with 201, and each watcher must see each pod ADDED once and changed only after that, in
the order of the versions. As many connections as `--concurrency` says carry one creation at a time. The last line is
one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import msgspec
import uvloop

from bench.machine import pin
from bench.pods import to_create
from bench.raw_http import Creating, Server, Watching
from situate.kube.connect import connect, find_connection
from situate.kube.login.credentials import Credentials
from situate.objects.messages import Request
from situate.objects.resources import PODS

_QUIET_S = 60.0
"""How long the watchers may take for what is still on its way."""


class Watcher:
    """Watches all pods of a namespace from before the first is created until the last."""

    def __init__(self, server: Server, path: str, names: frozenset[str], version: int) -> None:
        self.reopened = 0
        """kube-apiserver ends the watch of a client that falls behind; it goes on where it was."""
        self.seen: set[str] = set()
        self.changes = 0
        self._server = server
        self._path = path
        self._names = names
        self._version = version

    async def watch(self, begun: asyncio.Event) -> None:
        while True:
            watching = await self._server.connected(lambda: Watching(self.seen, len(self._names), self._version))
            watching.begin(self._server.get(f"{self._path}?watch=true&resourceVersion={self._version}"))
            await watching.begun
            begun.set()
            try:
                await watching.ended
            finally:
                watching.close()
                self.changes += watching.changes
            if len(self.seen) >= len(self._names):
                break
            self._version = watching.last
            self.reopened += 1
        if self.seen != self._names:
            raise SystemExit(f"a watcher saw pods that nobody created: {sorted(self.seen - self._names)[:5]}")


async def _load(chosen: argparse.Namespace) -> dict[str, float]:
    connection = find_connection(Path(chosen.kubeconfig), environ={})
    client = connect(connection, Random(1))
    namespace = chosen.name
    body = msgspec.json.encode({"metadata": {"name": namespace}})
    await client.raw(Request("POST", "/api/v1/namespaces", (), {"content-type": "application/json"}, body))
    version = int((await client.list(PODS, namespace, limit=1)).resource_version)
    await client.close()
    credentials = Credentials(connection, monotonic=time.monotonic, now=lambda: datetime.now(UTC))
    server = Server.of(connection, await credentials.login())
    path = PODS.path(namespace)
    names = [f"pod-{number:06d}" for number in range(chosen.count)]
    pods = (to_create(name, **({"number": name[4:]} if chosen.distinct else {})) for name in names)
    requests = iter([server.post(path, msgspec.json.encode(pod)) for pod in pods])
    watchers = [Watcher(server, path, frozenset(names), version) for _ in range(chosen.watchers)]
    begun = [asyncio.Event() for _ in watchers]
    async with asyncio.TaskGroup() as tasks:
        watching = [tasks.create_task(each.watch(event)) for each, event in zip(watchers, begun, strict=True)]
        for event in begun:
            await event.wait()
        creating = [await server.connected(lambda: Creating(requests)) for _ in range(chosen.concurrency)]
        # What was made beforehand stays, and nothing here has cycles.
        gc.collect()
        gc.freeze()
        start, cpu = time.perf_counter(), time.process_time()
        for each in creating:
            each.begin()
        await asyncio.gather(*(each.done for each in creating))
        created = time.perf_counter()
        try:
            async with asyncio.timeout(_QUIET_S):
                await asyncio.gather(*watching)
        except TimeoutError:
            counts = [len(each.seen) for each in watchers]
            raise SystemExit(f"of {chosen.count} pods the watchers saw {counts} after {_QUIET_S:g} s") from None
        end, used = time.perf_counter(), time.process_time() - cpu
    answered, delivered = (
        sum(each.answered for each in creating),
        sum(len(each.seen) + each.changes for each in watchers),
    )
    assert answered == chosen.count, f"{answered} answers for {chosen.count} creations"
    return {
        "writes_per_s": chosen.count / (created - start),
        "watch_events_per_s": delivered / (end - start),
        "delivered": delivered,
        "reopened": sum(each.reopened for each in watchers),
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
    try:
        result = uvloop.run(_load(chosen))
    except ExceptionGroup as failures:
        # Watchers fail together, for one reason.
        raise SystemExit(f"{type(failures.exceptions[0]).__name__}: {failures.exceptions[0]}") from None
    sys.stdout.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
