from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest

from situate.vpod.controller.scale_cache import ScaleCache
from situate.vpod.model.vpod import Scale
from situate.vpod.scaling.scale_cache import ScaleCacheConfig


class Plain:
    """A scale subresource that counts."""

    def __init__(self) -> None:
        self.scale = Scale("ns", "set", 3, 2, "7")
        self.gets = self.updates = 0
        self.fails = False
        self.options: Mapping[str, str] | None = None

    def get_scale(self, name: str, options: Mapping[str, str] | None = None) -> Scale:
        self.gets += 1
        self.options = options
        if self.fails:
            raise ConnectionError
        return replace(self.scale, name=name)

    def update_scale(self, name: str, scale: Scale, options: Mapping[str, str] | None = None) -> Scale:
        self.updates += 1
        self.options = options
        if self.fails:
            raise ConnectionError
        self.scale = replace(scale, resource_version="8")
        return self.scale


class Slow(Plain):
    """The same, answered after a while."""

    async def get_scale(self, name: str, options: Mapping[str, str] | None = None) -> Scale:  # type: ignore[override]  # awaitable where the base is plain
        await asyncio.sleep(0)
        return super().get_scale(name, options)

    async def update_scale(  # type: ignore[override]  # awaitable where the base is plain
        self, name: str, scale: Scale, options: Mapping[str, str] | None = None
    ) -> Scale:
        await asyncio.sleep(0)
        return super().update_scale(name, scale, options)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.rule("vpod:V34")
def test_a_hit_has_only_the_numbers() -> None:
    client, clock = Plain(), Clock()
    cache = ScaleCache("ns", client, ScaleCacheConfig(10), clock=clock)
    assert cache.get_scale("set", {"x": "y"}) == client.scale
    assert client.options == {"x": "y"}
    assert cache.get_scale("set") == Scale("ns", "set", 3, 2)
    clock.now = 9.9
    assert cache.get_scale("set") == Scale("ns", "set", 3, 2)
    assert client.gets == 1
    clock.now = 10.0
    assert cache.get_scale("set") == client.scale
    assert client.gets == 2


@pytest.mark.rule("vpod:V33", "vpod:V34")
def test_writes_go_through_and_are_remembered() -> None:
    client = Plain()
    cache = ScaleCache("ns", client, clock=Clock())
    assert cache.update_scale("set", Scale("ns", "set", 5, 2)) == Scale("ns", "set", 5, 2, "8")
    assert cache.get_scale("set") == Scale("ns", "set", 5, 2)
    client.fails = True
    with pytest.raises(ConnectionError):
        cache.update_scale("set", Scale("ns", "set", 9))
    assert cache.get_scale("set") == Scale("ns", "set", 5, 2)
    assert client.gets == 0


@pytest.mark.rule("vpod:V35", "vpod:V36")
def test_a_cache_that_is_told_nothing_keeps_scales_for_five_minutes() -> None:
    client, clock = Plain(), Clock()
    cache = ScaleCache("ns", client, clock=clock)
    assert (cache.namespace, cache.config.refresh_period) == ("ns", 300)
    cache.get_scale("set")
    clock.now = 299.9
    cache.get_scale("set")
    assert client.gets == 1
    clock.now = 300.0
    cache.get_scale("set")
    assert client.gets == 2


@pytest.mark.rule("vpod:V34")
def test_failures_are_not_remembered_and_reset_forgets() -> None:
    client = Plain()
    cache = ScaleCache("ns", client, clock=Clock())
    client.fails = True
    with pytest.raises(ConnectionError):
        cache.get_scale("set")
    client.fails = False
    cache.get_scale("set")
    cache.reset()
    cache.get_scale("set")
    assert client.gets == 3


@pytest.mark.rule("vpod:V34")
def test_a_watch_refreshes_an_entry() -> None:
    client = Plain()
    cache = ScaleCache("ns", client, clock=Clock())
    cache.get_scale("set")
    cache.observe(Scale("ns", "set", 6, 6, "9"))
    assert cache.get_scale("set") == Scale("ns", "set", 6, 6)


@pytest.mark.rule("vpod:V36")
def test_periods_as_go_has_them() -> None:
    periods = [ScaleCacheConfig(seconds).refresh_period for seconds in (0, 1, -1e-9)]
    assert periods == [300, 1, -1e-9]
    assert ScaleCacheConfig.from_json({"refreshPeriod": 2_000_000_000}).refresh_period == 2
    assert ScaleCacheConfig.from_json({}).refresh_period == 300
    with pytest.raises(ValueError, match="refreshPeriod is '5m', allowed: an integer of nanoseconds"):
        ScaleCacheConfig.from_json({"refreshPeriod": "5m"})


@pytest.mark.rule("vpod:V34")
async def test_readers_that_miss_together_share_one_read() -> None:
    client = Slow()
    cache = ScaleCache("ns", client, clock=Clock())
    answers = [cache.get_scale("set") for _ in range(5)]
    first, *others = [asyncio.ensure_future(answer) for answer in answers if not isinstance(answer, Scale)]
    first.cancel()
    assert await asyncio.gather(*others) == [client.scale] * 4
    assert client.gets == 1
    assert isinstance(cache.get_scale("set"), Scale)


async def test_a_shared_failure_reaches_everybody_and_the_next_reader_tries_again() -> None:
    client = Slow()
    client.fails = True
    cache = ScaleCache("ns", client, clock=Clock())
    answers = [cache.get_scale("set") for _ in range(2)]
    found = await asyncio.gather(*(a for a in answers if not isinstance(a, Scale)), return_exceptions=True)
    assert [type(each) for each in found] == [ConnectionError] * 2
    client.fails = False
    again = cache.get_scale("set")
    assert not isinstance(again, Scale)
    assert await again == client.scale


async def test_what_was_being_read_when_everything_was_forgotten_is_not_remembered() -> None:
    client = Slow()
    cache = ScaleCache("ns", client, clock=Clock())
    answer = cache.get_scale("set")
    assert not isinstance(answer, Scale)
    cache.reset()
    await answer
    second = cache.get_scale("set")
    assert not isinstance(second, Scale)
    await second
    assert client.gets == 2
