from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.kube.client import Client
from situate.kube.watch.reflector import Reflector, WatchOutcome
from situate.kube.watch.store import Store
from situate.objects.decoding.codec import decode
from situate.objects.kinds.pods import Pod
from situate.objects.messages import Request
from situate.objects.resources import PODS
from situate.testing.virtual_time.processes import World
from tests.kube.hostile_server import Fault, HostileServer, settle

PATH = "/api/v1/namespaces/default/pods"


def virtually(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with World() as world:
        world.run(main, at_most_s=1e7)


class Followed:
    """A server, a store that follows it, and what happened."""

    def __init__(self, server: HostileServer, reflector: Reflector[Pod]) -> None:
        self.server = server
        self.reflector = reflector
        self.store = reflector.store
        self.told: list[tuple[str | None, str | None]] = []
        self.outcomes: list[WatchOutcome] = []
        self.store.on_change(
            lambda old, new: self.told.append((old.metadata.name if old else None, new.metadata.name if new else None))
        )

    def equal(self) -> bool:
        want = {
            (each["metadata"]["namespace"], each["metadata"]["name"]): each["metadata"]["resourceVersion"]
            for each in self.server.objects.values()
        }
        have = {
            (each.metadata.namespace, each.metadata.name): each.metadata.resource_version for each in self.store.list()
        }
        return have == want

    def watches(self) -> list[Request]:
        return [each for each in self.server.requests if each.parameter("watch")]

    def lists(self) -> list[Request]:
        return [each for each in self.server.requests if not each.parameter("watch")]


@asynccontextmanager
async def following(server: HostileServer, **scope: Any) -> AsyncIterator[Followed]:
    outcomes: list[WatchOutcome] = []
    reflector = Reflector(
        Client(server), PODS, Store[Pod]("pods"), rng=random.Random(1), observe=outcomes.append, **scope
    )
    followed = Followed(server, reflector)
    followed.outcomes = outcomes
    task = asyncio.create_task(reflector.run())
    try:
        yield followed
        assert not task.done(), "no answer of a server ends the reflector"
    finally:
        task.cancel()
        await asyncio.wait([task])


def serving(*names: str) -> HostileServer:
    server = HostileServer()
    for name in names:
        server.put(f"{PATH}/{name}")
    return server


def test_a_watch_list_needs_one_request() -> None:
    async def main() -> None:
        async with following(serving("a", "b")) as it:
            await it.store.wait_synced()
            it.server.put(f"{PATH}/c")
            it.server.put(f"{PATH}/a")
            it.server.remove(f"{PATH}/b")
            await settle(it.equal, 5)
            assert it.told == [(None, "a"), (None, "b"), (None, "c"), ("a", "a"), ("b", None)]
            (only,) = it.server.requests
            assert only.parameter("sendInitialEvents") == "true"
            assert only.parameter("resourceVersionMatch") == "NotOlderThan"
            assert it.reflector.not_ready() is None

    virtually(main)


def test_nothing_counts_as_seen_before_the_end_of_the_initial_events() -> None:
    async def main() -> None:
        server = serving("a")
        server.ignores_initial_events = True
        async with following(server) as it:
            await asyncio.sleep(20)
            assert not it.store.synced
            assert it.told == []
            assert it.reflector.not_ready() == "pods is not listed yet"
            await asyncio.wait_for(it.store.wait_synced(), 60)
            assert it.lists(), "a server that never ends the initial events is listed instead"
            assert it.equal()

    virtually(main)


def test_lists_in_pages_where_watch_list_is_refused() -> None:
    async def main() -> None:
        server = serving(*(f"p{n}" for n in range(1200)))
        server.watch_list = False
        async with following(server) as it:
            await asyncio.wait_for(it.store.wait_synced(), 1)
            assert it.equal()
            assert [each.parameter("limit") for each in it.lists()] == ["500"] * 3
            server.put(f"{PATH}/late")
            await settle(it.equal, 5)
            server.version += 1
            server.compact()
            server.hang_up()
            await settle(lambda: len(it.lists()) == 6)
            assert all(not each.parameter("sendInitialEvents") for each in it.watches()[1:]), "asked for only once"

    virtually(main)


@pytest.mark.parametrize("as_event", [True, False], ids=["ERROR event", "HTTP 410"])
def test_410_lists_again_and_tells_deletions(as_event: bool) -> None:
    async def main() -> None:
        async with following(serving("a", "b", "c")) as it:
            await it.store.wait_synced()
            it.told.clear()
            if not as_event:
                it.server.judge = lambda request: (
                    Fault(410, "Expired") if request.parameter("resourceVersion") else None
                )
            it.server.hang_up()
            it.server.remove(f"{PATH}/b")
            it.server.put(f"{PATH}/c")
            it.server.compact()
            await settle(it.equal, 5)
            assert it.told == [("c", "c"), ("b", None)], "what is unchanged is not told again"
            assert WatchOutcome.EXPIRED in it.outcomes

    virtually(main)


def test_goes_on_from_the_last_version_and_bookmarks_move_it() -> None:
    async def main() -> None:
        async with following(serving("a")) as it:
            await it.store.wait_synced()
            it.server.version = 500  # other resources have changed
            await asyncio.sleep(100)
            it.server.hang_up()
            await settle(lambda: len(it.watches()) == 2, 5)
            assert it.watches()[1].parameter("resourceVersion") == "500"
            assert it.reflector.counts.listings == 1

    virtually(main)


def test_a_dead_connection_is_noticed() -> None:
    async def main() -> None:
        async with following(serving("a")) as it:
            await it.store.wait_synced()
            it.server.bookmark_every_s = 1e9
            for stream in it.server.streams:
                stream.live = False
            it.server.put(f"{PATH}/b")
            await settle(it.equal, 200)
            assert it.outcomes == [WatchOutcome.SILENT]

    virtually(main)


@pytest.mark.parametrize(
    ("status", "reason"), [(403, "Forbidden"), (404, "NotFound"), (401, "Unauthorized")], ids=["403", "404", "401"]
)
def test_a_refusal_is_told_in_a_sentence_and_asked_slowly(status: int, reason: str) -> None:
    async def main() -> None:
        server = serving("a")
        server.judge = lambda _: Fault(status, reason, "no")
        async with following(server) as it:
            await asyncio.sleep(600)
            assert 8 <= len(server.requests) <= 30
            said = it.reflector.not_ready()
            assert said is not None
            assert said.startswith(f"cannot watch pods: {status} {reason}: no; ")
            server.judge = lambda _: None
            await asyncio.wait_for(it.store.wait_synced(), 100)
            assert it.reflector.not_ready() is None
            assert it.reflector.problem is None

    virtually(main)


@pytest.mark.parametrize("status", [403, 404, 401])
def test_a_server_that_starts_may_refuse_for_some_seconds_what_it_allowed_before(status: int) -> None:
    async def main() -> None:
        async with following(serving("a")) as it:
            await it.store.wait_synced()
            it.server.judge = lambda _: Fault(status, "Starting", "no")
            it.server.hang_up()
            await asyncio.sleep(4)
            it.server.judge = lambda _: None
            it.server.put(f"{PATH}/b")
            await settle(it.equal, 6.5)
            it.server.judge = lambda _: Fault(status, "Forgotten", "no")
            it.server.hang_up()
            asked = len(it.server.requests)
            await asyncio.sleep(600)
            assert 8 <= len(it.server.requests) - asked <= 30, "one that goes on is asked slowly"

    virtually(main)


def test_retry_after_is_obeyed() -> None:
    async def main() -> None:
        server = serving("a")
        server.judge = lambda _: Fault(503, "ServiceUnavailable", "starting", {"retry-after": "50"})
        async with following(server):
            await asyncio.sleep(49)
            assert len(server.requests) == 1
            await asyncio.sleep(49)
            assert len(server.requests) == 2

    virtually(main)


def test_waits_grow_and_are_bounded_while_nobody_answers() -> None:
    async def main() -> None:
        server = serving("a")
        server.judge = lambda _: Fault(500, "InternalError")
        async with following(server):
            times: list[float] = []
            loop = asyncio.get_running_loop()
            for _ in range(40_000):
                if len(server.requests) > len(times):
                    times.append(loop.time())
                await asyncio.sleep(0.05)
            gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
            assert gaps[0] < 2
            assert all(29.9 <= gap <= 60.1 for gap in gaps[8:])
            assert len({round(gap) for gap in gaps[8:]}) > 3, "spread by jitter"

    virtually(main)


@pytest.mark.parametrize("how", ["ends at once", "expires at once", "refuses the stream"])
def test_a_server_that_ends_every_watch_is_not_stormed(how: str) -> None:
    async def main() -> None:
        server = serving("a")
        if how == "refuses the stream":
            server.judge = lambda request: Fault(500, "InternalError") if request.parameter("watch") else None
        async with following(server) as it:
            if how != "refuses the stream":
                await it.store.wait_synced()

            def judge(request: Request) -> Fault | None:
                if how == "expires at once" and request.parameter("resourceVersion"):
                    return Fault(410, "Expired")
                if how == "ends at once":
                    asyncio.get_running_loop().call_soon(lambda: asyncio.get_running_loop().call_soon(server.hang_up))
                return None

            if how != "refuses the stream":
                server.judge = judge
            server.hang_up()
            await asyncio.sleep(600)
            assert len(server.requests) < 100

    virtually(main)


def test_an_unreadable_object_is_named_and_does_not_stop_the_stream() -> None:
    async def main() -> None:
        server = serving("a")
        server.put(f"{PATH}/bad", {"spec": {"priority": "high"}})
        async with following(server) as it:
            await it.store.wait_synced()
            assert [each.metadata.name for each in it.store.list()] == ["a"]
            assert list(it.reflector.malformed) == ["default/bad"]
            assert it.reflector.malformed["default/bad"].path == "spec.priority"
            server.put(f"{PATH}/bad", {"spec": {"priority": 7}})
            server.put(f"{PATH}/b")
            await settle(it.equal, 5)
            assert it.reflector.malformed == {}
            server.put(f"{PATH}/bad", {"spec": {"priority": []}})
            await settle(lambda: bool(it.reflector.malformed), 5)
            assert it.store.get("bad", "default") is not None, "the last readable state stays"
            server.version += 1
            server.hang_up()
            server.compact()
            await settle(lambda: it.reflector.counts.listings == 2)
            assert it.store.get("bad", "default") is not None
            server.remove(f"{PATH}/bad")
            await settle(it.equal, 5)
            assert it.reflector.malformed == {}

    virtually(main)


@pytest.mark.parametrize(
    "line",
    [
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b'{"type":"ADDED"}',
        b'{"type":"HELLO","object":{}}',
        b'{"type":"ADDED","object":{"metadata":3}}',
        b'{"type":"BOOKMARK","object":7}',
        b'{"type":"ERROR","object":7}',
    ],
)
def test_no_line_stops_the_stream(line: bytes) -> None:
    async def main() -> None:
        async with following(serving("a")) as it:
            await it.store.wait_synced()
            it.server.say(line)
            it.server.put(f"{PATH}/b")
            await settle(it.equal, 30)
            assert it.reflector.counts.malformed or WatchOutcome.MALFORMED in it.outcomes

    virtually(main)


def test_events_that_arrive_together_are_read_in_their_order_up_to_an_error() -> None:
    async def main() -> None:
        async with following(serving("a")) as it:
            await it.store.wait_synced()
            lines: list[bytes] = []

            def keep(new: list[bytes]) -> list[bytes]:
                lines.extend(new)
                return []

            it.server.mangle = keep
            it.server.put(f"{PATH}/a")
            it.server.put(f"{PATH}/bad", {"spec": {"priority": "high"}})
            it.server.remove(f"{PATH}/a")
            it.server.put(f"{PATH}/b")
            version = str(it.server.version)
            it.server.say(b"\n".join([lines[0], b"{", *lines[1:]]))
            await settle(lambda: it.store.resource_version == version, 5)
            assert it.told[1:] == [("a", "a"), ("a", None), (None, "b")]
            assert it.reflector.malformed["default/bad"].path == "spec.priority"
            assert it.reflector.counts.malformed == 2
            lines.clear()
            it.server.remove(f"{PATH}/bad")
            it.server.put(f"{PATH}/c")
            it.server.put(f"{PATH}/b")
            gone = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}'
            it.server.say(b"\n".join([*lines[:2], gone, lines[2]]))
            await settle(lambda: bool(it.outcomes), 5)
            assert it.outcomes == [WatchOutcome.EXPIRED]
            assert it.told[4:] == [(None, "c")], "what came after the error is listed"
            await settle(it.equal, 30)

    virtually(main)


