"""The listener on real sockets: every path and method to the answerer, and certificates that change."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import gzip
import http.client
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from situate.objects.messages import Request, Response
from situate.runtime.serving.listener import (
    HANDSHAKE_TURN_S,
    MOST_HANDSHAKES,
    AnswerRequest,
    CannotServe,
    Certificate,
    Limits,
    Listener,
)
from tests.controlplane.certificates import Authority

pytestmark = pytest.mark.rule("sharding:K11")


def authority() -> Authority:
    return Authority("listener", datetime.datetime.now(datetime.UTC))


def write(folder: Path, signer: Authority, age_s: float) -> Certificate:
    pair = signer.server(names=("localhost",), addresses=("127.0.0.1",))
    files = Certificate(folder / "tls.crt", folder / "tls.key")
    files.chain.write_bytes(pair.certificate)
    files.key.write_bytes(pair.key)
    os.utime(files.chain, (age_s, age_s))
    return files


async def echo(request: Request, _: str) -> Response:
    told = f"{request.method} {request.path} {request.query} {request.headers.get('x-who')}"
    return Response(404, told.encode(), {"content-type": "text/plain"})


@asynccontextmanager
async def listening(
    certificate: Certificate | None, answer: AnswerRequest = echo, **more: Any
) -> AsyncIterator[Listener]:
    listener = Listener("echo", "127.0.0.1:0", certificate, answer, **more)
    running = asyncio.create_task(listener.run())
    try:
        await asyncio.wait_for(listener.wait_listening(), 60)
        yield listener
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def ask(port: int, trusted: Authority | None, method: str, path: str) -> tuple[int, str, str]:
    def call() -> tuple[int, str, str]:
        connection: http.client.HTTPConnection
        if trusted is None:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        else:
            tls = ssl.create_default_context(cadata=trusted.certificate.decode())
            connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=tls)
        with contextlib.closing(connection):
            connection.request(method, path, headers={"X-Who": "me"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode(), answer.headers["content-length"]

    return await asyncio.to_thread(call)


async def test_every_path_is_answered_and_a_head_has_no_body(tmp_path: Path) -> None:
    signer = authority()
    async with listening(write(tmp_path, signer, 1)) as listener:
        told = "GET /apis/x y/.. (('a', '1'), ('a', '2'), ('b', '')) me"
        assert (await ask(listener.port, signer, "GET", "/apis/x%20y/..?a=1&a=2&b="))[:2] == (404, told)
        status, body, length = await ask(listener.port, signer, "HEAD", "/x")
        assert (status, body, int(length)) == (404, "", len("HEAD /x () me"))
        assert (await ask(listener.port, signer, "DELETE", "/x"))[1].startswith("DELETE")
        with pytest.raises((OSError, http.client.HTTPException)):
            await ask(listener.port, None, "GET", "/x")


async def test_a_new_certificate_is_used_and_a_spoilt_one_is_not(tmp_path: Path) -> None:
    first, second = authority(), authority()
    async with listening(write(tmp_path, first, 1)) as listener:
        write(tmp_path, second, 2)
        listener.reload_certificate()
        assert (await ask(listener.port, second, "GET", "/"))[0] == 404
        with pytest.raises(ssl.SSLError):
            await ask(listener.port, first, "GET", "/")
        (tmp_path / "tls.crt").write_text("spoilt")
        os.utime(tmp_path / "tls.crt", (3, 3))
        with capture_logs() as logs:
            listener.reload_certificate()
            listener.reload_certificate()
        assert [each["event"] for each in logs] == ["new certificate rejected"]
        assert (await ask(listener.port, second, "GET", "/"))[0] == 404
        (tmp_path / "tls.crt").unlink()
        listener.reload_certificate()


async def test_without_a_certificate_it_speaks_plain_http() -> None:
    async with listening(None) as listener:
        listener.reload_certificate()
        assert (await ask(listener.port, None, "GET", "/"))[0] == 404


async def test_what_it_cannot_listen_with_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotServe, match=r"tls\.crt with key .* cannot be used: No such file"):
        Listener("echo", "127.0.0.1:0", Certificate(tmp_path / "tls.crt", tmp_path / "tls.key"), echo)
    async with listening(None) as listener:
        with pytest.raises(CannotServe, match="choose another --address"):
            await Listener("echo", f"127.0.0.1:{listener.port}", None, echo).run()


@asynccontextmanager
async def raw(port: int, sent: str = "") -> AsyncIterator[asyncio.StreamReader]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent.replace("\n", "\r\n").encode())
        yield reader
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def ended(reader: asyncio.StreamReader) -> bytes:
    """What came until the other side closed."""
    with contextlib.suppress(ConnectionError):
        return await asyncio.wait_for(reader.read(), 60)
    return b""


async def test_who_sends_nothing_or_half_a_request_is_cut_off_and_others_are_answered() -> None:
    async with (
        listening(None, limits=Limits(silence_s=0.2, idle_s=600.0), most_body=lambda _: 100) as listener,
        raw(listener.port) as silent,
        raw(listener.port, "GET / HTTP/1.1\nhost: a\n") as half,
        raw(listener.port, "POST / HTTP/1.1\nhost: a\ncontent-length: 10\n\nabc") as slow,
    ):
        assert (await ask(listener.port, None, "GET", "/"))[0] == 404
        assert await ended(silent) == await ended(half) == b""
        assert b" 408 " in (await ended(slow)).splitlines()[0]


async def test_of_more_than_there_is_room_for_the_last_ones_are_refused() -> None:
    go_on = asyncio.Event()

    async def slow(_: Request, __: str) -> Response:
        await go_on.wait()
        return Response(200, b"done")

    async with listening(None, slow, limits=Limits(requests=2)) as listener:
        asking = [asyncio.create_task(ask(listener.port, None, "GET", "/")) for _ in range(3)]
        done, waiting = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        assert [each.result()[0] for each in done] == [503]
        go_on.set()
        assert [(await each)[:2] for each in waiting] == [(200, "done")] * 2


async def test_connections_beyond_the_last_place_wait_until_one_is_free() -> None:
    go_on, under_way = asyncio.Event(), asyncio.Semaphore(2)

    async def slow(_: Request, __: str) -> Response:
        async with under_way:
            await go_on.wait()
        return Response(200, b"done")

    request = "GET / HTTP/1.0\nhost: a\n\n"
    async with (
        listening(None) as other,
        listening(None, slow, limits=Limits(connections=1)) as listener,
        raw(listener.port, request) as first,
        raw(listener.port, request) as second,
    ):
        await ask(other.port, None, "GET", "/")
        assert not under_way.locked(), "while another server has taken and answered, the second is not taken"
        go_on.set()
        assert (await ended(first)).endswith(b"done")
        assert (await ended(second)).endswith(b"done")


async def test_who_does_not_come_to_an_end_with_tls_has_a_place_and_no_more(tmp_path: Path) -> None:
    """They counted from their first request on: as many as there are files could keep the process from everything."""
    silence_s, signer = 0.5, authority()
    loop = asyncio.get_running_loop()
    async with listening(write(tmp_path, signer, 1), limits=Limits(connections=2, silence_s=silence_s)) as listener:
        began = loop.time()
        async with raw(listener.port), raw(listener.port):
            assert (await ask(listener.port, signer, "GET", "/"))[0] == 404
        assert loop.time() - began >= silence_s, "only then one of them was cut off"


async def test_those_who_say_nothing_keep_nobody_from_his_turn_to_begin_with_tls(tmp_path: Path) -> None:
    signer = authority()
    async with (
        listening(write(tmp_path, signer, 1), limits=Limits(silence_s=600.0)) as listener,
        AsyncExitStack() as silent,
    ):
        for _ in range(3 * MOST_HANDSHAKES):
            await silent.enter_async_context(raw(listener.port))
        assert (await ask(listener.port, signer, "GET", "/"))[0] == 404


async def test_who_waits_for_his_turn_to_begin_with_tls_is_not_taken_for_silent_meanwhile(tmp_path: Path) -> None:
    """All began together once: of 10,000 none came to an end within the ten seconds that each was given."""
    silence_s, waves = 0.3, 3
    loop = asyncio.get_running_loop()
    async with (
        listening(write(tmp_path, authority(), 1), limits=Limits(silence_s=silence_s)) as listener,
        AsyncExitStack() as silent,
    ):
        began = loop.time()
        readers = [await silent.enter_async_context(raw(listener.port)) for _ in range(waves * MOST_HANDSHAKES)]
        assert await asyncio.gather(*map(ended, readers)) == [b""] * len(readers)
        assert loop.time() - began >= silence_s + (waves - 1) * HANDSHAKE_TURN_S - 0.01


async def test_what_is_no_request_is_refused_and_fills_no_log(caplog: pytest.LogCaptureFixture) -> None:
    async with listening(None) as listener:
        for sent in ("GET / HTTP/1.1\n\n", "GET http://[ HTTP/1.1\nhost: a\n\n", "GET / HTTP/1.1\nhost: a\nx\n\n"):
            async with raw(listener.port, sent) as reader:
                assert b" 400 " in (await ended(reader)).splitlines()[0]
    assert not [each for each in caplog.records if each.name.startswith("aiohttp")]


async def test_bytes_that_are_no_text_are_a_header_all_the_same() -> None:
    async def shown(request: Request, _: str) -> Response:
        return Response(200, request.headers["x-who"].encode())

    async with listening(None, shown) as listener:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(b"GET / HTTP/1.0\r\nhost: a\r\nx-who: \xff\xc3\xa9\r\n\r\n")
        assert (await ended(reader)).endswith("\r\n\r\n\ufffdé".encode())
        writer.close()
        await writer.wait_closed()


async def test_nothing_is_unpacked_for_anybody() -> None:
    async def length(request: Request, _: str) -> Response:
        return Response(200, str(len(request.body)).encode())

    packed = gzip.compress(bytes(2**20))
    for body in (packed, b"not packed"):
        head = f"POST / HTTP/1.0\nhost: a\ncontent-encoding: gzip\ncontent-length: {len(body)}\n\n"
        async with listening(None, length, most_body=lambda _: 2**20) as listener:
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(head.replace("\n", "\r\n").encode() + body)
            assert (await ended(reader)).endswith(b"\r\n\r\n%d" % len(body))
            writer.close()
            await writer.wait_closed()


async def test_no_more_of_a_body_is_read_than_the_path_allows() -> None:
    async def length(request: Request, _: str) -> Response:
        return Response(200, str(len(request.body)).encode())

    async with listening(None, length, most_body=lambda path: 4 if path == "/short" else 0) as listener:
        for path, read in (("/short", b"4"), ("/none", b"0")):
            async with raw(listener.port, f"POST {path} HTTP/1.1\nhost: a\ncontent-length: 9\n\n123456789") as reader:
                answer = await ended(reader)
                assert answer.endswith(b"\r\n\r\n" + read)
                assert b"connection: close" in answer.lower()
