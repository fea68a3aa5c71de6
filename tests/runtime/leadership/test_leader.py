"""The leader skeleton: when a write may leave, and the lists at the start of a term."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest
from structlog.testing import capture_logs

from situate.kube.client import Client
from situate.kube.election.election import Candidacy, Leadership
from situate.kube.election.lease_record import LeaseName
from situate.kube.errors import Unreachable
from situate.kube.patches import MergePatch
from situate.objects.resources import PODS
from situate.runtime.leadership.leader import ControllerContext, Leader, NotLeading
from situate.testing.virtual_time.processes import World
from tests.kube.hostile_server import HostileServer

LEASE = LeaseName("situate", "ours")
POD = "/api/v1/namespaces/situate/pods/web"
LABEL = MergePatch({"metadata": {"labels": {"ours": "true"}}})


class Stores:
    """Watched stores; the first lists of a term fail as often as given."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.listed: list[float] = []

    async def wait_synced(self) -> None:
        """They always have a first list."""

    async def relist(self) -> None:
        self.listed.append(asyncio.get_running_loop().time())
        if len(self.listed) <= self.failures:
            raise Unreachable("no route", outcome_unknown=False)


def lead(
    world: World, server: HostileServer, work: Callable[[Leader], Awaitable[None]], lease: LeaseName | None = LEASE
) -> list[Leader]:
    """Start a process; `work` is its work of a term."""
    made: list[Leader] = []

    async def main() -> None:
        async def run_term(_: Leadership) -> None:
            await work(made[0])

        def wall() -> datetime:
            return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=world.now)

        context = ControllerContext(Client(server), Candidacy("situate", "p1"), wall, random.Random(1))
        made.append(Leader("ours", context, lease, run_term))
        await made[0].run(())

    world.start("p1", main)
    return made


async def patch(leader: Leader) -> object:
    return await leader.client.patch(PODS, "web", LABEL, "situate")


@pytest.mark.rule("vpod:S7")
@pytest.mark.parametrize("lease", [LEASE, None], ids=["elected", "without an election"])
def test_writes_leave_in_a_term_and_not_after_it(lease: LeaseName | None) -> None:
    server, refused = HostileServer(), list[str]()
    server.put(POD, {"metadata": {"name": "web", "namespace": "situate"}})

    async def work(leader: Leader) -> None:
        leader.check()
        await patch(leader)
        await leader.actuator.write(patch(leader))
        assert leader.leadership is not None
        leader.leadership.end()
        assert not leader.is_leading()
        for attempt in (patch(leader), leader.actuator.write(patch(leader))):
            with pytest.raises(NotLeading) as raised:
                await attempt
            refused.append(str(raised.value))
        await asyncio.sleep(1e6)

    with World() as world:
        lead(world, server, work, lease)
        world.run_until(1.0)  # the term that was ended is followed by another one
    assert refused == 2 * ["ours: another process may lead now, so nothing is written"]


@pytest.mark.rule("vpod:S7")
def test_who_was_never_elected_may_not_write() -> None:
    leader = Leader("ours", _context(), LEASE, _no_work)
    assert not leader.is_leading()
    with pytest.raises(NotLeading):
        leader.check()


@pytest.mark.rule("vpod:D1")
def test_a_term_begins_with_its_own_lists_however_often_they_fail() -> None:
    server, stores, read, began = HostileServer(), Stores(failures=2), list[float](), list[float]()

    async def read_record() -> None:
        read.append(asyncio.get_running_loop().time())

    async def work(leader: Leader) -> None:
        await leader.relist(stores, read_record)
        began.append(asyncio.get_running_loop().time())
        await asyncio.sleep(1e6)

    with World() as world, capture_logs() as logs:
        lead(world, server, work)
        world.run_until(10.0)
    first = stores.listed[0]
    assert stores.listed == pytest.approx([first, first + 1.0, first + 2.0])
    assert read == began == stores.listed[-1:]
    assert [each["event"] for each in logs].count("initial list failed, retrying") == 2


def test_without_an_election_nobody_else_writes_and_the_first_lists_do() -> None:
    server, stores, began = HostileServer(), Stores(), list[bool]()

    async def work(leader: Leader) -> None:
        await leader.relist(stores)
        began.append(leader.is_leading())
        await asyncio.sleep(1e6)

    with World() as world:
        lead(world, server, work, lease=None)
        world.run_until(10.0)
    assert (stores.listed, began) == ([], [True])


def test_stop_ends_it_and_gives_the_lease_back() -> None:
    server = HostileServer()

    async def work(leader: Leader) -> None:
        leader.stop()
        await asyncio.sleep(1e6)

    with World() as world:
        lead(world, server, work)
        world.run_until(10.0)
        holder = server.objects[f"/apis/coordination.k8s.io/v1/namespaces/{LEASE.namespace}/leases/{LEASE.name}"]
    assert not holder["spec"].get("holderIdentity")


def _context() -> ControllerContext:
    return ControllerContext(
        Client(HostileServer()), Candidacy("situate", "p1"), lambda: datetime(2026, 1, 1, tzinfo=UTC), random.Random(1)
    )


async def _no_work(_: Leadership) -> None:
    """Nothing leads here."""
