"""Run several calls concurrently as one: return their results in order, or raise the first failure."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def gather_calls(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run the calls. The first failure cancels the others, and is raised after they have ended."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in calls]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [task.result() for task in tasks]
