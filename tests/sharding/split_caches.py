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
from situate.testing.sharding.world.supervisor_world import SupervisorWorld
from situate.testing.virtual_time.isolation import disable_collector, suppress_logs


@dataclass(frozen=True, slots=True)
class SplitCaches:
    held_ratio: float
    """Maximum over executors of: objects in memory divided by own objects."""
    received_ratio: float
    """Maximum over executors of: object events received divided by events of own objects."""
    events: int
    """Number of events sent to all executors."""
    share: float
    """These events as a share of the events if each executor watched all objects."""
    moved: int


class _CountingWorld(SupervisorWorld):
    def __init__(self) -> None:
        super().__init__()
        self.received_events: Counter[str] = Counter()
        """By executor's UID: number of object events sent to it."""
        self.event_count = 0
        """Number of object events."""
        self.own_events: Counter[str] = Counter()
        """By executor: number of events of objects that it held before or after."""
        self.api.store.subscribe(self._on_change)

    def answer(self, request: Request, now: float, identity: Identity) -> Response | Watch | None:
        answer = super().answer(request, now, identity)
        if isinstance(answer, Watch) and identity.uid and "/reports" in request.path:
            self._count_events(answer, identity.uid)
        return answer

    def is_free(self, executor: str) -> bool:
        """Return whether the executor holds no object."""
        return all(each.executor != executor for each in self.views())

    def _count_events(self, watch: Watch, uid: str) -> None:
        take = watch.take

        def counted() -> bytes:
            frames = take()
            self.received_events[uid] += sum(b'"type":"BOOKMARK"' not in line[:40] for line in frames.splitlines())
            return frames

        watch.take = counted  # type: ignore[method-assign]  # a wire-tap, of this watch alone

    def _on_change(self, event: Event) -> None:
        if event.resource == TABLE:
            self.event_count += 1
            versions = [each.object() for each in (event.old, event.new) if each is not None]
            self.own_events.update({each["spec"]["assignedTo"] for each in versions if each["spec"].get("assignedTo")})


def measure_split_caches(executors: int, objects: int, changes: int) -> SplitCaches:
    """Assign objects, change them, and drain one executor after the other. Return the measured caches."""
    with disable_collector(), suppress_logs():
        town = _CountingWorld()
        try:
            members = [town.create_executor(f"e{number}") for number in range(executors)]
            town.start_supervisor()
            for number in range(objects):
                town.create(f"r-{number}")
            assert town.run(60.0, lambda: len(town.first_assigned_at) == objects), "all are placed"
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
                held_ratio=max(len(each.executor.store) / max(1, own[each.pod]) for each in members),
                received_ratio=max(town.received_events[each.uid] / town.own_events[each.pod] for each in members),
                events=town.received_events.total(),
                share=town.received_events.total() / (executors * town.event_count),
                moved=sum(each.epoch - 1 for each in town.views()),
            )
        finally:
            town.close()
