"""Memory of strategies: the status of each executor, and the executor of each open object."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping

from situate.sharding.model.errors import NoCapacity, NoExecutors, NoHealthyExecutors, Unschedulable
from situate.sharding.model.executors import ExecutorStatus
from situate.sharding.strategies.facts import ObjectFacts
from situate.sharding.strategies.protocol import CandidateRank, Ineligible


class Roster:
    """The known executors: observed and not removed."""

    def __init__(self) -> None:
        self._statuses: dict[str, ExecutorStatus] = {}
        self._count: Counter[ExecutorStatus] = Counter()

    def observe(self, executor: str, status: ExecutorStatus | None) -> bool:
        """Record a status. Return whether it changed."""
        before = self._statuses.get(executor)
        if before == status:
            return False
        if before is not None:
            self._count[before] -= 1
        if status is None:
            del self._statuses[executor]
        else:
            self._statuses[executor] = status
            self._count[status] += 1
        return True

    def __contains__(self, executor: object) -> bool:
        return executor in self._statuses

    def __iter__(self) -> Iterator[str]:
        return iter(self._statuses)

    def __len__(self) -> int:
        return len(self._statuses)

    def is_healthy(self, executor: str) -> bool:
        return self._statuses.get(executor) is ExecutorStatus.HEALTHY

    @property
    def healthy_count(self) -> int:
        """Number of healthy executors."""
        return self._count[ExecutorStatus.HEALTHY]

    def is_serving(self, executor: str) -> bool:
        return self._statuses.get(executor) in (ExecutorStatus.HEALTHY, ExecutorStatus.FULL)

    def check_any_healthy(self) -> None:
        """Check that an executor is healthy. Raises `Unschedulable` otherwise."""
        if not self.healthy_count:
            raise self.refusal({})

    def refusal(self, also: Mapping[str, int], kind: type[NoHealthyExecutors] = NoHealthyExecutors) -> Unschedulable:
        """Return why no executor is eligible. `also` counts healthy executors by the reason against them."""
        if not self._statuses:
            return NoExecutors()
        counts = {str(status): count for status, count in self._count.items() if status is not ExecutorStatus.HEALTHY}
        left = self.healthy_count - sum(also.values())
        counts = {**counts, **also, "excluded by rules": left}
        told = ", ".join(f"{count} {why}" for why, count in sorted(counts.items()) if count > 0)
        return kind(cause=Ineligible(f"0 of {len(self)} executors may be chosen: {told}"))

    def capacity_refusal(self, among: Container[str] | None) -> Unschedulable:
        """Return why none of these executors is eligible, if the healthy ones are at their capacity."""
        full = sum(self.is_healthy(each) and (among is None or each in among) for each in self._statuses)
        return self.refusal({"at capacity": full}, NoCapacity if full else NoHealthyExecutors)

    def unhealthy_ranks(self) -> list[CandidateRank]:
        """Return the known executors that are not healthy, by id."""
        return [
            CandidateRank(executor, None, str(status))
            for executor, status in sorted(self._statuses.items())
            if status is not ExecutorStatus.HEALTHY
        ]


class OpenObjects:
    """The executor of each open object, and the open weight of each executor."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[str, int]] = {}  # executor and weight by UID
        self._completed: set[str] = set()  # UIDs: a late observation of an assignment does not count again
        self._weight: dict[str, int] = {}  # by executor

    def record_scheduled(self, obj: ObjectFacts) -> tuple[str, ...]:
        """Record an assignment. Return the executors whose open weight changed."""
        if obj.completed:
            return self.record_completed(obj)
        after = (obj.executor, obj.weight) if obj.executor and obj.uid not in self._completed else None
        return self._record_change(obj.uid, after)

    def record_completed(self, obj: ObjectFacts) -> tuple[str, ...]:
        self._completed.add(obj.uid)
        return self._record_change(obj.uid, None)

    def record_deleted(self, obj: ObjectFacts) -> tuple[str, ...]:
        self._completed.discard(obj.uid)
        return self._record_change(obj.uid, None)

    def _record_change(self, uid: str, after: tuple[str, int] | None) -> tuple[str, ...]:
        before = self._held.get(uid)
        if before == after:
            return ()
        if before is not None:
            del self._held[uid]
            self._add(before[0], -before[1])
        if after is not None:
            self._held[uid] = after
            self._add(*after)
        return tuple({held[0]: None for held in (before, after) if held is not None})

    def _add(self, executor: str, weight: int) -> None:
        total = self._weight.get(executor, 0) + weight
        if total:
            self._weight[executor] = total
        else:
            del self._weight[executor]

    def weight_of(self, executor: str) -> int:
        """Return the weight of an executor's open objects."""
        return self._weight.get(executor, 0)

    def holder(self, uid: str) -> str | None:
        held = self._held.get(uid)
        return None if held is None else held[0]
