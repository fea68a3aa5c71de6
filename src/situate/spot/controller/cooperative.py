"""Long work in small steps, between which pods are admitted."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Final, TypeVar

T = TypeVar("T")

STEPS: Final = 10
"""At a time: some milliseconds. Counted and not timed, so that a simulated run is the same each time."""


async def in_steps(steps: Generator[None, None, T]) -> T:
    """What the generator returns; each of its steps takes a fraction of a millisecond."""
    while True:
        try:
            for _ in range(STEPS):
                next(steps)
        except StopIteration as end:
            returned: T = end.value
            return returned
        await asyncio.sleep(0)
