"""Every request is answered within a bound, whatever happens beside it: cut watches, faults, pauses, vanished clients.

`python -m tests.embedded.test_answers SECONDS` does the same for as long as asked.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import Counter
from typing import Any

import aiohttp

from situate.cluster.controllers.node.nodes import nodes
from situate.embedded.embedded_server import EmbeddedServer, Settings
from tests.cluster.asking import MAPS, PODS, config_map, pod

BOUND_S = 120.0
"""On a machine that is busy with other things; on an idle one the slowest takes milliseconds."""
_CLIENTS = 8
_PATCH = {"content-type": "application/merge-patch+json"}
_DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
_FAULTS: list[dict[str, Any]] = [
    {"fault": "dropRequest", "path": "/api/*"},
    {"fault": "dropAnswer", "methods": ["POST"], "path": "/api/*"},
    {"fault": "refuse", "status": 429, "retryAfterS": 1, "path": "/api/*"},
    {"fault": "refuse", "status": 503, "path": "/apis/*"},
    {"fault": "refuse", "status": 500, "delayS": 0.05, "path": "/api/*"},
]


class Soak:
    """Random clients of one server; counts what happened, and fails with the first request that is not answered."""

    def __init__(self, url: str, seed: int) -> None:
        self.seen: Counter[str] = Counter()
        self.slowest = 0.0
        self._url = url
        self._seed = seed
        self._paused = asyncio.Lock()

    async def run(self, rounds: int) -> None:
        async with asyncio.TaskGroup() as clients:
            for number in range(_CLIENTS):
                clients.create_task(self._client(number, rounds))
        async with aiohttp.ClientSession(self._url) as http:
            await self._ask(http, "DELETE", "/situate/faults")
            for path in ("/readyz", MAPS, PODS):
                assert await self._ask(http, "GET", path) == 200

    async def _client(self, number: int, rounds: int) -> None:
        chance = random.Random(self._seed * 1000 + number)
        async with aiohttp.ClientSession(self._url) as http:
            for _ in range(rounds):
                await self._step(http, chance, f"c{number}-{chance.randrange(5)}")

    async def _step(self, http: aiohttp.ClientSession, chance: random.Random, name: str) -> None:
        match chance.randrange(14):
            case 0 | 1:
                await self._ask(http, "POST", MAPS, json.dumps(config_map(name, x="1")))
            case 2:
                await self._ask(http, "PATCH", f"{MAPS}/{name}", '{"data":{"x":"2"}}', _PATCH)
            case 3:
                await self._ask(http, "DELETE", f"{MAPS}/{name}")
            case 4:
                await self._ask(http, "GET", chance.choice((MAPS, PODS, "/openapi/v3", "/apis")))
            case 5:
                await self._ask(http, "POST", PODS, json.dumps(pod(name)))
            case 6:
                await self._ask(http, "DELETE", f"{PODS}/{name}", '{"gracePeriodSeconds":0}')
            case 7:
                replicas = chance.randrange(6)
                body = {"spec": {"replicas": replicas}}
                if await self._ask(http, "PATCH", f"{_DEPLOYMENTS}/{name}", json.dumps(body), _PATCH) == 404:
                    await self._ask(http, "POST", _DEPLOYMENTS, json.dumps(deployment(name, replicas)))
            case 8 | 9:
                await self._watch(http, chance)
            case 10:
                await self._ask(http, "POST", f"/situate/faults/{chance.choice(('cut-watches', 'compact'))}")
            case 11:
                await self._ask(http, "POST", "/situate/faults", json.dumps(chance.choice(_FAULTS)))
            case 12:
                await self._vanish(chance)
            case _:
                await self._pause(http, chance)

    async def _ask(
        self, http: aiohttp.ClientSession, method: str, path: str, body: str | None = None, headers: Any = None
    ) -> int:
        """The status; 0 if a fault cut the connection. Raises `TimeoutError` if there is no answer."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        try:
            async with (
                asyncio.timeout(BOUND_S),
                http.request(method, path, data=body, headers=headers or {"content-type": "application/json"}) as reply,
            ):
                await reply.read()
                status = reply.status
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError):
            status = 0
        except TimeoutError:
            raise TimeoutError(f"{method} {path} was not answered within {BOUND_S:g} s; seen: {self.seen}") from None
        self.slowest = max(self.slowest, clock() - begun)
        self.seen["cut" if status == 0 else f"{status // 100}xx"] += 1
        return status

    async def _watch(self, http: aiohttp.ClientSession, chance: random.Random) -> None:
        """Reads for a moment, and leaves in the middle or waits for the end."""
        path = (
            f"{chance.choice((MAPS, PODS))}?watch=true&timeoutSeconds=1&resourceVersion={chance.choice(('', '0', '3'))}"
        )
        try:
            async with asyncio.timeout(BOUND_S), http.get(path) as watching:
                stays = chance.random() < 0.5
                if stays:
                    await watching.read()
                else:
                    await asyncio.sleep(chance.random() / 20)
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError):
            self.seen["cut watch"] += 1
        else:
            self.seen["whole watch" if stays else "left watch"] += 1

    async def _vanish(self, chance: random.Random) -> None:
        """A client that goes away in the middle of its request, or pipelines two and reads none."""
        host, port = self._url.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        head = f"POST {MAPS} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        if chance.random() < 0.5:
            writer.write(f'{head}Content-Length: 500\r\n\r\n{{"half'.encode())
        else:
            writer.write(
                f"GET {MAPS}?watch=true HTTP/1.1\r\nHost: {host}\r\n\r\n{head}Content-Length: 2\r\n\r\n{{}}".encode()
            )
        await writer.drain()
        if chance.random() < 0.5:
            writer.transport.abort()
        writer.close()
        self.seen["vanished"] += 1

    async def _pause(self, http: aiohttp.ClientSession, chance: random.Random) -> None:
        async with self._paused:
            await self._ask(http, "POST", "/situate/faults/pause")
            await asyncio.sleep(chance.random() / 20)
            await self._ask(http, "POST", "/situate/faults/resume")
        self.seen["pause"] += 1


def deployment(name: str, replicas: int) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


async def test_every_request_is_answered() -> None:
    async with EmbeddedServer(Settings(seed=1)) as server:
        server.create_nodes(nodes(3, zones=("a",)))
        soak = Soak(server.url, 1)
        await soak.run(60)
    for kind in ("2xx", "4xx", "5xx", "cut", "left watch", "whole watch", "vanished", "pause"):
        assert soak.seen[kind], f"never seen: {kind} among {soak.seen}"


async def _for(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    seed = 0
    async with EmbeddedServer(Settings()) as server:
        server.create_nodes(nodes(3, zones=("a",)))
        while loop.time() < end:
            soak = Soak(server.url, seed)
            await soak.run(100)
            print(f"seed {seed}: slowest {soak.slowest:.2f} s, {dict(soak.seen)}", flush=True)
            seed += 1


if __name__ == "__main__":
    asyncio.run(_for(float(sys.argv[1])))
