"""Executors on virtual time: what is theirs they work on, under a lease, and nothing else."""

from __future__ import annotations

import asyncio
import io
import itertools
import json
from contextlib import closing
from typing import Any

import pytest

from situate.cluster.storage.effects import Identity
from situate.cluster.storage.watch import Watch
from situate.kube.errors import TooManyRequests
from situate.objects.kinds.unstructured import unstructured_from
from situate.objects.messages import Request, Response
from situate.runtime.process.logs import configure_logging
from situate.sharding.executor.config import ExecutorConfig, ExecutorIdentity
from situate.sharding.executor.controller.executor import Executor
from situate.sharding.executor.controller.work import Work
from situate.sharding.executor.next_step import HandlerRetries, Outcome
from situate.sharding.model.field_paths import Content
from situate.sharding.model.names import EPOCH, EXECUTOR, EXECUTOR_UID, STATUS
from situate.sharding.model.object_view import ObjectView, view_of
from situate.testing.sharding.world.executor_world import ExecutorProcess, ExecutorWorld, Script
from situate.testing.sharding.world.reports import PATHS, REPORTS, report
from situate.testing.virtual_time.network import NetworkFaults


def view(place: ExecutorWorld, name: str = "r") -> ObjectView:
    return view_of(place.get(name), PATHS)


def merge(place: ExecutorWorld, name: str, body: dict[str, Any]) -> None:
    """A user's edit."""
    current = place.get(name)
    operations = [{"op": "replace", "path": f"/{key}", "value": current.get(key, {}) | body[key]} for key in body]
    place.call("PATCH", REPORTS.path("shop", name), operations)


async def quick(_: ExecutorProcess, __: Content, ___: Work) -> Outcome:
    await asyncio.sleep(1)
    return Outcome.succeeded("Done")


async def ignores_cancellation(_: ExecutorProcess, __: Content, ___: Work) -> None:
    while True:
        try:
            await asyncio.sleep(1e6)
        except asyncio.CancelledError:
            continue


async def slow_to_stop(_: ExecutorProcess, __: Content, work: Work) -> None:
    try:
        await asyncio.sleep(1e9)
    finally:
        await asyncio.sleep(3)
        await work.checkpoint({"at": 7})


@pytest.mark.rule("sharding:K14", "sharding:S11")
def test_it_works_on_what_is_assigned_and_completes_it(place: ExecutorWorld) -> None:
    member = place.start_executor(script=quick)
    place.assign("r", member)
    assert place.run(30, lambda: view(place).completed)
    assert place.get("r")["status"] | {"completedAt": ""} == {"completedAt": "", "successful": True, "reason": "Done"}
    place.run(60)
    assert member.handled_names == ["r"], "what is completed is not begun again"


def test_what_is_assigned_later_is_begun_at_once(place: ExecutorWorld) -> None:
    member = place.start_executor()
    place.run(20)
    place.assign("r", member)
    assert place.run(1, lambda: member.running_names == ["r"])


@pytest.mark.rule("sharding:S11")
def test_it_leaves_alone_what_is_not_its_own(place: ExecutorWorld) -> None:
    member = place.start_executor()
    place.create("nobodys")
    earlier = place.start_executor("a", "uid-of-an-earlier-a")
    earlier.crash()
    place.assign("of an earlier life".replace(" ", "-"), earlier)
    place.assign("unreadable", member)
    merge(place, "unreadable", {"metadata": {"annotations": {EPOCH: "x", EXECUTOR_UID: member.uid}}})
    place.assign("ours", member)
    place.run(30)
    assert member.handled_names == ["ours"]
    place.tolerated_invariants.add("S4")  # the earlier incarnation was not eligible, on purpose


