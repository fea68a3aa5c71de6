"""What strategies remember of what they were told: executors with their statuses, and whose each open object is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Mapping

from situate.sharding.model.errors import NoCapacity, NoExecutors, NoHealthyExecutors, Unschedulable
from situate.sharding.model.executors import ExecutorStatus
from situate.sharding.strategies.facts import ObjectFacts
from situate.sharding.strategies.protocol import Ineligible, Standing


class Roster:
    """The executors that are known, which are those observed and not removed."""

    def __init__(self) -> None:
        self._statuses: dict[str, ExecutorStatus] = {}
        self._count: Counter[ExecutorStatus] = Counter()

    def observe(self, executor: str, status: ExecutorStatus | None) -> bool:
        """Whether that was news."""
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
    def healthy(self) -> int:
        """How many."""
        return self._count[ExecutorStatus.HEALTHY]

    @property
    def serving(self) -> int:
        """How many are healthy or full."""
        return self.healthy + self._count[ExecutorStatus.FULL]

    def is_serving(self, executor: str) -> bool:
        return self._statuses.get(executor) in (ExecutorStatus.HEALTHY, ExecutorStatus.FULL)

    def check(self) -> None:
        """Raises if nobody is healthy."""
        if not self.healthy:
            raise self.refusal({})

    def refusal(self, also: Mapping[str, int], kind: type[NoHealthyExecutors] = NoHealthyExecutors) -> Unschedulable:
        """Why nobody is eligible; `also` counts healthy executors by what keeps them from being chosen."""
        if not self._statuses:
            return NoExecutors()
        counts = {str(status): count for status, count in self._count.items() if status is not ExecutorStatus.HEALTHY}
        left = self.healthy - sum(also.values())
        counts = {**counts, **also, "left out by rules": left}
        told = ", ".join(f"{count} {why}" for why, count in sorted(counts.items()) if count > 0)
        return kind(cause=Ineligible(f"0 of {len(self)} executors may be chosen: {told}"))

    def refused_full(self, among: Container[str] | None) -> Unschedulable:
        """Why nobody of these is eligible, where the healthy ones are at their capacity."""
        full = sum(self.is_healthy(each) and (among is None or each in among) for each in self._statuses)
        return self.refusal({"at capacity": full}, NoCapacity if full else NoHealthyExecutors)

    def refused(self) -> list[Standing]:
        """Those that are known and not healthy, by id."""
        return [
            Standing(executor, None, str(status))
            for executor, status in sorted(self._statuses.items())
            if status is not ExecutorStatus.HEALTHY
        ]


class OpenObjects:
    """Which executor has which open object, and how much each has."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[str, int]] = {}  # by UID: executor and weight
        self._completed: set[str] = set()  # UIDs, so that a late word of an assignment counts for nobody
        self._weight: dict[str, int] = {}  # by executor

    def scheduled(self, obj: ObjectFacts) -> tuple[str, ...]:
        """The executors that have more or less than before."""
        if obj.completed:
            return self.completed(obj)
        after = (obj.executor, obj.weight) if obj.executor and obj.uid not in self._completed else None
        return self._changed(obj.uid, after)

    def completed(self, obj: ObjectFacts) -> tuple[str, ...]:
        self._completed.add(obj.uid)
        return self._changed(obj.uid, None)

    def deleted(self, obj: ObjectFacts) -> tuple[str, ...]:
        self._completed.discard(obj.uid)
        return self._changed(obj.uid, None)

    def _changed(self, uid: str, after: tuple[str, int] | None) -> tuple[str, ...]:
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

    def of(self, executor: str) -> int:
        """The weight of its open objects."""
        return self._weight.get(executor, 0)

    def holder(self, uid: str) -> str | None:
        held = self._held.get(uid)
        return None if held is None else held[0]