def test_versions_never_go_back() -> None:
    async def main() -> None:
        async with following(serving("a", "b")) as it:
            await it.store.wait_synced()
            old = next(event for event in it.server.log if event[3]["metadata"]["name"] == "a")[3]
            it.server.put(f"{PATH}/a")
            it.server.remove(f"{PATH}/b")
            await settle(it.equal, 5)
            version = it.store.resource_version
            for kind, name in (("ADDED", "a"), ("MODIFIED", "b"), ("DELETED", "a")):
                stale = old | {"metadata": old["metadata"] | {"name": name}}
                it.server.say(b'{"type":"%s","object":%s}' % (kind.encode(), str(stale).replace("'", '"').encode()))
            await asyncio.sleep(1)
            assert it.equal()
            assert it.store.resource_version == version
            assert it.reflector.counts.stale == 3

    virtually(main)


def test_a_lagging_replica_is_not_believed_at_once_and_a_restored_backup_is_in_the_end() -> None:
    async def main() -> None:
        async with following(serving("a", "b")) as it:
            await it.store.wait_synced()
            it.server.remove(f"{PATH}/b")
            await settle(it.equal, 5)
            it.server.version = 7
            it.server.objects.clear()
            it.server.put(f"{PATH}/restored")
            it.server.oldest = 10**9
            it.server.hang_up()
            await asyncio.sleep(2)
            assert [each.metadata.name for each in it.store.list()] == ["a"]
            await settle(it.equal, 300)

    virtually(main)


