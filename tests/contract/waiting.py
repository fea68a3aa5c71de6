"""Waiting for what controllers bring about: asking again until it holds, never for a fixed time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tests.contract.api import Api
from tests.contract.servers import Server
from tests.waiting import WITHIN_S

T = TypeVar("T")

POLL_S = (0.01, 0.2)
"""First and longest pause between two looks."""
_SLOWER = 1.25


def patience_s(server: Server) -> float:
    """For what the list of exceptions says that the embedded server never does: waiting long for it there is no use."""
    return WITHIN_S if server.name == "real" else 1.0


async def eventually(
    ask: Callable[[], Awaitable[T]], holds: Callable[[T], Any] = bool, *, timeout_s: float = WITHIN_S
) -> T:
    """The first answer for which `holds`; fails with the last one after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    pause_s, longest_s = POLL_S
    while True:
        last = await ask()
        if holds(last):
            return last
        assert time.monotonic() < deadline, f"after {timeout_s:g} s still {last}"
        await asyncio.sleep(pause_s)
        pause_s = min(pause_s * _SLOWER, longest_s)


async def gone(api: Api, path: str) -> None:
    """Until the object is not there any more."""
    await eventually(lambda: api.get(path), lambda answer: answer.status == 404)


async def steady(ask: Callable[[], Awaitable[T]], holds: Callable[[T], Any] = bool, *, seconds: float = 0.5) -> None:
    """Demands that it holds for that long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        last = await ask()
        assert holds(last), last
        await asyncio.sleep(0.05)
