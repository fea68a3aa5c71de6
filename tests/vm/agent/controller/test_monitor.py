"""The connection to a guest's monitor, against a small real one (C35)."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from situate.vm.agent.controller.monitor import MAX_INVALID_MESSAGES, MonitorFailed, MonitorLost, WebsocketMonitor
from situate.vm.agent.model.settings import MonitorAccess
from situate.vm.agent.protocol.monitor_protocol import MAX_MESSAGE, DownscaleResult
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
        self.signs: list[int] = []
        """Of life."""


@asynccontextmanager
async def talking(guest: Guest, **access: Any) -> AsyncIterator[Talk]:
    async with serving(guest.serve) as port, aiohttp.ClientSession() as session:
        settings = MonitorAccess(server_port=port, **{**PATIENT, **access})
        connected = asyncio.Event()
        signs: list[int] = []
        alive = partial(signs.append, 1)
        monitor = WebsocketMonitor(session, "127.0.0.1", settings, alive)
        wanted = asyncio.Event()
        running = asyncio.create_task(monitor.run(connected.set, wanted.set))
        opened = asyncio.create_task(connected.wait())
        await asyncio.wait((running, opened), return_when=asyncio.FIRST_COMPLETED, timeout=WITHIN_S)
        opened.cancel()
        talk = Talk(monitor, guest, running)
        talk.wanted = wanted
        talk.signs = signs
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
        await guest.socket.send_str('{"type":"HealthCheck","content":{},"id":8}')
        guest.something.clear()
        await guest.socket.send_str('{"type":"HealthCheck","content":{},"id":5}')
        await guest.something.wait()
    assert [said["id"] for said in guest.heard[1:]] == [3, 5], "an even id replies to one of ours, which was none"
    assert guest.heard[1] == {"type": "HealthCheck", "content": {}, "id": 3}
    assert len(talk.signs) == 4


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
        assert "invalid messages in a row" in await lost(talk.running)
    assert len(guest.heard) <= 2 + MAX_INVALID_MESSAGES


@pytest.mark.parametrize(
    ("replies", "why"),
    [
        pytest.param(reply("InternalError", error="oops"), "oops", id="it failed"),
        pytest.param(reply("InvalidMessage", error="what?"), "what", id="it did not understand"),
        pytest.param(
            reply("UpscaleConfirmation"), "with UpscaleConfirmation, expected DownscaleResult", id="another answer"
        ),
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
        with pytest.raises(MonitorFailed, match="closed before"):
            await asking
        assert "closed the connection" in await lost(talk.running)
        with pytest.raises(MonitorFailed, match="the monitor is not connected"):
            await talk.monitor.upscale(units(1))


async def test_a_guest_that_fails_its_health_checks_is_left() -> None:
    quick = {
        "response_timeout_seconds": 0.05,
        "health_check_seconds": 0.02,
        "max_health_check_sequential_failures_seconds": 0.1,
    }
    async with talking(Guest(lambda _: None), **quick) as talk:
        assert "health checks" in await lost(talk.running)


async def test_nobody_takes_in_messages_of_any_length() -> None:
    guest = Guest(lambda _: "x" * (MAX_MESSAGE + 1))
    async with talking(guest) as talk:
        with pytest.raises(MonitorFailed, match="closed before"):
            await talk.monitor.upscale(units(1))
        assert "closed the connection" in await lost(talk.running)


class Wire:
    """A connection on virtual time: health checks fail, one each so many."""

    def __init__(self, well: Callable[[int], bool]) -> None:
        self._well = well
        self._checks = 0
        self._said: asyncio.Queue[aiohttp.WSMessage] = asyncio.Queue()
        self.close_code: int | None = None

    async def ws_connect(self, *_: object, **__: object) -> Wire:
        return self

    async def send_str(self, text: str) -> None:
        said = json.loads(text)
        if "min" in said:
            self._say(AGREED)
            return
        self._checks += 1
        answer = reply("HealthCheck") if self._well(self._checks) else reply("InternalError", error="oops")
        self._say(json.dumps(answer(said)))

    async def receive(self) -> aiohttp.WSMessage:
        return await self._said.get()

    def __aiter__(self) -> Wire:
        return self

    async def __anext__(self) -> aiohttp.WSMessage:
        return await self._said.get()

    async def close(self) -> None:
        pass

    def _say(self, text: str) -> None:
        self._said.put_nowait(aiohttp.WSMessage(aiohttp.WSMsgType.TEXT, text, ""))


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("well", "lost_at"),
    [
        pytest.param(lambda _: False, 40, id="the first failure is 5 s old then, and 30 s are not enough"),
        pytest.param(lambda number: number == 6, 70, id="one that goes well begins the time anew"),
        pytest.param(lambda number: number % 7 == 0, None, id="and so for ever"),
    ],
)
async def test_thirty_seconds_of_failed_health_checks_are_too_much(
    well: Callable[[int], bool], lost_at: float | None
) -> None:
    monitor = WebsocketMonitor(Wire(well), "127.0.0.1", MonitorAccess(), lambda: None)  # type: ignore[arg-type]  # what it uses of a session
    running = asyncio.create_task(monitor.run(lambda: None, lambda: None))
    await asyncio.wait([running], timeout=1000)
    assert running.done() is (lost_at is not None)
    if lost_at is None:
        running.cancel()
        return
    assert asyncio.get_running_loop().time() == pytest.approx(lost_at)
    assert isinstance(running.exception(), MonitorLost)


@pytest.mark.parametrize(
    ("opening", "why"),
    [('{"error":"too old"}', "refused the connection: too old"), ('{"version":9}', "version 9"), ("hello", "JSON")],
)
async def test_without_an_agreement_there_is_no_connection(opening: str, why: str) -> None:
    async with talking(Guest(lambda _: None, opening)) as talk:
        assert why in await lost(talk.running)


async def test_a_guest_that_is_not_there_is_lost_at_once() -> None:
    async with serving(Guest(lambda _: None).serve) as port:
        pass
    async with aiohttp.ClientSession() as session:
        access = MonitorAccess(server_port=port, **PATIENT)
        for ip, said in (("127.0.0.1", "ws://127.0.0.1:"), ("::1", "ws://[::1]:")):
            monitor = WebsocketMonitor(session, ip, access, lambda: None)
            why = await lost(monitor.run(lambda: None, lambda: None))
            assert why.startswith(f"{said}{port}/monitor cannot be reached")


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
        assert "did not open a connection within 0.2 s" in await lost(monitor.run(lambda: None, lambda: None))
