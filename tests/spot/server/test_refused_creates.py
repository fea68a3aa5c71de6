"""Pods that are admitted and then refused, by a quota or by another webhook: who comes after them takes their places.

A ReplicaSet's controller creates pods as Kubernetes' does (K1): in batches that double, the next when all of one are
answered, anew from one after a refusal, which it tries again after 5 ms, doubling. Events come late or not at all.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from situate.objects.kinds.events import CoreEvent, ObjectReference
from situate.spot.admission.admit import UNREADABLE, AdmissionView, LiveRead, NeedsRead
from situate.spot.admission.ledger import Ledger
from situate.spot.config.settings import SpotSettings
from situate.spot.controller.act.refused_creates import RefusedCreates
from situate.spot.model.pods_nodes_workloads import DECISION, Capacity, Owner, PodFacts, PodKey
from situate.spot.server.metrics import AdmissionMetrics
from situate.spot.server.webhook_handler import AdmissionHandler
from situate.spot.workloads.cluster_objects import Cluster
from situate.spot.workloads.on_demand_target import Namespace
from situate.spot.workloads.owners import Controller, ReplicaSetFacts

BURST: Final = 500
"""Creates of one sync at most."""
FIRST_RETRY_S: Final = 0.005
ABOUT: Final = ObjectReference("apps/v1", "ReplicaSet", "shop", "web-1", "r-1")


@dataclass(frozen=True)
class Delays:
    """Seconds."""

    question: float = 0.003
    """Until a question has come to us."""
    creation: float = 0.01
    """From our answer until the pod is stored, or refused."""
    watch: float = 0.02
    """From there until we see it."""
    event: float = 3.0
    """From a refusal until we hear of it."""
    read: float = 0.02


class Shop:
    """A namespace with a Deployment of one ReplicaSet, and our webhook."""

    def __init__(self, replicas: int, floor: int, delays: Delays) -> None:
        self.delays = delays
        self.replicas = replicas
        self.floor = floor
        self.refuses: Callable[[], bool] = lambda: False
        """Asked about each admitted pod."""
        self.full = asyncio.Event()
        self.readable = True
        self.pods: list[PodFacts] = []
        self.seen: list[PodFacts] = []
        self.attempts = 0
        self.refused = 0
        self.longest_s = 0.0
        self.loop = asyncio.get_running_loop()
        tokens = itertools.count()
        self.answering = AdmissionHandler(
            self._view,
            self._read,
            may_answer=lambda: True,
            clock=self.loop.time,
            token=lambda: f"t{next(tokens)}",
            ledger=Ledger.empty(),
            metrics=AdmissionMetrics(CollectorRegistry()),
        )
        self._refusals = RefusedCreates(self._read, self.loop.time)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def classes(self) -> Counter[str]:
        return Counter(str(pod.pod_class) for pod in self.pods)

    async def play(self, *stories: Callable[[], Any]) -> None:
        """Until the ReplicaSet has all its pods."""
        beside = [asyncio.create_task(self._refusals.run(self._change))]
        beside += [asyncio.create_task(story()) for story in stories]
        try:
            async with asyncio.timeout(36000):
                await self._control()
        finally:
            for task in beside:
                task.cancel()

    async def _control(self) -> None:
        """The ReplicaSet's controller: one sync after the other."""
        failures = 0
        while (lacking := self.replicas - len(self.pods)) > 0:
            before = len(self.pods)
            if await self._sync(min(lacking, BURST)):
                failures = 0
                continue
            # a pod that came brings the ReplicaSet back to work at once
            await asyncio.sleep(min(1000.0, FIRST_RETRY_S * 2**failures if len(self.pods) == before else FIRST_RETRY_S))
            failures += 1

    async def _sync(self, lacking: int) -> bool:
        """Whether all were created (slowStartBatch of the upstream controller)."""
        size = 1
        while lacking:
            batch = min(size, lacking)
            if not all(await asyncio.gather(*(self._create() for _ in range(batch)))):
                return False
            lacking -= batch
            size *= 2
        return True

    async def _create(self) -> bool:
        self.attempts += 1
        number, began = self.attempts, self.loop.time()
        await asyncio.sleep(self.delays.question)
        reply = await self.answering.answer(review(number))
        response = json.loads(reply.body)["response"]
        self.longest_s = max(self.longest_s, self.loop.time() - began)
        await asyncio.sleep(self.delays.creation)
        if self.refuses():
            self.refused += 1
            was = event(self.refused - 1) if self.refused > 1 else None
            self.loop.call_later(self.delays.event, self._refusals.observe_event, was, event(self.refused))
            return False
        decision = decision_in(response)
        pod = PodFacts(
            PodKey("shop", f"web-1-{number}"),
            f"p-{number}",
            controller="r-1",
            revision="h1",
            pod_class=Capacity(decision["class"]),
            token=decision["token"],
        )
        self.pods.append(pod)
        self.loop.call_later(self.delays.watch, self.seen.append, pod)
        return True

    def _view(self, live: LiveRead | None) -> AdmissionView:
        cluster = Cluster(
            owners={"d-1": self._owner()},
            replica_sets={"r-1": self._replica_set()},
            pods={"d-1": tuple(self.seen)},
            namespaces={"shop": Namespace("shop")},
        )
        return AdmissionView(cluster, SpotSettings().admission_settings(namespace="situate"), {}, live)

    async def _read(self, _: NeedsRead) -> LiveRead:
        began = self.loop.time()
        found = LiveRead(self._owner(), self._replica_set(), tuple(self.pods), began)
        await asyncio.sleep(self.delays.read)
        return found if self.readable else UNREADABLE

    def _owner(self) -> Owner:
        annotations = {"spot.situate.dev/on-demand": str(self.floor)}
        return Owner("Deployment", "shop", "web", "d-1", self.replicas, annotations=annotations)

    def _replica_set(self) -> ReplicaSetFacts:
        above = Controller("apps/v1", "Deployment", "web", "d-1")
        return ReplicaSetFacts("r-1", above, "shop", "web-1", self.replicas, "h1")

    def _change(self, step: Callable[[Ledger], Ledger]) -> None:
        self.answering.ledger = step(self.answering.ledger)


