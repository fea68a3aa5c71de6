"""What a supervisor sends: only while nobody else can lead, and not for longer than that lasts."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from situate.kube.client import Client
from situate.kube.election.election import Leadership
from situate.kube.election.lease_record import LeaseName
from situate.kube.errors import Unreachable
from situate.objects.messages import Request, Response
from situate.runtime.leadership.leader import NotLeading
from situate.sharding.executor.controller.objects import Request as Key
from situate.sharding.leases.membership import ExecutorWatch
from situate.sharding.model.actions import Write
from situate.sharding.model.executors import LeftoverLease
from situate.sharding.supervisor.controller.act.metrics import Counts
from situate.sharding.supervisor.controller.act.writer import Sender
from situate.sharding.supervisor.scope import Scope
from situate.testing.sharding.world.reports import PATHS, REPORTS, report

WRITE = Write(({"op": "add", "path": "/spec/assignedTo", "value": "a"},))
KEY = Key("shop", "r")
LEFTOVER = LeftoverLease("ua", "shop", "lease-a", "uid-of-lease", "7")


class Server:
    """Answers each write with the object, unless it is silent."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.silent = False

    async def send(self, request: Request, *, timeout_s: float = 30.0) -> Response:
        self.requests.append(request)
        if self.silent:
            await asyncio.sleep(timeout_s)
        return Response(200, msgspec.json.encode(report("r")), {})

    def stream(self, request: Request, *, timeout_s: float = 30.0) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing is open."""


class Scene:
    def __init__(self) -> None:
        self.now = 0.0
        self.server = Server()
        self.leadership = Leadership(1, lambda: self.now, self._wall)
        self.leadership.extend(0.0, self._wall(), 10.0)
        scope = Scope(REPORTS, ExecutorWatch("app=reports", "shop"), "s1", "shop", "shop")
        self.sender = Sender(
            Client(self.server), scope, PATHS, self.leadership, 1, lambda _: None, lambda _: None, Counts()
        )

    def _wall(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=self.now)


@pytest.mark.rule("sharding:S10")
async def test_nothing_is_written_when_another_may_lead() -> None:
    scene = Scene()
    await scene.sender.patch(KEY, WRITE)
    scene.now = 10.0
    for attempt in (
        scene.sender.patch(KEY, WRITE),
        scene.sender.delete(KEY, "uid"),
        scene.sender.write_report(LeaseName("shop", "lease"), "{}"),
        scene.sender.delete_lease(LEFTOVER),
    ):
        with pytest.raises(NotLeading):
            await attempt
    assert len(scene.server.requests) == 1


@pytest.mark.rule("sharding:S10")
@pytest.mark.looptime
async def test_a_write_is_given_up_before_another_may_lead() -> None:
    """Between the last moment in which it may leave and the first in which the Lease may be taken lie 5 s."""
    scene = Scene()
    scene.server.silent = True
    began = asyncio.get_running_loop().time()
    with pytest.raises(Unreachable, match="no answer within 5 s"):
        await scene.sender.patch(KEY, WRITE)
    assert asyncio.get_running_loop().time() - began < 5.01


@pytest.mark.rule("sharding:S1")
async def test_the_lease_of_an_executor_is_deleted_as_it_was_seen() -> None:
    """Whoever has renewed it since, seen or unseen, keeps it."""
    scene = Scene()
    await scene.sender.delete_lease(LEFTOVER)
    (request,) = scene.server.requests
    assert (request.method, request.path) == ("DELETE", "/apis/coordination.k8s.io/v1/namespaces/shop/leases/lease-a")
    assert msgspec.json.decode(request.body)["preconditions"] == {"uid": "uid-of-lease", "resourceVersion": "7"}
