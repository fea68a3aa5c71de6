"""The autoscaler's loop where a write fails, and what stays of it when it ends. Its decisions are tested elsewhere."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from situate.kube.client import Client
from situate.kube.errors import Conflict, InternalError, KubeError, Unreachable
from situate.objects.meta import ObjectMeta
from situate.objects.workloads import Scale, ScaleSpec
from situate.runtime.actuator import Actuator
from situate.runtime.outcomes import Retriable
from situate.runtime.workqueue import WorkQueue
from situate.testing.processes import World
from situate.testing.vpod.builders import placed, state, vpod
from situate.vpod.controller.placing import Placing
from situate.vpod.controller.reporting import Reporter, VPodMetrics
from situate.vpod.controller.scaling import Scaling
from situate.vpod.drain import Eviction
from situate.vpod.model import Key
from situate.vpod.options import DrainOptions
from situate.vpod.state import State

CUT_FIRST: dict[str, Any] = {"scale_down_stabilization": 0.0, "drain": DrainOptions(enabled=False)}


class Server:
    """One scale, and how its writes fail."""

    def __init__(self, replicas: int) -> None:
        self.replicas = replicas
        self.failure: Exception | None = None

    async def get_scale(self, *_: object) -> Scale:
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
        self.statefulset_seen = asyncio.Event()

    def asked_for(self, replicas: int | None) -> None:
        self.asked.append(replicas)

    def saw_replicas(self, *_: object) -> None:
        pass


class Loop:
    """The loop over a state, without a cluster."""

    def __init__(self, kept: State, evict: Callable[[Eviction], Awaitable[bool]] | None = None) -> None:
        self.server, self.placing = Server(kept.replicas), Placed(kept)
        self.metrics = VPodMetrics(CollectorRegistry())

        async def nothing(_: Eviction) -> bool:
            raise AssertionError("nothing is evicted here")

        self.scaling = Scaling(
            cast(Placing, self.placing),
            cast(Client, self.server),
            Reporter(kept.options, self.metrics, lambda *_: None),
            lambda: kept.options,
            actuator=Actuator(lambda: None),
            evict=evict or nothing,
        )

    def run(self, seconds: float) -> None:
        async def main() -> None:
            others = asyncio.all_tasks()
            task = asyncio.create_task(self.scaling.run())
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
    Loop(state(1, 10, [vpod("a/b", 3, placed(3))])).run(50.0)


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
    vpods = [vpod(f"a/{name}", 5, placed(0, 0, 5)) for name in "bcd"]
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
