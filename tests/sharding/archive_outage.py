"""A long outage of the archive (B9, L4): work that waits, work that goes on, and the records after recovery.

The shipped supervisor and executor play it. Objects are created all the time, complete at once and must be archived.
Calls of the archive fail or are never answered.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from situate.archive.records.query import Query
from situate.sharding.executor.controller.work import Work
from situate.sharding.executor.next_step import Outcome
from situate.sharding.model.field_paths import Content
from situate.sharding.model.supervisor_config import SupervisorConfig
from situate.testing.builders.archive import Call, Fault, FaultyArchiver
from situate.testing.sharding.world.executor_world import ExecutorProcess
from situate.testing.sharding.world.supervisor_world import LoggedArchiver, SupervisorWorld, run_to_completion
from situate.testing.virtual_time.isolation import disable_collector, suppress_logs

TTL_S: Final = 10.0
OBJECTS_BEFORE: Final = 12
"""Number of completed objects when the outage begins. It exceeds the number of workers of each part."""
EVERY_S: Final = 60.0
"""Seconds between two new objects during the outage."""
POLL_S: Final = 0.1
_LONG_S: Final = 900.0


@dataclass(frozen=True, slots=True)
class Outage:
    """The result of an outage."""

    archived_s: float
    """Maximum seconds from an object's completion to its archiving and removal, without an outage."""
    assigned_s: float
    """Maximum seconds from an object's creation to its assignment, during the outage."""
    recovered_s: float
    """Seconds from the end of the outage until all objects are archived and removed."""
    objects: int
    missing: int
    """Removed objects without a record."""
    doubled: int
    """Records beyond one for each UID."""


def play_outage(seconds: float) -> Outage:
    """Play an outage of `seconds`. Raises `AssertionError` if work does not end, or if an invariant is broken."""
    with disable_collector(), suppress_logs():
        town = SupervisorWorld(SupervisorConfig(archive_ttl=TTL_S), archive=True)
        try:
            return _OutageRun(town).play(seconds)
        finally:
            town.close()


class _OutageRun:
    def __init__(self, town: SupervisorWorld) -> None:
        self.world = town
        self.names: list[str] = []
        self.archive_down = False
        archiver = FaultyArchiver(town.memory_archiver, self._draw_fault)
        town.create_executor("a", _complete_at_once)
        town.start_supervisor(archiver=LoggedArchiver(town, archiver), write_concurrency=4)
        town.run(5.0)

    def play(self, seconds: float) -> Outage:
        town = self.world
        self._create()
        done = town.world.now
        assert town.run(TTL_S + _LONG_S, lambda: not town.exists("o0")), "the available archive stores the objects"
        archived_s = town.world.now - done

        self.archive_down = True
        for _ in range(OBJECTS_BEFORE):
            self._create()
        waits, ends = [], town.world.now + seconds
        while town.world.now < ends:
            town.run(min(EVERY_S, ends - town.world.now))
            assert all(map(town.exists, self.names[1:])), "no object is deleted before it is archived"
            waits.append(self._wait_for_assignment(self._create()))

        self.archive_down = False
        back = town.world.now
        gone = town.run(_LONG_S, lambda: not any(map(town.exists, self.names)))
        assert gone, f"{_LONG_S:g} s after the archive is available again, some objects are not archived"
        records = self._record_counts()
        return Outage(
            archived_s=archived_s,
            assigned_s=max(waits),
            recovered_s=town.world.now - back,
            objects=len(self.names),
            missing=len(self.names) - len(records),
            doubled=records.total() - len(records),
        )

    def _create(self) -> str:
        name = f"o{len(self.names)}"
        self.names.append(name)
        self.world.create(name)
        return name

    def _wait_for_assignment(self, name: str) -> float:
        began = self.world.world.now
        self.world.run(EVERY_S, lambda: name in self.world.first_assigned_at)
        return self.world.first_assigned_at.get(name, float("inf")) - began

    def _record_counts(self) -> Counter[str]:
        return Counter(
            each.subject.uid for each in run_to_completion(self.world.memory_archiver.search(Query())).records
        )

    def _draw_fault(self, _: Call, number: int) -> Fault | None:
        return (Fault.HANG if number % 2 else Fault.ERROR) if self.archive_down else None


async def _complete_at_once(_: ExecutorProcess, __: Content, ___: Work) -> Outcome:
    return Outcome.succeeded("Done")
