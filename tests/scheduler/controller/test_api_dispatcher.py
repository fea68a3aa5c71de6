"""One call at a time about an object, and at most one that waits (framework.md section 5)."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from situate.runtime.reconcile.outcomes import Retriable
from situate.scheduler.controller.api_dispatcher import Dispatcher, Relevance
from situate.testing.virtual_time.processes import World

STATUS, BINDING, EVICTION = Relevance.STATUS, Relevance.BINDING, Relevance.EVICTION


@dataclass
class Log:
    """What calls have done, in order."""

    lines: list[str] = field(default_factory=list)
    under_way: int = 0
    most: int = 0


@dataclass(frozen=True)
class Said:
    log: Log
    uid: str
    relevance: Relevance
    words: str
    fails: bool = False

    async def send(self) -> None:
        self.log.under_way += 1
        self.log.most = max(self.log.most, self.log.under_way)
        await asyncio.sleep(1)
        self.log.under_way -= 1
        if self.fails:
            raise Retriable("leads no longer")
        self.log.lines.append(f"{self.uid}: {self.words}")

    def report_drop(self) -> None:
        self.log.lines.append(f"{self.uid}: {self.words} dropped")

    def merge_with(self, earlier: Said) -> Said:
        return replace(self, words=f"{earlier.words} and {self.words}")


def after(seconds: float, *calls: Said, in_flight: int = 2) -> None:
    """Submits calls at once, and lets time pass."""

    async def main() -> None:
        dispatcher = Dispatcher(in_flight)
        running = asyncio.create_task(dispatcher.run())
        for call in calls:
            dispatcher.submit(call)
        await asyncio.sleep(seconds)
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()

    with World() as world:
        world.run(main)


def test_equals_merge_more_relevant_replaces_and_less_relevant_is_dropped() -> None:
    log = Log()
    after(
        1.5,
        Said(log, "a", STATUS, "waits"),
        Said(log, "a", STATUS, "is promised a node"),
        Said(log, "b", STATUS, "waits"),
        Said(log, "b", BINDING, "is bound"),
        Said(log, "b", STATUS, "waits again"),
        in_flight=9,
    )
    assert log.lines == [
        "b: waits dropped",
        "b: waits again dropped",
        "b: is bound",
        "a: waits and is promised a node",
    ]


def test_an_eviction_goes_before_everything() -> None:
    log = Log()
    after(1.5, Said(log, "a", BINDING, "is bound"), Said(log, "a", EVICTION, "ends"))
    assert log.lines == ["a: is bound dropped", "a: ends"]


def test_bindings_do_not_queue_up_behind_statuses() -> None:
    log = Log()
    calls = [Said(log, f"p{number}", STATUS, "waits") for number in range(4)]
    after(2.5, *calls, Said(log, "b", BINDING, "is bound"), Said(log, "p3", BINDING, "is bound"), in_flight=1)
    assert log.lines == ["p3: waits dropped", "b: is bound", "p3: is bound"]
    log.lines.clear()
    after(9.5, *calls, Said(log, "p3", BINDING, "is bound again"), in_flight=1)
    assert log.lines[1:] == ["p3: is bound again", "p0: waits", "p1: waits", "p2: waits"], "each once"


def test_many_at_a_time_but_only_one_about_an_object() -> None:
    log = Log()

    async def main() -> None:
        dispatcher = Dispatcher(3)
        running = asyncio.create_task(dispatcher.run())
        dispatcher.submit(Said(log, "a", STATUS, "first"))
        await asyncio.sleep(0.5)
        dispatcher.submit(Said(log, "a", STATUS, "second"))
        for name in "bcd":
            dispatcher.submit(Said(log, name, STATUS, "waits"))
        assert len(dispatcher) == 5
        await asyncio.sleep(0.7)
        assert log.lines == ["a: first"]
        await asyncio.sleep(0.6)
        assert "a: second" not in log.lines, "it began when the first was through"
        await asyncio.sleep(2)
        assert len(dispatcher) == 0
        running.cancel()

    with World() as world:
        world.run(main)
    assert log.most == 3
    assert sorted(log.lines) == ["a: first", "a: second", "b: waits", "c: waits", "d: waits"]


def test_a_writer_who_leads_no_longer_waits_for_the_end() -> None:
    """A task group that ended by an exception would forget that it is being cancelled, and the term would never end."""
    log = Log()
    after(5, Said(log, "a", STATUS, "late", fails=True), Said(log, "b", STATUS, "late", fails=True))
    assert log.lines == []
