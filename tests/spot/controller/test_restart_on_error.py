from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from situate.spot.controller.restart_on_error import AGAIN_S, restart_on_error


@pytest.mark.looptime
async def test_a_part_that_fails_is_told_and_begun_anew() -> None:
    begun: list[float] = []
    clock = asyncio.get_running_loop().time

    async def run() -> None:
        begun.append(clock())
        if len(begun) < 3:
            raise ZeroDivisionError("a defect")

    with capture_logs() as told:
        await restart_on_error("wave capacity", run)
    assert begun == [begun[0], begun[0] + AGAIN_S, begun[0] + 2 * AGAIN_S]
    assert [(line["service"], line["log_level"]) for line in told] == [("wave capacity", "error")] * 2


async def test_a_part_ends_with_its_term() -> None:
    task = asyncio.create_task(restart_on_error("node labels", asyncio.Event().wait))  # type: ignore[arg-type]  # waits
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
