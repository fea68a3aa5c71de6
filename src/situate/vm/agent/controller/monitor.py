"""One connection to the monitor in a guest, from its opening to its end (C35)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

import aiohttp
import structlog

from situate.vm.agent.decide.health import is_worth_logging
from situate.vm.agent.model.settings import MonitorAccess
from situate.vm.agent.protocol.monitor_protocol import (
    FIRST_ID,
    MAX_MESSAGE,
    PATH,
    Complaint,
    Content,
    DownscaleResult,
    HealthCheck,
    InvalidMessage,
    MonitorMessage,
    UpscaleConfirmation,
    UpscaleRequest,
    downscale_request,
    handshake_error,
    handshake_message,
    health_check,
    invalid_message,
    parse_message,
    upscale_notification,
)
from situate.vm.model.resource_amounts import Amounts

_CLOSING: Final = aiohttp.ClientWSTimeout(ws_close=1.0)
MAX_INVALID_MESSAGES: Final = 10
"""Invalid messages in a row. A monitor that answers errors with invalid messages would continue without end."""


class MonitorFailed(Exception):
    """A request did not get the expected answer."""


class MonitorLost(Exception):
    """The connection could not be opened, or ended; the message gives the reason."""


class Monitor(Protocol):
    """Monitor of a guest, or its substitute."""

    async def run(self, connected: Callable[[], None], wants_more: Callable[[], None]) -> None:
        """Run until the connection ends, then raise `MonitorLost`. Calls `connected` once it is open."""
        ...

    async def upscale(self, granted: Amounts) -> None:
        """Notify the guest of its new size. Raises `MonitorFailed`."""
        ...

    async def downscale(self, target: Amounts) -> DownscaleResult:
        """Ask the guest to use less. Raises `MonitorFailed`."""
        ...


class WebsocketMonitor:
    """Monitor in the guest. One `run` at a time."""

    def __init__(
        self, session: aiohttp.ClientSession, ip: str, access: MonitorAccess, alive: Callable[[], None]
    ) -> None:
        """`alive` is called at each message of the monitor."""
        host = f"[{ip}]" if ":" in ip else ip
        self._url = f"ws://{host}:{access.server_port}{PATH}"
        self._session = session
        self._access = access
        self._alive = alive
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._last_id = 0
        self._waiting: dict[int, asyncio.Future[Content]] = {}
        self._log = structlog.get_logger().bind(address=self._url)

    async def run(self, connected: Callable[[], None], wants_more: Callable[[], None]) -> None:
        socket = await self._connect()
        self._socket, self._last_id = socket, FIRST_ID - 2
        reason = f"{self._url} closed the connection"
        try:
            connected()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._listen(socket, wants_more))
                group.create_task(self._check_health())
        except* MonitorLost as lost:
            reason = str(lost.exceptions[0])
        finally:
            self._socket = None
            for each in self._waiting.values():
                if not each.done():
                    each.set_exception(MonitorFailed("the connection closed before the answer arrived"))
            self._waiting.clear()
            await socket.close()
        raise MonitorLost(reason)

    async def upscale(self, granted: Amounts) -> None:
        reply = await self._call(lambda id_: upscale_notification(id_, granted))
        if not isinstance(reply, UpscaleConfirmation):
            raise MonitorFailed(
                f"the monitor answered an upscale with {type(reply).__name__}, expected UpscaleConfirmation"
            )

    async def downscale(self, target: Amounts) -> DownscaleResult:
        reply = await self._call(lambda id_: downscale_request(id_, target))
        if not isinstance(reply, DownscaleResult):
            raise MonitorFailed(
                f"the monitor answered a downscale with {type(reply).__name__}, expected DownscaleResult"
            )
        return reply

    async def _connect(self) -> aiohttp.ClientWebSocketResponse:
        """Open a connection with an agreed version."""
        limit_s = self._access.connection_timeout_seconds
        try:
            async with asyncio.timeout(limit_s):
                socket = await self._session.ws_connect(self._url, max_msg_size=MAX_MESSAGE, timeout=_CLOSING)
                try:
                    await self._negotiate_version(socket)
                except BaseException:
                    await socket.close()
                    raise
                return socket
        except TimeoutError as late:
            raise MonitorLost(f"{self._url} did not open a connection within {limit_s:g} s") from late
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            raise MonitorLost(f"{self._url} cannot be reached: {problem}") from problem

    async def _negotiate_version(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        await socket.send_str(handshake_message())
        message = await socket.receive()
        if message.type is not aiohttp.WSMsgType.TEXT:
            raise MonitorLost(f"{self._url} ended the handshake: {message.type.name}")
        if refusal := handshake_error(message.data):
            raise MonitorLost(f"{self._url}: {refusal}")

    async def _listen(self, socket: aiohttp.ClientWebSocketResponse, wants_more: Callable[[], None]) -> None:
        nonsense = 0
        async for message in socket:
            if message.type is not aiohttp.WSMsgType.TEXT:
                continue
            understood = parse_message(message.data)
            if isinstance(understood, MonitorMessage):
                nonsense = 0
                await self._handle_message(socket, understood, wants_more)
                continue
            nonsense += 1
            await self._handle_invalid_message(socket, understood)
            if nonsense == MAX_INVALID_MESSAGES:
                raise MonitorLost(f"{self._url} sent {nonsense} invalid messages in a row")
        raise MonitorLost(f"{self._url} closed the connection ({socket.close_code})")

    async def _handle_message(
        self, socket: aiohttp.ClientWebSocketResponse, message: MonitorMessage, wants_more: Callable[[], None]
    ) -> None:
        self._alive()
        waiting = self._waiting.pop(message.id, None)
        match message.content:
            case UpscaleRequest():
                wants_more()
            case Complaint(error) if waiting is None:
                self._log.warning("the monitor reported an error", error=error)
            case HealthCheck() if waiting is None and message.id % 2:
                await self._send(socket, health_check(message.id))
            case content if waiting is not None and not waiting.done():
                waiting.set_result(content)
            case content:
                self._log.info("late answer from the monitor", kind=type(content).__name__)

    async def _handle_invalid_message(self, socket: aiohttp.ClientWebSocketResponse, message: InvalidMessage) -> None:
        self._log.warning("invalid message from the monitor", reason=message.why)
        waiting = None if message.id is None else self._waiting.pop(message.id, None)
        if waiting is not None and not waiting.done():
            waiting.set_exception(MonitorFailed(message.why))
        await self._send(socket, invalid_message(self._next_id() if message.id is None else message.id, message.why))

    async def _call(self, message: Callable[[int], str]) -> Content:
        socket = self._socket
        if socket is None:
            raise MonitorFailed("the monitor is not connected")
        id_ = self._next_id()
        waiting: asyncio.Future[Content] = asyncio.get_running_loop().create_future()
        self._waiting[id_] = waiting
        try:
            async with asyncio.timeout(self._access.response_timeout_seconds):
                await self._send(socket, message(id_))
                reply = await waiting
        except TimeoutError as late:
            limit_s = self._access.response_timeout_seconds
            raise MonitorFailed(f"the monitor did not answer within {limit_s:g} s") from late
        except MonitorLost as lost:
            raise MonitorFailed(str(lost)) from lost
        finally:
            self._waiting.pop(id_, None)
        if isinstance(reply, Complaint):
            raise MonitorFailed(f"the monitor answered with an error: {reply.error}")
        return reply

    async def _send(self, socket: aiohttp.ClientWebSocketResponse, text: str) -> None:
        try:
            await socket.send_str(text)
        except (aiohttp.ClientError, ConnectionError) as problem:
            raise MonitorLost(f"{self._url}: {problem}") from problem

    async def _check_health(self) -> None:
        """End the connection when health checks have failed for too long."""
        loop = asyncio.get_running_loop()
        failing_since: float | None = None
        failures = 0
        while True:
            await asyncio.sleep(self._access.health_check_seconds)
            asked_at = loop.time()
            try:
                await self._call(health_check)
            except MonitorFailed as failed:
                failures += 1
                failing_since = asked_at if failing_since is None else failing_since
                if is_worth_logging(failures):
                    self._log.warning("health check of the monitor failed", failures=failures, error=str(failed))
                longest_s = self._access.max_health_check_sequential_failures_seconds
                if loop.time() - failing_since > longest_s:
                    raise MonitorLost(f"{self._url} failed its health checks for more than {longest_s:g} s") from failed
            else:
                failures, failing_since = 0, None

    def _next_id(self) -> int:
        self._last_id += 2
        return self._last_id
