"""A watch of what a table gives begins anew with each choice, and says when all of it was listed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, cast

import pytest

from situate.kube.errors import Unreachable
from situate.kube.watch.reflector import Reflector
from situate.kube.watch.store import Store
from situate.kube.watch.stream import WatchScope
from situate.objects.kinds.unstructured import Unstructured
from situate.sharding.supervisor.controller.observe.objects_watch import RETRY_S, ObjectsWatch
from situate.testing.sharding.world.reports import REPORTS
from situate.testing.virtual_time.processes import World

pytestmark = pytest.mark.rule("sharding:K10")


class Slow:
    """A reflector whose listings are answered when the test says so."""

    name = "objects"

    def __init__(self) -> None:
        self.scope = WatchScope(REPORTS)
        self.store: Store[Unstructured] = Store("reports")
        self.answer = asyncio.Semaphore(0)
        self.away = 0
        self.listed: list[str] = []
        self.under_way = self.most = 0
        self.followed: list[str] = []

    async def run(self) -> None:
        self.followed.append(self.scope.shard_selector)
        if not self.store.synced:
            self.store.replace([])
        await asyncio.get_running_loop().create_future()

    async def relist(self) -> None:
        asked, self.under_way = self.scope.shard_selector, self.under_way + 1
        self.most = max(self.most, self.under_way)
        try:
            await self.answer.acquire()
        finally:
            self.under_way -= 1
        if self.away:
            self.away -= 1
            raise Unreachable("no answer", outcome_unknown=False)
        self.listed.append(asked)


async def settled() -> None:
    """Until nothing but the test can bring anything about."""
    for _ in range(20):
        await asyncio.sleep(0)


def virtually(story: Callable[[Slow, ObjectsWatch], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        slow = Slow()
        watch = ObjectsWatch(cast("Reflector[Unstructured]", slow))
        running = asyncio.create_task(watch.run())
        await settled()
        assert not slow.followed, "nothing is asked for before it is known what for"
        watch.select_shard("first")
        await watch.wait_listed()
        assert (slow.followed, slow.listed) == (["first"], []), "the watch begins with a listing"
        await story(slow, watch)
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    with World() as world:
        world.run(main, at_most_s=60.0)


def test_another_choice_counts_as_listed_when_it_was() -> None:
    async def story(slow: Slow, watch: ObjectsWatch) -> None:
        watch.select_shard("second")
        waiting = asyncio.create_task(watch.wait_listed())
        await settled()
        assert not waiting.done()
        assert slow.followed == ["first", "second"]
        slow.answer.release()
        await waiting
        assert slow.listed == ["second"]

    virtually(story)


def test_a_listing_of_an_earlier_choice_never_comes_after_one_of_a_later_one() -> None:
    async def story(slow: Slow, watch: ObjectsWatch) -> None:
        earlier = asyncio.create_task(watch.relist())
        await settled()
        watch.select_shard("second")
        await settled()
        slow.answer.release()
        await earlier
        assert slow.listed == ["first"]
        waiting = asyncio.create_task(watch.wait_listed())
        await settled()
        assert not waiting.done(), "that was not what is waited for"
        slow.answer.release()
        await waiting
        assert (slow.listed, slow.most) == (["first", "second"], 1)

    virtually(story)


def test_a_listing_that_fails_is_repeated() -> None:
    async def story(slow: Slow, watch: ObjectsWatch) -> None:
        slow.away = 2
        for _ in range(3):
            slow.answer.release()
        began = asyncio.get_running_loop().time()
        watch.select_shard("second")
        await watch.wait_listed()
        assert slow.listed == ["second"]
        assert asyncio.get_running_loop().time() - began == pytest.approx(2 * RETRY_S)

    virtually(story)
