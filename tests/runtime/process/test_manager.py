from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from situate.runtime.process.manager import Manager, ServiceFailed, stop_on_signals
from situate.testing.virtual_time.processes import World


def virtually(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with World() as world:
        world.run(main)


class Recorded:
    """A service that tells its story: it runs, and takes `winding_down_s` to end once it is asked to."""

    def __init__(self, name: str, story: list[tuple[float, str]], winding_down_s: float = 0.0) -> None:
        self.name = name
        self._story = story
        self._winding_down_s = winding_down_s
        self._asked = asyncio.Event()

    def _tell(self, what: str) -> None:
        self._story.append((asyncio.get_running_loop().time(), f"{self.name} {what}"))

    async def run(self) -> None:
        self._tell("starts")
        try:
            await self._asked.wait()
            await asyncio.sleep(self._winding_down_s)
            self._tell("ends")
        except asyncio.CancelledError:
            self._tell("is cancelled")
            raise

    def stop(self) -> None:
        self._tell("is asked")
        self._asked.set()

    async def warm(self) -> None:
        await asyncio.sleep(3)


class Endless:
    """A service without `stop`."""

    name = "endless"

    def __init__(self, stubborn_s: float = 0.0) -> None:
        self._stubborn_s = stubborn_s

    async def run(self) -> None:
        try:
            await asyncio.sleep(1e9)
        finally:
            await asyncio.sleep(self._stubborn_s)


class Failing:
    name = "failing"

    def __init__(self, after_s: float, work: Callable[[], Awaitable[None] | None] = lambda: None) -> None:
        self._after_s = after_s
        self._work = work

    async def run(self) -> None:
        await asyncio.sleep(self._after_s)
        self._work()


class InAGroup(Failing):
    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(super().run())


def fail() -> None:
    raise ZeroDivisionError("oh")


def test_starts_in_order_and_stops_in_the_opposite_one() -> None:
    async def main() -> None:
        story: list[tuple[float, str]] = []
        manager = Manager()
        first, second = Recorded("first", story), Recorded("second", story, winding_down_s=2)
        manager.add(first, ready=first.warm)
        manager.add(second)
        task = asyncio.create_task(manager.run())
        await asyncio.sleep(10)
        manager.request_stop("test")
        manager.request_stop("again")
        await task
        assert story == [
            (0, "first starts"),
            (3, "second starts"),
            (10, "second is asked"),
            (12, "second ends"),
            (12, "first is asked"),
            (12, "first ends"),
        ]

    virtually(main)


def test_one_failure_ends_everything_with_a_sentence() -> None:
    async def main() -> None:
        story: list[tuple[float, str]] = []
        manager = Manager()
        manager.add(Recorded("other", story))
        manager.add(Failing(5, fail))
        with pytest.raises(ServiceFailed) as caught:
            await manager.run()
        assert str(caught.value) == "failing has failed, so the process stops: ZeroDivisionError: oh"
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert story[-1] == (5, "other ends")

    virtually(main)


def test_the_only_failure_in_a_group_of_tasks_is_the_one_that_is_named() -> None:
    async def main() -> None:
        manager = Manager()
        manager.add(InAGroup(5, fail))
        with pytest.raises(ServiceFailed, match="ZeroDivisionError: oh"):
            await manager.run()

    virtually(main)


def test_a_service_that_returns_unasked_has_failed() -> None:
    async def main() -> None:
        manager = Manager()
        manager.add(Failing(5))
        with pytest.raises(
            ServiceFailed, match="failing has failed, so the process stops: the service ended without an error"
        ):
            await manager.run()

    virtually(main)


def test_a_failure_while_waiting_for_readiness_is_not_waited_out() -> None:
    async def main() -> None:
        async def never() -> None:
            await asyncio.sleep(1e9)

        manager = Manager()
        manager.add(Failing(5, fail), ready=never)
        manager.add(Endless())
        with pytest.raises(ServiceFailed):
            await manager.run()
        assert asyncio.get_running_loop().time() == 5

    virtually(main)


def test_stopping_before_everything_has_started_starts_no_more() -> None:
    async def main() -> None:
        story: list[tuple[float, str]] = []
        manager = Manager()
        first = Recorded("first", story)
        manager.add(first, ready=first.warm)
        manager.add(Recorded("second", story))
        task = asyncio.create_task(manager.run())
        await asyncio.sleep(1)
        manager.request_stop("test")
        await task
        assert [what for _, what in story] == ["first starts", "first is asked", "first ends"]

    virtually(main)


def test_the_end_comes_in_a_bounded_time() -> None:
    async def main() -> None:
        story: list[tuple[float, str]] = []
        manager = Manager(shutdown_timeout_s=20)
        lease = Recorded("lease", story, winding_down_s=2)
        manager.add(lease)
        manager.add(Endless(stubborn_s=1e6))
        manager.add(Recorded("hanging", story, winding_down_s=1e9))
        task = asyncio.create_task(manager.run())
        await asyncio.sleep(1)
        manager.request_stop("test")
        await task
        assert asyncio.get_running_loop().time() <= 1 + 20 + 1
        assert story[-1][1] == "lease ends", "what stops later is left its share"

    virtually(main)


def test_cancelling_stops_in_order_too() -> None:
    async def main() -> None:
        story: list[tuple[float, str]] = []
        manager = Manager()
        manager.add(Recorded("only", story, winding_down_s=2))
        task = asyncio.create_task(manager.run())
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert story[-1] == (3, "only ends")

    virtually(main)


@pytest.mark.parametrize("which", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_process_in_order(which: signal.Signals) -> None:
    story: list[tuple[float, str]] = []
    manager = Manager()
    manager.add(Recorded("only", story))
    stop_on_signals(manager)
    asyncio.get_running_loop().call_later(0.01, os.kill, os.getpid(), which)
    await manager.run()
    assert [what for _, what in story] == ["only starts", "only is asked", "only ends"]
