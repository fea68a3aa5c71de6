from __future__ import annotations

import asyncio
import ssl
from typing import Any

import pytest

from situate.kube.transport.http_connection import HttpConnection


class ClosedMeanwhile(asyncio.Transport):
    """As uvloop's, when the socket has been closed and the protocol has not been told yet."""

    def write(self, data: Any) -> None:
        raise RuntimeError("unable to perform operation on <TCPTransport>; the handler is closed")

    def pause_reading(self) -> None:
        raise RuntimeError("unable to perform operation on <TCPTransport>; the handler is closed")

    def abort(self) -> None:
        pass


async def test_a_socket_that_the_loop_has_closed_meanwhile_is_a_lost_connection() -> None:
    connection = HttpConnection()
    connection.connection_made(ClosedMeanwhile())
    assert connection.reusable
    with pytest.raises(ConnectionResetError, match="the handler is closed"):
        await connection.exchange(b"GET / HTTP/1.1\r\n\r\n", 5.0)
    assert not connection.reusable


async def test_a_tunnel_that_is_closed_before_tls_begins_is_a_lost_connection() -> None:
    connection = HttpConnection()
    connection.connection_made(ClosedMeanwhile())
    connection.connection_lost(None)
    with pytest.raises(ConnectionResetError, match="closed the tunnel"):
        await connection.secure(ssl.create_default_context(), "example.com", 1.0)
