from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from situate.kube.client import Client
from situate.kube.events import (
    BURST,
    FLUSH_S,
    MOST_SENTENCES,
    MOST_SERIES,
    NORMAL,
    WARNING,
    WINDOW_S,
    EventRecorder,
    reference,
)
from situate.objects.kinds.events import ObjectReference
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.pods import Pod
from situate.objects.resources import PODS
from situate.testing.virtual_time.processes import World
from tests.kube.hostile_server import Fault, HostileServer

WEB = reference(PODS, Pod(metadata=ObjectMeta("web", "default", uid="u1", resource_version="7")))


def virtually(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with World() as world:
        world.run(main, at_most_s=1e6)


def wall() -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=asyncio.get_running_loop().time())


@asynccontextmanager
async def recording(server: HostileServer) -> AsyncIterator[EventRecorder]:
    recorder = EventRecorder(Client(server), "situate-vpod", "pod-1", wall_clock=wall, rng=random.Random(1))
    task = asyncio.create_task(recorder.run())
    yield recorder
    recorder.stop()
    await asyncio.wait_for(task, FLUSH_S + 0.1)


def events(server: HostileServer) -> list[dict[str, Any]]:
    return [each for path, each in server.objects.items() if "/events/" in path]


def test_one_event_says_everything() -> None:
    async def main() -> None:
        server = HostileServer()
        async with recording(server) as recorder:
            recorder.record(WEB, WARNING, "FailedScheduling", "0/3 pods have room")
            await asyncio.sleep(1)
            (event,) = events(server)
            assert event["metadata"]["namespace"] == "default"
            assert event["metadata"]["name"].startswith("web.")
            del event["metadata"]
            assert event == {
                "apiVersion": "v1",
                "kind": "Event",
                "involvedObject": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "namespace": "default",
                    "name": "web",
                    "uid": "u1",
                    "resourceVersion": "7",
                },
                "type": "Warning",
                "reason": "FailedScheduling",
                "message": "0/3 pods have room",
                "source": {"component": "situate-vpod"},
                "reportingComponent": "situate-vpod",
                "reportingInstance": "pod-1",
                "firstTimestamp": "2026-01-01T00:00:00Z",
                "lastTimestamp": "2026-01-01T00:00:00Z",
                "count": 1,
            }

    virtually(main)


def test_repetition_grows_one_event() -> None:
    async def main() -> None:
        server = HostileServer()
        async with recording(server) as recorder:
            for second in range(100):
                recorder.record(WEB, WARNING, "FailedScheduling", f"try {second}")
                await asyncio.sleep(1)
            recorder.record(WEB, NORMAL, "Scheduled", "at last")
            await asyncio.sleep(60)
            failed, scheduled = events(server)
            assert (failed["count"], failed["message"]) == (100, "try 99")
            assert failed["firstTimestamp"] == "2026-01-01T00:00:00Z"
            assert failed["lastTimestamp"] == "2026-01-01T00:01:39Z"
            assert scheduled["count"] == 1
            assert len(server.requests) <= BURST + 100 / 30 + 3
            await asyncio.sleep(600)
            recorder.record(WEB, WARNING, "FailedScheduling", "again")
            await asyncio.sleep(1)
            assert len(events(server)) == 3, "a new series after a silence"

    virtually(main)


@pytest.mark.finding("N6")
def test_other_words_may_be_another_event() -> None:
    async def main() -> None:
        server = HostileServer()
        async with recording(server) as recorder:
            for message in ("50 placed", "12 placed", "50 placed", "16 placed"):
                recorder.record_separately(WEB, NORMAL, "PlacementChanged", message)
                await asyncio.sleep(1)
            told = {each["message"]: (each["count"], each["lastTimestamp"][-3:]) for each in events(server)}
            assert told == {"50 placed": (2, "02Z"), "12 placed": (1, "01Z"), "16 placed": (1, "03Z")}

    virtually(main)


@pytest.mark.finding("N6")
def test_too_many_sentences_share_an_event_until_some_are_silent() -> None:
    async def main() -> None:
        server = HostileServer()
        async with recording(server) as recorder:
            for number in range(MOST_SENTENCES + 5):
                recorder.record_separately(WEB, NORMAL, "PlacementChanged", f"now {number}")
                await asyncio.sleep(1)
            last = events(server)[-1]
            assert (len(events(server)), last["count"]) == (MOST_SENTENCES + 1, 5)
            assert last["message"] == f"now {MOST_SENTENCES + 4}"
            await asyncio.sleep(WINDOW_S)
            recorder.record_separately(WEB, NORMAL, "PlacementChanged", "at last")
            await asyncio.sleep(1)
            assert (events(server)[-1]["message"], events(server)[-1]["count"]) == ("at last", 1)

    virtually(main)


def test_what_happens_while_a_write_is_under_way_is_written_together() -> None:
    async def main() -> None:
        server = HostileServer()
        server.judge = lambda _: Fault(delay_s=5)
        async with recording(server) as recorder:
            for _ in range(100):
                recorder.record(WEB, NORMAL, "Placed", "x")
                await asyncio.sleep(0.01)
            await asyncio.sleep(30)
            (event,) = events(server)
            assert event["count"] == 100
            assert len(server.requests) == 2

    virtually(main)