def review(number: int) -> bytes:
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "r-1", "controller": True}
    labels = {"app": "web", "pod-template-hash": "h1"}
    pod = {
        "metadata": {"generateName": "web-1-", "labels": labels, "ownerReferences": [reference]},
        "spec": {"containers": [{"name": "c", "image": "example.com/c:1"}]},
    }
    request = {
        "uid": f"u{number}",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": "shop",
        "object": pod,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def decision_in(response: Any) -> Any:
    (annotations,) = [
        each["value"]
        for each in json.loads(base64.b64decode(response["patch"]))
        if each["path"] == "/metadata/annotations"
    ]
    return json.loads(annotations[DECISION])


def event(count: int) -> CoreEvent:
    return CoreEvent(involved_object=ABOUT, reason="FailedCreate", count=count)


QUICK = Delays()
SLOW = Delays(question=0.05, creation=0.2, watch=1.0, event=20.0, read=0.2)
BEHIND = replace(QUICK, watch=2.0)


@pytest.mark.rule("spot:B2", "spot:P20", "spot:P21", "spot:K1", "spot:K3", "spot:D2")
@pytest.mark.looptime
@pytest.mark.parametrize("delays", [QUICK, SLOW, BEHIND], ids=["quick", "slow", "behind"])
@pytest.mark.parametrize("after_s", [0.01, 0.1, 0.5, 1.0, 7.0])
async def test_a_quota_that_is_widened_at_once_leaves_the_floor_exact(after_s: float, delays: Delays) -> None:
    shop = Shop(20, 8, delays)
    quota = 5

    def refuses() -> bool:
        if len(shop.pods) >= quota:
            shop.full.set()
        return shop.full.is_set()

    shop.refuses = refuses

    async def widen() -> None:
        nonlocal quota
        for most in (9, 30):
            await shop.full.wait()
            await asyncio.sleep(after_s)
            shop.full.clear()
            quota = most

    await shop.play(widen)
    assert shop.classes == {"on-demand": 8, "spot": 12}


@pytest.mark.rule("spot:B2", "spot:K1", "spot:K3")
@pytest.mark.looptime
@pytest.mark.parametrize("delays", [QUICK, SLOW, BEHIND], ids=["quick", "slow", "behind"])
@pytest.mark.parametrize("every", [2, 3, 5])
@pytest.mark.parametrize("floor", [1, 20, 39])
async def test_a_webhook_that_refuses_every_kth_leaves_the_floor_exact(every: int, floor: int, delays: Delays) -> None:
    shop = Shop(40, floor, delays)
    asked = itertools.count(1)
    shop.refuses = lambda: next(asked) % every == 0
    await shop.play()
    assert shop.classes["on-demand"] == floor


@pytest.mark.rule("spot:B2", "spot:K1", "spot:K3", "spot:D2", "spot:F5")
@pytest.mark.looptime
@given(
    replicas=st.integers(1, 30),
    share=st.integers(0, 100),
    refusals=st.lists(st.booleans(), max_size=60),
    delays=st.sampled_from([QUICK, SLOW, BEHIND]),
)
@settings(max_examples=25)
async def test_whatever_is_refused_the_floor_is_exact(
    replicas: int, share: int, refusals: list[bool], delays: Delays
) -> None:
    shop = Shop(replicas, replicas * share // 100, delays)
    verdicts = iter(refusals)
    shop.refuses = lambda: next(verdicts, False)
    await shop.play()
    assert shop.classes["on-demand"] == shop.floor
    assert shop.longest_s < 2.0, "API servers wait that long (B6)"


@pytest.mark.rule("spot:B1", "spot:B6")
@pytest.mark.looptime
@pytest.mark.parametrize("floor", [0, 5, 25, 26, 50])
async def test_nobody_waits_long_where_nothing_is_refused(floor: int) -> None:
    shop = Shop(50, floor, QUICK)
    await shop.play()
    assert shop.classes["on-demand"] == floor
    assert shop.longest_s < 0.1
    late = Shop(50, floor, BEHIND)
    await late.play()
    assert late.classes["on-demand"] == floor
    assert late.longest_s < 1.0


@pytest.mark.rule("spot:P5", "spot:P20")
@pytest.mark.looptime
async def test_what_cannot_be_read_is_on_demand_rather_than_short() -> None:
    shop = Shop(20, 8, replace(QUICK, event=1000.0))
    asked = itertools.count(1)
    shop.refuses = lambda: next(asked) % 3 == 0
    shop.readable = False
    await shop.play()
    assert shop.classes["on-demand"] >= 8
