"""Client for permits over HTTP or HTTPS. Every answer or failure is a value (C12, C14, B44)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final

import aiohttp
import structlog

from situate.vm.agent.model.settings import SchedulerAccess
from situate.vm.agent.protocol.permits import MAX_ANSWER, BadAnswer, PermitResponse, parse_answer

_HEADERS: Final = {"content-type": "application/json", "accept": "application/json"}


class BadAuthority(Exception):
    """`scheduler.caFile` is unusable; the message gives the reason."""


class Authorities:
    """Authorities for the scheduler's certificate, in files that another process may change."""

    def __init__(self, place: Path) -> None:
        """`place`: a file, or a folder with `.crt` files; it may be filled later. Raises `BadAuthority`."""
        self._place = place
        self._stamps: tuple[object, ...] = ()
        self._context: ssl.SSLContext | None = None
        self._logged_problem = ""
        self._read()

    def context(self) -> ssl.SSLContext | None:
        """Return the current authorities; None: there are none yet. Unreadable files change nothing."""
        try:
            self._read()
        except BadAuthority as problem:
            if str(problem) != self._logged_problem:
                self._logged_problem = str(problem)
                structlog.get_logger().warning("new CA certificates not accepted", error=self._logged_problem)
        return self._context

    def _read(self) -> None:
        try:
            files = sorted(self._place.glob("*.crt")) if self._place.is_dir() else [self._place]
            stamps = tuple((str(each), (found := each.stat()).st_mtime_ns, found.st_ino) for each in files)
            if stamps == self._stamps:
                return
            self._stamps = stamps
            text = "\n".join(each.read_text(encoding="ascii") for each in files)
            if text.strip():
                self._context = ssl.create_default_context(cadata=text)
        except (OSError, ValueError, ssl.SSLError) as problem:
            raise BadAuthority(
                f"scheduler.caFile: found {self._place} ({problem}), allowed: a file with certificates in PEM, or a "
                "folder of such files with names that end in .crt"
            ) from problem
        if self._context is not None:
            # authorities of Kubernetes lack fields that Python 3.13 requires
            self._context.verify_flags &= ~ssl.VERIFY_X509_STRICT


class PermitClient:
    """One client for all VMs. `close` it after use."""

    def __init__(self, access: SchedulerAccess, find: Callable[[], str | None]) -> None:
        """`find`: the address of the scheduler's Pod; None while there is none. Raises `BadAuthority`."""
        self._access = access
        self._find = find
        self._authorities = None if access.ca_file is None else Authorities(Path(access.ca_file))
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, body: bytes) -> PermitResponse | BadAnswer:
        """Send a request. Failures of the server or the network are values."""
        url = self._url()
        if url is None:
            access = self._access
            return BadAnswer(
                f"no Pod with label name={access.scheduler_name} in namespace {access.namespace} is Ready; "
                "start the scheduler, or set scheduler.url"
            )
        tls = True if self._authorities is None else self._authorities.context()
        if tls is None:
            return BadAnswer(f"scheduler.caFile: {self._access.ca_file} contains no certificate yet")
        try:
            async with asyncio.timeout(self._access.request_timeout_seconds):
                return await self._exchange(url, body, tls)
        except TimeoutError:
            return BadAnswer(f"{url} did not answer within {self._access.request_timeout_seconds:g} s")
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            return BadAnswer(f"the request to {url} failed: {type(problem).__name__}: {problem}")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _exchange(self, url: str, body: bytes, tls: ssl.SSLContext | bool) -> PermitResponse | BadAnswer:
        if self._session is None:
            # an answer may take a second, and all VMs ask at once after a restart
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), trust_env=False)
        headers = dict(_HEADERS)
        if token := _read_token(self._access.token_file):
            headers["authorization"] = f"Bearer {token}"
        async with self._session.post(
            url,
            data=body,
            headers=headers,
            ssl=tls,
            server_hostname=self._access.server_name,
            allow_redirects=False,  # the token is for the scheduler only
        ) as response:
            received = b""
            async for piece in response.content.iter_any():
                received += piece
                if len(received) > MAX_ANSWER:
                    response.close()
                    break
            return parse_answer(response.status, received)

    def _url(self) -> str | None:
        if self._access.url is not None:
            return self._access.url
        host = self._find()
        if host is None:
            return None
        scheme = "https" if self._access.tls else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self._access.request_port}/"


def _read_token(file: str | None) -> str:
    """Read the token each time, because kubelets replace it. Empty: there is none, and the scheduler decides."""
    if file is None:
        return ""
    try:
        return Path(file).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return ""
