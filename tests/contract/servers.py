"""The two servers that the suite is asked of."""

from __future__ import annotations

import asyncio
import ssl
import uuid
from typing import Protocol

from tests.contract.api import Api
from tests.controlplane.plane import ControlPlane


class Server(Protocol):
    @property
    def name(self) -> str:
        """real or embedded."""
        ...

    @property
    def url(self) -> str: ...

    @property
    def token(self) -> str:
        """Of somebody who may do everything."""
        ...

    def tls(self) -> ssl.SSLContext | None: ...

    def expire_history(self) -> None:
        """Makes every earlier resourceVersion and continue token too old. May restart the server."""
        ...


class RealServer:
    name = "real"

    def __init__(self, plane: ControlPlane) -> None:
        self.plane = plane
        self.url = plane.url
        self.token = plane.token()
        self._tls = plane.tls()

    def tls(self) -> ssl.SSLContext:
        return self._tls

    def expire_history(self) -> None:
        self.plane.expire_history()


async def expire(api: Api, server: Server) -> None:
    """Makes every resourceVersion and continue token so far too old."""
    await asyncio.to_thread(server.expire_history)
    await api.reconnect()


async def new_namespace(api: Api) -> str:
    name = f"t-{uuid.uuid4().hex[:10]}"
    (await api.post("/api/v1/namespaces", {"metadata": {"name": name}})).ok(201)
    return name