@pytest.mark.rule("sharding:X5", "sharding:S1")
@pytest.mark.parametrize("how", ["assigned to another", "assigned anew", "deleted", "label removed", "edited"])
def test_it_stops_what_is_its_own_no_longer(place: ExecutorWorld, how: str) -> None:
    member = place.start_executor()
    place.assign("r", member)
    place.run(10)
    assert member.running_names == ["r"]
    match how:
        case "assigned to another":
            other = place.start_executor("b")
            place.run(5)
            place.revoke("r")
            place.run(15)
            place.assign("r", other)
        case "assigned anew":
            place.revoke("r")
            place.run(0.01)
            place.assign("r", member)
            assert place.run(5, lambda: member.handled_names == ["r", "r"]), (
                "under the new epoch, when the old one has ended"
            )
            return
        case "deleted":
            place.call("DELETE", REPORTS.path("shop", "r"))
        case "label removed":
            merge(place, "r", {"metadata": {"labels": {EXECUTOR: "b"}}})
        case "edited":
            merge(place, "r", {"spec": {"assignedTo": "b"}})
    place.run(5)
    assert member.running_names == []


@pytest.mark.rule("sharding:S5", "sharding:L3", "sharding:B4")
def test_a_drain_ends_with_a_release_and_the_checkpoint_reaches_the_next_holder(place: ExecutorWorld) -> None:
    found: list[object] = []

    async def script(_: ExecutorProcess, __: Content, work: Work) -> None:
        found.append(work.last_checkpoint)
        await slow_to_stop(_, __, work)

    member = place.start_executor(script=script)
    place.assign("r", member)
    place.run(10)
    place.drain("r")
    place.run(2.5)
    assert view(place).executor == "a", "not before the handler has stopped"
    assert place.run(5, lambda: view(place).holder is None)
    assert member.running_names == []
    after = view(place)
    assert (after.epoch, after.drain, EXECUTOR in after.labels) == (1, None, False)
    place.assign("r", place.start_executor("b", script=script))
    place.run(10)
    assert found == [None, {"at": 7}]


@pytest.mark.rule("sharding:S1")
def test_a_lost_lease_stops_the_handlers_and_what_was_theirs_is_released(place: ExecutorWorld) -> None:
    member = place.start_executor()
    place.assign("r", member)
    place.run(20)
    place.network.down = True
    place.network.cut_watches()
    place.run(10.1)
    assert member.running_names == [], "10 s after the last renewal was sent at the latest"
    place.run(10)
    assert member.exit_status is None
    place.network.down = False
    assert place.run(40, lambda: view(place).holder is None), "somebody may be about to give it to another"
    assert member.handled_names == ["r"]
    place.assign("r", member)
    assert place.run(15, lambda: member.running_names == ["r"]), "under a new epoch it may be worked on again"


@pytest.mark.rule("sharding:S1")
def test_a_handler_that_ignores_its_cancellation_ends_the_process(place: ExecutorWorld) -> None:
    member = place.start_executor(script=ignores_cancellation)
    place.assign("r", member)
    place.run(20)
    lost_at = place.world.now
    place.network.down = True
    place.network.cut_watches()
    place.run(30, lambda: member.exit_status is not None)
    assert member.exit_status == 70
    assert place.world.now - lost_at <= 14.0, "renew_deadline and cancel_grace, before anybody may take over"


@pytest.mark.rule("sharding:S1")
def test_a_handler_that_ignores_the_loss_of_its_object_ends_the_process(place: ExecutorWorld) -> None:
    member = place.start_executor(script=ignores_cancellation)
    place.assign("r", member)
    place.run(10)
    place.revoke("r")
    place.run(3)
    assert member.exit_status is None
    place.run(3)
    assert member.exit_status == 70


@pytest.mark.rule("sharding:L3")
def test_a_handler_may_take_its_time_to_drain(place: ExecutorWorld) -> None:
    member = place.start_executor(script=ignores_cancellation)
    place.assign("r", member)
    place.run(10)
    place.drain("r")
    place.run(20)
    assert (member.exit_status, member.running_names) == (None, ["r"]), "the supervisor will revoke it"


