"""HTTPS for clients of Kubernetes: every path to one answerer, and certificates that change without a restart."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import structlog

from situate.objects.messages import Request, Response

if TYPE_CHECKING:
    from aiohttp import web

_LOOK_S: Final = 10.0
"""Between two looks at the certificate's files; the kubelet changes them together."""
_END_S: Final = 5.0
"""For answers under way when the process is asked to end."""


class CannotServe(Exception):
    """The address or the certificate is not to be had; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """Files in PEM, such as those of a mounted Secret of type `kubernetes.io/tls`."""

    chain: Path
    key: Path

    def context(self) -> ssl.SSLContext:
        """Raises `CannotServe`."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(["http/1.1"])
        self.load(context)
        return context

    def load(self, context: ssl.SSLContext) -> None:
        try:
            context.load_cert_chain(self.chain, self.key)
        except (OSError, ssl.SSLError) as problem:
            raise CannotServe(
                f"the certificate {self.chain} with the key {self.key} cannot be used: "
                f"{problem.strerror or type(problem).__name__}; name a chain and its key in PEM"
            ) from None

    def stamp(self) -> tuple[float, ...]:
        """Changes when the files do; empty while they are not there."""
        try:
            return tuple(each.stat().st_mtime for each in (self.chain, self.key))
        except OSError:
            return ()


class Listener:
    """A service for the manager: `run` until it is cancelled."""

    name = "read-through server"

    def __init__(
        self, address: str, certificate: Certificate | None, answer: Callable[[Request], Awaitable[Response]]
    ) -> None:
        """`address`: `host:port`, without host for every address. No certificate: plain HTTP, for loopback alone.

        Raises `CannotServe`.
        """
        self._address = address
        self._certificate = certificate
        self._stamp = () if certificate is None else certificate.stamp()
        self._context = None if certificate is None else certificate.context()
        self._answer = answer
        self._listening = asyncio.Event()
        self.port = 0
        """The port that is listened on, also if the address asked for any (`:0`); 0 before that."""
        self._log = structlog.get_logger()

    async def run(self) -> None:
        """Raises `CannotServe`."""
        from aiohttp import web  # 0.2 s of processor time that other verbs are spared

        application = web.Application(client_max_size=1024)
        application.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=_END_S)
        await runner.setup()
        host, _, port = self._address.rpartition(":")
        try:
            try:
                await web.TCPSite(runner, host.strip("[]") or None, int(port), ssl_context=self._context).start()
            except OSError as problem:
                raise CannotServe(
                    f"cannot listen on {self._address}: {problem.strerror}; choose another --address"
                ) from problem
            self.port = runner.addresses[0][1]
            self._listening.set()
            self._log.info("the read-through server listens", address=self._address, port=self.port)
            while True:
                await asyncio.sleep(_LOOK_S)
                self.renew()
        finally:
            self._listening.clear()
            await runner.cleanup()

    async def listening(self) -> None:
        """Until requests are answered."""
        await self._listening.wait()

    def renew(self) -> None:
        """New connections get the certificate that is in its files by now; one that is spoilt changes nothing."""
        if self._certificate is None or self._context is None:
            return
        now = self._certificate.stamp()
        if now in ((), self._stamp):
            return
        self._stamp = now
        try:
            self._certificate.load(self._context)
        except CannotServe as problem:
            self._log.error("the new certificate is not used", error=str(problem))
        else:
            self._log.info("the certificate has changed")

    async def _handle(self, request: web.Request) -> web.Response:
        from aiohttp import web

        headers = {name.lower(): ", ".join(request.headers.getall(name)) for name in request.headers}
        answer = await self._answer(Request(request.method, request.path, tuple(request.query.items()), headers))
        return web.Response(status=answer.status, body=answer.body, headers=dict(answer.headers))
