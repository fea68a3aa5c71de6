"""Long work in small steps, with admissions answered between the steps."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Final, TypeVar

T = TypeVar("T")

STEPS_AT_ONCE: Final = 10
"""Steps at a time, some milliseconds of work. Counted, not timed, so that a simulated run is reproducible."""


async def run_in_steps(steps: Generator[None, None, T]) -> T:
    """Run the generator and return its result; each of its steps takes a fraction of a millisecond."""
    while True:
        try:
            for _ in range(STEPS_AT_ONCE):
                next(steps)
        except StopIteration as end:
            returned: T = end.value
            return returned
        await asyncio.sleep(0)
