"""Opens a connection to a server: TCP, a proxy's tunnel, TLS."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote, urlsplit

from situate.kube.login.connection import Connection
from situate.kube.transport.http1 import BadAnswer
from situate.kube.transport.http_connection import HttpConnection

CONNECT_TIMEOUT_S: Final = 10.0
"""For TCP, the proxy's answer and TLS together."""

_KEEP_ALIVE_S: Final = 30
"""Seconds of silence before a peer is probed, and between probes; the connection fails after three probes."""


class ProxyRefused(Exception):
    """The proxy refused the tunnel."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the proxy answered {status}")
        self.status = status


class ProxyUnreachable(Exception):
    """The proxy cannot be reached."""


class BadName(Exception):
    """No host can have this name."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """An HTTP proxy."""

    host: str
    port: int
    tls: bool
    authorization: str = field(repr=False)
    """The header's value; empty if the proxy needs none."""


@dataclass(frozen=True, slots=True)
class Target:
    """A server and the route to it."""

    host: str
    port: int
    base_path: str
    """Prefix of each path; empty for most servers."""
    tls: bool
    server_name: str
    """The name that the certificate must have."""
    proxy: Proxy | None

    @property
    def authority(self) -> str:
        """Host and port for `Host` and for the proxy's request line."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    @property
    def tunnelled(self) -> bool:
        """Whether the proxy only passes bytes; it reads plain HTTP itself."""
        return self.proxy is not None and self.tls


def target_of(connection: Connection) -> Target:
    """Split a connection's URLs, which were checked when the connection was read."""
    url = urlsplit(connection.server)
    tls = url.scheme == "https"
    host = url.hostname or ""
    return Target(
        host=host,
        port=url.port or (443 if tls else 80),
        base_path=url.path.rstrip("/"),
        tls=tls,
        server_name=connection.tls_server_name or host,
        proxy=_proxy(connection.proxy_url) if connection.proxy_url else None,
    )


async def dial(target: Target, context: ssl.SSLContext | None) -> HttpConnection:
    """Open a connection that is ready for requests; raises `OSError`, `TimeoutError`, `BadName` or a proxy's error.

    `context` None connects without TLS.
    """
    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        if target.proxy is None:
            return await _open(target.host, target.port, context, target.server_name)
        connection = await _open_proxy(target.proxy, context)
        if context is not None:
            try:
                await _tunnel(connection, target, target.proxy)
                await connection.secure(context, target.server_name, CONNECT_TIMEOUT_S)
            except BaseException:
                connection.close()
                raise
        return connection


async def _open(host: str, port: int, context: ssl.SSLContext | None, server_name: str) -> HttpConnection:
    loop = asyncio.get_running_loop()
    name = server_name if context else None
    try:
        transport, connection = await loop.create_connection(
            HttpConnection, host, port, ssl=context, server_hostname=name
        )
    except ssl.SSLError:  # some of them are ValueErrors, too
        raise
    except ValueError as error:  # before anything was sent: a label that is empty or too long, a null byte
        raise BadName(str(error)) from error
    sock = transport.get_extra_info("socket")
    if sock is None:  # closed before this task could go on
        raise ConnectionResetError("the server closed the connection at once")
    _enable_keep_alive(sock)
    return connection


async def _open_proxy(proxy: Proxy, context: ssl.SSLContext | None) -> HttpConnection:
    """Connect to the proxy; one that speaks TLS is verified by the server's authorities, as in client-go."""
    proxy_context = (context or ssl.create_default_context()) if proxy.tls else None
    try:
        return await _open(proxy.host, proxy.port, proxy_context, proxy.host)
    except (OSError, BadName) as error:
        raise ProxyUnreachable(getattr(error, "strerror", None) or str(error)) from error


async def _tunnel(connection: HttpConnection, target: Target, proxy: Proxy) -> None:
    host = f"[{target.host}]" if ":" in target.host else target.host
    head = f"CONNECT {host}:{target.port} HTTP/1.1\r\nHost: {host}:{target.port}\r\n"
    if proxy.authorization:
        head += f"Proxy-Authorization: {proxy.authorization}\r\n"
    try:
        answer = await connection.begin(f"{head}\r\n".encode("latin-1"), CONNECT_TIMEOUT_S, bodiless=True)
    except BadAnswer as error:
        raise ProxyUnreachable(str(error)) from error
    if answer.status != 200:
        raise ProxyRefused(answer.status)


def _proxy(url: str) -> Proxy:
    parts = urlsplit(url)
    tls = parts.scheme == "https"
    authorization = ""
    if parts.username:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        authorization = f"Basic {base64.b64encode(pair).decode()}"
    return Proxy(parts.hostname or "", parts.port or (443 if tls else 80), tls, authorization)


def _enable_keep_alive(sock: socket.socket) -> None:
    """Set TCP keep-alive: without it, a watch on a server that lost its power would wait for ever."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):  # not on macOS
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEP_ALIVE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _KEEP_ALIVE_S)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
