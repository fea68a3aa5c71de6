"""Runs what admission can do without: a defect of ours in it is told, and the leader goes on answering."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

AGAIN_S: Final = 5.0
"""After a defect."""


async def apart(what: str, run: Callable[[], Awaitable[None]]) -> None:
    """Until `run` returns; begun anew after each exception. Cancellation goes through."""
    log = structlog.get_logger()
    while True:
        try:
            await run()
        except Exception as defect:
            log.error("a part of the leader failed; it is begun anew", service=what, exc_info=defect)
            await asyncio.sleep(AGAIN_S)
        else:
            return
