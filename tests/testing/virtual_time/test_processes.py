"""Processes on virtual time: what a pause, a kill and a deadlock look like from inside and outside."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from situate.testing.virtual_time.processes import ProcessesStuck, ProcessState, World


@pytest.fixture
def world() -> Iterator[World]:
    with World() as world:
        yield world


def test_sleeping_takes_virtual_time_only(world: World) -> None:
    woken: list[float] = []

    async def main() -> None:
        await asyncio.sleep(30)
        woken.append(asyncio.get_running_loop().time())

    world.run(main)

    assert woken == [30.0]


def test_timers_of_processes_and_what_is_planned_come_in_order_of_time_and_then_of_setting(world: World) -> None:
    story: list[tuple[float, str]] = []

    async def ticking(name: str, period: float) -> None:
        for _ in range(3):
            await asyncio.sleep(period)
            story.append((world.now, name))

    world.start("a", lambda: ticking("a", 2))
    world.start("b", lambda: ticking("b", 3))
    world.timeline.call_at(4, lambda: story.append((world.now, "heap")))
    world.run_until(100)

    assert story == [(2, "a"), (3, "b"), (4, "heap"), (4, "a"), (6, "b"), (6, "a"), (9, "b")]
    assert world.now == 100


def test_a_clock_that_is_fast_wakes_early(world: World) -> None:
    woken: list[float] = []

    async def main() -> None:
        await asyncio.sleep(21)
        woken.extend((asyncio.get_running_loop().time(), world.now))

    world.start("fast", main, 1.05)
    world.run_until(30)

    assert woken == pytest.approx([21.0, 20.0])


def test_a_paused_process_finds_its_timers_late(world: World) -> None:
    seen: list[float] = []

    async def ticking() -> None:
        for _ in range(3):
            await asyncio.sleep(1)
            seen.append(world.now)

    process = world.start("p", ticking)
    world.timeline.call_at(1.5, process.pause)
    world.timeline.call_at(10, process.resume)
    world.run_until(20)

    assert seen == [1.0, 10.0, 11.0]


def test_a_killed_process_runs_no_finally_while_the_world_goes_on(world: World) -> None:
    seen: list[str] = []

    async def main() -> None:
        try:
            await asyncio.sleep(5)
        finally:
            seen.append("cleaned up")

    process = world.start("p", main)
    world.timeline.call_at(1, process.kill)
    world.run_until(100)
    assert seen == []
    assert process.state is ProcessState.KILLED

    world.close()
    assert seen == ["cleaned up"]


def test_a_process_that_is_killed_in_its_turn_does_nothing_more_in_it(world: World) -> None:
    seen: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(process.kill)
        loop.call_soon(seen.append, "asked for before")
        await asyncio.sleep(0)
        seen.append("went on")

    process = world.start("p", main)
    world.run_until(100)

    assert seen == []


def test_what_is_ready_at_one_instant_is_done_in_one_turn(world: World) -> None:

    async def main() -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        await asyncio.sleep(1)

    process = world.start("p", main)
    world.run_until(0.5)

    assert process.turns == 1


def test_an_answer_from_the_heap_wakes_the_one_who_waits(world: World) -> None:

    async def main() -> None:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[int] = loop.create_future()
        world.timeline.call_after(0.2, lambda: loop.call_soon_threadsafe(answer.set_result, 7))
        assert await asyncio.wait_for(answer, 1) == 7
        assert world.now == pytest.approx(0.2)

    world.run(main)


def test_what_ends_a_process_is_kept(world: World) -> None:

    async def main() -> None:
        raise ValueError("broken")

    process = world.start("p", main)
    world.run_until(1)

    assert process.state is ProcessState.ENDED
    assert isinstance(process.failure(), ValueError)


def test_processes_that_never_rest_are_reported(world: World) -> None:

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def again() -> None:
            loop.call_soon(again)

        again()
        await asyncio.Event().wait()

    world.start("spinning", main)
    with pytest.raises(ProcessesStuck, match="spinning"):
        world.run_until(1)


def test_tasks_of_a_group_are_cancelled_in_the_order_in_which_they_were_made(world: World) -> None:
    ended: list[int] = []

    async def waiting(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(number)

    async def main() -> None:
        async with asyncio.timeout(1), asyncio.TaskGroup() as group:
            for number in range(20):
                group.create_task(waiting(number))

    world.start("p", main)
    world.run_until(2)

    assert ended == [*range(20)]


def test_a_timer_that_is_cancelled_neither_runs_nor_makes_time_stop(world: World) -> None:
    seen: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        timer = loop.call_later(1, seen.append, "cancelled")
        loop.call_later(2, seen.append, "first")
        loop.call_at(2, seen.append, "second")
        timer.cancel()
        assert timer.cancelled()
        await asyncio.sleep(3)

    world.start("p", main)
    world.run_until(0.5)
    assert world.timeline.next_due() == 2
    world.run_until(5)

    assert seen == ["first", "second"]


def test_what_a_callback_raises_is_a_complaint_about_its_process(world: World) -> None:

    async def main() -> None:
        asyncio.get_running_loop().call_soon(int, "no number")
        await asyncio.sleep(1)

    process = world.start("p", main)
    world.run_until(2)

    assert isinstance(process.complaints[0]["exception"], ValueError)
    assert process.state is ProcessState.ENDED
