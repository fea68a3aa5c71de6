"""Functions that were written for Kopf, as handlers of executors: Kopf's own types, and none of its loop."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import kopf
import pytest

from situate.sharding import KopfHandler, Outcome
from situate.sharding.executor.controller.kopf_handlers import NotStored, OutsideStatus
from situate.sharding.executor.controller.work import FencedWriter, NotOwner, Work
from situate.sharding.model.field_paths import Content
from situate.sharding.model.object_view import view_of
from situate.sharding.model.supervisor_config import BadConfiguration
from situate.testing.sharding.world.executor_world import ExecutorProcess, ExecutorWorld, Script
from situate.testing.sharding.world.reports import PATHS

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PRUNED = ("kopf",)


class Memory(FencedWriter):
    """Stores what is written, as a server does; no other writer is ever quicker."""

    def __init__(self, *pruned: str) -> None:
        self.writes: list[Content] = []
        self.pruned = pruned

    async def write(
        self,
        content: Content,
        epoch: int,
        change: Callable[[Content], Content],
        may_write: Callable[[], None] = lambda: None,
    ) -> Content:
        may_write()
        changed = change(content)
        status = {key: value for key, value in changed.get("status", {}).items() if key not in self.pruned}
        self.writes.append({**changed, "status": status})
        return self.writes[-1]


def work_on(memory: Memory, **status: Any) -> Work:
    content = {
        "apiVersion": "batch.example.com/v1",
        "kind": "Report",
        "metadata": {"name": "r", "namespace": "shop", "uid": "u", "labels": {"a": "b"}},
        "spec": {"work": 1},
        "status": status,
    }
    return Work(memory, content, view_of(content, PATHS), may_write=lambda: None, now=lambda: 0.0)


async def called(fn: Callable[..., Any], status: dict[str, Any] | None = None, **options: Any) -> tuple[Any, Memory]:
    """What it came to, and what was written."""
    memory = Memory()
    work = work_on(memory, **(status or {}))
    return await KopfHandler(fn, wall=lambda: NOW, **options)(work.object, work), memory


def retried(times: int, since: timedelta = timedelta()) -> dict[str, Any]:
    return {"kopf": {"progress": {"fails": {"started": (NOW - since).isoformat(), "retries": times}}}}


def raising(error: Exception) -> Callable[..., Any]:
    async def fails(**_: Any) -> None:
        raise error

    return fails


@pytest.mark.rule("sharding:K14")
async def test_arguments_are_kopfs() -> None:
    given: dict[str, Any] = {}

    @kopf.on.create("reports", registry=kopf.OperatorRegistry())
    async def build(**kwargs: Any) -> None:
        given.update(kwargs)

    outcome, memory = await called(build, param="p", memo=kopf.Memo(seen=1))
    assert outcome == Outcome.succeeded()
    assert memory.writes == [], "nothing was to be written"
    assert isinstance(given["body"], kopf.Body)
    assert dict(given["spec"]) == {"work": 1}
    assert (given["name"], given["namespace"], given["uid"], dict(given["labels"])) == ("r", "shop", "u", {"a": "b"})
    assert (given["param"], given["memo"].seen, given["retry"], given["runtime"]) == ("p", 1, 0, timedelta())
    assert not given["stopped"]
    assert given["work"].token == "u:0"


async def test_only_what_a_function_asks_for_is_given() -> None:
    async def add(base: int, spec: kopf.Spec, more: int = 2) -> dict[str, int]:
        return {"sum": base + spec["work"] + more}

    outcome, memory = await called(functools.partial(add, base=4))
    assert outcome == Outcome.succeeded()
    assert memory.writes[-1]["status"] == {"add": {"sum": 7}}, "as Kopf stores results"


async def test_patches_of_the_status_are_written() -> None:
    def fill(body: Any) -> None:
        body["status"]["list"] = [*body["status"].get("list", []), "new"]

    async def build(patch: kopf.Patch, **_: Any) -> None:
        patch.status["phase"] = "Built"
        patch.status["old"] = None
        patch.fns.append(fill)

    _, memory = await called(build, {"old": 1, "kept": 2, "list": ["first"]})
    assert [each["status"] for each in memory.writes] == [{"kept": 2, "phase": "Built", "list": ["first", "new"]}]


@pytest.mark.parametrize("how", ["merge", "function"])
async def test_patches_of_anything_else_are_refused_by_name(how: str) -> None:
    def move(body: Any) -> None:
        body["spec"]["assignedTo"] = "me"

    async def build(patch: kopf.Patch, **_: Any) -> None:
        if how == "merge":
            patch.spec["assignedTo"] = "me"
        else:
            patch.fns.append(move)

    with pytest.raises(
        OutsideStatus, match=r"^r: Kopf handler build changes spec, but an executor writes only the status"
    ):
        await called(build)


@pytest.mark.parametrize(
    ("error", "options", "want"),
    [
        pytest.param(kopf.TemporaryError("busy", delay=7), {}, Outcome.again(7), id="temporary"),
        pytest.param(kopf.TemporaryError("busy", delay=None), {}, Outcome.again(0), id="at once"),
        pytest.param(kopf.PermanentError("no such thing"), {}, Outcome.failed("no such thing"), id="permanent"),
        pytest.param(kopf.PermanentError(), {}, Outcome.failed("PermanentError"), id="without a word"),
        pytest.param(OSError("disk"), {"backoff": 3}, Outcome.again(3), id="any, with a back-off"),
        pytest.param(
            OSError("disk"),
            {"errors": kopf.ErrorsMode.PERMANENT},
            Outcome.failed("OSError: disk"),
            id="taken as permanent",
        ),
        pytest.param(OSError("disk"), {"errors": kopf.ErrorsMode.IGNORED}, Outcome.succeeded(), id="ignored"),
        pytest.param(
            OSError("disk"), {"errors": kopf.ErrorsMode.IGNORED, "returned": None}, None, id="ignored, endless"
        ),
    ],
)
async def test_errors_become_outcomes(error: Exception, options: dict[str, Any], want: Outcome | None) -> None:
    assert (await called(raising(error), **options))[0] == want


async def test_other_errors_are_left_to_the_executors_back_off_and_counted() -> None:
    memory = Memory()
    work = work_on(memory)
    with pytest.raises(OSError, match="disk"):
        await KopfHandler(raising(OSError("disk")))(work.object, work)
    assert memory.writes[-1]["status"]["kopf"]["progress"]["fails"]["retries"] == 1


@pytest.mark.parametrize("error", [kopf.TemporaryError("busy", delay=60), OSError("disk")])
@pytest.mark.parametrize(
    ("options", "status", "fails"),
    [
        pytest.param({"retries": 3}, retried(1), False, id="one call is left"),
        pytest.param({"retries": 3}, retried(2), True, id="that was the last one"),
        pytest.param({"timeout": 100}, retried(1, timedelta(seconds=39)), False, id="there is time"),
        pytest.param({"timeout": 100}, retried(1, timedelta(seconds=100)), True, id="time is up"),
    ],
)
async def test_limits_hold_over_all_calls(error: Exception, options: Any, status: Any, fails: bool) -> None:
    outcome, memory = await called(raising(error), status, backoff=60, **options)
    assert (outcome.successful is False) is fails
    assert ("kopf" in memory.writes[-1]["status"]) is not fails, "what is over leaves no record"


async def test_a_limit_that_was_passed_meanwhile_calls_nothing() -> None:
    outcome, memory = await called(raising(AssertionError()), retried(1, timedelta(hours=1)), timeout=60)
    assert outcome == Outcome.failed("fails reached its timeout of 60 s: the next call would start after 3600 s")
    assert memory.writes[-1]["status"] == {}


async def test_a_limit_that_the_server_forgets_is_named() -> None:
    work = work_on(Memory(*PRUNED))
    handler = KopfHandler(raising(kopf.TemporaryError("busy")), retries=3)
    with pytest.raises(NotStored, match=r"declare x-kubernetes-preserve-unknown-fields for status.kopf"):
        await handler(work.object, work)


async def test_success_forgets_the_failures_before_it() -> None:
    async def fails(retry: int, **_: Any) -> Outcome:
        return Outcome.again(retry)

    outcome, memory = await called(fails, {"phase": "x", **retried(2)})
    assert outcome == Outcome.again(2), "what it returns counts for more than what returning means"
    assert memory.writes[-1]["status"] == {"phase": "x"}


async def test_one_that_is_not_async_runs_in_a_thread_and_is_told_to_stop() -> None:
    begun, threads = threading.Event(), []

    def build(stopped: Any, **_: Any) -> str:
        threads.append(threading.current_thread())
        begun.set()
        while not stopped.wait(60):
            pass
        return "stopped"

    memory = Memory()
    work = work_on(memory)
    running = asyncio.ensure_future(KopfHandler(build)(work.object, work))
    await asyncio.to_thread(begun.wait)
    work.stopping.set()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await work.wait_held()
    assert threads[0] is not threading.current_thread()
    assert memory.writes == []


async def test_who_is_no_owner_any_more_says_so() -> None:
    async def build(**_: Any) -> None:
        raise NotOwner("it is b's")

    with pytest.raises(NotOwner):
        await called(build, errors=kopf.ErrorsMode.PERMANENT)


@pytest.mark.parametrize(
    ("fn", "options", "message"),
    [
        pytest.param(
            lambda diff, old, **_: None, {}, "has the unknown parameters diff, old, allowed: body, spec", id="arguments"
        ),
        pytest.param(lambda **_: None, {"retries": 0}, "retries of Kopf handler <lambda> is 0, allowed", id="retries"),
        pytest.param(lambda **_: None, {"timeout": "1s"}, 'timeout of Kopf handler <lambda> is "1s"', id="timeout"),
        pytest.param("build", {}, 'a Kopf handler is "build", allowed: a function', id="no function"),
    ],
)
def test_what_cannot_work_is_refused_before_it_is_needed(fn: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadConfiguration) as refused:
        KopfHandler(fn, **options)
    assert message in str(refused.value)


def played(place: ExecutorWorld, fn: Callable[..., Any], **options: Any) -> Script:
    handler = KopfHandler(fn, wall=place.wall, **options)

    async def script(_: ExecutorProcess, obj: Content, work: Work) -> Outcome | None:
        return await handler(obj, work)

    return script


@pytest.mark.rule("sharding:S1", "sharding:S2")
def test_an_executor_runs_it_under_its_fence_and_another_one_goes_on_counting(place: ExecutorWorld) -> None:
    seen: list[tuple[int, float]] = []

    async def build(retry: int, runtime: timedelta, **_: Any) -> None:
        seen.append((retry, runtime.total_seconds()))
        if retry < 2:
            raise kopf.TemporaryError("not yet", delay=10)
        await asyncio.sleep(1e9)

    script = played(place, build, retries=5)
    first = place.start_executor("a", script=script)
    place.assign("r", first)
    place.run(25)
    assert [retry for retry, _ in seen] == [0, 1, 2]
    assert first.running_names == ["r"]
    place.revoke("r")
    place.run(5)
    assert first.running_names == [], "cancelled"
    place.run(15)
    second = place.start_executor("b", script=script)
    place.run(5)
    place.assign("r", second)
    assert place.run(5, lambda: second.running_names == ["r"])
    assert seen[-1][0] == 2
    assert seen[-1][1] > 40
    assert place.get("r")["status"]["kopf"]["progress"]["build"]["message"] == "not yet"
