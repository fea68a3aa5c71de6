"""The autoscaler's loop where a write fails, and what stays of it when it ends. Its decisions are tested elsewhere."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from situate.kube.client import Client
from situate.kube.errors import Conflict, InternalError, KubeError, NotFound, Unreachable
from situate.objects.kinds.meta import ObjectMeta
from situate.objects.kinds.workloads import Scale, ScaleSpec
from situate.runtime.leadership.actuator import Actuator
from situate.runtime.reconcile.outcomes import Retriable
from situate.runtime.reconcile.workqueue import WorkQueue
from situate.testing.virtual_time.processes import World
from situate.testing.vpod.builders import make_placements, state, vpod
from situate.vpod.controller.apply import PlacementReconciler
from situate.vpod.controller.notify import Notifier, VPodMetrics
from situate.vpod.controller.scaler import Scaler
from situate.vpod.model.options import DrainOptions
from situate.vpod.model.vpod import Key
from situate.vpod.scaling.drain import Eviction
from situate.vpod.state.state import State

CUT_FIRST: dict[str, Any] = {"scale_down_stabilization": 0.0, "drain": DrainOptions(enabled=False)}


class Server:
    """One scale, and how its writes fail."""

    def __init__(self, replicas: int) -> None:
        self.replicas = replicas
        self.failure: Exception | None = None
        self.missing = False
        self.read_at: list[float] = []

    async def get_scale(self, *_: object) -> Scale:
        self.read_at.append(asyncio.get_running_loop().time())
        if self.missing:
            raise NotFound(404, "NotFound", "no such set")
        return Scale(ObjectMeta("set", "ns", resource_version="1"), ScaleSpec(self.replicas))

    async def update_scale(self, *_: object, **__: object) -> Scale:
        assert self.failure is not None
        raise self.failure


class Placed:
    """What the loop needs of the placing half."""

    def __init__(self, kept: State) -> None:
        self.state = kept
        self.queue: WorkQueue[Key] = WorkQueue(rng=random.Random(1))
        self.asked: list[int | None] = []
        self.statefulset_event = asyncio.Event()

    def expect_replicas(self, replicas: int | None) -> None:
        self.asked.append(replicas)

    def observe_replicas(self, *_: object) -> None:
        pass


class Loop:
    """The loop over a state, without a cluster."""

    def __init__(self, kept: State, evict: Callable[[Eviction], Awaitable[bool]] | None = None) -> None:
        self.server, self.placing = Server(kept.replicas), Placed(kept)
        self.metrics = VPodMetrics(CollectorRegistry())
        self.events: list[str] = []

        async def nothing(_: Eviction) -> bool:
            raise AssertionError("nothing is evicted here")

        self.scaling = Scaler(
            cast(PlacementReconciler, self.placing),
            cast(Client, self.server),
            Notifier(kept.options, self.metrics, lambda *told: self.events.append(told[2])),
            lambda: kept.options,
            actuator=Actuator(lambda: None),
            evict=evict or nothing,
        )

    def run(self, seconds: float, meanwhile: Callable[[], Awaitable[None]] | None = None) -> None:
        async def main() -> None:
            others = asyncio.all_tasks()
            task = asyncio.create_task(self.scaling.run())
            if meanwhile is not None:
                await meanwhile()
            await asyncio.sleep(seconds)
            self.queued = self.placing.queue.statistics().queued
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == others, "it leaves tasks behind"

        with World() as world:
            world.run(main)


def test_it_leaves_no_task_behind() -> None:
    Loop(state(1, 10, [vpod("a/b", 3, make_placements(3))])).run(50.0)


@pytest.mark.rule("vpod:D20")
def test_a_missing_statefulset_is_told_once_and_looked_for_ever_more_rarely() -> None:
    loop = Loop(state(1, 10, [vpod("a/b", 3, make_placements(3))]))
    seen: list[int] = []

    async def it_comes_and_goes() -> None:
        await asyncio.sleep(1800.0)
        loop.server.missing = False
        loop.placing.statefulset_event.set()  # the watch shows it
        await asyncio.sleep(1.0)
        seen.append(len(loop.server.read_at))
        loop.server.missing = True
        loop.scaling.wake()

    loop.server.missing = True
    loop.run(20.0, it_comes_and_goes)
    first, again = loop.server.read_at[: seen[0]], loop.server.read_at[seen[0] :]
    pauses = [round(late - early) for early, late in pairwise(first)]
    assert pauses[:7] == [5, 10, 20, 40, 80, 160, 300], "it is looked for, twice as long after each time"
    assert set(pauses[7:-1]) == {300}, "and every five minutes at the latest"
    assert round(first[-1] - first[0]) == 1800, "seen by the watch, it is looked at without waiting"
    assert [round(late - early) for early, late in pairwise(again)] == [5, 10]
    assert loop.events == ["StatefulSetMissing"] * 2, "told once for each time that it was gone"


@pytest.mark.parametrize(
    ("failure", "asked"),
    [
        pytest.param(Conflict(409, "Conflict", "it changed"), None, id="refused: somebody else's number is no answer"),
        pytest.param(Retriable("another process may lead"), None, id="never sent"),
        pytest.param(InternalError(500, "InternalError", ""), 2, id="it may have been carried out"),
        pytest.param(Unreachable("no answer", outcome_unknown=True), 2, id="nobody knows"),
    ],
)
@pytest.mark.rule("vpod:V21", "vpod:D21")
def test_a_number_that_was_not_written_is_not_ours(failure: Exception, asked: int | None) -> None:
    loop = Loop(state(1, 10, [vpod("a/b", 13)]))
    loop.server.failure = failure
    loop.run(0.5)
    assert loop.placing.asked[0] == 2
    assert loop.placing.asked[-1] == asked


@pytest.mark.rule("vpod:V15")
def test_an_eviction_that_fails_does_not_stop_the_others() -> None:
    vpods = [vpod(f"a/{name}", 5, make_placements(0, 0, 5)) for name in "bcd"]
    kept = state(3, 10, vpods, **CUT_FIRST)
    kept.observe_replicas(2, 0.0, ours=True)
    tried: list[Key] = []

    async def evict(eviction: Eviction) -> bool:
        tried.append(eviction.key)
        if eviction.key.name == "b":
            raise KubeError("no")
        return True

    loop = Loop(kept, evict)
    loop.run(101.0)  # a beat that may shrink
    assert [key.name for key in tried] == ["b", "c", "d"]
    assert sorted(kept.reservations()) == [Key("a", "b")], "what was evicted is placed anew"
    assert loop.queued == 3
    assert loop.metrics.failed_beats.labels("ns/set")._value.get() == 1
