"""The Lease of an executor: what others do to it, and what the executor does then."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest

from situate.cluster.storage.effects import Identity
from situate.kube.client import Client
from situate.sharding.executor.controller.lease import (
    LeaseCallbacks,
    LeaseIdentity,
    LeaseKeeper,
    LeaseThread,
    LoopHeartbeat,
    clock,
)
from situate.sharding.leases.executor_report import EMPTY_REPORT
from situate.sharding.leases.membership import LeaseTimes
from situate.sharding.leases.tenure import Tenure
from situate.sharding.model.names import CORDON
from situate.testing.sharding.world.executor_world import NAMESPACE, ExecutorWorld
from situate.testing.virtual_time.network import NetworkFaults

PATH = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/default.a.uid-a"


def change(place: ExecutorWorld, *operations: dict[str, Any]) -> None:
    place.call("PATCH", PATH, [*operations])


def renewed_at(place: ExecutorWorld) -> str:
    return str(place.call("GET", PATH)["spec"]["renewTime"])


def test_what_others_write_on_it_stays(place: ExecutorWorld) -> None:
    member = place.start_executor()
    place.assign("r", member)
    place.run(10)
    pointer = f"/metadata/annotations/{CORDON.replace('/', '~1')}"
    change(place, {"op": "add", "path": pointer, "value": "true"})
    before = renewed_at(place)
    place.run(20)
    assert place.lease(member)["metadata"]["annotations"][CORDON] == "true"
    assert renewed_at(place) > before
    assert member.running_names == ["r"]


@pytest.mark.rule("sharding:S1", "sharding:S5")
def test_somebody_who_takes_it_away_stops_the_work(place: ExecutorWorld) -> None:
    """An emptied holder is a release to supervisors, who wait for nothing more."""
    member = place.start_executor()
    place.assign("r", member)
    place.run(10)
    change(place, {"op": "replace", "path": "/spec/holderIdentity", "value": ""})
    assert place.run(6, lambda: member.running_names == []), "as soon as it is seen, with the next renewal"
    assert place.run(30, lambda: "assignedTo" not in place.get("r")["spec"])


def test_a_deleted_one_is_made_anew(place: ExecutorWorld) -> None:
    member = place.start_executor()
    place.assign("r", member)
    place.run(10)
    place.call("DELETE", PATH)
    place.run(20)
    assert place.lease(member)["spec"]["holderIdentity"] == "uid-a"
    assert (member.running_names, member.handled_names) == (["r"], ["r"])


@pytest.mark.rule("sharding:S1")
def test_renewals_whose_answers_are_lost_do_not_count(place: ExecutorWorld) -> None:
    member = place.start_executor()
    place.assign("r", member)
    place.run(10)
    place.network.faults = NetworkFaults(lose_answer=1.0)
    place.run(10.1)
    assert member.running_names == [], "who does not know does not go on"


def test_a_bad_moment_of_the_server_is_survived(place: ExecutorWorld) -> None:
    member = place.start_executor()
    place.assign("r", member)
    place.run(10)
    for _ in range(5):
        place.network.faults = NetworkFaults(refuse=1.0, conflict=1.0)
        place.run(4)
        place.network.faults = NetworkFaults()
        place.run(4)
    assert (member.running_names, member.handled_names) == (["r"], ["r"])


class Kept:
    """A keeper by itself, and an executor that is as the test says."""

    def __init__(self, place: ExecutorWorld) -> None:
        self.busy = self.stalled = False
        self.lost = 0
        self.suspended_s = 0.0
        """By so much its clock is ahead of the timers of event loops."""
        self.ended_with: list[int] = []
        self.tenure = Tenure(LeaseTimes())
        patient = LeaseCallbacks(lambda: EMPTY_REPORT, lambda: self.busy, lambda: self.stalled, self._lost)
        of = LeaseIdentity(NAMESPACE, "default.a.uid-a", "a", "uid-a", "default")

        async def main() -> None:
            client = Client(place.network.connect(Identity("a")))
            self.keeper = LeaseKeeper(
                client,
                of,
                self.tenure,
                patient,
                now=lambda: place.world.now + self.suspended_s,
                wall=place.wall,
                end_process=self.ended_with.append,
            )
            await self.keeper.run()

        self.process = place.world.start("keeper", main)
        place.run(1)
        self.tenure.record_known_objects(1e9)  # the objects are another's concern
        assert self.tenure.may_begin(place.world.now)
        self.tenure.begin()

    def _lost(self) -> None:
        self.lost += 1


@pytest.mark.rule("sharding:S1")
def test_it_counts_from_before_it_was_sent(place: ExecutorWorld) -> None:
    kept = Kept(place)
    place.network.faults = NetworkFaults(latency_s=(2.0, 2.0))
    before = kept.keeper.renewals
    assert place.run(20, lambda: kept.keeper.renewals > before)
    assert kept.tenure.deadline == pytest.approx(place.world.now - 4.0 + 10.0)


@pytest.mark.rule("sharding:S1")
def test_nothing_is_renewed_for_a_loop_that_stands_still(place: ExecutorWorld) -> None:
    kept = Kept(place)
    place.run(5)
    kept.busy = kept.stalled = True
    before = renewed_at(place)
    place.run(9)
    assert renewed_at(place) == before
    place.run(10)
    assert (kept.lost, set(kept.ended_with)) == (1, {70})
    assert not kept.tenure.is_valid(place.world.now)


def test_a_loop_that_goes_on_in_time_is_forgiven(place: ExecutorWorld) -> None:
    kept = Kept(place)
    place.run(5)
    kept.busy = kept.stalled = True
    place.run(4)
    kept.stalled = False
    place.run(20)
    assert (kept.lost, kept.ended_with) == (0, [])


@pytest.mark.rule("sharding:S1")
def test_nothing_is_renewed_while_something_runs_that_may_not(place: ExecutorWorld) -> None:
    kept = Kept(place)
    kept.busy = True
    kept.tenure.lose(place.world.now)
    before = renewed_at(place)
    place.run(3.9)
    assert (renewed_at(place), kept.ended_with) == (before, [])
    kept.busy = False
    place.run(5)
    assert renewed_at(place) > before


def test_a_handler_that_ends_is_noticed_while_nothing_is_renewed_for_it(place: ExecutorWorld) -> None:
    kept = Kept(place)
    place.run(5)
    kept.busy = True
    kept.tenure.lose(place.world.now)
    place.run(3)
    before = renewed_at(place)
    kept.busy = False
    assert place.run(0.3, lambda: renewed_at(place) > before)


def test_with_the_right_to_work_it_wakes_for_renewals_alone(place: ExecutorWorld) -> None:
    kept = Kept(place)
    place.run(10)
    turns, renewals = kept.process.turns, kept.keeper.renewals
    place.run(40)
    assert kept.keeper.renewals - renewals == 10
    assert kept.process.turns - turns <= 30, "one to begin, one for the answer, and the time-out that is taken back"


@pytest.mark.rule("sharding:S1")
def test_a_machine_that_was_suspended_has_lost_the_right_as_soon_as_anybody_looks(place: ExecutorWorld) -> None:
    kept = Kept(place)
    place.run(5)
    kept.busy, kept.suspended_s = True, 3600.0
    kept.process.loop.call_soon_threadsafe(kept.keeper.check_now)
    place.run(0.001)
    assert (kept.lost, kept.ended_with) == (1, [70])


@pytest.mark.rule("sharding:S1")
def test_the_thread_looks_by_itself() -> None:
    """For its timers stand still while the machine is suspended."""

    class Sleeper:
        """A keeper whose own timer is far away."""

        def __init__(self) -> None:
            self.woken = asyncio.Event()

        def check_now(self) -> None:
            self.woken.set()

        async def run(self) -> None:
            await self.woken.wait()
            ended.set()

    class Unused:
        async def close(self) -> None:
            pass

    ended = threading.Event()
    LeaseThread(lambda: cast(Client, Unused()), lambda _: cast(LeaseKeeper, Sleeper())).start()
    assert ended.wait(30)


@pytest.mark.rule("sharding:S5")
@pytest.mark.parametrize(("busy", "holder"), [(False, ""), (True, "uid-a")])
def test_it_is_given_back_only_when_nothing_runs(place: ExecutorWorld, busy: bool, holder: str) -> None:
    kept = Kept(place)
    kept.busy = busy
    kept.process.loop.call_soon_threadsafe(kept.keeper.stop)
    place.run(5)
    assert place.call("GET", PATH)["spec"].get("holderIdentity", "") == holder


@pytest.mark.rule("sharding:S1", "sharding:S5")
def test_one_that_is_given_back_too_late_is_not_taken_from_the_next_process_of_the_pod(place: ExecutorWorld) -> None:
    """Its container is begun anew: same pod, same name. Supervisors would give away what that process works on."""
    first = Kept(place)
    place.network.faults = NetworkFaults(latency_s=(20.0, 20.0))
    first.process.loop.call_soon_threadsafe(first.keeper.stop)
    place.run(0)
    place.network.faults = NetworkFaults()
    place.run(10)
    second = Kept(place)
    for _ in range(60):
        place.run(0.5)
        assert place.call("GET", PATH)["spec"]["holderIdentity"] == "uid-a"
    assert second.lost == 0


def test_one_that_somebody_has_written_on_is_given_back(place: ExecutorWorld) -> None:
    kept = Kept(place)
    change(place, {"op": "add", "path": "/metadata/labels/like", "value": "this"})
    kept.process.loop.call_soon_threadsafe(kept.keeper.stop)
    place.run(2)
    assert place.call("GET", PATH)["spec"].get("holderIdentity", "") == ""


def test_a_heart() -> None:
    now = 0.0
    heart = LoopHeartbeat(lambda: now, 5.0)
    now = 5.0
    assert not heart.is_stalled()
    now = 5.1
    assert heart.is_stalled()
    heart.record_beat()
    assert not heart.is_stalled()


def test_the_clock_never_goes_back() -> None:
    seen = [clock() for _ in range(1000)]
    assert seen == sorted(seen)