@pytest.mark.rule("sharding:S1", "sharding:S2", "sharding:X4")
def test_a_process_that_was_paused_past_its_lease_writes_nothing(place: ExecutorWorld) -> None:
    async def writes(_: ExecutorProcess, __: Content, work: Work) -> None:
        while True:
            await work.patch_status({"by": _.pod})
            await asyncio.sleep(0.01)

    member, other = place.start_executor(script=writes), place.start_executor("b", script=writes)
    place.assign("r", member)
    place.run(10)
    place.tolerated_invariants.add("S1")  # whoever stands still in the middle of its work has not stopped
    member.process.pause()
    place.run(16)
    place.log_lease_loss(member)
    place.assign("r", other)
    place.run(2)
    assert other.running_names == ["r"]
    member.process.resume()
    place.run(20)
    assert place.get("r")["status"]["by"] == "b"
    assert (other.running_names, member.running_names) == (["r"], [])


@pytest.mark.rule("sharding:S1", "sharding:L6")
def test_a_watch_that_has_lost_an_event_is_found_out(place: ExecutorWorld) -> None:
    member = place.start_executor()
    place.assign("r", member)
    place.run(10)
    place.network.faults = NetworkFaults(lose_event=1.0)
    place.revoke("r")
    assert place.run(10, lambda: member.running_names == []), "before a lease has run out that began at the revocation"


@pytest.mark.rule("sharding:S1")
def test_no_news_of_the_objects_are_as_bad_as_no_lease(place: ExecutorWorld) -> None:
    member = place.start_executor()
    place.assign("r", member)
    place.run(20)
    place.deaf = True
    place.network.cut_watches()
    place.run(11)
    assert member.running_names == []
    assert place.lease(member)["spec"]["holderIdentity"] == member.uid
    place.deaf = False
    assert place.run(60, lambda: view(place).holder is None)


@pytest.mark.rule("sharding:S1", "sharding:S11")
def test_nothing_is_begun_on_old_news(place: ExecutorWorld) -> None:
    """An event that comes when it is true no longer."""
    member = place.start_executor()
    place.run(10)
    place.network.faults = NetworkFaults(lose_event=1.0)
    place.assign("r", member)
    event = unstructured_from(place.get("r"))
    place.revoke("r")
    member.process.loop.call_soon_threadsafe(member.executor.store.put, event)
    place.run(1)
    assert len(member.executor.store) == 1
    assert member.handled_names == []


@pytest.mark.rule("sharding:S1", "sharding:S11")
def test_nothing_is_begun_on_an_answer_that_was_long_under_way(place: ExecutorWorld) -> None:
    member = place.start_executor()
    place.run(10)
    place.assign("r", member)
    place.run(0.02)
    assert member.handled_names == ["r"]
    place.network.faults = NetworkFaults(latency_s=(2.6, 2.6))
    place.assign("s", member)
    place.run(9)
    assert member.handled_names == ["r"], "an answer that takes 5.2 s may be true no longer"
    place.network.faults = NetworkFaults()
    assert place.run(60, lambda: view(place, "s").holder is None or member.handled_names == ["r", "s"])


@pytest.mark.rule("sharding:X4", "sharding:S1")
def test_a_process_begun_anew_in_the_same_pod_releases_what_it_finds(place: ExecutorWorld) -> None:
    first = place.start_executor()
    place.assign("r", first)
    place.run(10)
    first.crash()
    place.run(2)
    second = place.start_executor("a", first.uid)
    assert place.run(10, lambda: view(place).holder is None)
    assert second.handled_names == []
    place.assign("r", second)
    assert place.run(5, lambda: second.running_names == ["r"])


@pytest.mark.rule("sharding:L3", "sharding:S5")
def test_sigterm_releases_every_object_and_then_the_lease(place: ExecutorWorld) -> None:
    member = place.start_executor(script=slow_to_stop)
    for name in ("r", "s", "t"):
        place.assign(name, member)
    place.run(10)
    assert place.lease(member)["spec"]["holderIdentity"] == member.uid
    member.stop()
    place.run(1)
    assert '"draining":true' in place.lease(member)["metadata"]["annotations"][STATUS]
    assert place.lease(member)["spec"]["holderIdentity"] == member.uid, "not while handlers run"
    assert place.run(10, lambda: member.has_ended)
    assert place.lease(member)["spec"].get("holderIdentity", "") == ""
    assert {view(place, name).holder for name in ("r", "s", "t")} == {None}


