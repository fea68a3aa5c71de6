from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from situate.kube.client import Client
from situate.kube.election.election import ElectionChange, ElectionEvent, Elector, Leadership
from situate.kube.election.lease_record import ElectionTimes, LeaseName, LeaseRecord, free_at
from situate.objects.messages import Request
from situate.testing.virtual_time.processes import Process, World
from tests.kube.hostile_server import Fault, HostileServer

LEASE = "/apis/coordination.k8s.io/v1/namespaces/situate/leases/spot"
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Candidate:
    """One process that stands for election, and what happened to it."""

    def __init__(self, world: World, server: HostileServer, name: str, seed: int = 1) -> None:
        self.world = world
        self.name = name
        self.news: list[tuple[float, ElectionChange, str]] = []
        self.terms: list[Leadership] = []
        self.served: list[tuple[float, float]] = []
        self.elector: Elector
        self.wind_down_s = 0.0
        self.wall_offset_s = 0.0
        self.ends_itself: Callable[[], None] | None = None

        async def main() -> None:
            self.elector = Elector(
                Client(server),
                LeaseName("situate", "spot"),
                name,
                self.lead,
                wall_clock=self.wall_clock,
                rng=random.Random(seed),
                observe=self.observe,
            )
            await self.elector.run()

        self.process: Process = world.start(name, main)

    def wall_clock(self) -> datetime:
        return EPOCH + timedelta(seconds=self.world.now + self.wall_offset_s)

    def observe(self, news: ElectionEvent) -> None:
        self.news.append((self.world.now, news.change, news.reason))

    async def lead(self, leadership: Leadership) -> None:
        self.terms.append(leadership)
        began = self.world.now
        try:
            await asyncio.sleep(1e9 if self.ends_itself is None else 5)
            if self.ends_itself is not None:
                self.ends_itself()
        finally:
            await asyncio.sleep(self.wind_down_s)
            self.served.append((began, self.world.now))

    def valid(self) -> bool:
        return any(term.is_valid() for term in self.terms)

    def changes(self) -> list[ElectionChange]:
        return [change for _, change, _ in self.news if change is not ElectionChange.RENEWED]


def spec(server: HostileServer) -> dict[str, Any]:
    lease: dict[str, Any] = server.objects[LEASE]["spec"]
    return lease


@pytest.mark.parametrize(("waits", "at"), [(True, 115.0), (False, 100.0)])
def test_a_lease_is_taken_at_once_where_nobody_else_can_be_alive(*, waits: bool, at: float) -> None:
    held = LeaseRecord("1", "somebody", 15.0, EPOCH, EPOCH, 3)
    assert free_at(held, 100.0, ElectionTimes(waits=waits)) == at


def test_the_first_takes_the_lease_and_keeps_it() -> None:
    with World() as world:
        server = HostileServer()
        first = Candidate(world, server, "a")
        second = Candidate(world, server, "b")
        world.run_until(100)
        assert first.valid()
        assert not second.terms
        assert second.elector.holder == "a"
        assert spec(server) == {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": spec(server)["renewTime"],
            "leaseTransitions": 0,
        }
        assert spec(server)["renewTime"] > "2026-01-01T00:01:37"
        assert len(spec(server)["renewTime"]) == len("2026-01-01T00:00:00.000000Z")


def test_a_stopped_leader_releases_after_its_work_and_the_next_need_not_wait() -> None:
    with World() as world:
        server = HostileServer()
        first, second = Candidate(world, server, "a"), Candidate(world, server, "b")
        first.wind_down_s = 20
        world.run_until(10)
        first.elector.stop()
        world.run_until(29)
        assert first.valid(), "renewed until the work has ended"
        assert not second.terms
        world.run_until(36)
        assert first.process.failure() is None
        assert first.served == [(0, 30)]
        assert second.valid()
        assert spec(server)["leaseTransitions"] == 1
        assert first.changes() == [ElectionChange.ACQUIRED, ElectionChange.RELEASED]


def test_a_lease_that_somebody_has_touched_is_released_all_the_same() -> None:
    with World() as world:
        server = HostileServer()
        first, second = Candidate(world, server, "a"), Candidate(world, server, "b")
        world.run_until(10)
        touched = server.objects[LEASE]
        server.put(LEASE, touched | {"metadata": {**touched["metadata"], "annotations": {"seen": "yes"}}})
        first.elector.stop()
        world.run_until(15)
        assert second.valid(), "long before the lease would have run out"