def test_a_listing_beside_the_watch_repairs_what_was_lost() -> None:
    async def main() -> None:
        async with following(serving("a", "b")) as it:
            await it.store.wait_synced()
            it.server.mangle = lambda _: []
            it.server.put(f"{PATH}/c")
            it.server.remove(f"{PATH}/a")
            it.server.mangle = lambda lines: lines
            it.server.put(f"{PATH}/d")
            await asyncio.sleep(5)
            assert not it.equal()
            await it.reflector.relist()
            assert it.equal()

    virtually(main)


def test_a_listing_that_is_overtaken_undoes_nothing_that_was_told_meanwhile() -> None:
    async def main() -> None:
        async with following(serving("a", "b", "c", "lost")) as it:
            await it.store.wait_synced()
            it.server.mangle = lambda _: []
            it.server.remove(f"{PATH}/lost")
            it.server.mangle = lambda lines: lines
            it.server.judge = lambda request: None if request.parameter("watch") else Fault(answer_delay_s=3)
            listing = asyncio.ensure_future(it.reflector.relist())
            await asyncio.sleep(1)
            it.server.put(f"{PATH}/a")
            it.server.remove(f"{PATH}/b")
            await asyncio.sleep(1)
            it.server.mangle = lambda _: []
            answer = it.server.put(f"{PATH}/c")
            it.reflector.learn(decode(PODS, json.dumps(answer).encode()))
            answer = it.server.put(f"{PATH}/d")
            it.reflector.learn(decode(PODS, json.dumps(answer).encode()))
            version = it.store.resource_version
            await listing
            assert it.equal()
            assert it.store.resource_version == version, "the watch goes on from where it is"

    virtually(main)