class Fenced(ExecutorWorld):
    """A server whose fence refuses each release, as one that does not know the executor's account."""

    def __init__(self) -> None:
        super().__init__()
        self.fenced = False
        self.attempts: list[float] = []

    def execute(self, request: Request, now: float, identity: Identity) -> Response | Watch:
        if self.fenced and request.method == "PATCH" and "/reports/" in request.path:
            self.attempts.append(self.world.now)
            return Response(403, b'{"kind":"Status","reason":"Forbidden","code":403,"message":"denied request"}', {})
        return super().execute(request, now, identity)


@pytest.mark.finding("N30")
def test_a_release_that_is_refused_waits_for_its_back_off_also_at_the_end() -> None:
    """The log says when it is tried again, and that is when."""
    with closing(Fenced()) as place:
        member = place.start_executor(script=slow_to_stop)
        place.assign("r", member)
        place.run(10)
        place.fenced = True
        member.stop()
        place.run(60)
        assert len(place.attempts) < 20
        assert place.attempts[-1] - place.attempts[-2] > 5, "the back-off grows"
        place.fenced = False
        assert place.run(60, lambda: member.has_ended)
        assert view(place).holder is None


def test_only_so_many_handlers_run_at_a_time_and_all_have_their_turn(place: ExecutorWorld) -> None:
    member = place.start_executor(script=quick, concurrency=2)
    most = 0
    for number in range(7):
        place.assign(f"r-{number}", member)
    for _ in range(200):
        place.run(0.1)
        most = max(most, len(member.running_names))
    assert most == 2
    assert sorted(member.handled_names) == [f"r-{number}" for number in range(7)]


def failing(times: int) -> Any:
    async def script(member: ExecutorProcess, __: Content, ___: Work) -> Outcome:
        if len(member.handled_names) <= times:
            raise ValueError("no")
        return Outcome.succeeded()

    return script


def test_a_failing_handler_is_called_again_after_a_pause_that_grows(place: ExecutorWorld) -> None:
    member = place.start_executor(script=failing(4), retries=HandlerRetries(1.0, 300.0))
    place.assign("r", member)
    assert place.run(60, lambda: view(place).completed)
    starts = [each.t for each in place.log if type(each).__name__ == "Start"]
    pauses = [later - earlier for earlier, later in itertools.pairwise(starts)]
    assert [1 <= pauses[0] < 1.6, 2 <= pauses[1] < 3.1, 4 <= pauses[2] < 6.1, 8 <= pauses[3] < 12.1] == [True] * 4


@pytest.mark.rule("sharding:K14")
@pytest.mark.parametrize("returned", [True, "Done", {"successful": True}])
def test_a_handler_that_returns_something_else_has_failed(place: ExecutorWorld, returned: object) -> None:
    """Taken for None it would have settled its object: nobody would look at it again, and nobody hear of it."""

    async def odd(_: ExecutorProcess, __: Content, ___: Work) -> Outcome | None:
        return returned  # type: ignore[return-value]  # what the test is about

    member = place.start_executor(script=odd, max_handler_failures=2)
    place.assign("r", member)
    assert place.run(10, lambda: view(place).completed)
    assert (view(place).successful, view(place).reason) == (False, "HandlerFailed")


def test_after_too_many_failures_the_object_has_failed(place: ExecutorWorld) -> None:
    member = place.start_executor(script=failing(9), max_handler_failures=3)
    place.assign("r", member)
    assert place.run(60, lambda: view(place).completed)
    assert (view(place).successful, view(place).reason) == (False, "HandlerFailed")
    assert member.handled_names == ["r"] * 3


def test_a_queued_retry_looks_again_whose_the_object_is(place: ExecutorWorld) -> None:
    member = place.start_executor(script=failing(9), retries=HandlerRetries(20.0, 20.0))
    place.assign("r", member)
    place.run(10)
    place.revoke("r")
    place.run(60)
    assert member.handled_names == ["r"]


