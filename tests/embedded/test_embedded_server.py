from __future__ import annotations

import asyncio
import io
import json
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from situate.cluster.storage.effects import Identity
from situate.embedded.embedded_server import DidNotStart, EmbeddedServer, Settings
from situate.embedded.kubeconfig import write_kubeconfig
from tests.cluster.asking import MAPS, PODS, config_map, pod
from tests.kube.servers import Authority, server_tls
from tests.waiting import WITHIN_S

QUIET = Settings(machinery=None, tokens={"secret": Identity("bob", ("system:authenticated",))})


@pytest.fixture
async def server() -> AsyncIterator[EmbeddedServer]:
    async with EmbeddedServer(QUIET) as running:
        yield running


@pytest.fixture
async def http(server: EmbeddedServer) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(server.url) as session:
        yield session


async def lines(response: aiohttp.ClientResponse, count: int) -> list[dict[str, Any]]:
    async with asyncio.timeout(WITHIN_S):
        return [json.loads(await response.content.readline()) for _ in range(count)]


async def test_objects_go_in_and_come_out(http: aiohttp.ClientSession) -> None:
    async with http.post(PODS, json=pod()) as response:
        assert response.status == 201
    async with http.get(f"{PODS}/p") as response:
        shown = await response.json()
    assert shown["metadata"]["managedFields"][0]["manager"] == "Python"
    async with http.get("/api/v1/pods?limit=5&labelSelector=app%3Da") as response:
        assert len((await response.json())["items"]) == 1


async def test_watchers_see_what_happens(http: aiohttp.ClientSession) -> None:
    async with http.get(f"{MAPS}?watch=true&resourceVersion=0") as watching:
        for name in ("a", "b", "c"):
            await http.post(MAPS, json=config_map(name))
        seen = await lines(watching, 3)
    assert [event["object"]["metadata"]["name"] for event in seen] == ["a", "b", "c"]


async def test_a_read_waits_for_a_revision_to_come(server: EmbeddedServer, http: aiohttp.ClientSession) -> None:
    coming = server.api.store.revision + 1
    reading = asyncio.ensure_future(http.get(f"{MAPS}?resourceVersion={coming}"))
    await http.get("/readyz")
    assert not reading.done()
    await http.post(MAPS, json=config_map("a"))
    async with asyncio.timeout(WITHIN_S), await reading as response:
        assert [item["metadata"]["name"] for item in (await response.json())["items"]] == ["a"]


@pytest.mark.parametrize("query", ["", "&watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"])
async def test_a_read_waits_for_no_more_than_three_seconds(http: aiohttp.ClientSession, query: str) -> None:
    clock = asyncio.get_running_loop().time
    begun = clock()
    async with asyncio.timeout(WITHIN_S), http.get(f"{MAPS}?resourceVersion=999999{query}") as response:
        [answer] = await lines(response, 1)
    assert clock() - begun >= 3
    status = answer["object"] if query else answer
    assert (status["code"], status["reason"], status["details"]["retryAfterSeconds"]) == (504, "Timeout", 1)
    assert response.headers.get("Retry-After") == (None if query else "1")


async def test_a_watch_ends_when_its_time_is_up(http: aiohttp.ClientSession) -> None:
    async with asyncio.timeout(WITHIN_S), http.get(f"{MAPS}?watch=true&timeoutSeconds=1") as watching:
        assert await watching.read() == b""


async def test_a_client_that_goes_away_is_forgotten(server: EmbeddedServer, http: aiohttp.ClientSession) -> None:
    watching = await http.get(f"{MAPS}?watch=true&resourceVersion=0")
    table = server.api.store.table("configmaps")
    assert len(table.watchers) == 1
    watching.close()
    async with asyncio.timeout(WITHIN_S):
        while table.watchers:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0)


async def test_tokens_name_users_and_unknown_ones_nobody(http: aiohttp.ClientSession) -> None:
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

    async def who(**headers: str) -> Any:
        shown = {name.replace("_", "-"): value for name, value in headers.items()}
        async with http.post(path, json={}, headers=shown) as response:
            body = await response.json()
            return body["status"]["userInfo"]["username"] if response.status == 201 else body["reason"]

    assert await who() == "kubernetes-admin"
    assert await who(Authorization="Bearer secret") == "bob"
    assert await who(Authorization="Bearer wrong") == "Unauthorized"
    assert await who(Impersonate_User="eve") == "eve"
    assert await who(Host="evil.example.com") == "Unauthorized"


async def test_curl_is_shown_indented_json(http: aiohttp.ClientSession) -> None:
    async with http.get("/version", headers={"user-agent": "curl/8"}) as response:
        assert (await response.text()).startswith('{\n  "major"')


