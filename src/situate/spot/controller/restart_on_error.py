"""Restart of leader tasks that admission does not need: an unexpected exception is logged, and the leader goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

AGAIN_S: Final = 5.0
"""Delay before a restart."""


async def restart_on_error(what: str, run: Callable[[], Awaitable[None]]) -> None:
    """Run `run` until it returns; restart it after each exception. Cancellation passes through."""
    log = structlog.get_logger()
    while True:
        try:
            await run()
        except Exception as defect:
            log.error("service of the leader failed, restarting", service=what, exc_info=defect)
            await asyncio.sleep(AGAIN_S)
        else:
            return