def test_what_the_server_asks_for_is_waited_for(place: ExecutorWorld) -> None:
    async def script(member: ExecutorProcess, __: Content, ___: Work) -> Outcome:
        if len(member.handled_names) == 1:
            raise TooManyRequests(429, "TooManyRequests", "later", retry_after_s=30)
        return Outcome.succeeded()

    member = place.start_executor(script=script)
    place.assign("r", member)
    place.run(25)
    assert member.handled_names == ["r"]
    assert place.run(40, lambda: member.handled_names == ["r", "r"])


def test_a_settled_object_is_looked_at_again_when_its_spec_changes(place: ExecutorWorld) -> None:
    async def settles(_: ExecutorProcess, __: Content, work: Work) -> None:
        await work.patch_status({"seen": True})

    member = place.start_executor(script=settles)
    place.assign("r", member)
    place.run(20)
    assert member.handled_names == ["r"], "its own status is no reason to be called again"
    merge(place, "r", {"spec": {"work": 2}})
    place.run(5)
    assert member.handled_names == ["r", "r"]


def test_a_settled_object_that_comes_back_is_begun_anew(place: ExecutorWorld) -> None:
    """Also where the watch did not tell that it had been away."""

    async def settles(_: ExecutorProcess, __: Content, ___: Work) -> None:
        return None

    member = place.start_executor(script=settles)
    place.assign("r", member)
    place.run(20)
    place.network.faults = NetworkFaults(lose_event=1.0)
    place.revoke("r")
    place.assign("r", member)
    place.run(20)
    assert member.handled_names == ["r", "r"]


def test_a_handler_may_ask_to_be_called_again(place: ExecutorWorld) -> None:
    async def script(member: ExecutorProcess, __: Content, ___: Work) -> Outcome:
        return Outcome.again(10) if len(member.handled_names) < 3 else Outcome.succeeded()

    member = place.start_executor(script=script)
    place.assign("r", member)
    place.run(5)
    assert member.handled_names == ["r"]
    assert place.run(30, lambda: view(place).completed)
    assert member.handled_names == ["r"] * 3


def test_a_handler_may_give_its_object_up(place: ExecutorWorld) -> None:
    async def script(_: ExecutorProcess, __: Content, work: Work) -> None:
        await work.release()
        await asyncio.sleep(2)

    member = place.start_executor(script=script)
    place.assign("r", member)
    place.run(1.5)
    assert view(place).holder is not None, "not before the handler has ended"
    assert place.run(10, lambda: view(place).holder is None)
    place.run(20)
    assert member.handled_names == ["r"]


def test_without_a_heartbeat_a_handler_has_failed(place: ExecutorWorld) -> None:
    async def script(member: ExecutorProcess, __: Content, work: Work) -> Outcome:
        if len(member.handled_names) == 1:
            await asyncio.sleep(1e9)
        for _ in range(10):
            work.heartbeat()
            await asyncio.sleep(3)
        return Outcome.succeeded()

    member = place.start_executor(script=script, progress_timeout=5.0)
    place.assign("r", member)
    assert place.run(60, lambda: view(place).completed)
    assert member.handled_names == ["r", "r"]


def test_an_outcome_is_written_although_the_server_is_busy(place: ExecutorWorld) -> None:
    member = place.start_executor(script=quick)
    place.assign("r", member)
    place.run(0.5)
    place.network.failing_path = "/reports/"
    place.run(8)
    assert not view(place).completed
    place.network.failing_path = ""
    assert place.run(20, lambda: view(place).completed)
    assert member.handled_names == ["r"], "what was done is not done again"


def test_owns_is_true_of_what_it_may_work_on_now(place: ExecutorWorld) -> None:
    member = place.start_executor()
    place.assign("r", member)
    place.run(10)
    obj = place.get("r")
    assert member.executor.owns(obj)
    assert member.executor.owns(body=obj, name="r"), "as Kopf calls it"
    assert not member.executor.owns(place.create("s"))
    place.network.down = True
    place.run(20)
    assert not member.executor.owns(obj)


