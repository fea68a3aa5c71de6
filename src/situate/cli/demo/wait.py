"""Wait for the objects that the stage needs before the story begins."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from situate.cli.terminal.failures import WrongInput

SETUP_LIMIT_S: Final = 120.0
"""Time limit for each condition, such as the end of an earlier demo's namespace."""


async def wait_until_usable(holds: Callable[[], Awaitable[bool]], otherwise: str) -> None:
    """Wait until the condition holds. Raises `WrongInput` if it does not hold in time."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + SETUP_LIMIT_S
    while not await holds():
        if clock() > deadline:
            raise WrongInput(f"after {SETUP_LIMIT_S:g} s {otherwise}")
        await asyncio.sleep(0.2)
