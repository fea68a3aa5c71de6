from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections.abc import Callable, Coroutine, Iterator
from random import Random
from typing import Any

import pytest

from situate.cluster.apiserver.api import ApiServer
from situate.cluster.storage.effects import Identity
from situate.cluster.storage.names import NameGenerator
from situate.kube.errors import Unreachable
from situate.objects.messages import Request
from situate.testing.virtual_time.network import NO_FAULTS, Network, NetworkFaults, Wire
from situate.testing.virtual_time.processes import World
from situate.testing.vpod.history import SetSource, VpodHistorySettings
from situate.testing.vpod.invariants.rules import VpodWatchdog
from situate.testing.vpod.run import perform
from situate.testing.vpod.world.world import VPodWorld

PATH = "/api/v1/namespaces/default/configmaps"
JSON = {"content-type": "application/json"}
EPOCH = 1_800_000_000.0


class Place:
    """A server, a network and one wire."""

    def __init__(self) -> None:
        self.world = World()
        self.server = ApiServer(NameGenerator(Random(1)), now=EPOCH)
        self.network = Network(self.server, self.world.timeline, Random(2), epoch=EPOCH)
        self.wire: Wire = self.network.connect(Identity("someone", ("system:masters",)))

    def run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.world.run(main)

    def names(self) -> list[str]:
        return [key.rpartition("/")[2] for key in self.server.store.table("configmaps").keys("default")]


@pytest.fixture
def place() -> Iterator[Place]:
    made = Place()
    yield made
    made.wire.disconnect()
    made.world.close()


def create(name: str) -> Request:
    return Request("POST", PATH, (), JSON, json.dumps({"metadata": {"name": name}}).encode())


def watch(*, initial: bool = False) -> Request:
    parameters = [("watch", "true")]
    if initial:
        parameters += [("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")]
        parameters += [("allowWatchBookmarks", "true")]
    return Request("GET", PATH, tuple(parameters), {"accept": "application/json"})


async def read(place: Place, request: Request, until: int) -> list[dict[str, Any]]:
    """The first events of a watch; empty lines are no events."""
    events: list[dict[str, Any]] = []
    async with place.wire.stream(request) as stream:
        async for pieces in stream.batches():
            events += [json.loads(line) for line in b"".join(pieces).splitlines() if line]
            if len(events) >= until:
                break
    return events


def named(events: list[dict[str, Any]]) -> list[str]:
    return [each["object"]["metadata"]["name"] for each in events if each["type"] != "BOOKMARK"]


def test_a_request_is_answered_after_its_way_there_and_back(place: Place) -> None:
    async def main() -> None:
        place.network.faults = NetworkFaults(latency_s=(1.0, 1.0))
        answer = await place.wire.send(create("a"))
        assert answer.status == 201
        assert place.world.now == 2.0

    place.run(main)


def test_a_lost_request_changes_nothing_and_is_waited_for(place: Place) -> None:
    async def main() -> None:
        place.network.faults = NetworkFaults(lose_request=1.0)
        with pytest.raises(Unreachable) as caught:
            await place.wire.send(create("a"), timeout_s=7.0)
        assert caught.value.outcome_unknown
        assert place.world.now == 7.0
        assert place.names() == []

    place.run(main)


def test_a_lost_answer_was_carried_out(place: Place) -> None:
    async def main() -> None:
        place.network.faults = NetworkFaults(lose_answer=1.0)
        with pytest.raises(Unreachable) as caught:
            await place.wire.send(create("a"), timeout_s=7.0)
        assert caught.value.outcome_unknown
        assert place.names() == ["a"]

    place.run(main)


def test_one_path_can_be_refused(place: Place) -> None:
    async def main() -> None:
        place.network.failing_path = PATH
        assert (await place.wire.send(create("a"))).status == 503
        place.network.failing_path = ""
        assert (await place.wire.send(create("a"))).status == 201

    place.run(main)


def test_late_events_keep_their_order(place: Place) -> None:
    async def main() -> None:
        reading = asyncio.ensure_future(read(place, watch(), 3))
        await asyncio.sleep(1.0)
        for name, weather in (
            ("a", NetworkFaults(event_delay_s=30.0)),
            ("b", NO_FAULTS),
            ("c", NetworkFaults(event_delay_s=5.0)),
        ):
            place.network.faults = weather
            await place.wire.send(create(name))
        assert named(await reading) == ["a", "b", "c"]
        assert 30.0 < place.world.now < 33.0

    place.run(main)


def test_initial_events_arrive_whole_as_a_listing_would(place: Place) -> None:
    async def main() -> None:
        for name in "abc":
            await place.wire.send(create(name))
        place.network.faults = NetworkFaults(lose_event=1.0)
        events = await read(place, watch(initial=True), 4)
        assert named(events) == ["a", "b", "c"]
        assert events[-1]["type"] == "BOOKMARK"
        assert not place.network.happened["event lost"]

    place.run(main)


