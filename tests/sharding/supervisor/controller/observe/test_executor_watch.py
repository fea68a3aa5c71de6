"""Who is an executor, as the shell finds out: a silent one is asked after, and one that was gone, again."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from situate.kube.client import Client
from situate.kube.errors import KubeError
from situate.objects.kinds.leases import Lease
from situate.objects.messages import Request, Response
from situate.sharding.leases.membership import ExecutorWatch, LeaseTimes, Membership
from situate.sharding.model.executors import EndReason, Members
from situate.sharding.supervisor.controller.observe.executor_watch import ExecutorObserver
from tests.sharding import builders

_AT_ONCE = asyncio.Event()
_AT_ONCE.set()


class Leases:
    """A transport behind which there is one Lease."""

    def __init__(self) -> None:
        self.lease: Lease | None = builders.lease("a", "uid-a", 0)
        self.down = False
        self.reads = 0
        self.answers: dict[int, asyncio.Event] = {}
        """By number, when a reading is answered; others are at once."""

    async def send(self, request: Request, *, timeout_s: float = 30.0) -> Response:
        self.reads += 1
        await self.answers.get(self.reads, _AT_ONCE).wait()
        if self.down:
            return Response(500, b'{"kind":"Status","code":500,"message":"down"}', {})
        if self.lease is None:
            return Response(404, b'{"kind":"Status","reason":"NotFound","code":404}', {})
        return Response(200, msgspec.json.encode(self.lease), {})

    def stream(self, request: Request, *, timeout_s: float = 30.0) -> Any:
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing is open."""


class Scene:
    def __init__(self) -> None:
        self.now = 0.0
        self.leases = Leases()
        self.states: list[Members] = []
        watch = ExecutorWatch("app=reports", builders.NAMESPACE)
        self.observer = ExecutorObserver(
            Client(self.leases),
            Membership(watch, LeaseTimes(), "pool", "0"),
            dict,
            lambda: self.now,
            lambda _, after, __: self.states.append(after),
        )
        self.observer.handle_pod_change(None, builders.pod("a", "uid-a"))
        self.observer.handle_lease_change(None, self.leases.lease)
        self.observer.record_synced()
        assert [*self.observer.members().eligible] == ["a"]

    async def settle(self) -> None:
        """Until the readings that are under way have ended."""
        task = asyncio.create_task(self.observer.run())
        await turns()
        task.cancel()
        await asyncio.wait([task])


async def turns() -> None:
    """Until whatever is ready has been run."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_nobody_expires_before_its_lease_was_read() -> None:
    scene = Scene()
    scene.now = 20.0
    assert not scene.observer.members().removed
    await scene.settle()
    assert scene.observer.members().removed["uid-a"].ending is EndReason.EXPIRED
    assert scene.leases.reads == 1


async def test_whoever_has_renewed_behind_a_silent_watch_lives() -> None:
    scene = Scene()
    scene.now = 20.0
    scene.leases.lease = builders.lease("a", "uid-a", 19)
    await scene.settle()
    assert scene.observer.members().eligible


async def test_a_renewal_wakes_nobody_and_counts_for_whoever_asks() -> None:
    scene = Scene()
    watching = asyncio.create_task(scene.observer.run())
    await turns()
    scene.now, seen = 10.0, len(scene.states)
    renewed = builders.lease("a", "uid-a", 9)
    scene.observer.handle_lease_change(scene.leases.lease, renewed)
    await turns()
    assert len(scene.states) == seen
    assert scene.observer.members().living["uid-a"].expires_at == 25.0
    scene.observer.handle_lease_change(renewed, builders.lease("a", "uid-a", 10, held=False))
    await turns()
    assert scene.states[-1].removed["uid-a"].ending is EndReason.RELEASED, "what is more than that is noticed at once"
    watching.cancel()
    await asyncio.wait([watching])


async def test_a_deleted_lease_is_one_that_was_not_renewed() -> None:
    scene = Scene()
    scene.observer.handle_lease_change(scene.leases.lease, None)
    assert scene.observer.members().eligible
    scene.now, scene.leases.lease = 20.0, None
    await scene.settle()
    assert scene.observer.members().removed["uid-a"].ending is EndReason.EXPIRED


async def test_while_the_lease_cannot_be_read_nobody_expires() -> None:
    scene = Scene()
    scene.now, scene.leases.down = 20.0, True
    await scene.settle()
    members = scene.observer.members()
    assert not members.removed
    assert not members.eligible


@pytest.mark.rule("sharding:S5")
async def test_what_was_given_to_it_later_is_in_doubt_until_its_lease_was_read_again() -> None:
    """It may have come back, and somebody else have seen it."""
    scene = Scene()
    scene.now = 20.0
    await scene.settle()
    assert not scene.observer.is_uncertain("uid-a", since=19.0)
    scene.now = 25.0
    assert scene.observer.is_uncertain("uid-a", since=25.0)
    scene.leases.lease = builders.lease("a", "uid-a", 24)
    await scene.observer.confirm("uid-a", 25.0)
    assert not scene.observer.is_uncertain("uid-a", since=25.0)
    assert scene.observer.members().eligible


async def test_when_it_is_gone_still_that_is_so_for_what_was_given_before_the_reading() -> None:
    scene = Scene()
    scene.now = 20.0
    await scene.settle()
    scene.now = 25.0
    await asyncio.gather(*(scene.observer.confirm("uid-a", 24.0) for _ in range(5)))
    assert scene.leases.reads == 2, "whoever asks meanwhile shares the reading"
    assert not scene.observer.is_uncertain("uid-a", since=24.0)
    assert scene.observer.is_uncertain("uid-a", since=26.0)
    scene.leases.down = True
    with pytest.raises(KubeError):
        await scene.observer.confirm("uid-a", 26.0)


@pytest.mark.rule("sharding:S5")
async def test_a_reading_that_a_later_one_has_overtaken_ends_as_its_own_answer_says() -> None:
    """It looked for itself where the later one had taken its place and gone, and ended as a defect of ours."""
    scene = Scene()
    scene.now = 20.0
    await scene.settle()
    assert scene.observer.members().removed
    slow = scene.leases.answers[scene.leases.reads + 1] = asyncio.Event()
    scene.now = 25.0
    first = asyncio.create_task(scene.observer.confirm("uid-a", 24.0))
    await turns()
    scene.now = 30.0
    await scene.observer.confirm("uid-a", 29.0)
    slow.set()
    await first
    assert not scene.observer.is_uncertain("uid-a", 29.0)
