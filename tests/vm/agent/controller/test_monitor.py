"""The connection to a guest's monitor, against a small real one (C35)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from situate.vm.agent.controller.monitor import MOST_NONSENSE, MonitorFailed, MonitorLost, WebsocketMonitor
from situate.vm.agent.monitor_protocol import DownscaleResult
from situate.vm.agent.settings import MonitorAccess
from tests.kube.servers import serving
from tests.vm.agent.builders import units
from tests.waiting import WITHIN_S

pytestmark = pytest.mark.rule("vm:C35")

Replies = Callable[[dict[str, Any]], object]
"""What a guest answers to a message; None: nothing, text as it is, else JSON."""
PATIENT: dict[str, Any] = {
    "response_timeout_seconds": WITHIN_S,
    "connection_timeout_seconds": WITHIN_S,
    "health_check_seconds": WITHIN_S,
}
AGREED = '{"version":1}'


class Guest:
    """Plays the monitor."""

    def __init__(self, replies: Replies, opening: str = AGREED) -> None:
        self.replies = replies
        self.opening = opening
        self.heard: list[dict[str, Any]] = []
        self.something = asyncio.Event()
        self.socket: web.WebSocketResponse | None = None

    async def serve(self, request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        self.heard.append({"path": request.path, **json.loads(await socket.receive_str())})
        await socket.send_str(self.opening)
        self.socket = socket
        async for message in socket:
            said = json.loads(message.data)
            self.heard.append(said)
            self.something.set()
            answer = self.replies(said)
            if answer is not None:
                await socket.send_str(answer if isinstance(answer, str) else json.dumps(answer))
        return socket


def reply(kind: str, **content: Any) -> Replies:
    return lambda said: {"type": kind, "content": content, "id": said["id"]}


class Talk:
    """A connection that is there."""

    def __init__(self, monitor: WebsocketMonitor, guest: Guest, running: asyncio.Task[None]) -> None:
        self.monitor, self.guest, self.running = monitor, guest, running
        self.wanted = asyncio.Event()


@asynccontextmanager
async def talking(guest: Guest, **access: Any) -> AsyncIterator[Talk]:
    async with serving(guest.serve) as port, aiohttp.ClientSession() as session:
        settings = MonitorAccess(server_port=port, **{**PATIENT, **access})
        connected = asyncio.Event()
        monitor = WebsocketMonitor(session, "127.0.0.1", settings, lambda: None)
        wanted = asyncio.Event()
        running = asyncio.create_task(monitor.run(connected.set, wanted.set))
        opened = asyncio.create_task(connected.wait())
        await asyncio.wait((running, opened), return_when=asyncio.FIRST_COMPLETED, timeout=WITHIN_S)
        opened.cancel()
        talk = Talk(monitor, guest, running)
        talk.wanted = wanted
        try:
            yield talk
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError, MonitorLost):
                await running


async def lost(running: Awaitable[None]) -> str:
    with pytest.raises(MonitorLost) as caught:
        async with asyncio.timeout(WITHIN_S):
            await running
    return str(caught.value)


async def test_requests_have_even_ids_and_replies_find_them() -> None:
    def replies(said: dict[str, Any]) -> object:
        if said["type"] == "UpscaleNotification":
            return {"type": "UpscaleConfirmation", "content": {}, "id": said["id"]}
        return {"type": "DownscaleResult", "content": {"Ok": False, "Status": "full"}, "id": said["id"]}

    guest = Guest(replies)
    async with talking(guest) as talk:
        await talk.monitor.upscale(units(2))
        assert await talk.monitor.downscale(units(1)) == DownscaleResult(False, "full")
    assert guest.heard == [
        {"path": "/monitor", "min": 1, "max": 1},
        {"type": "UpscaleNotification", "content": {"granted": {"cpu": 0.5, "mem": 2**31}}, "id": 2},
        {"type": "DownscaleRequest", "content": {"target": {"cpu": 0.25, "mem": 2**30}}, "id": 4},
    ]


async def test_the_guest_asks_for_memory_and_for_signs_of_life() -> None:
    guest = Guest(lambda _: None)
    async with talking(guest) as talk, asyncio.timeout(WITHIN_S):
        assert guest.socket is not None
        await guest.socket.send_str('{"type":"UpscaleRequest","content":{},"id":1}')
        await talk.wanted.wait()
        await guest.socket.send_str('{"type":"HealthCheck","content":{},"id":3}')
        await guest.something.wait()
    assert guest.heard[-1] == {"type": "HealthCheck", "content": {}, "id": 3}


async def test_nonsense_is_told_and_the_connection_stays() -> None:
    guest = Guest(lambda _: None)
    async with talking(guest) as talk, asyncio.timeout(WITHIN_S):
        assert guest.socket is not None
        await guest.socket.send_str('{"type":"Sing","content":{},"id":7}')
        await guest.something.wait()
        assert not talk.running.done()
    assert (guest.heard[-1]["type"], guest.heard[-1]["id"]) == ("InvalidMessage", 7)
    assert "type" in guest.heard[-1]["content"]["error"]


async def test_who_answers_complaints_with_nonsense_is_left() -> None:
    guest = Guest(lambda said: {"type": "InvalidMessage", "error": "what?", "id": said["id"]})
    async with talking(guest) as talk:
        with pytest.raises(MonitorFailed, match="content"):
            await talk.monitor.upscale(units(1))
        assert "make no sense" in await lost(talk.running)
    assert len(guest.heard) <= 2 + MOST_NONSENSE


@pytest.mark.parametrize(
    ("replies", "why"),
    [
        pytest.param(reply("InternalError", error="oops"), "oops", id="it failed"),
        pytest.param(reply("InvalidMessage", error="what?"), "what", id="it did not understand"),
        pytest.param(reply("UpscaleConfirmation"), "answered with UpscaleConfirmation", id="another answer"),
        pytest.param(reply("DownscaleResult", Ok=7), "Ok", id="an answer that makes no sense"),
    ],
)
async def test_a_bad_reply_fails_its_request_alone(replies: Replies, why: str) -> None:
    async with talking(Guest(replies)) as talk:
        with pytest.raises(MonitorFailed, match=why):
            await talk.monitor.downscale(units(1))
        assert not talk.running.done()


async def test_a_reply_that_does_not_come_is_not_waited_for_for_ever() -> None:
    async with talking(Guest(lambda _: None), response_timeout_seconds=0.2) as talk:
        with pytest.raises(MonitorFailed, match=r"within 0\.2 s"):
            await talk.monitor.upscale(units(1))


async def test_a_request_ends_with_its_connection() -> None:
    guest = Guest(lambda _: None)
    async with talking(guest) as talk, asyncio.timeout(WITHIN_S):
        asking = asyncio.create_task(talk.monitor.downscale(units(1)))
        await guest.something.wait()
        assert guest.socket is not None
        await guest.socket.close()
        with pytest.raises(MonitorFailed, match="ended before"):
            await asking
        assert "closed the connection" in await lost(talk.running)
        with pytest.raises(MonitorFailed, match="no connection"):
            await talk.monitor.upscale(units(1))


async def test_a_guest_that_fails_its_health_checks_is_left() -> None:
    quick = {
        "response_timeout_seconds": 0.05,
        "health_check_seconds": 0.02,
        "max_health_check_sequential_failures_seconds": 0.1,
    }
    async with talking(Guest(lambda _: None), **quick) as talk:
        assert "health checks" in await lost(talk.running)


@pytest.mark.parametrize(
    ("opening", "why"),
    [('{"error":"too old"}', "refuses: too old"), ('{"version":9}', "version 9"), ("hello", "JSON")],
)
async def test_without_an_agreement_there_is_no_connection(opening: str, why: str) -> None:
    async with talking(Guest(lambda _: None, opening)) as talk:
        assert why in await lost(talk.running)


async def test_a_guest_that_is_not_there_is_lost_at_once() -> None:
    async with serving(Guest(lambda _: None).serve) as port:
        pass
    async with aiohttp.ClientSession() as session:
        access = MonitorAccess(server_port=port, **PATIENT)
        monitor = WebsocketMonitor(session, "127.0.0.1", access, lambda: None)
        assert "cannot be reached" in await lost(monitor.run(lambda: None, lambda: None))


async def test_a_guest_that_says_nothing_is_not_waited_for() -> None:
    async def silent(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for _ in socket:
            pass
        return socket

    async with serving(silent) as port, aiohttp.ClientSession() as session:
        access = MonitorAccess(server_port=port, connection_timeout_seconds=0.2)
        monitor = WebsocketMonitor(session, "127.0.0.1", access, lambda: None)
        assert "was not open within 0.2 s" in await lost(monitor.run(lambda: None, lambda: None))
