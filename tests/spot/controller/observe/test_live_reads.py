"""Reads beside the watch: what they show, how many there are, and that nobody waits for them too long."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from situate.kube.client import Client
from situate.objects.messages import Request
from situate.spot.admission.admit import UNREADABLE, LiveRead, NeedsRead
from situate.spot.controller.observe.live_reads import LiveReads
from situate.spot.nodes.known_signals import SIGNALS
from situate.spot.workloads.owners import Controller
from tests.kube.hostile_server import Fault, HostileServer

APPS = "/apis/apps/v1/namespaces/shop"
REPLICA_SET = f"{APPS}/replicasets/web-1"
DEPLOYMENT = f"{APPS}/deployments/web"
PODS = "/api/v1/namespaces/shop/pods"


class Rig:
    def __init__(self) -> None:
        self.server = HostileServer()
        self.uid_of_deployment = self.put(DEPLOYMENT, spec={"replicas": 7})
        owner = ("Deployment", "web", self.uid_of_deployment)
        spec = {"replicas": 7, "selector": {"matchLabels": {"app": "web"}}}
        self.uid = self.put(REPLICA_SET, owner, spec=spec, labels={"pod-template-hash": "h1"})
        self.reads = LiveReads(Client(self.server), SIGNALS, within_s=0.3)
        self.put(f"{PODS}/web-1-a", ("ReplicaSet", "web-1", self.uid), labels={"app": "web"})
        self.put(f"{PODS}/alone", labels={"app": "web"})

    def put(
        self, path: str, owner: tuple[str, str, str] | None = None, labels: dict[str, str] | None = None, **content: Any
    ) -> str:
        metadata: dict[str, Any] = {"labels": labels or {}}
        if owner is not None:
            kind, name, uid = owner
            reference = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": True}
            metadata["ownerReferences"] = [reference]
        return str(self.server.put(path, {"metadata": metadata, **content})["metadata"]["uid"])

    @property
    def needed(self) -> NeedsRead:
        return NeedsRead("shop", Controller("apps/v1", "ReplicaSet", "web-1", self.uid))

    def asked_for(self, path: str) -> int:
        return sum(each.path == path for each in self.server.requests)


@pytest.mark.rule("spot:P20", "spot:P14")
@pytest.mark.looptime
async def test_controller_workload_and_pods_are_read_and_pods_of_others_left_out() -> None:
    rig = Rig()
    found = await rig.reads.read(rig.needed)
    assert found.owner is not None
    assert found.replica_set is not None
    assert (found.owner.uid, found.owner.replicas) == (rig.uid_of_deployment, 7)
    assert (found.replica_set.replicas, found.replica_set.revision) == (7, "h1")
    assert [pod.key.name for pod in found.pods] == ["web-1-a"]


@pytest.mark.looptime
async def test_a_statefulset_controls_its_pods_itself() -> None:
    rig = Rig()
    uid = rig.put(f"{APPS}/statefulsets/base", spec={"replicas": 3})
    rig.put(f"{PODS}/base-0", ("StatefulSet", "base", uid))
    found = await rig.reads.read(NeedsRead("shop", Controller("apps/v1", "StatefulSet", "base", uid)))
    assert found.owner is not None
    assert found.owner.stateful
    assert [pod.key.name for pod in found.pods] == ["base-0"]


@pytest.mark.looptime
@pytest.mark.parametrize("what", ["gone", "made anew"])
async def test_what_is_gone_or_of_another_uid_is_nothing_and_no_failure(what: str) -> None:
    rig = Rig()
    needed = rig.needed
    rig.server.remove(REPLICA_SET)
    if what == "made anew":
        rig.put(REPLICA_SET, spec={"replicas": 1})
    found = await rig.reads.read(needed)
    assert found == LiveRead()
    assert found is not UNREADABLE


@pytest.mark.rule("spot:P20", "spot:F6")
@pytest.mark.looptime
async def test_nobody_waits_longer_than_is_allowed(looptime: Any) -> None:
    rig = Rig()
    rig.server.judge = lambda _: Fault(delay_s=5.0)
    assert await rig.reads.read(rig.needed) is UNREADABLE
    assert looptime == pytest.approx(0.3, abs=0.01)
    await rig.reads.close()


@pytest.mark.looptime
async def test_a_refusal_is_no_answer() -> None:
    rig = Rig()
    rig.server.judge = lambda _: Fault(status=500, reason="InternalError")
    assert await rig.reads.read(rig.needed) is UNREADABLE


@pytest.mark.looptime
async def test_a_burst_shares_reads_that_begin_after_all_have_asked() -> None:
    rig = Rig()
    began: list[float] = []
    loop = asyncio.get_running_loop()

    def slow(request: Request) -> Fault:
        if request.path == REPLICA_SET:
            began.append(loop.time())
        return Fault(delay_s=0.02)

    rig.server.judge = slow
    asked_at: list[float] = []
    rng = random.Random(1)

    async def ask() -> LiveRead:
        await asyncio.sleep(rng.uniform(0.0, 0.05))
        asked_at.append(loop.time())
        return await rig.reads.read(rig.needed)

    found = await asyncio.gather(*(ask() for _ in range(40)))
    assert UNREADABLE not in [each for each in found if each is UNREADABLE]
    assert all(each is not UNREADABLE for each in found)
    assert rig.asked_for(REPLICA_SET) <= 4
    assert max(began) >= max(asked_at) - 1e-9 or rig.asked_for(REPLICA_SET) == 1
    rig.server.judge = lambda _: None
    await rig.reads.read(rig.needed)
    assert not rig.reads._running, "nothing is left behind"
    assert not rig.reads._next