def test_of_two_listings_the_later_one_counts() -> None:
    async def main() -> None:
        async with following(serving("a", "b")) as it:
            await it.store.wait_synced()
            it.server.mangle = lambda _: []
            it.server.judge = lambda _: Fault(answer_delay_s=3)
            early = asyncio.ensure_future(it.reflector.relist())
            await asyncio.sleep(1)
            it.server.remove(f"{PATH}/b")
            it.server.judge = lambda _: None
            await it.reflector.relist()
            await early
            assert it.equal()

    virtually(main)


def test_what_a_write_answered_is_known_at_once_and_no_older_event_undoes_it() -> None:
    async def main() -> None:
        async with following(serving("a")) as it:
            await it.store.wait_synced()
            it.server.mangle = lambda _: []  # the watch lags behind
            it.server.put(f"{PATH}/a")
            answer = it.server.put(f"{PATH}/a", {"spec": {"priority": 7}})
            version = it.store.resource_version
            it.reflector.learn(decode(PODS, json.dumps(answer).encode()))
            it.reflector.learn(decode(PODS, json.dumps(answer).encode()))
            assert it.equal()
            assert it.told[1:] == [("a", "a")]
            assert it.store.resource_version == version, "others may have written in between: the watch tells"
            it.server.mangle = lambda lines: lines
            it.server.hang_up()
            await asyncio.sleep(5)
            assert it.equal()
            assert it.reflector.counts.stale == 2

    virtually(main)


