"""Waiting for what controllers bring about: asking again until it holds, never for a fixed time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from tests.waiting import WITHIN_S

T = TypeVar("T")


async def eventually(
    ask: Callable[[], Awaitable[T]], holds: Callable[[T], Any] = bool, *, timeout_s: float = WITHIN_S
) -> T:
    """The first answer for which `holds`; fails with the last one after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while True:
        last = await ask()
        if holds(last):
            return last
        assert time.monotonic() < deadline, f"after {timeout_s:g} s still {last}"
        await asyncio.sleep(0.02)


async def steady(ask: Callable[[], Awaitable[T]], holds: Callable[[T], Any] = bool, *, seconds: float = 0.5) -> None:
    """Demands that it holds for that long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        last = await ask()
        assert holds(last), last
        await asyncio.sleep(0.05)
