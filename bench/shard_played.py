"""Stories of `bench.shard` on virtual time: the shipped supervisor and executors before an API server in memory."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import ceil

from situate.sharding.executor.controller.work import Work
from situate.sharding.executor.next_step import Outcome
from situate.sharding.model.field_paths import Content
from situate.sharding.partitions.hashing import fnv1a64
from situate.sharding.partitions.partitions import partition_of, static_partition
from situate.sharding.rebalancing import Goal, RebalanceConfig
from situate.testing.sharding import events
from situate.testing.sharding.world.executor_world import ExecutorProcess
from situate.testing.sharding.world.supervisor_world import PODS, SupervisorWorld
from situate.testing.virtual_time.network import NetworkFaults

REVISION = "pod-template-hash"
_LONG_S = 600.0
_LONGEST_S = 7200.0


@contextmanager
def _town() -> Iterator[SupervisorWorld]:
    town = SupervisorWorld()
    try:
        yield town
    finally:
        town.close()


def rollout_moves_per_object(executors: int, objects_each: int) -> float:
    """Ordered replacement with one surge pod: a new one comes, an old one is asked to end, and so on."""
    with _town() as town:
        old = [
            town.start_executor(f"old-{n}", town.create_pod(f"old-{n}", {REVISION: "1"}), announce=False)
            for n in range(executors)
        ]
        town.start_supervisor()
        count = executors * objects_each
        for number in range(count):
            town.create(f"r-{number}")
        _hold(town, "all are placed", lambda: len(town.first_assigned_at) == count)
        town.run(60.0)  # the next revision comes later: pods tell when they were created in whole seconds
        for number, member in enumerate(old):
            name = f"new-{number}"
            made = town.start_executor(name, town.create_pod(name, {REVISION: "2"}), announce=False)
            _hold(town, f"{name} may work", partial(_may_work, made))
            town.run(2.0)
            member.stop()
            _hold(town, f"{member.pod} has ended", partial(getattr, member, "has_ended"))
            town.call("DELETE", f"{PODS}/{member.pod}", {"gracePeriodSeconds": 0})
        views = town.views
        _hold(town, "all are placed anew", lambda: all(view.executor.startswith("new-") for view in views()))
        return sum(view.epoch - 1 for view in views()) / count


def imbalance(executors: int, joining: int, objects: int) -> tuple[float, float]:
    """Most open objects of an executor by the mean: when all have joined, and when `bounded` rebalancing is done."""
    with _town() as town:
        for number in range(executors):
            town.create_executor(f"e{number}")
        town.start_supervisor(rebalance=RebalanceConfig(Goal.BOUNDED))
        for number in range(objects):
            town.create(f"r-{number}")
        _hold(town, "all are placed", lambda: len(town.first_assigned_at) == objects)
        for number in range(joining):
            town.create_executor(f"newcomer-{number}")
        town.run(10.0)
        count = executors + joining
        before, most = _most(town), ceil(1.25 * objects / count)
        while _most(town) > most and town.world.now < _LONGEST_S:
            town.run(60.0)
        town.run(120.0)  # and so it stays
        return before * count / objects, _most(town) * count / objects


def completed_per_s(executors: int, units_each: int) -> float:
    """What executors complete whose handlers wait 100 ms, one at a time in each, while all of them are at work."""
    with _town() as town:
        for number in range(executors):
            town.create_executor(f"e{number}", _a_tenth, concurrency=1)
        town.start_supervisor()
        town.run(10.0)
        count = executors * units_each
        for number in range(count):
            town.create(f"r-{number}")
        _hold(
            town,
            "all are completed",
            lambda: sum(isinstance(each, events.ObjectCompleted) for each in town.log) == count,
        )
        at = sorted(each.t for each in town.log if isinstance(each, events.ObjectCompleted))
        first, last = count // 10, count - count // 10 - 1  # not while some begin, and others have ended
        return (last - first) / (at[last] - at[first])


async def _a_tenth(_: ExecutorProcess, __: Content, ___: Work) -> Outcome:
    await asyncio.sleep(0.1)
    return Outcome.succeeded("Done")


def partitions_placements_per_s(partitions: int, objects: int) -> float:
    """The sum of what the supervisors place, each from its first object to its last; every message takes 3 ms."""
    with _town() as town:
        town.network.faults = NetworkFaults(latency_s=(0.003, 0.003))
        for index in range(partitions):
            name = str(index)
            for number in range(2):
                town.create_executor(f"e{index}-{number}", partition=name, pool=f"p{index}")
            keyspace = static_partition(index, partitions)
            town.start_supervisor(f"s{index}", partition=name, pool=f"p{index}", keyspace=keyspace, write_concurrency=4)
        town.run(10.0)
        for number in range(objects):
            town.create(f"r-{number}")
        _hold(town, "all are placed", lambda: len(town.first_assigned_at) == objects)
        of = {view.name: partition_of(fnv1a64(view.uid), partitions) for view in town.views()}
        rate = 0.0
        for index in range(partitions):
            at = sorted(when for name, when in town.first_assigned_at.items() if of[name] == index)
            rate += (len(at) - 1) / (at[-1] - at[0])
        return rate


def _most(town: SupervisorWorld) -> int:
    return max(Counter(view.executor for view in town.views()).values())


def _may_work(member: ExecutorProcess) -> bool:
    return member.executor.not_ready() is None


def _hold(town: SupervisorWorld, what: str, holds: Callable[[], bool]) -> None:
    if not town.run(_LONG_S, holds):
        raise SystemExit(f"{what}: not within {_LONG_S:g} s of virtual time")
