"""`situate embedded --data` as a process of its own: killed under load, out of room, and a second one beside it."""

from __future__ import annotations

import asyncio
import json
import resource
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from tests.cluster.asking import MAPS, config_map
from tests.waiting import WITHIN_S

_CLIENTS = 6
_UNKNOWN_ANSWERS = (aiohttp.ClientError, ConnectionError, TimeoutError)


@dataclass
class Known:
    """What one client was told of its own object, and what it asked for last."""

    acknowledged: str | None = None
    asked: str | None = None
    revision: int = 0


@dataclass
class Load:
    known: dict[str, Known] = field(default_factory=dict)
    answers: int = 0
    enough: int = 1_000_000
    """After so many answers comes the end."""
    end: Callable[[], None] = lambda: None


async def spawn(data: Path) -> Process:
    command = (sys.executable, "-m", "situate", "embedded", "--port", "0", "--data", str(data))
    return await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=PIPE)


@asynccontextmanager
async def serving(data: Path) -> AsyncIterator[tuple[Process, aiohttp.ClientSession]]:
    process = await spawn(data)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(WITHIN_S):
            line = (await process.stdout.readline()).decode()
        assert line.startswith("the API server answers at "), line
        async with aiohttp.ClientSession(line.split()[-1], timeout=aiohttp.ClientTimeout(total=WITHIN_S)) as http:
            yield process, http
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def write(http: aiohttp.ClientSession, load: Load, client: int) -> None:
    """Creates, changes and deletes objects of its own until the server is gone."""
    for number in range(100_000):
        name = f"c{client}-{number // 4}"
        known = load.known.setdefault(name, Known())
        step = number % 4
        known.asked = None if step == 3 and client % 2 else f"{number}" + "x" * (number % 500)
        try:
            if step == 0:
                answering = http.post(MAPS, json=config_map(name, x=str(known.asked)))
            elif known.asked is None:
                answering = http.delete(f"{MAPS}/{name}")
            else:
                patch = {"content-type": "application/merge-patch+json"}
                body = json.dumps({"data": {"x": known.asked}})
                answering = http.patch(f"{MAPS}/{name}", data=body, headers=patch)
            async with answering as response:
                told = await response.json()
                if response.status >= 500:
                    return
                assert response.status in (200, 201), told
        except _UNKNOWN_ANSWERS:
            return
        known.acknowledged = known.asked
        known.revision = max(known.revision, int(told["metadata"].get("resourceVersion", 0)))
        load.answers += 1
        if load.answers == load.enough:
            load.end()


async def loaded(http: aiohttp.ClientSession, load: Load) -> None:
    """Runs the clients until the server is gone."""
    async with asyncio.timeout(WITHIN_S):
        await asyncio.gather(*(write(http, load, client) for client in range(_CLIENTS)))


async def check(http: aiohttp.ClientSession, load: Load) -> int:
    """Demands that everything acknowledged is there; the highest revision that a client was told."""
    async with http.get(MAPS) as response:
        found = {item["metadata"]["name"]: item["data"]["x"] for item in (await response.json())["items"]}
    lost = {
        name: (known.acknowledged, found.get(name), known.asked)
        for name, known in load.known.items()
        if found.get(name) not in (known.acknowledged, known.asked)
    }
    assert not lost
    return max(known.revision for known in load.known.values())


async def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    load = Load()
    async with serving(tmp_path) as (process, http):
        load.enough, load.end = 400, process.kill
        await loaded(http, load)
    with (tmp_path / "cluster.journal").open("ab") as file:
        file.write(b"\x00\x04\x00\x00torn")  # what a write in two parts leaves behind
    async with serving(tmp_path) as (_, http):
        last = await check(http, load)
        async with http.get(f"{MAPS}?watch=true&resourceVersion={last - 5}&timeoutSeconds=1") as watching:
            event = json.loads(await watching.content.readline())
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        async with http.post(MAPS, json=config_map("later")) as response:
            assert int((await response.json())["metadata"]["resourceVersion"]) > last


async def test_deletions_go_on_where_they_were(tmp_path: Path) -> None:
    async with serving(tmp_path) as (process, http):
        held = config_map("held")
        held["metadata"]["finalizers"] = ["example.com/hold"]
        await http.post(MAPS, json=held)
        async with http.delete(f"{MAPS}/held") as response:
            marked = (await response.json())["metadata"]["deletionTimestamp"]
        async with http.post(MAPS, json=config_map("owner")) as response:
            uid = (await response.json())["metadata"]["uid"]
        for name in ("one", "two"):
            owned = config_map(name)
            owned["metadata"]["ownerReferences"] = [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}
            ]
            await http.post(MAPS, json=owned)
        async with http.delete(f"{MAPS}/owner?propagationPolicy=Background") as response:
            assert response.status == 200
        process.kill()
    async with serving(tmp_path) as (_, http):
        async with http.get(f"{MAPS}/held") as response:
            assert (await response.json())["metadata"]["deletionTimestamp"] == marked
        async with asyncio.timeout(WITHIN_S):
            for name in ("one", "two"):
                while True:
                    async with http.get(f"{MAPS}/{name}") as response:
                        if response.status == 404:
                            break
                    await asyncio.sleep(0.01)
        patch = {"content-type": "application/merge-patch+json"}
        async with http.patch(f"{MAPS}/held", data='{"metadata":{"finalizers":null}}', headers=patch) as response:
            assert response.status == 200
        async with http.get(f"{MAPS}/held") as response:
            assert response.status == 404


async def test_a_full_disk_ends_the_server_with_a_sentence(tmp_path: Path) -> None:
    load = Load()
    async with serving(tmp_path) as (process, http):
        room = (tmp_path / "cluster.journal").stat().st_size + 150_000
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (room, room))
        await loaded(http, load)
        assert process.stderr is not None
        async with asyncio.timeout(WITHIN_S):
            said = (await process.stderr.read()).decode()
            assert await process.wait() == 1
    assert "the API server has stopped: " in said
    assert "cluster.journal cannot be written: File too large; free disk space and start again" in said
    assert "Traceback" not in said
    assert load.answers > 20
    async with serving(tmp_path) as (_, http):
        await check(http, load)


async def test_a_second_server_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as (first, http):
        second = await spawn(tmp_path)
        async with asyncio.timeout(WITHIN_S):
            _, said = await second.communicate()
        assert second.returncode == 1
        assert (
            said.decode()
            == f"situate: --data {tmp_path} is in use by another server; stop that server or name another directory\n"
        )
        async with http.get("/readyz") as response:
            assert response.status == 200
        first.send_signal(signal.SIGTERM)
        async with asyncio.timeout(WITHIN_S):
            assert await first.wait() == 0
