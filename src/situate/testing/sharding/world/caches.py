"""Measurement of executors' caches: objects held and events received, relative to their own objects (B8)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial

from situate.cluster.storage.effects import Identity
from situate.cluster.storage.store import Event
from situate.cluster.storage.watch import Watch
from situate.objects.messages import Request, Response
from situate.testing.sharding.world.executor_world import TABLE
from situate.testing.sharding.world.supervisor_world import Town
from situate.testing.virtual_time.isolation import collector_at_rest, logs_off


@dataclass(frozen=True, slots=True)
class SplitCaches:
    held: float
    """Maximum over executors of: objects in memory divided by own objects."""
    told: float
    """Maximum over executors of: object events received divided by events of own objects."""
    events: int
    """Number of events sent to all executors."""
    share: float
    """These events as a share of the events if each executor watched all objects."""
    moved: int


class _Counting(Town):
    def __init__(self) -> None:
        super().__init__()
        self.told: Counter[str] = Counter()
        """By executor's UID: number of object events sent to it."""
        self.all = 0
        """Number of object events."""
        self.own: Counter[str] = Counter()
        """By executor: number of events of objects that it held before or after."""
        self.api.store.subscribe(self._stored)

    def answer(self, request: Request, now: float, identity: Identity) -> Response | Watch | None:
        answer = super().answer(request, now, identity)
        if isinstance(answer, Watch) and identity.uid and "/reports" in request.path:
            self._count(answer, identity.uid)
        return answer

    def is_free(self, executor: str) -> bool:
        """Return whether the executor holds no object."""
        return all(each.executor != executor for each in self.views())

    def _count(self, watch: Watch, uid: str) -> None:
        take = watch.take

        def counted() -> bytes:
            frames = take()
            self.told[uid] += sum(b'"type":"BOOKMARK"' not in line[:40] for line in frames.splitlines())
            return frames

        watch.take = counted  # type: ignore[method-assign]  # a wire-tap, of this watch alone

    def _stored(self, event: Event) -> None:
        if event.resource == TABLE:
            self.all += 1
            versions = [each.object() for each in (event.old, event.new) if each is not None]
            self.own.update({each["spec"]["assignedTo"] for each in versions if each["spec"].get("assignedTo")})


def split_caches(executors: int, objects: int, changes: int) -> SplitCaches:
    """Assign objects, change them, and drain one executor after the other. Return the measured caches."""
    with collector_at_rest(), logs_off():
        town = _Counting()
        try:
            members = [town.work(f"e{number}") for number in range(executors)]
            town.leader()
            for number in range(objects):
                town.create(f"r-{number}")
            assert town.run(60.0, lambda: len(town.placed) == objects), "all are placed"
            for number in range(changes):
                town.annotate(f"r-{number % objects}", "example.com/change", str(number))
            for number in range(executors):
                town.cordon(f"e{number}")
                assert town.run(60.0, partial(town.is_free, f"e{number}")), "a drained executor holds no object"
                town.cordon(f"e{number}", "false")
                town.run(2.0)
            town.run(2.0)
            own = Counter(each.executor for each in town.views())
            return SplitCaches(
                held=max(len(each.executor.store) / max(1, own[each.pod]) for each in members),
                told=max(town.told[each.uid] / town.own[each.pod] for each in members),
                events=town.told.total(),
                share=town.told.total() / (executors * town.all),
                moved=sum(each.epoch - 1 for each in town.views()),
            )
        finally:
            town.close()
