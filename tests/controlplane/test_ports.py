from __future__ import annotations

import asyncio
import socket

import pytest

from tests.controlplane.ports import ReservedPort


def test_nobody_gets_it_who_asks_for_any() -> None:
    with ReservedPort() as port:
        others = [socket.create_server(("127.0.0.1", 0)) for _ in range(50)]
        numbers = {each.getsockname()[1] for each in others}
        for each in others:
            each.close()
        assert port.number not in numbers


async def test_whoever_is_told_may_listen_on_it_again_and_again() -> None:
    with ReservedPort() as port:
        for _ in range(2):
            with pytest.raises(ConnectionRefusedError):
                await asyncio.open_connection("127.0.0.1", port.number)
            async with await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", port.number):
                reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
                assert await reader.read() == b""
                writer.close()
                await writer.wait_closed()


def test_it_is_reserved_again_after_its_release() -> None:
    with ReservedPort() as port:
        number = port.number
        port.release()
        port.release()
        port.reserve()
        assert port.number == number
