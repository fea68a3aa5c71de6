"""The current way to log in: headers and certificates, read anew as files change and plugins' tokens expire."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final
from urllib.parse import quote

from situate.kube.login.connection import BadConnection, Connection, ExecPlugin, Pem
from situate.kube.login.exec_plugin import ExecCredential, LoginFailed, run_plugin

_REREAD_S: Final = 60.0
"""How long what was read from a file is used: client-go's choice; kubelets replace tokens long before they expire."""

_EARLY_S: Final = 10.0
"""A token is renewed so long before it expires: it must still be valid on arrival."""

RunPlugin = Callable[[ExecPlugin, Connection, bytes], Awaitable[ExecCredential]]


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """What a TLS handshake needs; a change of it needs new connections."""

    ca: bytes = b""
    """PEM; empty trusts the authorities of the system."""
    certificate: bytes = b""
    """PEM; empty shows none."""
    key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Login:
    """What goes with each request."""

    headers: tuple[tuple[str, str], ...] = field(repr=False)
    """A name may occur more than once."""
    tls: TlsMaterial


class Credentials:
    """Logs in as a `Connection` says. Clocks are arguments: `monotonic` in seconds, `now` in UTC."""

    def __init__(
        self,
        connection: Connection,
        *,
        monotonic: Callable[[], float],
        now: Callable[[], datetime],
        plugin: RunPlugin = run_plugin,
    ) -> None:
        self._connection = connection
        self._monotonic = monotonic
        self._now = now
        self._plugin = plugin
        self._lock = asyncio.Lock()
        self._login: Login | None = None
        self._good_until_s = 0.0
        self._from_plugin: ExecCredential | None = None
        self._impersonation = tuple(_impersonation_headers(connection))
        self._reads_files = any((connection.token_file, *(p.path for p in _pems(connection))))

    @property
    def cached(self) -> Login | None:
        """The login while it is good; None when `login` must be awaited."""
        return self._login if self._monotonic() < self._good_until_s else None

    async def login(self) -> Login:
        """The current login; `LoginFailed` or `BadConnection` if there is none to be had.

        A file that cannot be read for a while leaves the earlier login in use, as client-go does: the server decides.
        """
        async with self._lock:
            if login := self.cached:
                return login
            try:
                return await self._renewed()
            except BadConnection:
                if self._login is None:
                    raise
                self._good_until_s = self._monotonic() + _REREAD_S
                return self._login

    async def refresh(self, refused: Login) -> bool:
        """After the server refused a login: whether there is another one now."""
        async with self._lock:
            if self._login is refused:
                self._from_plugin = None
                await self._renewed()
            return self._login != refused

    async def _renewed(self) -> Login:
        connection = self._connection
        ca = _read(connection, connection.ca)
        certificate, key = _read(connection, connection.certificate), _read(connection, connection.key)
        token = self._token()
        lasts_s = _REREAD_S if self._reads_files else float("inf")
        if connection.exec and not token and not connection.username:
            from_plugin = self._from_plugin
            if from_plugin is None or self._lasts_s(from_plugin) <= 0:
                from_plugin = self._from_plugin = await self._plugin(connection.exec, connection, ca)
            lasts_s = min(lasts_s, self._lasts_s(from_plugin))
            token = from_plugin.token
            if from_plugin.certificate:
                certificate, key = from_plugin.certificate, from_plugin.key
        headers = (*_authorization(token, connection), *self._impersonation)
        self._check(headers)
        login = Login(headers, TlsMaterial(ca, certificate, key))
        self._good_until_s = self._monotonic() + lasts_s
        if self._login is None or login != self._login:
            self._login = login
        return self._login

    def _check(self, headers: tuple[tuple[str, str], ...]) -> None:
        """A line break would begin a header that nobody asked for."""
        for name, value in headers:
            if value.isprintable():
                continue
            if name == "Authorization":
                plugin = self._connection.exec
                who = f"what the credential plugin {plugin.command} printed as" if plugin is not None else "the"
                raise LoginFailed(f"{self._connection.source}: {who} token holds a line break or the like; correct it")
            raise BadConnection(
                f"{self._connection.source}: {name}: found {value[:60]!r}; allowed: printable characters"
            )

    def _lasts_s(self, credential: ExecCredential) -> float:
        if credential.expires is None:
            return float("inf")
        return (credential.expires - self._now()).total_seconds() - _EARLY_S

    def _token(self) -> str:
        path = self._connection.token_file
        if path is None:
            return self._connection.token
        token = _bytes_of(self._connection, path, "tokenFile").decode("utf-8", "replace").strip()
        if not token or not token.isascii() or not token.isprintable():
            raise LoginFailed(f"{self._connection.source}: tokenFile {path} holds no token; write one there")
        return token


def _authorization(token: str, connection: Connection) -> list[tuple[str, str]]:
    if token:
        return [("Authorization", f"Bearer {token}")]
    if connection.username:
        pair = f"{connection.username}:{connection.password}".encode()
        return [("Authorization", f"Basic {base64.b64encode(pair).decode()}")]
    return []


def _impersonation_headers(connection: Connection) -> list[tuple[str, str]]:
    """client-go transport: keys of extra fields are percent-encoded, because header names allow little."""
    who = connection.impersonation
    if not who.user:
        return []
    headers = [("Impersonate-User", who.user)]
    if who.uid:
        headers.append(("Impersonate-Uid", who.uid))
    headers += [("Impersonate-Group", group) for group in who.groups]
    headers += [
        (f"Impersonate-Extra-{quote(key, safe='')}", value) for key, values in who.extra.items() for value in values
    ]
    return headers


def _pems(connection: Connection) -> list[Pem]:
    return [pem for pem in (connection.ca, connection.certificate, connection.key) if pem is not None]


def _read(connection: Connection, pem: Pem | None) -> bytes:
    if pem is None:
        return b""
    return pem.data if pem.path is None else _bytes_of(connection, pem.path, pem.field)


def _bytes_of(connection: Connection, path: Path, field_: str) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:  # a null byte in a name is a ValueError
        reason = error.strerror if isinstance(error, OSError) else error
        problem = f"{connection.source}: {field_}: {path} cannot be read: {reason}"
        raise BadConnection(f"{problem}; check that it is a file you may read") from error
