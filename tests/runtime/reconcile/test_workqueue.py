from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from situate.kube.retry.backoff import Backoff
from situate.runtime.reconcile.workqueue import ShutDown, WorkQueue
from situate.testing.virtual_time.processes import World


def virtually(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with World() as world:
        world.run(main)


def queue() -> WorkQueue[str]:
    return WorkQueue(rng=random.Random(1), backoff=Backoff(initial_s=1.0, cap_s=60.0, jitter=0.0))


def test_a_key_that_waits_is_one_key() -> None:
    async def main() -> None:
        keys = queue()
        for key in ("a", "b", "a", "a"):
            keys.add(key)
        assert [await keys.get(), await keys.get()] == ["a", "b"]
        assert keys.statistics().queued == 0

    virtually(main)


def test_a_key_added_while_it_is_worked_on_comes_again_afterwards() -> None:
    async def main() -> None:
        keys = queue()
        keys.add("a")
        assert await keys.get() == "a"
        keys.add("a")
        keys.add("a")
        assert keys.statistics().queued == 0, "not in two hands at once"
        keys.done("a")
        assert keys.statistics().queued == 1
        assert await keys.get() == "a"
        keys.done("a")
        assert keys.statistics().queued == 0

    virtually(main)


def test_priority_goes_first_then_arrival_and_a_waiting_key_can_be_lifted() -> None:
    async def main() -> None:
        keys = queue()
        for key, priority in (("a", 0), ("b", 0), ("c", 5), ("d", 0), ("d", 9), ("c", 1)):
            keys.add(key, priority=priority)
        assert [await keys.get() for _ in range(4)] == ["d", "c", "a", "b"]

    virtually(main)


def test_of_two_delays_the_earlier_holds() -> None:
    async def main() -> None:
        keys, loop = queue(), asyncio.get_running_loop()
        keys.add_after("a", 10)
        keys.add_after("a", 5)
        keys.add_after("a", 7)
        await keys.get()
        assert loop.time() == 5
        keys.done("a")
        await asyncio.sleep(20)
        assert keys.statistics().queued == 0

    virtually(main)


def test_back_off_grows_by_key_until_it_is_forgotten() -> None:
    async def main() -> None:
        keys = queue()
        assert [keys.retry("a") for _ in range(4)] == [1, 2, 4, 8]
        assert keys.retry("b") == 1
        keys.forget("a")
        assert keys.retry("a") == 1
        for _ in range(3000):
            keys.retry("a")
        assert keys.retry("a") == 60
        assert (keys.failures("a"), keys.failures("c")) == (3002, 0)

    virtually(main)


def test_shutting_down_wakes_the_workers_and_drops_what_waits() -> None:
    async def main() -> None:
        keys = queue()
        keys.add("in flight")
        await keys.get()
        keys.add_after("later", 1)
        waiting = [asyncio.create_task(keys.get()) for _ in range(2)]
        await asyncio.sleep(0.5)
        keys.shut_down()
        keys.shut_down()
        for task in waiting:
            with pytest.raises(ShutDown):
                await task
        keys.add("too late")
        keys.retry("in flight")
        idle = asyncio.create_task(keys.wait_idle())
        await asyncio.sleep(5)
        assert not idle.done()
        keys.done("in flight")
        await idle
        assert keys.statistics().queued == keys.statistics().delayed == 0

    virtually(main)


def test_a_cancelled_worker_passes_its_wake_up_on() -> None:
    async def main() -> None:
        keys = queue()
        first, second = asyncio.create_task(keys.get()), asyncio.create_task(keys.get())
        await asyncio.sleep(0)
        keys.add("a")
        first.cancel()
        assert await asyncio.wait_for(second, 1) == "a"

    virtually(main)


def test_statistics_tell_waits() -> None:
    async def main() -> None:
        keys = queue()
        keys.add("a")
        await asyncio.sleep(3)
        assert keys.statistics().oldest_wait_s == 3
        await keys.get()
        statistics = keys.statistics()
        assert (statistics.waited_total_s, statistics.handed_out_total, statistics.processing) == (3, 1, 1)

    virtually(main)


STEP = st.tuples(
    st.sampled_from(["add", "add", "lift", "later", "retry", "cancel", "rest"]), st.integers(0, 4), st.integers(0, 3)
)


@given(st.lists(STEP, max_size=60), st.integers(0, 2**16), st.integers(1, 4))
def test_no_key_is_lost_or_in_two_hands(steps: list[tuple[str, int, int]], seed: int, workers: int) -> None:
    async def main() -> None:
        rng, keys = random.Random(seed), WorkQueue[int](rng=random.Random(seed))
        owed: Counter[int] = Counter()  # keys asked for since they were last begun
        asked, begun, held, delayed = 0, 0, set[int](), set[int]()

        async def work() -> None:
            nonlocal begun
            while True:
                key = await keys.get()
                assert key not in held
                held.add(key)
                assert owed.pop(key, 0), "begun although nobody asked since the last time"
                begun += 1
                try:
                    for _ in range(rng.randrange(3)):
                        await asyncio.sleep(rng.choice((0, 1)))
                finally:
                    held.remove(key)
                    keys.done(key)

        def due(key: int) -> None:
            delayed.remove(key)
            owed[key] += 1

        crew = [asyncio.create_task(work()) for _ in range(workers)]
        for what, key, amount in steps:
            asked += 1
            match what:
                case "add" | "lift":
                    owed[key] += 1
                    keys.add(key, priority=amount if what == "lift" else 0)
                case "later":
                    asked += 1
                    owed[key] += 1
                    keys.add_after(key, 0)
                case "retry":
                    delay_s = keys.retry(key)
                    if key not in delayed:  # the earlier delay holds, and back-off only grows here
                        delayed.add(key)
                        asyncio.get_running_loop().call_later(delay_s - 1e-6, due, key)
                case "cancel":
                    victim = crew.pop(amount % len(crew))
                    victim.cancel()
                    crew.append(asyncio.create_task(work()))
                case _:
                    await asyncio.sleep(amount)
        await asyncio.sleep(2000)
        await asyncio.wait_for(keys.wait_idle(), 1)
        assert not +owed, "asked for and never begun"
        assert begun <= asked
        assert not any(task.done() for task in crew), "a worker met a broken promise"
        for task in crew:
            task.cancel()

    virtually(main)


def test_a_delay_of_next_to_nothing_is_a_delay_on_any_loop() -> None:
    """uvloop gives no timer for what is due within half a millisecond."""

    async def main() -> None:
        keys = queue()
        for delay_s in (0.0003, 0.0002, 0.0001, 0.0004):
            keys.add_after("a", delay_s)
        assert keys.statistics().delayed == 1
        async with asyncio.timeout(30):
            assert await keys.get() == "a"
        assert keys.statistics().delayed == 0

    uvloop.run(main())
