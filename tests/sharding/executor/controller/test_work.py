"""What a handler may write, and what becomes of it when somebody else was there before."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from situate.kube.errors import Invalid, KubeError
from situate.sharding.executor.controller.runs import HandlerRun
from situate.sharding.executor.controller.work import CHECKPOINT_LIMIT, CheckpointTooLarge, NotOwner, Work
from situate.sharding.executor.next_step import Outcome, StopReason
from situate.sharding.model.field_paths import Content
from situate.sharding.model.object_view import view_of
from situate.testing.sharding import events
from situate.testing.sharding.world.executor_world import ExecutorProcess, ExecutorWorld, run_forever
from situate.testing.sharding.world.reports import PATHS, REPORTS
from situate.testing.virtual_time.network import NetworkFaults


class Held:
    """A handler that holds on to its object, and to whatever it is told to do about it."""

    def __init__(self, place: ExecutorWorld) -> None:
        self.place = place
        self.work: Work | None = None
        self.member = place.start_executor(script=self._script)
        self.results: list[object] = []
        self._orders: asyncio.Queue[Any] = asyncio.Queue()
        place.assign("r", self.member)
        assert place.run(30, lambda: self.work is not None)

    def does(self, order: Any, *, seconds: float = 5.0) -> object:
        """What came of it: a value, or the exception."""
        before = len(self.results)
        self.tell(order)
        assert self.place.run(seconds, lambda: len(self.results) > before)
        return self.results[-1]

    def tell(self, order: Any) -> None:
        self.member.process.loop.call_soon_threadsafe(self._orders.put_nowait, order)

    @property
    def status(self) -> Any:
        return self.place.get("r").get("status")

    async def _script(self, _: ExecutorProcess, __: Content, work: Work) -> None:
        self.work = work
        while True:
            order = await self._orders.get()
            try:
                self.results.append(await order(work))
            except Exception as problem:
                self.results.append(problem)


@pytest.fixture
def held(place: ExecutorWorld) -> Held:
    return Held(place)


def edit(place: ExecutorWorld, *operations: dict[str, Any]) -> None:
    place.call("PATCH", REPORTS.path("shop", "r"), [*operations])


def test_a_mapping_is_merged_into_the_status(held: Held) -> None:
    held.does(lambda work: work.patch_status({"a": 1, "b": {"c": 2}}))
    held.does(lambda work: work.patch_status({"a": None, "b": {"d": 3}}))
    assert held.status == {"b": {"d": 3}}


@pytest.mark.rule("sharding:S2")
def test_a_function_is_computed_again_from_what_somebody_else_has_written(held: Held, place: ExecutorWorld) -> None:
    held.does(lambda work: work.patch_status({"count": 1}))
    place.network.faults = NetworkFaults(event_delay_s=60.0)
    edit(place, {"op": "replace", "path": "/spec/work", "value": 2})
    place.call("PATCH", REPORTS.path("shop", "r", "status"), [{"op": "replace", "path": "/status/count", "value": 5}])
    held.does(lambda work: work.patch_status(lambda status: {**status, "count": status["count"] + 1}))
    assert held.status == {"count": 6}


@pytest.mark.rule("sharding:S2", "sharding:X4")
@pytest.mark.parametrize("how", ["revoked", "completed", "another's", "another object"])
def test_who_is_no_longer_the_owner_writes_nothing(held: Held, place: ExecutorWorld, how: str) -> None:
    place.network.faults = NetworkFaults(event_delay_s=60.0)
    match how:
        case "revoked":
            place.revoke("r")
        case "completed":
            done = {"completedAt": "2026-01-01T00:00:00Z", "successful": False}
            place.call("PATCH", REPORTS.path("shop", "r", "status"), [{"op": "add", "path": "/status", "value": done}])
        case "another's":
            edit(place, {"op": "replace", "path": "/spec/assignedTo", "value": "b"})
        case "another object":
            place.call("DELETE", REPORTS.path("shop", "r"))
            place.create("r")
    before = place.get("r")
    problem = held.does(lambda work: work.patch_status({"late": True}))
    assert isinstance(problem, NotOwner), problem
    assert place.get("r") == before


@pytest.mark.rule("sharding:S2")
def test_a_write_under_way_arrives_too_late(held: Held, place: ExecutorWorld) -> None:
    """Slower than the lease of whoever sent it."""
    other = place.start_executor("b", script=run_forever)
    place.run(5)
    place.network.faults = NetworkFaults(latency_s=(20.0, 20.0))
    held.tell(lambda work: work.patch_status({"late": True}))
    place.run(0.1)
    place.tolerated_invariants.add("S1")  # nobody waits here until the first one must have stopped
    place.log_lease_loss(held.member)
    place.assign("r", other)
    place.run(40)
    late = [each for each in place.log if isinstance(each, events.Write) and each.ex == "a"]
    assert [write.accepted for write in late] == [False]
    assert "late" not in (held.status or {})


@pytest.mark.rule("sharding:S6")
def test_a_completed_object_is_final(held: Held) -> None:
    held.does(lambda work: work.complete(False, "Broken"))
    assert {**held.status, "completedAt": ""} == {"completedAt": "", "successful": False, "reason": "Broken"}
    assert isinstance(held.does(lambda work: work.patch_status({"x": 1})), NotOwner)
    assert "x" not in held.status


def test_a_completed_objects_handler_may_still_clean_up(held: Held, place: ExecutorWorld) -> None:
    held.does(lambda work: work.complete(True))
    place.run(5)
    assert held.member.running_names == ["r"]


@pytest.mark.rule("sharding:B4")
def test_a_checkpoint_may_have_16_kib(held: Held) -> None:
    text = "x" * (CHECKPOINT_LIMIT - 2)
    held.does(lambda work: work.checkpoint(text))
    assert held.work is not None
    assert held.work.last_checkpoint == held.status["checkpoint"] == text
    problem = held.does(lambda work: work.checkpoint(text + "x"))
    assert isinstance(problem, CheckpointTooLarge)
    assert "16385 bytes, allowed: 16384" in str(problem)


def test_a_token_for_outside_systems(held: Held, place: ExecutorWorld) -> None:
    assert held.work is not None
    assert held.work.token == f"{place.get('r')['metadata']['uid']}:1"


def test_what_the_server_finds_wrong_is_told(held: Held) -> None:
    wrong: Any = "not an object"
    problem = held.does(lambda work: work.patch_status(lambda _: wrong))
    assert isinstance(problem, Invalid)
    assert "status" in str(problem)


def test_a_resource_without_status_subresource_is_told_by_name() -> None:
    place = ExecutorWorld(status_subresource=False)
    try:
        problem = Held(place).does(lambda work: work.patch_status({"a": 1}))
        assert isinstance(problem, KubeError)
        assert "reports.batch.example.com has no status subresource" in str(problem)
    finally:
        place.close()


def test_the_object_is_kept_current(held: Held, place: ExecutorWorld) -> None:
    edit(place, {"op": "replace", "path": "/spec/work", "value": 9})
    place.run(1)
    assert held.work is not None
    assert held.work.object["spec"]["work"] == 9


class TestThreads:
    """With a real event loop: virtual time has no threads."""

    async def test_a_handler_is_not_over_before_its_thread(self) -> None:
        begun, go_on = threading.Event(), threading.Event()

        def call() -> None:
            begun.set()
            go_on.wait(60)

        async def handler(_: Content, work: Work) -> Outcome | None:
            await work.in_thread(call)
            return None

        run = self._run(handler)
        await asyncio.to_thread(begun.wait, 60)
        run.stop(StopReason.NOT_OURS)
        assert run.work.stopping.is_set()
        for _ in range(20):
            await asyncio.sleep(0)
        assert not run.task.done(), "the thread cannot be cancelled"
        go_on.set()
        await asyncio.wait([run.task], timeout=60)
        assert run.task.done()
        assert run.result() is None

    async def test_what_a_thread_comes_to_is_the_handlers(self) -> None:
        async def handler(_: Content, work: Work) -> Outcome | None:
            return await work.in_thread(Outcome.failed, "as it was told")

        run = self._run(handler)
        await asyncio.wait([run.task], timeout=60)
        assert run.result() == Outcome.failed("as it was told")

    def _run(self, handler: Any) -> HandlerRun:
        content: Content = {"metadata": {"name": "r", "uid": "U"}}
        nothing: Any = None
        work = Work(nothing, content, view_of(content, PATHS), may_write=lambda: None, now=lambda: 0.0)
        return HandlerRun(handler, content, work, 1, "r")
