"""The webhook's listener on real sockets: whoever reaches it may send anything."""

from __future__ import annotations

import asyncio
import datetime
import gzip
import ssl
from collections.abc import AsyncIterator

import aiohttp
import pytest

from situate.runtime.serving.certificates.issue import create_generation
from situate.runtime.serving.webhook_server import Reply, Webhook

LARGEST = 1000


async def _length(body: bytes) -> Reply:
    return Reply(200, str(len(body)).encode())


@pytest.fixture
async def url() -> AsyncIterator[str]:
    listener = Webhook("127.0.0.1:0", _length, path="/asked", setting="x", largest=LARGEST)
    listener.serve_with(create_generation(("localhost",), datetime.datetime.now(datetime.UTC), 3600.0))
    running = asyncio.create_task(listener.run())
    await listener.wait_listening()
    yield f"https://127.0.0.1:{listener.port}/asked"
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_what_nobody_asks_in_earnest_is_refused_and_fills_no_log(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    packed = gzip.compress(bytes(2**20), mtime=0)[:LARGEST]
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls)) as http:

        async def sent(method: str, path: str, body: bytes, **headers: str) -> tuple[int, bytes]:
            async with http.request(method, path, data=body, headers=headers) as response:
                return response.status, await response.read()

        assert await sent("POST", url, bytes(LARGEST)) == (200, b"1000")
        assert (await sent("POST", url, bytes(LARGEST + 1)))[0] == 413
        assert await sent("POST", url, packed, **{"content-encoding": "gzip"}) == (200, b"1000")
        assert (await sent("POST", url, b"x" * 20, **{"content-encoding": "gzip"}))[0] == 200
        assert (await sent("POST", f"{url}/else", b""))[0] == 404
        assert (await sent("GET", url, b""))[0] == 405
        reader, writer = await asyncio.open_connection("127.0.0.1", int(url.split(":")[2].split("/")[0]), ssl=tls)
        writer.write(b"POST /asked HTTP/1.1\r\n\r\n")
        assert b" 400 " in (await asyncio.wait_for(reader.read(), 60)).splitlines()[0]
        writer.close()
    assert not [each for each in caplog.records if each.name.startswith("aiohttp")]