def test_an_event_that_the_server_has_forgotten_is_written_anew() -> None:
    async def main() -> None:
        server = HostileServer()
        async with recording(server) as recorder:
            recorder.record(WEB, NORMAL, "Placed", "x")
            await asyncio.sleep(1)
            server.objects.clear()
            recorder.record(WEB, NORMAL, "Placed", "y")
            await asyncio.sleep(1)
            (event,) = events(server)
            assert event["count"] == 2

    virtually(main)


def test_an_event_about_a_cluster_scoped_object_goes_to_default() -> None:
    async def main() -> None:
        server = HostileServer()
        async with recording(server) as recorder:
            recorder.record(ObjectReference(kind="Node", name="n" * 253), NORMAL, "Seen", "m" * 5000)
            await asyncio.sleep(1)
            (path,) = server.objects
            assert path.startswith("/api/v1/namespaces/default/events/nnn")
            assert len(path.rpartition("/")[2]) <= 253
            assert len(server.objects[path]["message"]) == 1024
            assert "namespace" not in server.objects[path]["involvedObject"]

    virtually(main)


@pytest.mark.parametrize(
    ("fault", "requests", "dropped"),
    [
        pytest.param(Fault(403, "Forbidden"), 1, (0, 1), id="refused once is refused"),
        pytest.param(Fault(503, "ServiceUnavailable"), 5, (1, 0), id="tried again, not for ever"),
    ],
)
def test_what_cannot_be_written_is_dropped_and_counted(fault: Fault, requests: int, dropped: tuple[int, int]) -> None:
    async def main() -> None:
        server = HostileServer()
        server.judge = lambda _: fault
        async with recording(server) as recorder:
            recorder.record(WEB, NORMAL, "Placed", "x")
            await asyncio.sleep(1000)
            assert len(server.requests) == requests
            assert (recorder.counts.dropped_failed, recorder.counts.dropped_refused) == dropped

    virtually(main)


def test_recording_never_waits_and_memory_is_bounded() -> None:
    async def main() -> None:
        server = HostileServer()
        server.judge = lambda _: Fault(lost_request=True)
        async with recording(server) as recorder:
            for number in range(MOST_SERIES + 100):
                recorder.record(ObjectReference(kind="Pod", namespace="default", name=str(number)), NORMAL, "X", "x")
            assert recorder.counts.dropped_full == 100
        assert recorder.counts.dropped_failed == MOST_SERIES

    virtually(main)


def test_the_end_writes_what_it_can() -> None:
    async def main() -> None:
        server = HostileServer()
        async with recording(server) as recorder:
            for number in range(50):
                recorder.record(ObjectReference(kind="Pod", namespace="default", name=str(number)), NORMAL, "X", "x")
        assert len(events(server)) == 50

    virtually(main)


def test_an_event_with_an_action_is_written_as_kube_scheduler_writes_its_own() -> None:
    async def main() -> None:
        server = HostileServer()
        async with recording(server) as recorder:
            node = ObjectReference(api_version="v1", kind="Node", name="n1")
            recorder.record(WEB, NORMAL, "Scheduled", "Successfully assigned", "Binding", node, "packer")
            await asyncio.sleep(1)
            ((path, event),) = [each for each in server.objects.items() if "/events/" in each[0]]
            assert path.startswith("/apis/events.k8s.io/v1/namespaces/default/events/web.")
            del event["metadata"]
            assert event == {
                "apiVersion": "events.k8s.io/v1",
                "kind": "Event",
                "regarding": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "namespace": "default",
                    "name": "web",
                    "uid": "u1",
                    "resourceVersion": "7",
                },
                "related": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
                "type": "Normal",
                "action": "Binding",
                "reason": "Scheduled",
                "note": "Successfully assigned",
                "reportingController": "packer",
                "reportingInstance": "pod-1",
                "eventTime": "2026-01-01T00:00:00.000000Z",
            }

    virtually(main)


def test_a_note_never_changes_so_other_words_begin_a_new_event() -> None:
    async def main() -> None:
        server = HostileServer()
        async with recording(server) as recorder:
            for note in ("0/3 nodes", "0/3 nodes", "0/2 nodes"):
                recorder.record(WEB, WARNING, "FailedScheduling", note, "Scheduling")
                await asyncio.sleep(1)
            first, second = events(server)
            assert (first["note"], first["series"]["count"]) == ("0/3 nodes", 2)
            assert second["note"] == "0/2 nodes"
            assert "series" not in second

    virtually(main)


def test_an_event_that_is_due_a_rounding_error_from_now_is_waited_for() -> None:
    """On a clock that runs at another speed a timer may end just before its moment, by that clock."""
    server = HostileServer()

    async def main() -> None:
        await asyncio.sleep(217.0)
        async with recording(server) as recorder:
            for number in range(BURST + 2):
                recorder.record(WEB, NORMAL, f"Reason{number}", "said")
            await asyncio.sleep(100.0)

    with World() as world:
        process = world.start("main", main, speed=1.047)
        world.run_until(400.0)  # raises if no time passes
        assert process.failure() is None
    assert len(events(server)) == BURST + 2