def test_events_that_come_twice_are_all_there(place: Place) -> None:
    async def main() -> None:
        reading = asyncio.ensure_future(read(place, watch(), 8))
        await asyncio.sleep(1.0)
        place.network.faults = NetworkFaults(repeat_event=1.0)
        for name in "abcd":
            await place.wire.send(create(name))
        assert named(await reading) == [*"aabbccdd"]

    place.run(main)


def test_an_event_lets_the_next_one_go_first(place: Place) -> None:
    async def main() -> None:
        reading = asyncio.ensure_future(read(place, watch(), 4))
        await asyncio.sleep(1.0)
        place.network.faults = NetworkFaults(swap_events=1.0)
        for name in "abcd":
            await place.wire.send(create(name))
            await asyncio.sleep(1.0)
        assert named(await reading) == [*"badc"]
        assert place.network.happened["events swapped"] == 2

    place.run(main)


def test_what_has_left_before_the_plug_is_pulled_is_carried_out(place: Place) -> None:
    async def main() -> None:
        place.network.faults = NetworkFaults(latency_s=(1.0, 1.0))
        sending = asyncio.ensure_future(place.wire.send(create("a"), timeout_s=9.0))
        await asyncio.sleep(0.5)
        place.wire.disconnect()
        with pytest.raises(Unreachable):
            await sending
        assert place.names() == ["a"]
        with pytest.raises(Unreachable) as caught:
            await place.wire.send(create("b"))
        assert not caught.value.outcome_unknown
        assert place.names() == ["a"]

    place.run(main)


def test_who_is_killed_when_a_write_would_leave_has_sent_nothing(place: Place) -> None:
    async def main() -> None:
        place.network.send_listeners.append(lambda _, __: place.wire.disconnect())
        with pytest.raises(Unreachable):
            await place.wire.send(create("a"))
        assert place.names() == []
        assert place.wire.sent_writes == []

    place.run(main)


def test_watches_end_when_they_are_cut(place: Place) -> None:
    async def main() -> None:
        reading = asyncio.ensure_future(read(place, watch(), 99))
        await asyncio.sleep(1.0)
        place.network.cut_watches()
        assert await reading == []
        assert place.network.streams == []

    place.run(main)


def test_a_stream_is_no_answer(place: Place) -> None:
    async def main() -> None:
        with pytest.raises(TypeError, match="use stream"):
            await place.wire.send(watch())

    place.run(main)


def test_a_world_that_is_closed_in_the_middle_leaves_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    """Pytest fails a test for an exception that nobody could catch, such as a coroutine that ignores its end."""
    world = VPodWorld(1, VpodHistorySettings(workers=True))
    watchdog = VpodWatchdog(world)
    for source in range(6):
        perform(world, watchdog, SetSource(0.0, source, 5))
    world.let_pass(1.0)
    leader = world.leader()
    assert leader is not None
    world.network.faults = NetworkFaults(latency_s=(2.0, 2.0))
    for source in range(6):
        perform(world, watchdog, SetSource(0.0, source, 9))
    world.let_pass(3.0)  # writes are under way
    world.end(leader)
    world.let_pass(0.5)
    for member in world.members:
        member.process.pause()
    with caplog.at_level(logging.WARNING):
        world.close()
        del world, watchdog, leader
        gc.collect()
    assert [record.message for record in caplog.records if record.name == "asyncio"] == []


def test_a_late_write_is_carried_out_although_nobody_waits_for_it(place: Place) -> None:
    place.network.faults = NetworkFaults(late_write_s=60.0)

    async def main() -> None:
        with pytest.raises(Unreachable, match="no answer within 1 s"):
            await place.wire.send(create("late"), timeout_s=1.0)

    place.run(main)
    assert place.names() == []
    place.world.run_until(70.0)
    assert place.names() == ["late"]


def test_who_is_mute_reaches_nobody_and_who_is_deaf_hears_nothing_until_it_hears_again(place: Place) -> None:
    heard: list[str] = []

    async def listen() -> None:
        heard.extend(named(await read(place, watch(initial=True), 3)))

    place.world.start("listening", listen)
    place.world.run_until(1.0)
    other = place.network.connect(Identity("other", ("system:masters",)))

    async def main() -> None:
        other.mute = True
        with pytest.raises(Unreachable):
            await other.send(create("unheard"), timeout_s=1.0)
        other.mute, place.wire.deaf = False, True
        await other.send(create("a"))
        await other.send(create("b"))
        with pytest.raises(Unreachable):
            await place.wire.send(create("c"), timeout_s=1.0)

    place.run(main)
    other.disconnect()
    assert (place.names(), heard) == (["a", "b", "c"], [])
    place.wire.deliver_pending()
    place.world.run_until(place.world.now + 1.0)
    assert heard == ["a", "b"], "the third is the bookmark at the end of the initial events"
