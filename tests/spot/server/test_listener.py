"""The listening socket over real TLS on this machine: what is answered, and that nothing stays open behind it."""

from __future__ import annotations

import asyncio
import io
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from situate.runtime.serving.certificates.issue import create_generation, host_names
from situate.runtime.serving.certificates.renewal_schedule import Generation
from situate.runtime.serving.webhook_server import AnswerReview, Reply, Webhook
from situate.spot.model.object_names import WEBHOOK_PATH

WITHIN_S = 60.0


def made() -> Generation:
    return create_generation(host_names("situate-spot", "situate"), datetime.now(UTC), 3600.0)


def trusting(*generations: Generation) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=b"".join(each.authority for each in generations).decode())


def on(address: str, answer: AnswerReview) -> Webhook:
    return Webhook(address, answer, path=WEBHOOK_PATH, setting="spot.webhook.address")


async def echo(body: bytes) -> Reply:
    return Reply(200, body)


@asynccontextmanager
async def listening(address: str = "127.0.0.1:0", first: Generation | None = None) -> AsyncIterator[Webhook]:
    listener = on(address, echo)
    running = asyncio.create_task(listener.run())
    listener.serve_with(first or made())
    try:
        async with asyncio.timeout(WITHIN_S):
            await listener.wait_listening()
        yield listener
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_a_question_gets_its_answer_and_other_paths_none() -> None:
    one = made()
    async with listening(first=one) as listener, aiohttp.ClientSession() as http:
        url = f"https://127.0.0.1:{listener.port}"
        async with http.post(f"{url}{WEBHOOK_PATH}?timeout=2s", data=b"{}", ssl=trusting(one)) as response:
            assert (response.status, await response.read()) == (200, b"{}")
            assert response.content_type == "application/json"
        for method, path in (("GET", WEBHOOK_PATH), ("POST", "/"), ("POST", "/metrics")):
            async with http.request(method, url + path, ssl=trusting(one)) as response:
                assert response.status in (404, 405)


async def test_the_largest_object_that_api_servers_take_passes() -> None:
    one = made()
    async with listening(first=one) as listener, aiohttp.ClientSession() as http:
        url = f"https://127.0.0.1:{listener.port}{WEBHOOK_PATH}"
        async with http.post(url, data=io.BytesIO(b"x" * 3 * 2**20), ssl=trusting(one)) as response:
            assert (response.status, len(await response.read())) == (200, 3 * 2**20)


@pytest.mark.rule("spot:P6")
async def test_a_new_certificate_is_shown_to_new_connections_and_old_ones_go_on() -> None:
    one, two = made(), made()
    async with listening(first=one) as listener, aiohttp.ClientSession() as old:
        url = f"https://localhost:{listener.port}{WEBHOOK_PATH}"
        async with old.post(url, data=b"1", ssl=trusting(one)) as response:
            assert response.status == 200
        listener.serve_with(two)
        async with aiohttp.ClientSession() as new, new.post(url, data=b"2", ssl=trusting(two)) as response:
            assert response.status == 200
        async with aiohttp.ClientSession() as new:
            with pytest.raises(aiohttp.ClientConnectorCertificateError):
                await new.post(url, data=b"3", ssl=trusting(one))


@pytest.mark.rule("spot:P1", "spot:I11")
async def test_the_end_closes_connections_that_are_open() -> None:
    one = made()
    async with listening(first=one) as listener:
        port = listener.port
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(one))
        head = f"POST {WEBHOOK_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n".encode()
        writer.write(head + b"{}")
        async with asyncio.timeout(WITHIN_S):
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.write(head)  # a question whose end is still to come
    async with asyncio.timeout(WITHIN_S):
        try:
            rest = await reader.read()
        except (ConnectionError, ssl.SSLError):
            rest = b""
    assert b"HTTP/1.1" not in rest, "what came after the end has no answer"
    assert not listener.listening
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await asyncio.open_connection("127.0.0.1", port)
    writer.close()


@asynccontextmanager
async def asked(answer: AnswerReview) -> AsyncIterator[tuple[Webhook, asyncio.Task[None], asyncio.Task[Any]]]:
    """A webhook, its life, and a question of which it has begun the answer."""
    one, begun = made(), asyncio.Event()

    async def noted(body: bytes) -> Reply:
        begun.set()
        return await answer(body)

    webhook = on("127.0.0.1:0", noted)
    running = asyncio.create_task(webhook.run())
    webhook.serve_with(one)
    async with asyncio.timeout(WITHIN_S), aiohttp.ClientSession() as http:
        await webhook.wait_listening()
        url = f"https://127.0.0.1:{webhook.port}{WEBHOOK_PATH}"
        question = asyncio.ensure_future(http.post(url, data=b"{}", ssl=trusting(one)))
        await begun.wait()
        yield webhook, running, question
        running.cancel()
        await asyncio.wait([running])


@pytest.mark.rule("spot:P1")
async def test_before_an_orderly_end_what_was_asked_is_answered() -> None:
    answer = asyncio.Event()

    async def slow(body: bytes) -> Reply:
        await answer.wait()
        return Reply(200, body)

    async with asked(slow) as (webhook, running, question):
        draining = asyncio.create_task(webhook.drain(WITHIN_S))
        await asyncio.sleep(0)
        assert not draining.done()
        answer.set()
        await draining
        running.cancel()
        await asyncio.wait([running])
        async with await question as response:
            assert (response.status, response.headers["Connection"]) == (200, "close")


@pytest.mark.rule("spot:P1", "spot:I11")
async def test_an_answer_that_is_ready_after_the_end_is_not_given() -> None:
    answer, answered = asyncio.Event(), asyncio.Event()

    async def slow(body: bytes) -> Reply:
        await answer.wait()
        answered.set()
        return Reply(200, body)

    async with asked(slow) as (_, running, question):
        running.cancel()
        await asyncio.sleep(0)
        answer.set()
        await answered.wait()
        with pytest.raises(aiohttp.ClientError):
            await question


async def test_a_question_that_takes_too_long_does_not_hold_up_the_end() -> None:
    async def endless(body: bytes) -> Reply:
        await asyncio.Event().wait()
        return Reply(200, body)

    async with asked(endless) as (webhook, running, question):
        await webhook.drain(0.01)
        running.cancel()
        await asyncio.wait([running])
        with pytest.raises(aiohttp.ClientError):
            await question


async def test_a_port_that_is_taken_is_waited_for() -> None:
    one = made()
    async with listening() as before:
        second = on(f"127.0.0.1:{before.port}", echo)
        second.serve_with(one)
        running = asyncio.create_task(second.run())
        await asyncio.sleep(0)
        assert not second.listening
    async with asyncio.timeout(WITHIN_S):
        await second.wait_listening()
    running.cancel()
    await asyncio.wait([running])


async def test_it_listens_again_in_the_next_term_once_it_has_a_certificate() -> None:
    one = made()
    listener = on("127.0.0.1:0", echo)
    for _ in range(2):
        running = asyncio.create_task(listener.run())
        await asyncio.sleep(0)
        assert not listener.listening
        listener.serve_with(one)
        async with asyncio.timeout(WITHIN_S):
            await listener.wait_listening()
        running.cancel()
        await asyncio.wait([running])
