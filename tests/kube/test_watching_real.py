"""Watching, election and Events on the real API server: what the hostile one imitates is what this one does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from random import Random

import pytest

from situate.kube.client import Client
from situate.kube.connect import connect
from situate.kube.election.election import Elector, Leadership
from situate.kube.election.lease_record import ElectionTimes, LeaseName
from situate.kube.events import WARNING, EventRecorder, reference
from situate.kube.login.connection import Connection, Pem
from situate.kube.patches import MergePatch
from situate.kube.watch.reflector import Reflector
from situate.kube.watch.store import Store
from situate.objects.kinds.config_maps import ConfigMap
from situate.objects.resources import CONFIGMAPS, CORE_EVENTS, LEASES
from tests.controlplane.plane import ControlPlane
from tests.waiting import WITHIN_S


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    connection = Connection(
        server=control_plane.url, source="the test", token=control_plane.token(), ca=Pem(data=control_plane.authority)
    )
    client = connect(connection, Random(1))
    yield client
    await client.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not condition():  # noqa: ASYNC110  # what is waited for happens in another process
            await asyncio.sleep(0.02)


def wall_clock() -> datetime:
    return datetime.now(UTC)


async def test_a_watch_list_follows_and_a_listing_finds_nothing_to_repair(
    client: Client, control_plane_namespace: str
) -> None:
    namespace = control_plane_namespace
    for name in "ab":
        await client.create(CONFIGMAPS, {"metadata": {"name": name}, "data": {"n": "1"}}, namespace)
    store = Store[ConfigMap]("configmaps")
    reflector = Reflector(client, CONFIGMAPS, store, namespace=namespace, rng=Random(1))
    task = asyncio.create_task(reflector.run())
    await asyncio.wait_for(store.wait_synced(), WITHIN_S)
    assert [each.metadata.name for each in store.list()] == ["a", "b"]
    await client.patch(CONFIGMAPS, "a", MergePatch({"data": {"n": "2"}}), namespace)
    await client.delete(CONFIGMAPS, "b", namespace)
    await client.create(CONFIGMAPS, {"metadata": {"name": "c"}}, namespace)
    await until(lambda: [each.metadata.name for each in store.list()] == ["a", "c"])
    told: list[object] = []
    store.on_change(lambda old, new: told.append((old, new)))
    told.clear()
    await reflector.relist()
    assert told == []
    assert reflector.counts.malformed == reflector.counts.stale == 0
    assert reflector.problem is None
    task.cancel()


async def test_a_released_lease_changes_hands(client: Client, control_plane_namespace: str) -> None:
    times = ElectionTimes(lease_s=300, renew_deadline_s=200, retry_s=0.5)  # whoever waits for its end, waits in vain
    terms: dict[str, Leadership] = {}

    def elector(name: str) -> Elector:
        async def lead(leadership: Leadership) -> None:
            terms[name] = leadership
            await asyncio.Event().wait()

        lease = LeaseName(control_plane_namespace, "test")
        return Elector(client, lease, name, lead, wall_clock=wall_clock, rng=Random(1), times=times)

    first, second = elector("first"), elector("second")
    running = asyncio.create_task(first.run())
    await until(first.is_leader)
    waiting = asyncio.create_task(second.run())
    await until(lambda: second.holder == "first")
    acquired = (await client.get(LEASES, "test", control_plane_namespace)).spec.renew_time

    async def renewed() -> None:
        while (await client.get(LEASES, "test", control_plane_namespace)).spec.renew_time == acquired:  # noqa: ASYNC110  # as above
            await asyncio.sleep(0.1)

    await asyncio.wait_for(renewed(), WITHIN_S)
    assert first.is_leader()
    assert not second.is_leader()
    first.stop()
    await asyncio.wait_for(running, WITHIN_S)
    await until(lambda: second.is_leader() and "second" in terms)
    assert (terms["first"].term, terms["second"].term) == (0, 1)
    assert first.problem is None
    assert second.problem is None
    second.stop()
    await asyncio.wait_for(waiting, WITHIN_S)
    assert (await client.get(LEASES, "test", control_plane_namespace)).spec.holder_identity == ""


async def test_events_are_taken_and_counted(client: Client, control_plane_namespace: str) -> None:
    namespace = control_plane_namespace
    about = await client.create(CONFIGMAPS, {"metadata": {"name": "a"}}, namespace)
    recorder = EventRecorder(client, "situate-test", "one", wall_clock=wall_clock, rng=Random())
    task = asyncio.create_task(recorder.run())
    recorder.record(reference(CONFIGMAPS, about), WARNING, "Tested", "once")
    await until(lambda: recorder.counts.written == 1)
    recorder.record(reference(CONFIGMAPS, about), WARNING, "Tested", "twice")
    await until(lambda: recorder.counts.written == 2)
    page = await client.list(CORE_EVENTS, namespace, field_selector="involvedObject.name=a")
    (event,) = page.items
    assert (event.count, event.message, event.source.component) == (2, "twice", "situate-test")
    assert event.first_timestamp is not None
    assert event.last_timestamp is not None
    recorder.stop()
    await asyncio.wait_for(task, WITHIN_S)
