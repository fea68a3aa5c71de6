"""Wait for the objects that the stage needs before the story begins."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from situate.cli.terminal.failures import WrongInput

SETUP_LIMIT_S: Final = 120.0
"""Time limit for each condition, such as the end of an earlier demo's namespace."""


async def holds_in_time(
    holds: Callable[[], Awaitable[bool]], within_s: float = SETUP_LIMIT_S, every_s: float = 0.2
) -> bool:
    """Return True as soon as the condition holds, and False if it does not hold in time."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + within_s
    while not await holds():
        if clock() > deadline:
            return False
        await asyncio.sleep(every_s)
    return True


async def wait_until_usable(holds: Callable[[], Awaitable[bool]], otherwise: str) -> None:
    """Wait until the condition holds. Raises `WrongInput` if it does not hold in time."""
    if not await holds_in_time(holds):
        raise WrongInput(f"after {SETUP_LIMIT_S:g} s {otherwise}")
