"""The current headers and certificates, read again as files change and plugins' tokens expire."""

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
"""How long the content of a file is used: client-go's choice. Kubelets replace tokens long before they expire."""

_EARLY_S: Final = 10.0
"""How long before its expiry a token is renewed: it must still be valid on arrival."""

RunPlugin = Callable[[ExecPlugin, Connection, bytes], Awaitable[ExecCredential]]


@dataclass(frozen=True, slots=True)
class TlsMaterial:
    """Certificates of a TLS handshake; a change needs new connections."""

    ca: bytes = b""
    """PEM; empty trusts the system's certificate authorities."""
    certificate: bytes = b""
    """PEM; empty presents no certificate."""
    key: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Login:
    """The headers and certificates of each request."""

    headers: tuple[tuple[str, str], ...] = field(repr=False)
    """A name may occur more than once."""
    tls: TlsMaterial


class Credentials:
    """Logs in with the settings of a `Connection`. Clocks are arguments: `monotonic` in seconds, `now` in UTC."""

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
    def cached_login(self) -> Login | None:
        """The login while it is valid; None when `login` must be awaited."""
        return self._login if self._monotonic() < self._good_until_s else None

    async def login(self) -> Login:
        """Return the current login; `LoginFailed` or `BadConnection` if none can be obtained.

        If a file cannot be read, the earlier login stays in use, as in client-go: the server decides.
        """
        async with self._lock:
            if login := self.cached_login:
                return login
            try:
                return await self._renew()
            except BadConnection:
                if self._login is None:
                    raise
                self._good_until_s = self._monotonic() + _REREAD_S
                return self._login

    async def refresh(self, refused: Login) -> bool:
        """Renew a login that the server refused; return whether it differs now."""
        async with self._lock:
            if self._login is refused:
                self._from_plugin = None
                await self._renew()
            return self._login != refused

    async def _renew(self) -> Login:
        connection = self._connection
        ca = _read(connection, connection.ca)
        certificate, key = _read(connection, connection.certificate), _read(connection, connection.key)
        token = self._token()
        lasts_s = _REREAD_S if self._reads_files else float("inf")
        if connection.exec and not token and not connection.username:
            from_plugin = self._from_plugin
            if from_plugin is None or self._lifetime_s(from_plugin) <= 0:
                from_plugin = self._from_plugin = await self._plugin(connection.exec, connection, ca)
            lasts_s = min(lasts_s, self._lifetime_s(from_plugin))
            token = from_plugin.token
            if from_plugin.certificate:
                certificate, key = from_plugin.certificate, from_plugin.key
        headers = (*_authorization(token, connection), *self._impersonation)
        self._check_headers(headers)
        login = Login(headers, TlsMaterial(ca, certificate, key))
        self._good_until_s = self._monotonic() + lasts_s
        if self._login is None or login != self._login:
            self._login = login
        return self._login

    def _check_headers(self, headers: tuple[tuple[str, str], ...]) -> None:
        """Reject headers with a line break, which would start another header."""
        for name, value in headers:
            if value.isprintable():
                continue
            if name == "Authorization":
                plugin = self._connection.exec
                origin = "" if plugin is None else f" from credential plugin {plugin.command}"
                raise LoginFailed(
                    f"{self._connection.source}: the token{origin} contains characters that are not printable; "
                    "correct the token"
                )
            raise BadConnection(
                f"{self._connection.source}: {name}: found {value[:60]!r}; allowed: printable characters"
            )

    def _lifetime_s(self, credential: ExecCredential) -> float:
        if credential.expires is None:
            return float("inf")
        return (credential.expires - self._now()).total_seconds() - _EARLY_S

    def _token(self) -> str:
        path = self._connection.token_file
        if path is None:
            return self._connection.token
        token = _bytes_of(self._connection, path, "tokenFile").decode("utf-8", "replace").strip()
        if not token or not token.isascii() or not token.isprintable():
            raise LoginFailed(
                f"{self._connection.source}: tokenFile {path} contains no valid token; write a token to the file"
            )
        return token


def _authorization(token: str, connection: Connection) -> list[tuple[str, str]]:
    if token:
        return [("Authorization", f"Bearer {token}")]
    if connection.username:
        pair = f"{connection.username}:{connection.password}".encode()
        return [("Authorization", f"Basic {base64.b64encode(pair).decode()}")]
    return []


def _impersonation_headers(connection: Connection) -> list[tuple[str, str]]:
    """Encode as client-go's transport does: keys of extra fields are percent-encoded to be valid header names."""
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
        raise BadConnection(f"{problem}; check that it is a file that you may read") from error
