"""What strategies are told in tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from situate.sharding.model.errors import Unschedulable
from situate.sharding.model.executors import ExecutorStatus, LiveExecutor
from situate.sharding.strategies import ObjectFacts, Strategy, report_member

HEALTHY, FULL, UNHEALTHY = ExecutorStatus.HEALTHY, ExecutorStatus.FULL, ExecutorStatus.UNHEALTHY
NOTHING = ObjectFacts("asked about")


def healthy(strategy: Strategy, *executors: str) -> None:
    for executor in executors:
        strategy.observe_executor(executor, HEALTHY)


def capacities(strategy: Strategy, declared: Mapping[str, float | None]) -> None:
    """Healthy executors that declare these."""
    for executor, capacity in declared.items():
        report_member(strategy, LiveExecutor(executor, f"uid of {executor}", capacity=capacity))


def holding(strategy: Strategy, counts: Mapping[str, int]) -> None:
    """Each executor has so many open objects more."""
    for executor, count in counts.items():
        for number in range(count):
            strategy.observe_scheduled(ObjectFacts(f"{executor} has {number}", executor=executor))


def chosen(strategy: Strategy, times: int) -> str:
    """The executors that are named, without any being scheduled."""
    return " ".join(strategy.choose_executor(NOTHING) for _ in range(times))


def scheduled(strategy: Strategy, uids: Iterable[str]) -> list[str]:
    """Each object is given to whom the strategy names."""
    found = []
    for uid in uids:
        executor = strategy.choose_executor(ObjectFacts(uid))
        strategy.observe_scheduled(ObjectFacts(uid, executor=executor))
        found.append(executor)
    return found


def refusal(strategy: Strategy, obj: ObjectFacts = NOTHING) -> Unschedulable | None:
    try:
        strategy.choose_executor(obj)
    except Unschedulable as error:
        return error
    return None