@pytest.mark.parametrize("seed", range(20))
def test_a_candidate_looks_again_when_the_lease_is_up_and_not_a_pause_later(seed: int) -> None:
    with World() as world:
        server = HostileServer()
        first = Candidate(world, server, "a")
        second = Candidate(world, server, "b", seed)
        world.run_until(20)
        first.process.kill()
        world.run_until(20 + 15 + 2 * 2.2 + 0.2)  # the last renewal is seen by a look, one pause later at most
        assert second.valid()


def test_a_candidate_that_is_woken_does_not_wait_out_its_pause() -> None:
    with World() as world:
        server = HostileServer()
        first, second = Candidate(world, server, "a"), Candidate(world, server, "b")
        world.run_until(10)
        first.elector.stop()
        world.run_until(10.1)
        second.elector.wake()
        world.run_until(10.2)
        assert second.valid()
        world.run_until(100)
        assert second.valid(), "and it leads like any other"


def test_waking_gives_nobody_a_lease_that_is_held() -> None:
    with World() as world:
        server = HostileServer()
        first, second = Candidate(world, server, "a"), Candidate(world, server, "b")
        for step in range(100):
            world.run_until(10 + step / 10)
            first.elector.wake()
            second.elector.wake()
        assert first.valid()
        assert not second.terms


def test_a_killed_leader_is_succeeded_after_the_lease_has_run_out() -> None:
    with World() as world:
        server = HostileServer()
        first, second = Candidate(world, server, "a"), Candidate(world, server, "b")
        world.timeline.call_at(31, first.process.kill)
        world.run_until(44)
        assert not second.terms
        world.run_until(31 + 15 + 2 * 2.2 + 0.1)
        assert second.valid()


def test_a_leader_cut_off_stops_before_anybody_may_take_over() -> None:
    with World() as world:
        server = HostileServer()
        first, second = Candidate(world, server, "a"), Candidate(world, server, "b")
        world.run_until(31)
        server.judge = lambda request: (
            Fault(lost_request=True) if request.method == "PATCH" and b'"a"' in request.body else None
        )
        world.run_until(41)
        assert not first.valid()
        (lost,) = [each for each in first.news if each[1] is ElectionChange.LOST]
        assert 38 <= lost[0] <= 41
        assert "not renewed within 10 s: no answer within" in lost[2]
        assert not second.terms
        world.run_until(60)
        assert second.valid()
        assert second.terms[0].term == 1


def test_a_leader_that_wakes_up_late_is_not_valid_for_a_moment() -> None:
    with World() as world:
        server = HostileServer()
        first, second = Candidate(world, server, "a"), Candidate(world, server, "b")
        world.run_until(31)
        first.process.pause()
        world.run_until(60)
        assert second.valid()
        assert not first.valid(), "asked before any of its timers has run"
        first.process.resume()
        world.run_until(60.001)
        assert first.changes()[-1] is ElectionChange.LOST
        assert first.served == [(0, 60)]
        world.run_until(200)
        assert second.valid()
        assert len(first.terms) == 1


def test_a_suspended_machine_is_noticed_by_the_wall_clock() -> None:
    with World() as world:
        server = HostileServer()
        first = Candidate(world, server, "a")
        world.run_until(31)
        assert first.valid()
        first.wall_offset_s += 3600
        assert not first.valid()
        world.run_until(34)
        assert first.changes() == [ElectionChange.ACQUIRED, ElectionChange.LOST, ElectionChange.ACQUIRED]
        assert [term.is_valid() for term in first.terms] == [False, True], "its own old claim does not hinder it"


@pytest.mark.rule("vm:B44", "vm:F14")
def test_a_term_that_has_lapsed_for_a_moment_is_over_though_the_clock_is_set_back() -> None:
    """Seed 40823 of the processes: whoever was told so waits for the end of the term, and waited for ever."""
    with World() as world:
        server = HostileServer()
        first = Candidate(world, server, "a")
        world.run_until(31)
        first.wall_offset_s += 3600
        assert not first.valid()
        first.wall_offset_s -= 3600
        assert not first.valid()
        world.run_until(34)
        assert first.changes() == [ElectionChange.ACQUIRED, ElectionChange.LOST, ElectionChange.ACQUIRED]
        assert [term.is_valid() for term in first.terms] == [False, True]


