"""What the supervisor of one part is sent by an API server that knows shards (KEP-5866), and by one that does not."""

from __future__ import annotations

import asyncio
import itertools
import random
import uuid

import pytest

from situate.kube.client import Client
from situate.kube.connect import connect, find_connection
from situate.objects.resources import CONFIGMAPS, unstructured
from situate.sharding.leases.membership import ExecutorWatch
from situate.sharding.partitions.partitions import Keyspace, static_partition
from situate.sharding.supervisor.controller.observe.objects_watch import ObjectsWatch
from situate.sharding.supervisor.controller.observe.watches import SupervisorStores
from situate.sharding.supervisor.scope import Scope
from tests.conftest import PlaneFactory
from tests.controlplane.plane import ControlPlane, Options
from tests.waiting import WITHIN_S

THINGS = unstructured("", "v1", "ConfigMap", "configmaps")
NAMES = {f"c-{number}" for number in range(12)}


@pytest.fixture(
    params=[
        pytest.param(True, id="knows shards", marks=pytest.mark.xdist_group("sharded-lists")),
        pytest.param(False, id="knows none", marks=pytest.mark.xdist_group("control-plane")),
    ]
)
def plane(request: pytest.FixtureRequest, start_control_plane: PlaneFactory) -> ControlPlane:
    if not request.param:
        shared: ControlPlane = request.getfixturevalue("control_plane")
        return shared
    gate = "--feature-gates=ShardedListAndWatch=true"
    return start_control_plane(Options(flags={"kube-apiserver": (gate,)}))


class Part:
    """What one of two supervisors sees."""

    def __init__(self, client: Client, namespace: str, index: int) -> None:
        self.keyspace = static_partition(index, 2)
        scope = Scope(THINGS, ExecutorWatch("app=x"), "s", namespace, namespace, keyspace=self.keyspace)
        self.watches = SupervisorStores(scope)
        (self.reflector, *_), _ = self.watches.reflectors(client, random.Random(0))

    @property
    def sent(self) -> set[str]:
        return {each.metadata.name for each in self.watches.objects.list()}

    @property
    def own(self) -> set[str]:
        return {each.metadata.name for each in self.watches.objects.list() if self.keyspace.holds(each.metadata)}


class Moving:
    """What the supervisor of a partition sees whose slots a table gives and takes."""

    def __init__(self, client: Client, namespace: str) -> None:
        scope = Scope(THINGS, ExecutorWatch("app=x"), "s", namespace, namespace, partition="0", partition_table="table")
        self.watches = SupervisorStores(scope)
        (objects, *_), _ = self.watches.reflectors(client, random.Random(0))
        assert isinstance(objects, ObjectsWatch)
        self.objects = objects

    async def has(self, keyspace: Keyspace) -> tuple[set[str], set[str]]:
        """What it was sent, and of which it keeps more than the name, when it has chosen these."""
        self.watches.objects.restrict_to(keyspace)
        self.objects.select_shard(keyspace.shard_selector or "")
        await self.objects.wait_listed()
        held = self.watches.objects.list()
        return {each.metadata.name for each in held}, {each.metadata.name for each in held if each.content}


@pytest.mark.slow
@pytest.mark.realcluster
@pytest.mark.rule("sharding:K10")
async def test_a_server_that_knows_shards_sends_each_supervisor_its_own(
    plane: ControlPlane, request: pytest.FixtureRequest
) -> None:
    """In listings and in watches; where none is known all are sent, and each supervisor takes what is its own."""
    namespace = f"shards-{uuid.uuid4().hex[:8]}"
    plane.request("POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    client = connect(find_connection(plane.kubeconfig()), random.Random(0))
    parts = [Part(client, namespace, index) for index in range(2)]
    all_there = asyncio.Event()

    def changed(*_: object) -> None:
        if parts[0].own | parts[1].own >= NAMES:
            all_there.set()

    for each in parts:
        each.watches.objects.on_change(changed)
    running = [asyncio.create_task(each.reflector.run()) for each in parts]
    try:
        for each in parts:
            await each.watches.objects.wait_synced()
        for name in NAMES:
            await client.create(CONFIGMAPS, {"metadata": {"name": name}}, namespace)
        async with asyncio.timeout(WITHIN_S):
            await all_there.wait()
        watched = [each.own for each in parts]
        for each in parts:
            await each.reflector.relist()
        assert [each.own for each in parts] == watched
        assert not watched[0] & watched[1]
        knows = "knows shards" in request.node.name
        for each in parts:
            assert each.sent == (each.own if knows else NAMES)
        moving = Moving(client, namespace)
        running.append(asyncio.create_task(moving.objects.run()))
        for index in (0, 1, 0):
            assert await moving.has(static_partition(index, 2)) == (watched[index] if knows else NAMES, watched[index])
        appeared: asyncio.Queue[str] = asyncio.Queue()
        moving.watches.objects.on_change(
            lambda old, new: appeared.put_nowait(new.metadata.uid) if new is not None and old is None else None
        )
        own = static_partition(0, 2)
        for number in itertools.count():
            created = await client.create(THINGS, {"metadata": {"name": f"later-{number}"}}, namespace)
            if own.holds(created.metadata):  # the server draws the UIDs, and half of them are the other's
                break
        async with asyncio.timeout(WITHIN_S):
            while await appeared.get() != created.metadata.uid:
                pass
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await client.close()
