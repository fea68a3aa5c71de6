"""What counts as too late while all is calm, and that nothing else does: stories told by hand, without a supervisor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from situate.testing.sharding.world.executor_world import ExecutorWorld
from situate.testing.sharding.world.holder_history import EligibilityHistory, IncarnationState
from situate.testing.sharding.world.promptness import Promptness
from situate.testing.sharding.world.supervisor_world import LABELS, PODS, SupervisorWorld

LEASE_S, DRAIN_S = 15.0, 8.0


class Told:
    """A place whose executors stand as the story says."""

    def __init__(self) -> None:
        self.place = ExecutorWorld()
        self.standings = EligibilityHistory(LABELS, LEASE_S)
        self.happened: Counter[str] = Counter()
        self.prompt = Promptness(
            self.standings, self.happened, lease_s=LEASE_S, drain_s=DRAIN_S, now=lambda: self.place.world.now
        )
        self.place.api.store.subscribe(self.prompt.record_change)
        self.a, self.b = (self.place.start_executor(pod) for pod in "ab")
        for member in (self.a, self.b):
            member.pause()
            self.standings.states[member.uid] = IncarnationState(None, None, renewed_at=1e9)
        self.place.run(1.0)

    def passes(self, seconds: float) -> list[str]:
        """The kinds of what is too late after that."""
        self.place.run(seconds)
        self.prompt.check_waits()
        return [said.partition(" at ")[0] for said in self.prompt.breaches]

    def held(self, name: str = "r") -> Told:
        self.place.create(name)
        self.place.assign(name, self.a)
        return self


@pytest.fixture
def told() -> Iterator[Told]:
    story = Told()
    yield story
    story.place.close_processes()


def _new(told: Told) -> None:
    told.place.create("r")


def _new_while_one_falls_silent(told: Told) -> None:
    _new(told)
    told.standings.states[told.b.uid].renewed_at = told.place.world.now + 0.5 - LEASE_S


def _ended(told: Told) -> None:
    told.held().standings.states[told.a.uid].ended_at = told.place.world.now


def _silent(told: Told) -> None:
    told.held().standings.states[told.a.uid].renewed_at = told.place.world.now


def _taken_back(told: Told) -> None:
    told.held().place.revoke("r")


def _taken_back_from_one_who_ends(told: Told) -> None:
    _taken_back(told)
    told.standings.states[told.a.uid].ended_at = told.place.world.now


def _asked(told: Told) -> None:
    told.held().place.drain("r")


LIMITS = [
    pytest.param(_new, "L1", 1.0, id="new"),
    pytest.param(_new_while_one_falls_silent, "L1", 3.0, id="new, while one falls silent"),
    pytest.param(_ended, "L2 ended", 1.0, id="its holder has ended"),
    pytest.param(_silent, "L2 silent", LEASE_S + 2.0, id="its holder is silent"),
    pytest.param(_taken_back, "L2 taken back", LEASE_S + 2.0, id="taken back"),
    pytest.param(_taken_back_from_one_who_ends, "L2 ended", 1.0, id="taken back from one who has ended"),
    pytest.param(_asked, "L3", DRAIN_S + 1.0, id="asked to drain"),
]


@pytest.mark.rule("sharding:B12")
@pytest.mark.parametrize(("begins", "kind", "limit_s"), LIMITS)
def test_what_waits_for_longer_than_it_may_is_named(
    told: Told, begins: Callable[[Told], None], kind: str, limit_s: float
) -> None:
    begins(told)
    assert told.passes(limit_s - 0.01) == []
    assert told.passes(0.02) == [kind]
    assert told.passes(60.0) == [kind], "said once"


@pytest.mark.parametrize(("begins", "kind", "limit_s"), LIMITS)
def test_who_is_disturbed_meanwhile_or_shortly_before_is_not_judged(
    told: Told, begins: Callable[[Told], None], kind: str, limit_s: float
) -> None:
    told.prompt.record_disturbance(0.5)
    begins(told)
    told.passes(limit_s / 2)
    assert told.passes(limit_s) == []
    assert kind not in told.happened


@pytest.mark.parametrize(("begins", "kind", "limit_s"), LIMITS[:-1])
def test_what_is_placed_in_time_is_counted_and_what_is_placed_too_late_named(
    told: Told, begins: Callable[[Told], None], kind: str, limit_s: float
) -> None:
    begins(told)
    told.place.run(limit_s - 0.1)
    told.place.assign("r", told.b)
    assert told.passes(60.0) == []
    assert told.happened[f"judged: {kind}"] == 1


def test_a_user_who_writes_the_assignment_waits_for_whatever_he_has_done(told: Told) -> None:
    told.held()
    uid = told.place.get("r")["metadata"]["uid"]
    told.standings.states[told.a.uid].ended_at = told.place.world.now
    told.prompt.record_edit(uid)
    assert told.passes(60.0) == []


@pytest.mark.rule("sharding:S4")
@pytest.mark.parametrize(
    "cause", ["cordoned", "unready", "another label", "being deleted", "gone", "released", "silent"]
)
def test_who_may_not_be_given_work_is_seen_whatever_the_cause(cause: str) -> None:
    town = SupervisorWorld(seed=1)
    try:
        member = town.create_executor("e0")
        town.run(2.0)
        uid, now = member.uid, town.world.now
        assert town.eligibility.ineligible_since(uid, now) is None
        match cause:
            case "cordoned":
                town.cordon("e0")
            case "unready":
                town.write_pod_status("e0", ready=False)
            case "another label":
                pod = town.call("GET", f"{PODS}/e0")
                town.call("PUT", f"{PODS}/e0", pod | {"metadata": pod["metadata"] | {"labels": {}}})
            case "being deleted":
                town.call("DELETE", f"{PODS}/e0", {"gracePeriodSeconds": 30})
            case "gone":
                town.call("DELETE", f"{PODS}/e0", {"gracePeriodSeconds": 0})
            case "released":
                member.stop()
                town.run(3.0)
            case "silent":
                member.crash()
                town.run(20.0)
        assert not town.eligibility.is_any_eligible(town.world.now)
        since = town.eligibility.ineligible_since(uid, town.world.now)
        assert since is not None
        assert now <= since <= town.world.now
    finally:
        town.close_processes()


def test_who_is_full_or_says_so_is_nobody() -> None:
    standings = EligibilityHistory(LABELS, LEASE_S)
    standings.states["a"], standings.states["b"] = (IncarnationState(None, None, renewed_at=1e9) for _ in "ab")
    assert standings.is_any_eligible(0.0)
    standings.states["a"].full = True
    assert standings.is_any_eligible(0.0)
    assert not standings.is_any_eligible(0.0, ["b"])