def test_a_lost_answer_is_found_by_reading_back() -> None:
    with World() as world:
        server = HostileServer()
        first = Candidate(world, server, "a")
        world.run_until(31)
        server.judge = lambda request: Fault(lost_answer=True) if request.method == "PATCH" else None
        world.run_until(600)
        assert first.valid()
        assert first.changes().count(ElectionChange.ACQUIRED) == 1
        assert ElectionChange.LOST not in first.changes()


def test_a_claim_whose_answer_was_lost_is_taken_up() -> None:
    with World() as world:
        server = HostileServer()
        server.judge = lambda request: Fault(lost_answer=True) if request.method == "POST" else None
        first = Candidate(world, server, "a")
        world.run_until(11)
        assert first.valid()


def test_a_twin_of_the_same_name_is_somebody_else() -> None:
    with World() as world:
        server = HostileServer()
        first = Candidate(world, server, "a")
        world.run_until(31)
        twin = Candidate(world, server, "a")
        world.run_until(100)
        assert first.valid()
        assert not twin.terms


def test_a_touched_label_is_no_sign_of_life() -> None:
    with World() as world:
        server = HostileServer()
        server.put(LEASE, {"spec": {"holderIdentity": "dead", "leaseDurationSeconds": 15, "renewTime": None}})

        def touch(second: int) -> None:
            server.put(LEASE, server.objects[LEASE] | {"x": second})

        for second in range(1, 100):
            world.timeline.call_at(second, partial(touch, second))
        first = Candidate(world, server, "a")
        world.run_until(14.9)
        assert not first.terms
        world.run_until(25)
        assert first.terms


@pytest.mark.rule("vm:B44")
def test_a_renewal_that_meets_the_write_of_another_hand_is_sent_again_at_once() -> None:
    with World() as world:
        server = HostileServer()
        first = Candidate(world, server, "a")
        world.run_until(31)
        touches = iter(range(2))

        def touch(request: Request) -> Fault | None:
            """Right before a renewal arrives somebody writes an annotation, twice in a row."""
            number = next(touches, None) if request.method == "PATCH" else None
            if number is not None:
                metadata = {**server.objects[LEASE]["metadata"], "annotations": {"asks": str(number)}}
                server.put(LEASE, server.objects[LEASE] | {"metadata": metadata})
            return None

        server.judge = touch
        world.run_until(33)
        assert next(touches, None) is None
        assert spec(server)["renewTime"] >= "2026-01-01T00:00:31"
        assert first.terms[0].remaining_s() > 7.9, "it counts from the last renewal"
        assert first.changes() == [ElectionChange.ACQUIRED]


@pytest.mark.rule("vm:B44", "vm:D22", "spot:P1")
def test_a_leader_that_gives_way_has_ended_its_work_before_another_begins_and_stands_again_later() -> None:
    with World() as world:
        server = HostileServer()
        first, second = Candidate(world, server, "a"), Candidate(world, server, "b")
        first.wind_down_s = 3
        world.run_until(10)
        first.elector.step_down(stands_aside_s=6)
        world.run_until(12.9)
        assert first.valid(), "renewed until its work has ended"
        assert not second.terms
        world.run_until(18)
        assert first.served == [(0, 13)]
        assert second.valid()
        assert not first.valid()
        second.elector.step_down(stands_aside_s=6)
        world.run_until(30)
        assert first.valid(), "it stands again"
        assert first.process.failure() is None


@pytest.mark.rule("vm:B44")
def test_a_lease_that_nobody_takes_goes_back_to_the_one_that_gave_way() -> None:
    with World() as world:
        server = HostileServer()
        first = Candidate(world, server, "a")
        world.run_until(10)
        first.elector.step_down(stands_aside_s=6)
        for second in range(10, 16):
            world.timeline.call_at(second, first.elector.wake)
        world.run_until(15.9)
        assert spec(server)["holderIdentity"] == ""
        world.run_until(17)
        assert first.valid()
        assert len(first.terms) == 2


def test_a_candidate_has_nothing_to_give() -> None:
    with World() as world:
        server = HostileServer()
        Candidate(world, server, "a")
        second = Candidate(world, server, "b")
        world.run_until(10)
        second.elector.step_down(stands_aside_s=1000)
        world.run_until(20)
        assert second.process.failure() is None
        assert not second.elector._stepping_down.is_set()


def test_a_deleted_lease_ends_the_term() -> None:
    with World() as world:
        server = HostileServer()
        first = Candidate(world, server, "a")
        world.run_until(31)
        server.remove(LEASE)
        world.run_until(40)
        assert first.changes()[1:] == [ElectionChange.LOST, ElectionChange.ACQUIRED]
        assert "the Lease was deleted" in [reason for _, _, reason in first.news]