async def test_a_body_that_is_too_large(http: aiohttp.ClientSession) -> None:
    async with http.post(MAPS, data=io.BytesIO(b"x" * (3 << 20) + b"x")) as response:
        assert response.status == 413
        assert (await response.json())["reason"] == "RequestEntityTooLarge"


async def test_faults_are_ordered_over_http(http: aiohttp.ClientSession) -> None:
    rule = {"fault": "refuse", "methods": ["GET"], "path": "/api/v1/*", "status": 429, "retryAfterS": 3}
    async with http.post("/situate/faults", json=rule) as response:
        assert response.status == 200
    async with http.get(MAPS) as response:
        assert (response.status, response.headers["Retry-After"]) == (429, "3")
    async with http.get(MAPS) as response:
        assert response.status == 200
    async with http.post("/situate/faults", json={"fault": "nonsense"}) as response:
        assert response.status == 400


async def test_an_answer_can_be_lost_after_the_write(http: aiohttp.ClientSession) -> None:
    await http.post("/situate/faults", json={"fault": "dropAnswer", "methods": ["POST"], "path": "/api/*"})
    with pytest.raises(aiohttp.ClientError):
        await http.post(MAPS, json=config_map("lost"))
    async with http.get(f"{MAPS}/lost") as response:
        assert response.status == 200


async def test_a_pause_holds_requests_until_resumed(http: aiohttp.ClientSession) -> None:
    await http.post("/situate/faults/pause")
    waiting = asyncio.ensure_future(http.get(MAPS))
    await http.get("/situate/faults")
    assert not waiting.done()
    await http.post("/situate/faults/resume")
    async with asyncio.timeout(WITHIN_S):
        assert (await waiting).status == 200


async def test_watches_can_be_cut_and_the_log_compacted(http: aiohttp.ClientSession) -> None:
    async with http.get(f"{MAPS}?watch=true&resourceVersion=0") as watching:
        async with http.post("/situate/faults/cut-watches") as response:
            assert await response.json() == {"cut": 1}
        async with asyncio.timeout(WITHIN_S):
            assert await watching.read() == b""
    await http.post(MAPS, json=config_map("a"))
    await http.post("/situate/faults/compact")
    async with http.get(f"{MAPS}?watch=true&resourceVersion=2") as watching:
        [error] = await lines(watching, 1)
    assert error["object"]["code"] == 410


async def test_state_survives_on_disk(tmp_path: Path) -> None:
    settings = Settings(machinery=None, data=tmp_path)
    async with EmbeddedServer(settings) as first, aiohttp.ClientSession(first.url) as http:
        await http.post(MAPS, json=config_map("kept"))
    async with (
        EmbeddedServer(settings) as second,
        aiohttp.ClientSession(second.url) as http,
        http.get(f"{MAPS}/kept") as response,
    ):
        assert response.status == 200


async def test_controllers_run(tmp_path: Path) -> None:
    async with EmbeddedServer() as server, aiohttp.ClientSession(server.url) as http:
        capacity = {"cpu": "8", "memory": "16Gi", "pods": "110"}
        await http.post("/api/v1/nodes", json={"metadata": {"name": "n"}, "status": {"allocatable": capacity}})
        await http.post(PODS, json=pod())
        async with http.get(f"{PODS}?watch=true&resourceVersion=0") as watching, asyncio.timeout(WITHIN_S):
            while True:
                [event] = await lines(watching, 1)
                if event["object"]["status"]["phase"] == "Running":
                    break
        assert event["object"]["spec"]["nodeName"] == "n"
        async with http.put("/situate/kubelets/n", json={"running": False}) as response:
            assert response.status == 200


async def test_a_port_that_is_taken_is_said_so() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(DidNotStart, match=f"cannot listen on 127.0.0.1 port {port}.*choose another --port"):
            await EmbeddedServer(Settings(machinery=None, port=port)).start()


async def test_the_kubeconfig_is_private(server: EmbeddedServer, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, server.kubeconfig())
    assert path.stat().st_mode & 0o777 == 0o600
    assert server.url in path.read_text()


async def test_it_speaks_tls(tmp_path: Path) -> None:
    authority = Authority("ca")
    settings = Settings(machinery=None, tls=server_tls(tmp_path, authority.issue("127.0.0.1", "127.0.0.1")))
    trusting = ssl.create_default_context(cadata=authority.certificate.decode())
    trusting.verify_flags &= ~ssl.VERIFY_X509_STRICT
    async with EmbeddedServer(settings) as server, aiohttp.ClientSession(server.url) as http:
        assert server.url.startswith("https://")
        async with (
            asyncio.timeout(WITHIN_S),
            http.get(f"{MAPS}?watch=true&resourceVersion=0", ssl=trusting) as watching,
        ):
            await http.post(MAPS, json=config_map("a"), ssl=trusting)
            [event] = await lines(watching, 1)
    assert event["object"]["metadata"]["name"] == "a"
