"""HTTPS for API servers: one path, certificates that change without a restart, and an end that leaves nothing open.

API servers keep their connections; a listener that only stopped to listen would go on answering (spot P1).
"""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import structlog
from aiohttp import web

from situate.runtime.serving.certificates import Generation
from situate.runtime.serving.listener import log_of_defects

LARGEST: Final = 16 * 2**20
"""Bytes of a review: objects have at most 3 MiB, which escapes may multiply."""
_IDLE_S: Final = 600.0
"""Longer than API servers keep an idle connection (90 s), so that it is they who end it."""
_RETRY_S: Final = 1.0
_LEAVING_S: Final = 0.1
"""For answers that are given to leave the process, and for idle connections to hear that they should end."""
_END_S: Final = 1.0
"""For what still works on an answer when its connection is gone: a live read ends before that. aiohttp takes 0 for no
limit at all."""
_JSON: Final = {"Content-Type": "application/json"}
_TEXT: Final = {"Content-Type": "text/plain; charset=utf-8"}


@dataclass(frozen=True, slots=True)
class Reply:
    """What goes back over HTTP."""

    status: int
    body: bytes


Answers: TypeAlias = Callable[[bytes], Awaitable[Reply]]
"""Takes a review and gives what goes back; never raises."""


class Door(Protocol):
    """What `Listener` is to whoever leads."""

    @property
    def listening(self) -> bool: ...

    def serve_with(self, generation: Generation) -> None: ...

    async def run(self) -> None: ...

    async def wait_listening(self) -> None: ...

    async def drain(self, within_s: float) -> None: ...


class Listener:
    """`run` is a task of the leader, until cancelled; then every connection is gone."""

    def __init__(self, address: str, answer: Answers, *, path: str, setting: str, largest: int = LARGEST) -> None:
        """`address`: `host:port`, without host for every address, and what it is called in the settings. `largest`:
        bytes of a review."""
        self._address = address
        self._path = path
        self._setting = setting
        self._answer = answer
        self._largest = largest
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.set_alpn_protocols(["http/1.1"])
        self._certified = asyncio.Event()
        self._listening = asyncio.Event()
        self._draining = False
        self._under_way = 0
        self._idle = asyncio.Event()
        self.port = 0
        """The port that is listened on, also if the address asked for any (`:0`); 0 before that."""
        self._log = structlog.get_logger()

    def serve_with(self, generation: Generation) -> None:
        """New connections are given this certificate from now on; those that exist go on."""
        load(self._context, generation)
        self._certified.set()

    async def run(self) -> None:
        """Waits for a certificate, then for the port, then for its own end."""
        await self._certified.wait()
        runner = web.AppRunner(
            self._application(),
            access_log=None,
            keepalive_timeout=_IDLE_S,
            shutdown_timeout=_END_S,
            auto_decompress=False,  # API servers pack nothing
            logger=log_of_defects(),
        )
        await runner.setup()
        try:
            await self._bind(runner)
            self.port = runner.addresses[0][1]
            self._listening.set()
            self._log.info("the webhook listens", address=self._address, port=self.port)
            await asyncio.get_running_loop().create_future()
        finally:
            self._listening.clear()
            self._draining = False
            self._certified.clear()  # by the next term it may have ended
            _abort(runner)
            await runner.cleanup()
            self._log.info("the webhook is closed")

    @property
    def listening(self) -> bool:
        return self._listening.is_set()

    async def wait_listening(self) -> None:
        """Until questions are answered."""
        await self._listening.wait()

    async def drain(self, within_s: float) -> None:
        """Before an orderly end: what is asked is answered, and each connection is asked to end with its answer.

        Questions that come meanwhile are answered too; who asks them next meets a closed door, or another pod.
        """
        self._draining = True
        self._idle.clear()
        if self._under_way:
            try:
                async with asyncio.timeout(within_s):
                    await self._idle.wait()
            except TimeoutError:
                self._log.warning("some questions are left without an answer", dropped=self._under_way)
        await asyncio.sleep(_LEAVING_S)

    async def _bind(self, runner: web.AppRunner) -> None:
        """Until the port is free: a process that led before may still be letting go of it."""
        host, _, port = self._address.rpartition(":")
        told = ""
        while True:
            site = web.TCPSite(runner, host.strip("[]") or None, int(port), ssl_context=self._context)
            try:
                await site.start()
            except OSError as problem:
                await site.stop()
                if str(problem) != told:
                    told = str(problem)
                    self._log.warning(
                        "the webhook cannot listen yet", address=self._address, setting=self._setting, error=told
                    )
                await asyncio.sleep(_RETRY_S)
            else:
                return

    def _application(self) -> web.Application:
        application = web.Application(client_max_size=self._largest)
        application.router.add_post(self._path, self._post)
        return application

    async def _post(self, request: web.Request) -> web.Response:
        self._under_way += 1
        try:
            reply = await self._answer(await request.read())
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()
        response = web.Response(status=reply.status, body=reply.body, headers=_JSON if reply.status == 200 else _TEXT)
        if self._draining:
            response.force_close()
        return response


def _abort(runner: web.AppRunner) -> None:
    """At once and without an orderly end of TLS: nothing may be answered from here on."""
    for connection in list(runner.server.connections if runner.server is not None else ()):
        if connection.transport is not None:
            connection.transport.abort()


def load(context: ssl.SSLContext, generation: Generation) -> None:
    """Python reads a certificate from files only, so it passes through one that nobody else can read."""
    handle, path = tempfile.mkstemp(prefix="situate-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(generation.certificate.rstrip() + b"\n" + generation.key)
        context.load_cert_chain(path)
    finally:
        os.unlink(path)