@pytest.mark.rule("sharding:K4")
def test_the_lease_says_who_it_is_and_how_it_fares(place: ExecutorWorld) -> None:
    member = place.start_executor(capacity=5.0, pool="batch", partition="2", metrics=lambda: {"cpu": 0.5})
    place.assign("r", member)
    place.run(20)
    lease = place.lease(member)
    assert lease["metadata"]["name"] == "batch.a.uid-a"
    assert lease["metadata"]["labels"] == {"sharding.situate.dev/pool": "batch", "sharding.situate.dev/partition": "2"}
    assert (
        lease["metadata"]["annotations"][STATUS] == '{"capacity":5.0,"draining":false,"metrics":{"cpu":0.5},"open":1}'
    )
    assert lease["spec"]["leaseDurationSeconds"] == 15


async def test_what_it_logs_is_as_was_set_up_after_it_was_made() -> None:
    """A main makes it, and sets logging up where it runs it."""
    executor = Executor(ExecutorIdentity("a", "shop", "uid-a"), endless_handler, ExecutorConfig(REPORTS))
    out = io.StringIO()
    configure_logging("warning", "json", out)
    executor.store.put(unstructured_from(report("r", assignedTo=7)))
    (line,) = map(json.loads, out.getvalue().splitlines())
    assert (line["controller"], line["message"]) == ("executor a", "unreadable object left alone")


async def endless_handler(_: Content, __: Work) -> None:
    await asyncio.get_running_loop().create_future()


def test_a_resource_without_a_status_subresource() -> None:
    place = ExecutorWorld(status_subresource=False)
    try:
        member = place.start_executor(script=quick, status_subresource=False)
        place.assign("r", member)
        assert place.run(30, lambda: view(place).completed)
    finally:
        place.close()


@pytest.mark.rule("sharding:B8")
def test_its_objects_may_be_selected_by_their_field() -> None:
    place = ExecutorWorld(selectable=True)
    try:
        member = place.start_executor(assigned_field="spec.assignedTo")
        other = place.start_executor("b", assigned_field="spec.assignedTo")
        for name in ("r", "s"):
            place.assign(name, member)
        place.run(10)
        merge(place, "r", {"metadata": {"labels": {EXECUTOR: "nobody"}}})
        place.run(5)
        assert sorted(member.running_names) == ["r", "s"], "the label does not matter"
        assert (len(member.executor.store), len(other.executor.store)) == (2, 0)
        place.drain("r")
        assert place.run(10, lambda: member.running_names == ["s"])
        place.run(1)
        assert len(member.executor.store) == 1
    finally:
        place.close()


@pytest.mark.rule("sharding:S2", "sharding:S3", "sharding:S11")
@pytest.mark.parametrize("carried_out", [False, True], ids=["before", "after"])
def test_a_process_may_be_killed_before_and_after_each_of_its_writes(carried_out: bool) -> None:
    """And another one begins in the same pod."""

    async def script(_: ExecutorProcess, __: Content, work: Work) -> Outcome:
        await work.patch_status({"progress": 1})
        await work.checkpoint("half")
        return Outcome.succeeded()

    killed = 0
    for number in range(8):
        place = ExecutorWorld()
        try:
            killed += _killed_at(place, number, script, carried_out=carried_out)
        finally:
            place.close()
    assert killed >= 4, "the Lease, a status, a checkpoint, the completion"


def _killed_at(place: ExecutorWorld, number: int, script: Script, *, carried_out: bool) -> bool:
    """Whether there was such a write."""
    member = place.start_executor(script=script)
    left = 0
    killed = False

    def leaving(_: Request, __: Identity) -> None:
        nonlocal left, killed
        left += 1
        if left == number + 1:
            killed = True
            if carried_out:
                place.world.timeline.call_after(0.02, member.crash)
            else:
                member.crash()

    place.network.send_listeners.append(leaving)
    place.assign("r", member)
    place.run(3)
    place.network.send_listeners.clear()
    place.run(1)
    if killed:
        again = place.start_executor(member.pod, member.uid, script)
        place.run(30, lambda: view(place).holder is None or view(place).completed)
        if not view(place).completed:
            place.assign("r", again)
    assert place.run(30, lambda: view(place).completed)
    assert place.get("r")["status"]["successful"] is True
    return killed