STEP = st.one_of(
    st.tuples(st.sampled_from(["put", "put", "put", "remove"]), st.integers(0, 5)),
    st.tuples(st.sampled_from(["hang up", "break", "compact", "silence", "500", "410", "rest"]), st.integers(0, 5)),
    st.tuples(st.sampled_from(["repeat", "shuffle", "plain", "chunk", "unreadable"]), st.integers(0, 5)),
)


@settings(max_examples=60)
@given(st.lists(STEP, max_size=30), st.booleans(), st.integers(0, 999))
def test_the_store_ends_equal_to_the_server(steps: list[tuple[str, int]], watch_list: bool, seed: int) -> None:
    rng = random.Random(seed)

    async def main() -> None:
        server = serving("a")
        server.watch_list = watch_list
        server.bookmark_every_s = rng.choice((20.0, 60.0))
        versions: list[int] = []
        async with following(server) as it:
            it.store.on_change(lambda _, __: versions.append(int(it.store.resource_version or 0)))
            for what, number in steps:
                path = f"{PATH}/{number}"
                match what:
                    case "put":
                        server.put(path)
                    case "unreadable":
                        server.put(path, {"spec": {"priority": "high"}})
                    case "remove" if path in server.objects:
                        server.remove(path)
                    case "hang up":
                        server.hang_up()
                    case "break":
                        server.break_streams()
                    case "compact":
                        server.compact()
                    case "silence":
                        for stream in server.streams:
                            stream.live = False
                    case "500" | "410":
                        code, left = int(what), [number]

                        def judge(_: Request, code: int = code, left: list[int] = left) -> Fault | None:
                            left[0] -= 1
                            return Fault(code, "Expired" if code == 410 else "InternalError") if left[0] >= 0 else None

                        server.judge = judge
                    case "repeat":
                        server.mangle = lambda lines: [line for line in lines for _ in range(2)]
                    case "shuffle":
                        server.mangle = lambda lines: rng.sample(lines, len(lines))
                    case "plain":
                        server.mangle = lambda lines: lines
                    case "chunk":
                        server.chunk = 1 + number * 7
                    case "rest":
                        await asyncio.sleep(number * 3)
            for path in list(server.objects):
                server.put(path, {"spec": {"priority": 1}})
            await settle(it.equal, 4000)
            await asyncio.sleep(2000)
            assert it.equal()
            assert not it.reflector.malformed
            assert versions == sorted(versions)

    virtually(main)