@pytest.mark.parametrize(
    "broken", [{"spec": {"holderIdentity": 3}}, {"spec": {"renewTime": "yesterday"}}], ids=["holder", "time"]
)
def test_an_unreadable_lease_is_a_problem_in_a_sentence(broken: dict[str, Any]) -> None:
    with World() as world:
        server = HostileServer()
        server.put(LEASE, broken)
        first = Candidate(world, server, "a")
        world.run_until(50)
        assert not first.terms
        assert first.elector.problem is not None
        assert "leases" in first.elector.problem
        server.remove(LEASE)
        world.run_until(60)
        assert first.valid()
        assert first.elector.problem is None


def test_work_that_fails_ends_the_election_and_frees_the_lease() -> None:
    def fail() -> None:
        raise ZeroDivisionError("in the work")

    with World() as world:
        server = HostileServer()
        first = Candidate(world, server, "a")
        first.ends_itself = fail
        world.run_until(6)
        assert isinstance(first.process.failure(), ZeroDivisionError)
        assert spec(server)["holderIdentity"] == ""


def test_a_missing_permission_is_told() -> None:
    with World() as world:
        server = HostileServer()
        server.judge = lambda _: Fault(403, "Forbidden", "no")
        first = Candidate(world, server, "a")
        world.run_until(60)
        assert first.elector.problem is not None
        assert "get leases spot in namespace situate" in first.elector.problem
        assert len(server.requests) < 40


def test_times_must_leave_room() -> None:
    with pytest.raises(ValueError, match="0 < retry_s < renew_deadline_s < lease_s"):
        ElectionTimes(lease_s=10, renew_deadline_s=10)


STEP = st.tuples(
    st.sampled_from(["pause", "resume", "kill", "start", "stop", "delay", "lose", "refuse", "heal", "jump"]),
    st.integers(0, 2),
    st.integers(1, 25),
)


@settings(max_examples=80)
@given(st.lists(STEP, min_size=3, max_size=40), st.integers(0, 999))
def test_never_two_leaders_and_always_one_again(steps: list[tuple[str, int, int]], seed: int) -> None:
    rng = random.Random(seed)
    with World() as world:
        server = HostileServer()
        candidates = [Candidate(world, server, name, n) for n, name in enumerate("abc")]
        every = list(candidates)

        def check() -> None:
            leaders = [each.name for each in every if each.valid()]
            assert len(leaders) <= 1, f"two leaders at {world.now}: {leaders}"
            world.timeline.call_after(0.2, check)

        check()
        faults: dict[str, float] = {"delay": 0.0, "lose": 0.0, "refuse": 0.0}

        def judge(_: Request) -> Fault:
            if rng.random() < faults["refuse"]:
                return Fault(rng.choice((500, 409)), rng.choice(("InternalError", "Conflict")))
            late, later = (rng.random() * 12 * faults["delay"] for _ in range(2))
            lost = rng.random() < faults["lose"]
            there = rng.random() < 0.5
            return Fault(
                delay_s=late, answer_delay_s=later, lost_answer=lost and there, lost_request=lost and not there
            )

        server.judge = judge
        for what, which, amount in steps:
            candidate = candidates[which]
            match what:
                case "pause":
                    candidate.process.pause()
                case "resume":
                    candidate.process.resume()
                case "kill":
                    candidate.process.kill()
                case "start" if candidate.process.state.value in ("killed", "ended"):
                    candidates[which] = Candidate(world, server, candidate.name, amount)
                    every.append(candidates[which])
                case "stop" if candidate.process.state.value == "running" and hasattr(candidate, "elector"):
                    candidate.elector.stop()
                case "delay" | "lose" | "refuse":
                    faults[what] = rng.choice((0.1, 0.5, 1.0))
                case "heal":
                    faults = dict.fromkeys(faults, 0.0)
                case "jump":
                    candidate.wall_offset_s += rng.choice((-3600, -5, 5, 3600))
            world.run_until(world.now + amount * rng.random() * 2)
        faults = dict.fromkeys(faults, 0.0)
        for which, candidate in enumerate(candidates):
            candidate.process.resume()
            if candidate.process.state.value in ("killed", "ended"):
                candidates[which] = Candidate(world, server, candidate.name, 7)
                every.append(candidates[which])
        world.run_until(world.now + 60)
        assert sum(each.valid() for each in every) == 1
        for each in every:
            assert each.process.failure() is None
            assert not each.process.complaints
