from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime

import pytest

from situate.embedded.embedded_server import EmbeddedServer, Settings
from situate.embedded.http.http1 import MAX_BODY_BYTES
from situate.kube.transport.http1 import AnswerParser
from tests.cluster.asking import MAPS

_BOUND_S = 120.0


@pytest.fixture
async def server() -> AsyncIterator[EmbeddedServer]:
    async with EmbeddedServer(Settings(machinery=None)) as running:
        yield running


class Client:
    """Writes bytes and reads answers, so that each test can do what no client library would."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *requests: bytes) -> None:
        self.writer.write(b"".join(requests))

    async def answer(self) -> AnswerParser:
        """One answer, read byte by byte so that the next one stays unread."""
        parser = AnswerParser()
        async with asyncio.timeout(_BOUND_S):
            while not parser.complete:
                byte = await self.reader.read(1)
                if not byte:
                    parser.end()
                    break
                parser.feed(byte)
        return parser

    async def rest(self) -> bytes:
        """What comes until the server closes the connection."""
        async with asyncio.timeout(_BOUND_S):
            return await self.reader.read()

    async def until(self, wanted: bytes) -> bytes:
        async with asyncio.timeout(_BOUND_S):
            return await self.reader.readuntil(wanted)


@pytest.fixture
async def client(server: EmbeddedServer) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    yield Client(reader, writer)
    writer.transport.abort()


def request(method: str, path: str, body: bytes = b"", *headers: str, version: str = "1.1") -> bytes:
    lines = (f"{method} {path} HTTP/{version}", "host: localhost", f"content-length: {len(body)}", *headers, "", "")
    return "\r\n".join(lines).encode() + body


def config_map(name: str) -> bytes:
    return b'{"metadata":{"name":"%b"}}' % name.encode()


async def test_pipelined_requests_are_answered_in_order(client: Client) -> None:
    client.send(
        request("POST", MAPS, config_map("a")),
        request("GET", f"{MAPS}/a"),
        request("GET", f"{MAPS}/b"),
        request("GET", "/readyz"),
    )
    assert [(await client.answer()).status for _ in range(4)] == [201, 200, 404, 200]


async def test_what_follows_a_watch_is_answered_after_it(client: Client) -> None:
    client.send(
        request("POST", MAPS, config_map("a")),
        request("GET", f"{MAPS}?watch=true&timeoutSeconds=1&resourceVersion=0"),
        request("GET", f"{MAPS}/a"),
    )
    assert (await client.answer()).status == 201
    watched = await client.answer()
    assert watched.headers["transfer-encoding"] == "chunked"
    assert b"".join(watched.pieces).count(b'"ADDED"') == 1
    assert (await client.answer()).status == 200


async def test_what_follows_a_request_that_waits_is_answered_after_it(server: EmbeddedServer, client: Client) -> None:
    coming = server.api.store.revision + 1
    client.send(request("GET", f"{MAPS}?resourceVersion={coming}"), request("GET", f"{MAPS}/a"))
    _, other = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    other.write(request("POST", MAPS, config_map("a")))
    assert [(await client.answer()).status for _ in range(2)] == [200, 200]
    other.transport.abort()


async def test_many_watches_that_end_at_once_are_no_burden(server: EmbeddedServer, client: Client) -> None:
    server.api.store.compact()
    client.send(*[request("GET", f"{MAPS}?watch=true&resourceVersion=1")] * 500, request("GET", "/readyz"))
    for _ in range(500):
        assert b'"code":410' in b"".join((await client.answer()).pieces)
    assert (await client.answer()).status == 200


async def test_a_client_that_sends_far_ahead_is_read_later(client: Client) -> None:
    large = request("POST", MAPS, b'{"metadata":{"name":"a"},"data":{"x":"%b"}}' % (b"x" * 700_000))
    client.send(request("GET", f"{MAPS}?watch=true&timeoutSeconds=1&resourceVersion=0"), large, large, large)
    assert [(await client.answer()).status for _ in range(4)] == [200, 201, 409, 409]


async def test_a_client_that_reads_late_gets_all_answers(server: EmbeddedServer, client: Client) -> None:
    client.send(request("POST", MAPS, b'{"metadata":{"name":"a"},"data":{"x":"%b"}}' % (b"x" * 500_000)))
    client.send(*[request("GET", f"{MAPS}/a")] * 40, request("GET", "/readyz"))
    assert [(await client.answer()).status for _ in range(2)] == [201, 200]
    assert server._server is not None
    [connection] = server._server._connections
    assert connection._transport.get_write_buffer_size() < 2_000_000, "answers that nobody reads were made already"
    client.send(request("GET", f"{MAPS}/b", b"", "connection: close"))
    rest = await client.rest()
    assert rest.count(b"HTTP/1.1 200 OK") == 40
    assert rest.count(b"HTTP/1.1 404 Not Found") == 1


@pytest.mark.parametrize(
    ("sent", "connection"),
    [
        pytest.param(request("GET", "/readyz", b"", "connection: close"), "close", id="on request"),
        pytest.param(request("GET", "/readyz", version="1.0"), "close", id="HTTP/1.0"),
        pytest.param(b"nonsense\r\n\r\n", "close", id="no HTTP"),
    ],
)
async def test_the_connection_ends(client: Client, sent: bytes, connection: str) -> None:
    client.send(sent, request("GET", "/version"))
    answer = await client.answer()
    assert answer.headers["connection"] == connection
    assert await client.rest() == b""


async def test_an_old_client_may_keep_its_connection(client: Client) -> None:
    client.send(*[request("GET", "/readyz", b"", "connection: keep-alive", version="1.0")] * 2)
    for _ in range(2):
        answer = await client.answer()
        assert (answer.status, answer.headers["connection"]) == (200, "keep-alive")


async def test_an_old_client_reads_a_watch_until_the_end(client: Client) -> None:
    client.send(request("POST", MAPS, config_map("a")))
    await client.answer()
    path = f"{MAPS}?watch=true&timeoutSeconds=1&resourceVersion=0"
    client.send(request("GET", path, b"", "connection: keep-alive", version="1.0"))
    head, _, body = (await client.rest()).partition(b"\r\n\r\n")
    assert b"chunked" not in head
    assert body.startswith(b'{"type":"ADDED"')
    assert body.endswith(b"}\n")


async def test_what_is_no_http_is_told_so(client: Client) -> None:
    client.send(b"GET / HTTP/3\r\n\r\n")
    answer = await client.answer()
    assert answer.status == 505
    assert b"allowed: HTTP/1.1" in b"".join(answer.pieces)


async def test_a_head_has_no_body(client: Client) -> None:
    client.send(request("HEAD", "/readyz"), request("GET", "/readyz"))
    head = await client.until(b"\r\n\r\n")
    assert b"content-length: 2\r\n" in head
    assert b"".join((await client.answer()).pieces) == b"ok"


async def test_nor_has_that_of_a_watch(server: EmbeddedServer, client: Client) -> None:
    client.send(request("HEAD", f"{MAPS}?watch=true"))
    assert (await client.rest()).endswith(b"\r\n\r\n")
    assert not server.api.store.table("configmaps").watchers


async def test_a_client_may_ask_before_it_sends(client: Client) -> None:
    body = config_map("a")
    sent = request("POST", MAPS, body, "expect: 100-continue")
    client.send(sent[: -len(body)])
    assert await client.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
    client.send(body)
    assert (await client.answer()).status == 201


async def test_after_a_body_that_is_too_large_the_connection_goes_on(client: Client) -> None:
    client.send(request("POST", MAPS, b"x" * (MAX_BODY_BYTES + 1)), request("GET", "/readyz"))
    assert [(await client.answer()).status for _ in range(2)] == [413, 200]


async def test_answers_say_when(client: Client) -> None:
    client.send(request("GET", "/readyz"))
    assert parsedate_to_datetime((await client.answer()).headers["date"]).year > 2000


async def test_a_stop_answers_what_is_under_way_and_ends_the_rest(server: EmbeddedServer, client: Client) -> None:
    client.send(request("GET", f"{MAPS}?watch=true"))
    await client.until(b"\r\n\r\n")
    _, idle = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    await server.stop()
    assert await client.rest() == b"0\r\n\r\n"
    idle.transport.abort()
